"""The difference between two objects as text: lines of JSON with ``-`` or ``+``, and a few lines of context.

kube-apiserver shows the difference of Go structs instead. Clients only display the text.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

import msgspec

_MAX_COMPARED_LINES: Final = 200
"""The limit of compared lines per side. The comparison takes more than linear time, so a longer difference is
truncated."""
_CONTEXT_LINES: Final = 3


def object_diff(old: dict[str, Any], new: dict[str, Any]) -> str:
    before, after = _lines(old), _lines(new)
    common_start = _common(before, after)
    common_end = _common(before[common_start:][::-1], after[common_start:][::-1])
    start, omitted = max(0, common_start - _CONTEXT_LINES), max(0, common_end - _CONTEXT_LINES)
    before, after = before[start : len(before) - omitted], after[start : len(after) - omitted]
    truncated = len(before) > _MAX_COMPARED_LINES or len(after) > _MAX_COMPARED_LINES
    lines = difflib.unified_diff(
        before[:_MAX_COMPARED_LINES], after[:_MAX_COMPARED_LINES], lineterm="", n=_CONTEXT_LINES
    )
    diff = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([*diff, " ..."] if truncated else diff) + "\n"


def _common(left: list[str], right: list[str]) -> int:
    """The number of equal lines at the beginning."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _lines(obj: dict[str, Any]) -> list[str]:
    return msgspec.json.format(msgspec.json.encode(obj, order="sorted"), indent=2).decode().splitlines()
