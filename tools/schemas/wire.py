"""Turns Go declarations into wire types: what is on the JSON wire, and when it is left out.

Walks from the roots it is given through every type they mention. Types that marshal themselves (quantities, times,
int-or-string, raw values) are known by name. List types, merge keys and defaults are not Go's to say: ``openapi.py``
adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tools.schemas.go_types import GoField, GoPackage

_MACHINERY = "k8s.io/apimachinery/pkg"
_EXTENSIONS = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
_SPECIAL = {
    f"{_MACHINERY}/api/resource.Quantity": "quantity",
    f"{_MACHINERY}/apis/meta/v1.Time": "time",
    f"{_MACHINERY}/apis/meta/v1.MicroTime": "microtime",
    f"{_MACHINERY}/apis/meta/v1.Duration": "duration",
    f"{_MACHINERY}/apis/meta/v1.FieldsV1": "raw",
    f"{_MACHINERY}/util/intstr.IntOrString": "intorstring",
    f"{_MACHINERY}/runtime.RawExtension": "raw",
    f"{_MACHINERY}/runtime.Object": "raw",
    f"{_EXTENSIONS}.JSON": "raw",
}
# A schema, or something simpler in its place: a list of them, a truth value, a list of words.
_SCHEMA = f"{_EXTENSIONS}.JSONSchemaProps"
_EITHER = {f"{_SCHEMA}OrArray": "[]JSONSchemaProps", f"{_SCHEMA}OrBool": "bool", f"{_SCHEMA}OrStringArray": "[]string"}
_BASIC = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "int": "int64",
    "float64": "float",
    "interface{}": "raw",
    "any": "raw",
}


@dataclass
class WireField:
    name: str
    type: dict[str, Any]
    pointer: bool
    omit: str
    embedded: str = ""
    rules: dict[str, Any] = field(default_factory=dict)  # filled from OpenAPI


def openapi_name(package_path: str, type_name: str) -> str:
    host, _, rest = package_path.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/"), type_name])


class Walker:
    """Collects ``{OpenAPI name: fields}`` for every struct reachable from the types it is asked for."""

    def __init__(self, package_at: Callable[[str], GoPackage]) -> None:
        self._package_at = package_at
        self.structs: dict[str, list[WireField]] = {}

    def visit(self, package_path: str, type_name: str) -> str:
        name = openapi_name(package_path, type_name)
        if name not in self.structs:
            self.structs[name] = []
            package, declaration = self.declaration(package_path, type_name)
            self.structs[name] = list(self._fields(package, declaration))
        return name

    def declaration(self, package_path: str, type_name: str) -> tuple[GoPackage, list[GoField]]:
        package = self._package_at(package_path)
        while type_name not in package.structs:  # `type List metav1.List`
            package, type_name = self._resolve(package, package.named[type_name])
        return package, package.structs[type_name]

    def _resolve(self, package: GoPackage, expression: str) -> tuple[GoPackage, str]:
        qualifier, dot, name = expression.rpartition(".")
        return (self._package_at(package.imports[qualifier]), name) if dot else (package, expression)

    def _fields(self, package: GoPackage, declaration: list[GoField]) -> Iterator[WireField]:
        for each in declaration:
            if "inline" in each.options or not each.json_name:
                home, name = self._resolve(package, each.expression.lstrip("*"))
                for inner in self._fields(*self.declaration(home.path, name)):
                    yield replace(inner, embedded=f"{name}.{inner.embedded}".rstrip("."))
                continue
            omit = "zero" if "omitzero" in each.options else "empty" if "omitempty" in each.options else "never"
            pointer = each.expression.startswith("*")
            wire = self.wire_type(package, each.expression.lstrip("*"))
            words = self._enum(package, each.expression, wire)
            yield WireField(each.json_name, wire, pointer, omit, rules={"enum": words} if words else {})

    def _enum(self, package: GoPackage, expression: str, wire: dict[str, Any]) -> list[str]:
        """The words that a field, or an element of it, may have; empty if its type is not a closed set."""
        while "items" in wire:
            wire = wire["items"]
        if wire["kind"] != "string" or "go" not in wire:
            return []
        home, name = self._resolve(package, expression.rpartition("]")[2].lstrip("*"))
        if name not in home.enums:
            return []
        return sorted({self._word(home, word) for type_name, word in home.constants.values() if type_name == name})

    def _word(self, package: GoPackage, expression: str) -> str:
        if expression.startswith('"'):
            return expression.strip('"')
        home, name = self._resolve(package, expression)
        return self._word(home, home.constants[name][1])

    def wire_type(self, package: GoPackage, expression: str) -> dict[str, Any]:
        if expression == "[]byte":
            return {"kind": "bytes"}
        if expression.startswith("[]"):
            return {"kind": "list", "items": self.wire_type(package, expression[2:])}
        if expression.startswith("map["):
            return {"kind": "map", "items": self.wire_type(package, expression.partition("]")[2])}
        if expression in _BASIC:
            wire = {"kind": _BASIC[expression]}
            return wire | {"go": "int"} if expression == "int" else wire
        qualifier, dot, name = expression.rpartition(".")
        path = package.imports[qualifier] if dot else package.path
        full = f"{path}.{name}"
        if full in _SPECIAL:
            wire = {"kind": _SPECIAL[full]}
            return wire | {"go": f"{path.rpartition('/')[2]}.{name}"} if wire["kind"] == "raw" else wire
        home = self._package_at(path)
        if full in _EITHER:
            other = self.wire_type(home, _EITHER[full])
            return {"kind": "either", "ref": self.visit(path, "JSONSchemaProps"), "items": other, "go": f"v1.{name}"}
        if self._is_struct(home, name):
            return {"kind": "struct", "ref": self.visit(path, name)}
        return self.wire_type(home, home.named[name]) | {"go": f"{path.rpartition('/')[2]}.{name}"}

    def _is_struct(self, package: GoPackage, name: str) -> bool:
        while name not in package.structs:
            expression = package.named[name]
            if expression in _BASIC or expression.startswith(("[]", "map[")):
                return False
            package, name = self._resolve(package, expression)
        return True
