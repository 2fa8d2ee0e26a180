"""Reads the type declarations of one Go package: structs with their JSON tags, and named types.

This is no Go parser. It knows the regular shape of Kubernetes' API packages (one declaration per line, struct tags
in back quotes, comments on lines of their own or at the end of a line) and stops with an error at anything else in a
struct. What the declarations mean on the wire is decided in ``wire.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_SKIPPED = re.compile(r"(_test|\.pb|^zz_generated\..*|^types_swagger_doc_generated|_proto|_fuzz)\.go$")
_IMPORT = re.compile(r'^\s*(?:import\s+)?(?:(\w+)\s+)?"([\w./-]+)"\s*(?://.*)?$')
_STRUCT = re.compile(r"^type (\w+) struct \{\s*$")
_EMPTY_STRUCT = re.compile(r"^type (\w+) struct ?\{ ?\}")
_NAMED = re.compile(r"^type (\w+) (=\s*)?([\w.\[\]*]+)\s*(?://.*)?$")
_CONSTANT = re.compile(r'^(?:const )?\s*(\w+)\s+(\w+)\s*=\s*("[^"]*")')
_CONVERTED = re.compile(r'^(?:const )?\s*(\w+)\s*=\s*(\w+)\(("[^"]*"|[\w.]+)\)')
_FIELD = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`(?:[^`]*?)json:"([^"]*)"[^`]*`')
_UNTAGGED = re.compile(r"^\s+([\w.]+)(?:\s+\S+)?\s*(?:`(?![^`]*json:)[^`]*`)?\s*(?://.*)?$")


@dataclass(frozen=True)
class GoField:
    name: str  # empty for an embedded struct
    expression: str
    json_name: str
    options: frozenset[str]


@dataclass
class GoPackage:
    """The declarations of one package; ``imports`` maps the name used in the source to the import path."""

    path: str
    structs: dict[str, list[GoField]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)  # named types marked as closed sets of words
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)  # type, and a quoted word or another constant
    imports: dict[str, str] = field(default_factory=dict)


def read_package(path: str, folder: Path) -> GoPackage:
    package = GoPackage(path)
    for source in sorted(folder.glob("*.go")):
        if not _SKIPPED.search(source.name):
            _read_file(package, source)
    return package


def _read_file(package: GoPackage, source: Path) -> None:
    lines = iter(_without_block_comments(source.read_text()).splitlines())
    in_imports = is_enum = False
    for line in lines:
        if line.startswith("//"):
            is_enum = is_enum or line.strip("/ ") == "+enum"
            continue
        if line.startswith("import ("):
            in_imports = True
        elif in_imports and line.startswith(")"):
            in_imports = False
        elif in_imports or line.startswith("import "):
            if match := _IMPORT.match(line):
                alias, path = match.groups()
                name = alias or path.rpartition("/")[2]
                if package.imports.setdefault(name, path) != path:
                    raise ValueError(f"{source}: {name} means two packages")
        elif match := _EMPTY_STRUCT.match(line):
            package.structs[match[1]] = []
        elif match := _STRUCT.match(line):
            body: list[str] = []
            for inner in lines:
                if inner.startswith("}"):
                    break
                body.append(inner)
            package.structs[match[1]] = _read_fields(f"{package.path}.{match[1]}", body)
        elif match := _NAMED.match(line):
            package.named[match[1]] = match[3]
            if is_enum:
                package.enums.add(match[1])
        elif match := _CONSTANT.match(line) or _CONVERTED.match(line):
            package.constants[match[1]] = (match[2], match[3])
        is_enum = False


def _without_block_comments(text: str) -> str:
    return re.sub(r"^\s*/\*.*?\*/", "", text, flags=re.DOTALL | re.MULTILINE)


def _read_fields(where: str, body: list[str]) -> list[GoField]:
    fields = []
    for line in body:
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        match = _FIELD.match(line)
        if match is None:
            if _UNTAGGED.match(line):
                continue  # hidden state of types that marshal themselves
            raise ValueError(f"{where}: cannot read {line!r}")
        name, *options = match[3].split(",")
        if name != "-":
            fields.append(GoField(match[1] or "", match[2], name, frozenset(options)))
    return fields
