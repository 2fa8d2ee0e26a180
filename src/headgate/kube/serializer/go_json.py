"""JSON as Go's encoding/json writes it, for texts that clients compare byte by byte.

Go escapes the characters that are special in HTML, and two line separators that JavaScript does not allow. None of them
can occur outside of a string in JSON, so they are escaped in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_ESCAPES: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
_sorting_encoder: Final = msgspec.json.Encoder(order="sorted")


def html_escaped(text: bytes) -> bytes:
    """The same JSON, with the characters escaped that Go escapes."""
    for character, escape in _ESCAPES:
        if character in text:
            text = text.replace(character, escape)
    return text


def go_json(value: Mapping[str, Any]) -> bytes:
    """The result of Go's ``json.Marshal`` for a map."""
    return html_escaped(_sorting_encoder.encode(value))
