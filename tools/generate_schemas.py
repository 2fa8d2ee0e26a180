"""Writes ``src/headgate/schemas/``: the shape of every Kubernetes type that Headgate serves.

Three sources, all of the Kubernetes version pinned in ``tools/kube/kubernetes/go.mod`` and all read from the Go
module cache: the Go types say what is printed and when (pointers, ``omitempty``, field order), the published OpenAPI
documents say how lists merge, what is required and which kinds exist (``tables.json``); the protobuf declarations say
which number each field has there (``protobuf.json``). Descriptions are left out.

Run from the root of the repository: ``python -m tools.generate_schemas [--check]``.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.schemas.go_types import GoPackage, read_package
from tools.schemas.openapi import Schema, add_rules, read_schemas
from tools.schemas.protobuf import Numbering, ProtoField, read_messages
from tools.schemas.wire import Walker, WireField

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/headgate/schemas/tables.json"
NUMBERS = ROOT / "src/headgate/schemas/protobuf.json"
GO_MOD = ROOT / "tools/kube/kubernetes/go.mod"

MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver")
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
GROUP_VERSIONS = {
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
}
# Kinds that clients name but that no OpenAPI document lists: (group, version, kind) -> (package, type).
UNLISTED = {
    ("", "v1", "List"): ("k8s.io/api/core/v1", "List"),
    ("meta.k8s.io", "v1", "PartialObjectMetadata"): (META, "PartialObjectMetadata"),
    ("meta.k8s.io", "v1", "PartialObjectMetadataList"): (META, "PartialObjectMetadataList"),
    ("meta.k8s.io", "v1", "Table"): (META, "Table"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed tables differ")
    arguments = parser.parse_args()
    stale = 0
    for target, text in generate().items():
        if not arguments.check:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            print(f"{target.relative_to(ROOT)} is out of date: run python -m tools.generate_schemas", file=sys.stderr)
            stale = 1
    return stale


def generate() -> dict[Path, str]:
    """The text of each generated file."""
    walker = Walker(_package_at)
    schemas = read_schemas(_module("k8s.io/kubernetes") / "api/openapi-spec/v3")
    kinds = _kinds(schemas, walker)
    return {TARGET: _tables(walker, schemas, kinds), NUMBERS: _numbers(walker)}


def _tables(walker: Walker, schemas: dict[str, Schema], kinds: list[tuple[str, str, str, str]]) -> str:
    types = []
    for name, fields in sorted(walker.structs.items()):
        if schema := schemas.get(name):
            add_rules(name, fields, schema)
        types.append(_type_row(name, fields, schema or {}))
    return _render(types, [dict(zip(("group", "version", "kind", "type"), row, strict=True)) for row in kinds])


def _numbers(walker: Walker) -> str:
    numbering = Numbering(walker, _messages_at)
    for name in sorted(walker.structs):
        package, _, type_name = _go_name(name).rpartition(".")
        numbering.visit(package, type_name)
    rows = (
        f"{json.dumps(name)}:{json.dumps(rows, separators=(',', ':'))}" for name, rows in sorted(numbering.rows.items())
    )
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _kinds(schemas: dict[str, Schema], walker: Walker) -> list[tuple[str, str, str, str]]:
    rows = {(*gvk, walker.visit(*home)) for gvk, home in UNLISTED.items()}
    for schema_name, schema in schemas.items():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            if (each["group"], each["version"]) in GROUP_VERSIONS:
                package, _, type_name = _go_name(schema_name).rpartition(".")
                rows.add((each["group"], each["version"], each["kind"], walker.visit(package, type_name)))
    return sorted(rows)


def _go_name(schema_name: str) -> str:
    """``io.k8s.api.core.v1.Pod`` -> ``k8s.io/api/core/v1.Pod``."""
    words = schema_name.split(".")
    return f"k8s.io/{'/'.join(words[2:-1])}.{words[-1]}"


def _type_row(name: str, fields: list[WireField], schema: Schema) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name}
    if schema.get("x-kubernetes-map-type") == "atomic":
        row["atomic"] = True
    row["fields"] = [_field_row(each) for each in fields]
    return row


def _field_row(each: WireField) -> dict[str, Any]:
    row: dict[str, Any] = {"name": each.name, "type": each.type}
    if each.pointer:
        row["pointer"] = True
    if each.omit != "empty":
        row["omit"] = each.omit
    if each.embedded:
        row["embedded"] = each.embedded
    return row | each.rules


def _render(types: list[dict[str, Any]], kinds: list[dict[str, Any]]) -> str:
    def rows(items: list[dict[str, Any]]) -> str:
        return ",\n".join(json.dumps(each, separators=(",", ":")) for each in items)

    return f'{{"types":[\n{rows(types)}\n],"kinds":[\n{rows(kinds)}\n]}}\n'


@functools.cache
def _package_at(path: str) -> GoPackage:
    return read_package(path, _folder(path))


@functools.cache
def _messages_at(path: str) -> dict[str, dict[str, ProtoField]]:
    return read_messages(path, _folder(path) / "generated.proto")


def _folder(path: str) -> Path:
    module = next(each for each in MODULES if path.startswith(each + "/"))
    return _module(module) / path.removeprefix(module + "/")


@functools.cache
def _module(name: str) -> Path:
    """The folder of a pinned module in the Go module cache, downloaded if it is not there yet."""
    versions = re.findall(rf"^\s*{re.escape(name)} (?:=> \S+ )?(v\S+)", GO_MOD.read_text(), flags=re.MULTILINE)
    command = ["go", "mod", "download", "-json", f"{name}@{versions[-1]}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(told.stdout)["Dir"])


if __name__ == "__main__":
    sys.exit(main())
