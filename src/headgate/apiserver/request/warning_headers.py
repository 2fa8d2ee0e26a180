"""Encodes warnings as ``Warning`` headers, by the rule of kube-apiserver.

If all texts together have at most 4,096 characters, they are sent as they are. Otherwise each text is truncated to 256
characters, and no further text is sent once the total has reached 4,096 characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

_MAX_TOTAL: Final = 4 * 1024
_MAX_EACH_WHEN_CUT: Final = 256


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The headers. Texts that are not valid in a header are omitted."""
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in _limited(warnings))


def _limited(warnings: Iterable[str]) -> list[str]:
    given: list[str] = []
    kept: list[str] = []
    total, truncating = 0, False
    for text in warnings:
        if truncating and total >= _MAX_TOTAL:
            break
        given.append(text)
        sent = text[:_MAX_EACH_WHEN_CUT] if truncating else text
        if not _is_valid(sent):
            continue
        if truncating or total + len(sent) <= _MAX_TOTAL:
            kept.append(sent)
            total += len(sent)
        else:
            # All texts so far are sent, truncated; the total may exceed 4,096 characters by this last text.
            kept = [each for given_text in given if _is_valid(each := given_text[:_MAX_EACH_WHEN_CUT])]
            total, truncating = sum(map(len, kept)), True
    return kept


def _is_valid(text: str) -> bool:
    return bool(text) and not any(unicodedata.category(each) == "Cc" for each in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
