"""Forecasts when the first in line of a ClusterQueue may start, and which workloads have surely ended by then.

A workload with a run-time limit (``maximumExecutionTimeSeconds``, which is enforced) is expected to run until its
limit, unless the first in line may preempt it. All other workloads may end at any time. So the first in line starts at
``not_before_s`` at the earliest. It may get one of several flavors; the earliest of them counts. The workloads that
have a limit have ended by then if their limit and the grace period of their pods are over.
``line_protection.py`` uses the forecast.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import msgspec

from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_groups import FlavorResource, Usage
from headgate.quota.cache.quota_ledger import fits
from headgate.quota.cache.quota_tree import QuotaNode, QuotaTree
from headgate.quota.preemption.candidates import Preemptor, may_preempt
from headgate.quota.queues.queue_manager import PendingWorkload

Demand = tuple[Usage, ...]
"""The alternatives of a pod set in a resource group: for each flavor, the least that it would use."""


class ProtectedWorkload(msgspec.Struct, frozen=True):
    """The first in line of a queue. ``needs``: the most that it could use of each resource; if it could get one of
    several flavors, of each of them."""

    pending: PendingWorkload
    cluster_queue: ClusterQueue
    demands: tuple[Demand, ...]
    needs: Usage

    @property
    def queue(self) -> str:
        return self.pending.queue


class LineForecast(msgspec.Struct):
    """``not_before_s``: the earliest start. ``gone``: by queue, the usage of workloads that have surely ended by then.
    ``until_s``: how long the forecast is valid. Not frozen: a workload that starts and ends before that time only adds
    to ``gone``."""

    not_before_s: float
    gone: dict[str, dict[FlavorResource, int]]
    until_s: float

    def add_gone(self, holder: QuotaHolder) -> None:
        self.until_s = min(self.until_s, gone_s(holder))
        usage = self.gone.setdefault(holder.queue, {})
        for fr, amount in holder.usage.items():
            usage[fr] = usage.get(fr, 0) + amount


class LimitedWorkloads:
    """The workloads of one tree that hold quota and have a run-time limit, in the order in which their limits end.
    ``tree``: the quotas of the tree, with the usage of these workloads only."""

    def __init__(self, tree: QuotaTree, holders: Iterable[QuotaHolder]) -> None:
        self._tree = tree
        self._holders: dict[str, QuotaHolder] = {}
        self._ends: list[tuple[float, str]] = []  # with the keys of the workloads
        self._gone: list[tuple[float, str]] = []
        for holder in holders:
            self.put(holder)

    def put(self, holder: QuotaHolder) -> None:
        insort(self._ends, (ends_s(holder), holder.key))
        insort(self._gone, (gone_s(holder), holder.key))
        self._holders[holder.key] = holder
        self._count(holder, +1)

    def remove(self, holder: QuotaHolder) -> None:
        known = self._holders.pop(holder.key, None)
        if known is not None:
            for times, time_s in ((self._ends, ends_s(known)), (self._gone, gone_s(known))):
                del times[bisect_left(times, (time_s, known.key))]
            self._count(known, -1)

    def forecast(self, first: ProtectedWorkload, now_s: float) -> LineForecast:
        """The cost is proportional to the workloads whose limits end until the first in line fits, and to those that it
        may preempt."""
        not_before_s = self._not_before_s(first, now_s)
        found = LineForecast(not_before_s, {}, float("inf"))
        for time_s, key in self._gone[bisect_right(self._gone, now_s, key=_time_of) :]:
            if time_s > not_before_s:
                break
            found.add_gone(self._holders[key])
        return found

    def _not_before_s(self, first: ProtectedWorkload, now_s: float) -> float:
        node = self._tree.queue(first.queue)
        if node is None or not self._ends:
            return now_s
        removed = [*self._preemptible(first)]
        for holder in removed:
            self._count(holder, -1)
        left_out = {holder.key for holder in removed}
        found_s = now_s
        for end_s, key in self._ends:
            if end_s > now_s and _may_fit(node, first):
                break
            found_s = max(end_s, now_s)
            if key not in left_out:
                removed.append(self._holders[key])
                self._count(self._holders[key], -1)
        for holder in removed:
            self._count(holder, +1)
        return found_s

    def _preemptible(self, first: ProtectedWorkload) -> Iterable[QuotaHolder]:
        workload, queue = first.pending.workload, first.cluster_queue
        if not queue.preemption.is_allowed:
            return ()
        preemptor = Preemptor(workload.key, queue, workload.priority, first.pending.order_s, {}, frozenset())
        return (each for each in self._holders.values() if may_preempt(preemptor, each))

    def _count(self, holder: QuotaHolder, sign: int) -> None:
        node = self._tree.queue(holder.queue)
        if node is not None:
            self._tree.add(node, holder.usage, sign)


def ends_s(holder: QuotaHolder) -> float:
    """When its limit ends."""
    return float("inf") if holder.ends_s is None else holder.ends_s


def gone_s(holder: QuotaHolder) -> float:
    """When its pods have ended at the latest."""
    return ends_s(holder) + holder.grace_s


def _may_fit(node: QuotaNode, first: ProtectedWorkload) -> bool:
    """Whether each pod set, taken alone, fits in one of its flavors."""
    return all(any(fits(node, option) for option in demand) for demand in first.demands)


def _time_of(entry: tuple[float, str]) -> float:
    return entry[0]
