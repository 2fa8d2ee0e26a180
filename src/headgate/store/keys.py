"""A sorted set of keys that stays cheap to change at a hundred thousand entries.

One flat list would move all later entries on each insert. Here the list is cut into runs of at most twice ``RUN`` keys,
so an insert moves one run and a rank counts the runs before it. Used by ``store/shelf.py`` only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

RUN: Final = 512


class SortedKeys:
    """Strings in order, each once."""

    __slots__ = ("_lasts", "_run", "_runs", "_size")

    def __init__(self, run: int = RUN) -> None:
        self._run = run
        self._runs: list[list[str]] = []
        self._lasts: list[str] = []  # the last key of each run, to find a run by bisection
        self._size = 0

    @classmethod
    def of(cls, keys: Iterable[str], run: int = RUN) -> SortedKeys:
        """All of ``keys``, which come each once and in any order."""
        made, ordered = cls(run), sorted(keys)
        made._runs = [ordered[start : start + run] for start in range(0, len(ordered), run)]
        made._lasts = [each[-1] for each in made._runs]
        made._size = len(ordered)
        return made

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Puts a key that is not there yet."""
        self._size += 1
        if not self._runs:
            self._runs.append([key])
            self._lasts.append(key)
            return
        index = min(bisect_left(self._lasts, key), len(self._runs) - 1)
        run = self._runs[index]
        insort(run, key)
        self._lasts[index] = run[-1]
        if len(run) > 2 * self._run:
            self._runs[index : index + 1] = [run[: self._run], run[self._run :]]
            self._lasts[index : index + 1] = [run[self._run - 1], run[-1]]

    def remove(self, key: str) -> None:
        """Takes out a key that is there."""
        index = bisect_left(self._lasts, key)
        run = self._runs[index]
        del run[bisect_left(run, key)]
        self._size -= 1
        if run:
            self._lasts[index] = run[-1]
        else:
            del self._runs[index]
            del self._lasts[index]

    def rank(self, key: str) -> int:
        """How many keys sort before ``key``."""
        index = bisect_left(self._lasts, key)
        before = sum(len(run) for run in self._runs[:index])
        return before + (bisect_left(self._runs[index], key) if index < len(self._runs) else 0)

    def between(self, after: str, before: str | None) -> Iterator[str]:
        """The keys greater than ``after`` and less than ``before`` (``None``: to the end).

        The set must not change while the iterator is in use.
        """
        index = bisect_right(self._lasts, after)
        start = bisect_right(self._runs[index], after) if index < len(self._runs) else 0
        for run in self._runs[index:]:
            end = len(run) if before is None or run[-1] < before else bisect_left(run, before)
            yield from run[start:end]
            if end < len(run):
                return
            start = 0
