"""Warnings as headers. All together they stay short enough for any client: too much text, and each is cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

_MAX_TOTAL: Final = 4 * 1024
_MAX_EACH_WHEN_CUT: Final = 256


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Texts that a header cannot carry are left out. Lengths are counted in characters."""
    fit = [text for text in warnings if text and not any(unicodedata.category(each) == "Cc" for each in text)]
    if sum(map(len, fit)) > _MAX_TOTAL:
        fit = _cut(fit)
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in fit)


def _cut(texts: list[str]) -> list[str]:
    kept: list[str] = []
    total = 0
    for text in texts:
        if total >= _MAX_TOTAL:
            break
        kept.append(text[:_MAX_EACH_WHEN_CUT])
        total += len(kept[-1])
    return kept


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
