"""A sorted list with ranks that may change during iteration.

It is a list of short sorted lists, so that insertion, removal and lookup cost the time of a short list. An iteration
keeps the last entry and not an index, so it survives every change. Entries are unique and ordered by ``<``.
``parking_lot.py`` uses one per line of units.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final

Entry = tuple[Any, ...]
_CHUNK: Final = 512


class RankedList:
    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[list[Entry]] = []

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, entry: Entry) -> None:
        chunks = self._chunks
        if not chunks:
            chunks.append([entry])
            return
        at = min(self._chunk_of(entry), len(chunks) - 1)
        chunk = chunks[at]
        insort(chunk, entry)
        if len(chunk) > 2 * _CHUNK:
            chunks[at : at + 1] = chunk[:_CHUNK], chunk[_CHUNK:]

    def remove(self, entry: Entry) -> None:
        at = self._chunk_of(entry)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, entry)]
        if not chunk:
            del self._chunks[at]

    def rank(self, entry: Entry) -> int:
        """How many entries come before this one, which need not stand here."""
        at = self._chunk_of(entry)
        before = sum(len(chunk) for chunk in self._chunks[:at])
        return before + (bisect_left(self._chunks[at], entry) if at < len(self._chunks) else 0)

    def walk(self) -> Iterator[Entry]:
        """In order; entries that come or go meanwhile are seen or not, as if each step began anew."""
        last = self._chunks[0][0] if self._chunks else None
        while last is not None:
            yield last
            last = self._after(last)

    def _after(self, entry: Entry) -> Entry | None:
        at = self._chunk_of(entry)
        if at == len(self._chunks):
            return None
        chunk = self._chunks[at]
        inside = bisect_right(chunk, entry)
        if inside < len(chunk):
            return chunk[inside]
        return self._chunks[at + 1][0] if at + 1 < len(self._chunks) else None

    def _chunk_of(self, entry: Entry) -> int:
        """The first chunk that ends at the entry or behind it; one past the last if the entry is behind them all."""
        return bisect_left(self._chunks, entry, key=_end)


def _end(chunk: list[Entry]) -> Entry:
    return chunk[-1]
