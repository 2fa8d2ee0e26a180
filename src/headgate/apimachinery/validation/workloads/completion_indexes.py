"""Parses the index lists of an Indexed Job (``"0,3-7"``), counts the indexes, and finds overlaps of two lists.

Errors are the texts after ``error parsing …:`` in the API's messages.
"""

from __future__ import annotations

import msgspec

from headgate.kube.integers import read_integer


class InvalidIndexes(msgspec.Struct, frozen=True):
    text: str


def _parse_interval(text: str, completions: int) -> tuple[int, int] | InvalidIndexes:
    limits = text.split("-")
    if len(limits) > 2:
        return InvalidIndexes(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts'
            " separated by '-'"
        )
    numbers: list[int] = []
    for limit in limits:
        number = read_integer(limit)
        if number is None:
            return InvalidIndexes(f'cannot convert string to integer for index: "{limit}"')
        if number >= completions:
            return InvalidIndexes(f'too large index: "{limit}"')
        numbers.append(number)
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        return InvalidIndexes(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def count_indexes(text: str, completions: int) -> int | InvalidIndexes:
    """The number of indexes in the list, or the error."""
    total = 0
    last: int | None = None
    for fragment in text.split(",") if text else ():
        interval = _parse_interval(fragment, completions)
        if isinstance(interval, InvalidIndexes):
            return interval
        first, end = interval
        if last is not None and last >= first:
            return InvalidIndexes(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def first_overlap(completed: str, failed: str, completions: int) -> int | None:
    """The smallest index in both lists. Malformed parts are skipped, because they are reported elsewhere."""
    left = _intervals(completed, completions)
    right = _intervals(failed, completions)
    left_index = right_index = 0
    while left_index < len(left) and right_index < len(right):
        (left_first, left_end), (right_first, right_end) = left[left_index], right[right_index]
        if left_first <= right_end and right_first <= left_end:
            return max(left_first, right_first)
        if left_first <= right_first:
            left_index += 1
        else:
            right_index += 1
    return None


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    parsed = (_parse_interval(fragment, completions) for fragment in text.split(",")) if text else ()
    return [each for each in parsed if not isinstance(each, InvalidIndexes)]
