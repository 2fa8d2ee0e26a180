"""The generator of the schema tables: its parser of Go declarations, and that the committed tables are its output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import generate_schemas
from tools.schemas.go_types import GoPackage, read_package
from tools.schemas.openapi import add_rules
from tools.schemas.wire import Walker

SOURCE = """
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Colour is a word.
// +enum
type Colour string

const (
	// Red is first.
	Red   Colour = "Red"
	Green        = Colour("Green")
	Grass        = Colour(Green)
)

// Size is open.
type Size string

const Large Size = "Large"

type Tags map[string]Colour

/* type Ghost struct {
	Never string `json:"never"`
} */

type Paint struct {
	metav1.TypeMeta `json:",inline"`
	Mixture         `json:",inline" protobuf:"bytes,1,opt,name=mixture"`

	// Name has a comment.
	Name  string   `json:"name" protobuf:"bytes,2,opt,name=name"` // and another
	Tags  Tags     `json:"tags,omitempty"`
	Next  *Paint   `json:"next,omitempty"`
	Raw   []byte   `json:"raw,omitempty,omitzero"`
	Count *int     `json:"count,omitempty"`
	Sizes []Size   `json:"sizes,omitempty"`
	Skip  string   `json:"-"`
	state int
}

type Mixture struct {
	Parts []Colour `json:"parts,omitempty"`
}
"""
META = 'package v1\n\ntype TypeMeta struct {\n\tKind string `json:"kind,omitempty"`\n}\n'


@pytest.fixture
def walker(tmp_path: Path) -> Walker:
    homes = {"k8s.io/api/paint/v1": SOURCE, "k8s.io/apimachinery/pkg/apis/meta/v1": META}

    def package_at(path: str) -> GoPackage:
        folder = tmp_path / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "types.go").write_text(homes[path])
        (folder / "types_test.go").write_text("type Broken struct {\n\t???\n}\n")
        return read_package(path, folder)

    return Walker(package_at)


def test_a_struct_becomes_its_wire_fields_in_order(walker: Walker) -> None:
    name = walker.visit("k8s.io/api/paint/v1", "Paint")
    assert name == "io.k8s.api.paint.v1.Paint"
    reports = [(each.name, each.type, each.pointer, each.omit, each.embedded) for each in walker.structs[name]]
    colour = {"kind": "string", "go": "v1.Colour"}
    assert reports == [
        ("kind", {"kind": "string"}, False, "empty", "TypeMeta"),
        ("parts", {"kind": "list", "items": colour}, False, "empty", "Mixture"),
        ("name", {"kind": "string"}, False, "never", ""),
        ("tags", {"kind": "map", "items": colour, "go": "v1.Tags"}, False, "empty", ""),
        ("next", {"kind": "struct", "ref": name}, True, "empty", ""),
        ("raw", {"kind": "bytes"}, False, "zero", ""),
        ("count", {"kind": "int64", "go": "int"}, True, "empty", ""),
        ("sizes", {"kind": "list", "items": {"kind": "string", "go": "v1.Size"}}, False, "empty", ""),
    ]


def test_only_a_type_that_is_marked_as_closed_has_enum_values(walker: Walker) -> None:
    fields = walker.structs[walker.visit("k8s.io/api/paint/v1", "Paint")]
    assert {each.name: each.rules["enum"] for each in fields if each.rules} == {"parts": ["Green", "Red"]}


def test_a_line_that_is_not_a_field_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "types.go").write_text("type Odd struct {\n\tName chan<- string, error\n}\n")
    with pytest.raises(ValueError, match="cannot read"):
        read_package("k8s.io/api/odd/v1", tmp_path)


def test_a_field_that_openapi_does_not_know_stops_the_generator(walker: Walker) -> None:
    name = walker.visit("k8s.io/api/paint/v1", "Mixture")
    with pytest.raises(ValueError, match="OpenAPI"):
        add_rules(name, walker.structs[name], {"properties": {}})


def test_a_field_that_openapi_knows_as_something_else_stops_the_generator(walker: Walker) -> None:
    name = walker.visit("k8s.io/api/paint/v1", "Mixture")
    with pytest.raises(ValueError, match="Go says"):
        add_rules(name, walker.structs[name], {"properties": {"parts": {"type": "string"}}})


@pytest.mark.real
def test_the_committed_tables_are_what_the_generator_writes() -> None:
    for target, text in generate_schemas.generate().items():
        assert target.read_text() == text
