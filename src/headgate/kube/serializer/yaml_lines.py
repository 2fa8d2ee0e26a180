"""The line of each field in a YAML document.

Fields are identified by paths (``tiers[0].plugins[1].name``), as in error messages. ``yaml_decoder.py`` decodes the
values and reports invalid text; here an invalid text has no lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from headgate.kube.serializer.yaml_decoder import first_document

_MAX_FIELDS: Final = 50_000


class FieldLines(msgspec.Struct, frozen=True):
    """Lines count from 1. ``literals``: the first line of the text of a literal block (``|``)."""

    fields: Mapping[str, int] = {}
    literals: Mapping[str, int] = {}

    def line_of(self, path: str) -> int:
        """The line of the field, or of its nearest parent that exists."""
        while path and path not in self.fields:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.fields.get(path, 1)


class _Open:
    """A list or map whose end has not been reached."""

    __slots__ = ("index", "key", "line", "path")

    def __init__(self, path: str, *, is_list: bool) -> None:
        self.path = path
        self.index: int | None = 0 if is_list else None
        self.key: str | None = None
        self.line = 0


def field_lines(body: bytes) -> FieldLines:
    fields: dict[str, int] = {}
    literals: dict[str, int] = {}
    stack: list[_Open] = []
    for event in first_document(body):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            line = 0 if event.start_mark is None else event.start_mark.line + 1
            if _is_key(stack, event):
                stack[-1].key, stack[-1].line = str(getattr(event, "value", "")), line
                continue
            path = _add_field(stack, line, fields)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append(_Open(path, is_list=isinstance(event, yaml.SequenceStartEvent)))
            elif isinstance(event, yaml.ScalarEvent) and event.style == "|":
                literals[path] = line + 1
        if len(fields) > _MAX_FIELDS:
            break
    return FieldLines(fields, literals)


def _is_key(stack: list[_Open], event: Any) -> bool:
    expects_key = bool(stack) and stack[-1].index is None and stack[-1].key is None
    return expects_key and isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)


def _add_field(stack: list[_Open], line: int, fields: dict[str, int]) -> str:
    """Records the line of a value that begins here, and returns its path."""
    if not stack:
        return ""
    parent = stack[-1]
    if parent.index is not None:
        path = f"{parent.path}[{parent.index}]"
        parent.index += 1
    else:
        path = f"{parent.path}.{parent.key}" if parent.path else str(parent.key)
        line, parent.key = parent.line, None
    fields[path] = line
    return path
