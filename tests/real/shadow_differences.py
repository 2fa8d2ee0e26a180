"""The documented differences between Kueue's decisions and Headgate's, as shadow mode reports them.

They are those of `kueue_endings.py`, where two clusters are compared, and docs/kueue.md has them for users. Here each
is recognised by one comparison, and has a limit near the recorded counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from real.kueue_comparison import FACTOR

if TYPE_CHECKING:
    from real.shadow_run import ShadowRun

Object = dict[str, Any]


class Documented(msgspec.Struct, frozen=True):
    """``met``: how often each of two recorded runs had it."""

    name: str
    why: str
    covers: Callable[[Object, ShadowRun], bool]
    met: tuple[int, ...]

    @property
    def at_most(self) -> int:
        """One that was never met may be, by chance: twice."""
        return FACTOR * max(*self.met, 1)


def _is_only_other(found: Object) -> bool:
    return bool(found["decision"] == "admission" and found["outcome"] == "only_other")


def _is_stolen(found: Object, run: ShadowRun) -> bool:
    """Headgate keeps freed quota for the preemptor that it was freed for; Kueue gave it to another workload."""
    preemptors = {each["preemptor"] for each in run.compared if "preemptor" in each}
    return _is_only_other(found) and bool(preemptors & set(found.get("instead", ())))


def _is_elsewhere(found: Object, run: ShadowRun) -> bool:
    several = len(run.objects[found["name"]]["spec"]["podSets"]) > 1
    return found["outcome"] == "other_flavors" and several


def _is_strict_first(found: Object, run: ShadowRun) -> bool:
    strategies = {_strategy(run, each.partition("/")[2]) for each in found.get("instead", ())}
    return _is_only_other(found) and _strategy(run, found["name"]) == "StrictFIFO" and "BestEffortFIFO" in strategies


def _strategy(run: ShadowRun, workload: str) -> str:
    cluster = run.clusters[workload.partition("-")[0]]
    found: str = cluster.queues[run.objects[workload]["spec"]["queueName"]]["spec"]["queueingStrategy"]
    return found


def _is_tie(found: Object, run: ShadowRun) -> bool:
    others = [run.objects[each.partition("/")[2]] for each in found.get("instead", ())]
    own = run.objects[found["name"]]
    return _is_only_other(found) and any(
        each["spec"]["queueName"] != own["spec"]["queueName"] and _rank(each) == _rank(own) for each in others
    )


def _rank(workload: Object) -> tuple[int, str]:
    return workload["spec"]["priority"], workload["metadata"]["creationTimestamp"]


def _is_kept(found: Object, run: ShadowRun) -> bool:
    is_told = found.get("message") == "Workload no longer fits after processing another workload"
    return _is_only_other(found) and is_told


def _is_by_pods(found: Object, run: ShadowRun) -> bool:
    return run.clusters[found["name"].partition("-")[0]].counts_pods and found["decision"] == "eviction"


DOCUMENTED: Final = (
    Documented("stolen", "what was freed for a preemptor is its own; Kueue may give it to others", _is_stolen, (0, 0)),
    Documented(
        "elsewhere", "a search over pod sets begins with the first flavors; Kueue's where it is", _is_elsewhere, (0, 1)
    ),
    Documented(
        "strict first",
        "freed quota is offered to all queues; Kueue wakes BestEffortFIFO later",
        _is_strict_first,
        (0, 0),
    ),
    Documented("ties", "ties between queues break by uid; in Kueue by chance", _is_tie, (0, 0)),
    Documented(
        "kept places", "a preemptor without victims keeps its place; in Kueue others may come first", _is_kept, (1, 1)
    ),
    Documented("pods", "pods count in preemption; Kueue leaves those that victims free out", _is_by_pods, (0, 0)),
)


def documented_name(found: Object, run: ShadowRun) -> str:
    """The name of the entry, or nothing."""
    return next((each.name for each in DOCUMENTED if each.covers(found, run)), "")
