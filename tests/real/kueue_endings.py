"""Intended differences in decisions. After one of them the two clusters differ, and their comparison has ended.

Each is recognised by the decisions of both sides, is counted, and has a limit near the recorded counts; `docs/kueue.md`
has them for users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from real.kueue_and_headgate import View, conditions_of, is_
from real.kueue_comparison import FACTOR
from real.kueue_random_clusters import RandomCluster

Object = dict[str, Any]


class Ended(msgspec.Struct, frozen=True):
    """A cluster in which the two programs decided differently. ``preemptors``: names and uids of those that others were
    evicted for."""

    cluster: RandomCluster
    kueue: View
    ours: View
    preemptors: Mapping[str, str]

    def workloads(self) -> dict[str, tuple[Object, Object]]:
        """Those that both sides have, by name."""
        both = self.kueue["Workload"], self.ours["Workload"]
        names = sorted({*both[0]} & {*both[1]})
        return {name: (both[0][name], both[1][name]) for name in names if name.startswith(f"{self.cluster.name}-")}

    def only(self, kueue: bool, type_: str = "QuotaReserved") -> list[Object]:
        """Workloads of which a condition is true on one side only."""
        return [
            pair[0]
            for pair in self.workloads().values()
            if tuple(is_(each, type_) for each in pair) == (kueue, not kueue)
        ]

    def strategy(self, workload: Object) -> str:
        found: str = self.cluster.queues[workload["spec"]["queueName"]]["spec"]["queueingStrategy"]
        return found


class Ending(msgspec.Struct, frozen=True):
    """``met``: how many clusters of each of five runs ended by it."""

    name: str
    why: str
    covers: Callable[[Ended], bool]
    met: tuple[int, ...]

    @property
    def at_most(self) -> int:
        """One that was never met may be, by chance: twice."""
        return FACTOR * max(*self.met, 1)


def _is_stolen(ended: Ended) -> bool:
    """A preemptor has with us what its victims held; with Kueue another workload has quota instead."""
    served = {each["metadata"]["name"]: each["metadata"]["uid"] for each in ended.only(kueue=False)}
    return any(served.get(name) == uid for name, uid in ended.preemptors.items()) and bool(ended.only(kueue=True))


def _is_elsewhere(ended: Ended) -> bool:
    """The same workloads have quota for as many pods; some of several pod sets have it of other flavors."""
    if ended.only(kueue=True) or ended.only(kueue=False):
        return False
    given = {name: [_assigned(each) for each in pair] for name, pair in ended.workloads().items()}
    apart = [name for name, (kueue, ours) in given.items() if kueue != ours]
    return bool(apart) and all(
        len(given[name][0]) > 1
        and [(one["name"], one["count"], one["resourceUsage"]) for one in given[name][0]]
        == [(one["name"], one["count"], one["resourceUsage"]) for one in given[name][1]]
        for name in apart
    )


def _assigned(workload: Object) -> list[Object]:
    admission = (workload.get("status") or {}).get("admission") or {}
    return list(admission.get("podSetAssignments") or ())


def _is_strict_first(ended: Ended) -> bool:
    """In a tree of both strategies, a workload of a StrictFIFO queue has quota with Kueue, and with us one of a
    BestEffortFIFO queue."""
    return any(ended.strategy(each) == "StrictFIFO" for each in ended.only(kueue=True)) and any(
        ended.strategy(each) == "BestEffortFIFO" for each in ended.only(kueue=False)
    )


def _is_tie(ended: Ended) -> bool:
    """Of two workloads of different queues with one priority and one time of creation each side serves another."""
    return any(
        one["spec"]["queueName"] != other["spec"]["queueName"] and _rank(one) == _rank(other)
        for one in ended.only(kueue=True)
        for other in ended.only(kueue=False)
    )


def _rank(workload: Object) -> tuple[int, str]:
    return workload["spec"]["priority"], workload["metadata"]["creationTimestamp"]


def _is_by_pods(ended: Ended) -> bool:
    """Where pods are counted, other workloads are preempted."""
    return ended.cluster.counts_pods and bool(
        ended.only(kueue=True, type_="Preempted") or ended.only(kueue=False, type_="Preempted")
    )


def _is_kept(ended: Ended) -> bool:
    """What another workload waits for keeps a workload out with us in every round; with Kueue it has quota."""
    told = {
        name: conditions_of(ours).get("QuotaReserved", {}).get("message")
        for name, (_, ours) in ended.workloads().items()
    }
    return any(
        told[each["metadata"]["name"]] == "Workload no longer fits after processing another workload"
        for each in ended.only(kueue=True)
    )


ENDINGS: Final = (
    Ending(
        "stolen", "what was freed for a preemptor is its own; Kueue may give it to others", _is_stolen, (0, 0, 0, 0, 0)
    ),
    Ending(
        "elsewhere",
        "a search over pod sets begins with the first flavors; Kueue's where it is",
        _is_elsewhere,
        (0, 0, 1, 0, 0),
    ),
    Ending(
        "strict first",
        "freed quota is offered to all queues; Kueue wakes BestEffortFIFO later",
        _is_strict_first,
        (0, 0, 0, 0, 0),
    ),
    Ending("ties", "ties between queues break by uid; in Kueue by chance", _is_tie, (0, 0, 0, 0, 0)),
    Ending(
        "kept places",
        "a preemptor without victims keeps its place; in Kueue others may come first",
        _is_kept,
        (1, 1, 1, 1, 1),
    ),
    Ending("pods", "pods count in preemption; Kueue leaves those that victims free out", _is_by_pods, (0, 0, 0, 0, 0)),
)


def ending_of(ended: Ended) -> str:
    return next((each.name for each in ENDINGS if each.covers(ended)), "")
