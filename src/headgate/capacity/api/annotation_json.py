"""JSON in annotations of pods that Headgate writes: any user may have put something else there."""

from __future__ import annotations

from typing import Any

import msgspec


def decode_annotation(text: str | None) -> Any:
    """The decoded value; None if there is none or it cannot be decoded. It never raises."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
