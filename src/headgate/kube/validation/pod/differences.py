"""What changed between two objects, for people: lines of JSON with ``-`` and ``+`` in front, a few around them.

The API server prints its own structs here, in Go's spelling; clients only ever show the text.
"""

from __future__ import annotations

import difflib
from typing import Any

import msgspec


def differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=3)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@"))) + "\n"


def _lines(obj: dict[str, Any]) -> list[str]:
    return msgspec.json.format(msgspec.json.encode(obj, order="sorted"), indent=2).decode().splitlines()
