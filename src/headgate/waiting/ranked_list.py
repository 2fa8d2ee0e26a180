"""A sorted list with ranks that may change during iteration.

It is a list of short sorted lists, so that insertion, removal and lookup cost the time of a short list. An iteration
keeps the last entry and not an index, so it stays valid after every change. Entries are unique and ordered by ``<``.
``parking_lot.py`` uses one for all units with the same registered events.
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
        index = min(self._chunk_of(entry), len(chunks) - 1)
        chunk = chunks[index]
        insort(chunk, entry)
        if len(chunk) > 2 * _CHUNK:
            chunks[index : index + 1] = chunk[:_CHUNK], chunk[_CHUNK:]

    def remove(self, entry: Entry) -> None:
        index = self._chunk_of(entry)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, entry)]
        if not chunk:
            del self._chunks[index]

    def rank(self, entry: Entry) -> int:
        """The number of entries before this one, which need not be in the list."""
        index = self._chunk_of(entry)
        before = sum(len(chunk) for chunk in self._chunks[:index])
        return before + (bisect_left(self._chunks[index], entry) if index < len(self._chunks) else 0)

    def walk(self) -> Iterator[Entry]:
        """Iterate in order. Each step looks for the first entry after the last one, so the list may change."""
        last = self._chunks[0][0] if self._chunks else None
        while last is not None:
            yield last
            last = self._next_entry(last)

    def _next_entry(self, entry: Entry) -> Entry | None:
        """The first entry after this one, which need not be in the list."""
        index = self._chunk_of(entry)
        if index == len(self._chunks):
            return None
        chunk = self._chunks[index]
        position = bisect_right(chunk, entry)
        if position < len(chunk):
            return chunk[position]
        return self._chunks[index + 1][0] if index + 1 < len(self._chunks) else None

    def _chunk_of(self, entry: Entry) -> int:
        """The index of the first chunk whose last entry is not before this entry; the number of chunks if none is."""
        return bisect_left(self._chunks, entry, key=_last)


def _last(chunk: list[Entry]) -> Entry:
    return chunk[-1]
