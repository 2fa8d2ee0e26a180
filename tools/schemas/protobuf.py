"""Reads ``generated.proto`` files and joins them with the Go structs: which number each wire field has in protobuf.

A message has a field per Go field, an embedded struct included; JSON flattens those, protobuf nests them. The join is
by name, and a field that only one side knows, or that the two sides give different types, stops the generator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.schemas.go_types import GoField, GoPackage
from tools.schemas.wire import Walker, openapi_name

_MESSAGE = re.compile(r"^message (\w+) \{$")
_FIELD = re.compile(r"^  (?:optional |repeated )?(map<string, [\w.]+>|[\w.]+) (\w+) = (\d+);$")
_MACHINERY = "k8s.io/apimachinery/pkg/"
# What protobuf calls the types that are scalars in the tables.
_SCALARS = {
    "quantity": f"{_MACHINERY}api/resource.Quantity",
    "time": f"{_MACHINERY}apis/meta/v1.Time",
    "microtime": f"{_MACHINERY}apis/meta/v1.MicroTime",
    "duration": f"{_MACHINERY}apis/meta/v1.Duration",
    "intorstring": f"{_MACHINERY}util/intstr.IntOrString",
    "float": "double",
}


@dataclass(frozen=True)
class ProtoField:
    number: int
    type: str  # a scalar, or "package/path.Message"; in a map the type of its values


def read_messages(path: str, source: Path) -> dict[str, dict[str, ProtoField]]:
    """The messages of one package by name, their fields by bare name."""
    messages: dict[str, dict[str, ProtoField]] = {}
    fields: dict[str, ProtoField] = {}
    for line in source.read_text().splitlines():
        if match := _MESSAGE.match(line):
            fields = messages[match[1]] = {}
        elif match := _FIELD.match(line):
            fields[_bare(match[2])] = ProtoField(
                int(match[3]), _full(path, match[1].removeprefix("map<string, ").rstrip(">"))
            )
        elif line.strip().endswith(";") and line.startswith("  ") and not line.lstrip().startswith("//"):
            raise ValueError(f"{source}: cannot read {line!r}")
    return messages


def _bare(name: str) -> str:
    """A field's name without what the two sides write differently: ``$ref``, ``WebhookClient``, ``x-map-type``."""
    return re.sub(r"\W", "", name).lower()


def _full(path: str, name: str) -> str:
    """``.k8s.io.api.core.v1.Pod`` and, inside that package, ``Pod``: ``k8s.io/api/core/v1.Pod``."""
    if name.startswith("."):
        host, _, rest = name.removeprefix(".").partition(".io.")
        words = rest.split(".")
        return f"{host}.io/{'/'.join(words[:-1])}.{words[-1]}"
    return f"{path}.{name}" if name[0].isupper() else name


class Numbering:
    """Collects ``{OpenAPI name: rows}`` for the structs of a walker; a row is ``[number, name, Go name, embedded]``."""

    def __init__(self, walker: Walker, messages_at: Callable[[str], dict[str, dict[str, ProtoField]]]) -> None:
        self._walker = walker
        self._messages_at = messages_at
        self.rows: dict[str, list[list[Any]]] = {}

    def visit(self, package_path: str, type_name: str) -> str:
        """Number one struct and what it embeds; a struct that protobuf does not know gets no rows."""
        name = openapi_name(package_path, type_name)
        message = self._messages_at(package_path).get(type_name)
        if name not in self.rows and message is not None:
            home, declared = self._walker.declaration(package_path, type_name)
            self.rows[name] = sorted(self._rows(name, home, declared, dict(message)))
        return name

    def _rows(
        self, name: str, home: GoPackage, declared: Iterable[GoField], message: dict[str, ProtoField]
    ) -> Iterable[list[Any]]:
        for each in declared:
            expression = each.expression.lstrip("*")
            go_name = each.name or expression.rpartition(".")[2]
            inline = "inline" in each.options or not each.json_name
            if go_name == "TypeMeta":
                continue  # the envelope has it
            # An embedded struct has a name of its own there (`handler` for ProbeHandler), so its type must do.
            of_type = (name for name, field in message.items() if field.type.rpartition(".")[2] == go_name)
            told = message.pop(next(of_type, "") if inline else _bare(each.json_name), None)
            if told is None:
                raise ValueError(f"{name}: protobuf does not know {go_name}")
            if inline:
                path, _, embedded = told.type.rpartition(".")
                yield _row(told.number, "", go_name, self.visit(path, embedded))
                continue
            self._check(f"{name}.{each.json_name}", self._walker.wire_type(home, expression), told.type)
            yield _row(told.number, each.json_name, go_name, "")
        if message:
            raise ValueError(f"{name}: Go does not know {sorted(message)}")

    def _check(self, where: str, wire: dict[str, Any], declared: str) -> None:
        while wire["kind"] in ("list", "map") and not self._is_wrapped(wire, declared):
            wire = wire["items"]
        if wire["kind"] in ("raw", "list", "either"):
            return
        if wire["kind"] == "struct":
            path, _, type_name = declared.rpartition(".")
            agrees = openapi_name(path, type_name) == wire["ref"]
        else:
            agrees = declared == _SCALARS.get(wire["kind"], wire["kind"])
        if not agrees:
            raise ValueError(f"{where}: Go says {wire}, protobuf {declared}")

    def _is_wrapped(self, wire: dict[str, Any], declared: str) -> bool:
        """A list that is the value of a map is a message of its own, with the list as its only field."""
        path, dot, type_name = declared.rpartition(".")
        return bool(dot) and wire["kind"] == "list" and list(self._messages_at(path)[type_name]) == ["items"]


def _row(number: int, json_name: str, go_name: str, embedded: str) -> list[Any]:
    """Left out from the end: what is empty, and a Go name that is the JSON name with a capital."""
    row = [number, json_name, "" if go_name == json_name[:1].upper() + json_name[1:] else go_name, embedded]
    while row[-1] == "":
        row.pop()
    return row
