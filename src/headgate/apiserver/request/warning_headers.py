"""Warnings as headers, by the rule of kube-apiserver: while all together have at most 4,096 characters they are sent
whole; from the first that exceeds the limit each is cut to 256, and none follows once 4,096 are reached.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

_MAX_TOTAL: Final = 4 * 1024
_MAX_EACH_WHEN_CUT: Final = 256


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Texts that a header cannot carry are left out. Lengths are counted in characters."""
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in _kept(warnings))


def _kept(warnings: Iterable[str]) -> list[str]:
    given: list[str] = []
    kept: list[str] = []
    total, cutting = 0, False
    for text in warnings:
        if cutting and total >= _MAX_TOTAL:
            break
        given.append(text)
        shown = text[:_MAX_EACH_WHEN_CUT] if cutting else text
        if not _is_fit(shown):
            continue
        if cutting or total + len(shown) <= _MAX_TOTAL:
            kept.append(shown)
            total += len(shown)
        else:
            # All that was given so far is sent, cut: it may be more than 4,096 characters by this last text.
            kept = [each for given_text in given if _is_fit(each := given_text[:_MAX_EACH_WHEN_CUT])]
            total, cutting = sum(map(len, kept)), True
    return kept


def _is_fit(text: str) -> bool:
    return bool(text) and not any(unicodedata.category(each) == "Cc" for each in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
