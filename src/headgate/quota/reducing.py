"""Partial admission: the most pods, between what a workload asks for and its least, that can be had.

Sets shrink together, each in proportion to how much it may shrink, and the search halves what is left: that the more
pods are dropped the likelier the rest fits is taken for granted, as Kueue does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headgate.quota.workload import Workload

Found = TypeVar("Found")


def can_shrink(workload: Workload) -> bool:
    return any(_slack(workload))


def least_counts(workload: Workload) -> list[int]:
    return [min(workload.count_of(each), each.least) for each in workload.pod_sets]


def find_largest(workload: Workload, attempt: Callable[[Sequence[int]], Found | None]) -> Found | None:
    """What ``attempt`` finds for the largest counts for which it finds something, full counts excepted."""
    slack = _slack(workload)
    total = sum(slack)
    full = [workload.count_of(each) for each in workload.pod_sets]
    low, high, best = 0, total + 1, None
    while low < high:
        middle = (low + high) // 2
        found = attempt([count - less * middle // total for count, less in zip(full, slack, strict=True)])
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best


def _slack(workload: Workload) -> list[int]:
    return [max(0, workload.count_of(each) - each.least) for each in workload.pod_sets]
