"""Amounts of pods, each with a time, in the order of the times, and their sums up to any time.

Pods are kept in blocks of neighbours, and each block has the sums of its amounts. A change makes the sums of one block
necessary again, and a sum up to a time costs a binary search, however many pods there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Final

_MAX_BLOCK: Final = 128
_Entry = tuple[float, str]
"""A time and the uid of a pod."""
_Kind = tuple[str, bool]
"""A resource, and whether pods of gangs count."""
_Amounts = tuple[Mapping[str, int], bool]
"""The amounts of a pod, and whether it is in a gang."""


class _Block:
    """``sums``: by kind, the sum of the first pods, for each number of them from 0 on, as far as it was asked for."""

    __slots__ = ("entries", "sums")

    def __init__(self, entries: list[_Entry]) -> None:
        self.entries = entries
        self.sums: dict[_Kind, list[int]] = {}


class TimedAmounts:
    """``with_gangs`` in all methods: whether pods of gangs count. ``from_s``: the times are seconds from then on."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lasts: list[_Entry] = []  # the last entry of each block
        self._pods: dict[str, _Amounts] = {}  # by uid
        self._sums: dict[_Kind, list[int]] = {}  # as in a block, of the first blocks

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, time_s: float, uid: str, amounts: Mapping[str, int], *, is_in_gang: bool) -> None:
        entry = time_s, uid
        self._pods[uid] = amounts, is_in_gang
        if not self._blocks:
            self._blocks.append(_Block([]))
            self._lasts.append(entry)
        index = min(bisect_left(self._lasts, entry), len(self._blocks) - 1)
        entries = self._blocks[index].entries
        insort(entries, entry)
        middle = len(entries) if len(entries) <= _MAX_BLOCK else _MAX_BLOCK // 2
        self._replace(index, [part for part in (entries[:middle], entries[middle:]) if part])

    def remove(self, time_s: float, uid: str) -> None:
        """``time_s``: as in :meth:`add`."""
        entry = time_s, uid
        del self._pods[uid]
        index = bisect_left(self._lasts, entry)
        entries = self._blocks[index].entries
        del entries[bisect_left(entries, entry)]
        self._replace(index, [entries] if entries else [])

    def _replace(self, index: int, blocks: list[list[_Entry]]) -> None:
        """Replace the block with this index."""
        self._blocks[index : index + 1] = map(_Block, blocks)
        self._lasts[index : index + 1] = [entries[-1] for entries in blocks]
        self._sums.clear()

    def total(self, resource: str, *, with_gangs: bool) -> int:
        """The sum of all amounts."""
        return self._sums_of_blocks((resource, with_gangs))[-1]

    def total_until(self, resource: str, until_s: float, *, with_gangs: bool, from_s: float = 0.0) -> int:
        """The sum of the amounts with times up to this one, itself included."""
        kind = resource, with_gangs
        index = bisect_right(self._lasts, until_s, key=lambda entry: from_s + entry[0])
        total = self._sums_of_blocks(kind)[index]
        if index < len(self._blocks):
            block = self._blocks[index]
            count = bisect_right(block.entries, until_s, key=lambda entry: from_s + entry[0])
            total += self._sums_of_block(block, kind)[count]
        return total

    def first_time_s(self, is_enough: Callable[[float], bool], from_s: float = 0.0) -> float | None:
        """The first time that is enough; None if there is none. Every time after it is enough, too."""
        index = bisect_left(self._lasts, True, key=lambda entry: is_enough(from_s + entry[0]))
        if index == len(self._blocks):
            return None
        entries = self._blocks[index].entries
        return from_s + entries[bisect_left(entries, True, key=lambda entry: is_enough(from_s + entry[0]))][0]

    def _sums_of_blocks(self, kind: _Kind) -> list[int]:
        sums = self._sums.get(kind)
        if sums is None:
            of_blocks = (self._sums_of_block(block, kind)[-1] for block in self._blocks)
            sums = self._sums[kind] = list(accumulate(of_blocks, initial=0))
        return sums

    def _sums_of_block(self, block: _Block, kind: _Kind) -> list[int]:
        sums = block.sums.get(kind)
        if sums is None:
            resource, with_gangs = kind
            pods = (self._pods[uid] for _, uid in block.entries)
            amounts = (each.get(resource, 0) if with_gangs or not in_gang else 0 for each, in_gang in pods)
            sums = block.sums[kind] = list(accumulate(amounts, initial=0))
        return sums
