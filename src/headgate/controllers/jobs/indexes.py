"""Sets of completion indexes as the API writes them: ``0,3-7,9``.

A set is kept as ranges, so its size is that of its text, also for a Job with a hundred thousand indexes.
``apimachinery/validation/workloads/completion_indexes.py`` validates such a text; here, an invalid part is skipped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.kube.labels import parse_int64


class CompletionIndexes(msgspec.Struct, frozen=True):
    """``ranges``: in order, with a gap of at least one index between them; both ends are included."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> CompletionIndexes:
        """Parses the indexes below ``completions``."""
        read = (_range(part, completions) for part in text.split(","))
        return cls(_joined(each for each in read if each is not None))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> CompletionIndexes:
        return cls(_joined((each, each) for each in indexes))

    def __or__(self, other: CompletionIndexes) -> CompletionIndexes:
        if not other.ranges:
            return self
        return CompletionIndexes(_joined((*self.ranges, *other.ranges)))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, index: int) -> bool:
        at = bisect_left(self.ranges, index, key=lambda each: each[1])
        return at < len(self.ranges) and self.ranges[at][0] <= index

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self.ranges)

    def common(self, other: CompletionIndexes) -> int:
        """The number of indexes that both have."""
        count = own_at = other_at = 0
        while own_at < len(self.ranges) and other_at < len(other.ranges):
            (first, last), (other_first, other_last) = self.ranges[own_at], other.ranges[other_at]
            count += max(0, min(last, other_last) - max(first, other_first) + 1)
            own_at, other_at = (own_at + 1, other_at) if last <= other_last else (own_at, other_at + 1)
        return count

    def absent(self, count: int, completions: int) -> list[int]:
        """The first ``count`` indexes below ``completions`` that are not in it."""
        found: list[int] = []
        start = 0
        for first, last in (*self.ranges, (completions, completions)):
            found += range(start, min(first, completions, start + count - len(found)))
            start = last + 1
            if len(found) >= count or start >= completions:
                break
        return found


NONE: Final = CompletionIndexes()


def _range(text: str, completions: int) -> tuple[int, int] | None:
    ends = [parse_int64(each) for each in text.split("-")]
    first, last = ends[0], ends[-1]
    if len(ends) > 2 or first is None or last is None or not 0 <= first < completions or last < first:
        return None
    return first, min(last, completions - 1)


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)


def _text(first: int, last: int) -> str:
    """Two consecutive indexes are listed separately: ``3,4``, but ``3-5``."""
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
