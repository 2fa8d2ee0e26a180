"""The difference between two objects as text: lines of JSON with ``-`` and ``+`` in front, and a few lines of context.

The API server prints its own structs here, in Go's spelling; clients only show the text.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

import msgspec

_MOST_COMPARED: Final = 200
"""Lines of either side that are matched with each other. Matching takes more than linear time, so of longer changes
only the first lines are told."""
_AROUND: Final = 3


def object_diff(old: dict[str, Any], new: dict[str, Any]) -> str:
    before, after = _lines(old), _lines(new)
    same = _common(before, after)
    at_end = _common(before[same:][::-1], after[same:][::-1])
    start, omitted = max(0, same - _AROUND), max(0, at_end - _AROUND)
    before, after = before[start : len(before) - omitted], after[start : len(after) - omitted]
    cut = len(before) > _MOST_COMPARED or len(after) > _MOST_COMPARED
    lines = difflib.unified_diff(before[:_MOST_COMPARED], after[:_MOST_COMPARED], lineterm="", n=_AROUND)
    told = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([*told, " ..."] if cut else told) + "\n"


def _common(left: list[str], right: list[str]) -> int:
    """How many lines at the front are the same."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _lines(obj: dict[str, Any]) -> list[str]:
    return msgspec.json.format(msgspec.json.encode(obj, order="sorted"), indent=2).decode().splitlines()
