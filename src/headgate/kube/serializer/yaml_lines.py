"""The line of each field in a YAML document.

Fields are named by their paths (``tiers[0].plugins[1].name``), as in error messages. ``yaml_decoder.py`` decodes the
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
    """Lines count from 1. ``literals``: where the text of a value begins that is written as a block (``|``)."""

    fields: Mapping[str, int] = {}
    literals: Mapping[str, int] = {}

    def of(self, path: str) -> int:
        """Where the field stands, or the nearest one around it that is there."""
        while path and path not in self.fields:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.fields.get(path, 1)


class _Open:
    """A list or map that is being read."""

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
            path = _place(stack, line, fields)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append(_Open(path, is_list=isinstance(event, yaml.SequenceStartEvent)))
            elif isinstance(event, yaml.ScalarEvent) and event.style == "|":
                literals[path] = line + 1
        if len(fields) > _MAX_FIELDS:
            break
    return FieldLines(fields, literals)


def _is_key(stack: list[_Open], event: Any) -> bool:
    is_open = bool(stack) and stack[-1].index is None and stack[-1].key is None
    return is_open and isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)


def _place(stack: list[_Open], line: int, fields: dict[str, int]) -> str:
    """The path of a value that begins here; where its line is noted."""
    if not stack:
        return ""
    around = stack[-1]
    if around.index is not None:
        path = f"{around.path}[{around.index}]"
        around.index += 1
    else:
        path = f"{around.path}.{around.key}" if around.path else str(around.key)
        line, around.key = around.line, None
    fields[path] = line
    return path
