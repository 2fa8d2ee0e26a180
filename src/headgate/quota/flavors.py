"""Finding flavors: for every pod set and resource group the flavor that can be had best, in the order of the queue.

A flavor has to suit the pods (``flavor.py``) and to have quota, now or by preemption, for all resources of the group
at once; pod sets that came before in the same workload count. Which of several is taken, ``fungibility.py`` says.
Whether preemption would help is asked of an oracle (``nominating.py``), so that nothing here knows who holds what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.amounts import PODS, amount_text
from headgate.quota import names
from headgate.quota.assignment import MODE_OF, Assignment, Attempt, Choice, Degree, PodSetChoice, worst
from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.cohort import FlavorResource, ResourceGroup
from headgate.quota.flavor import ResourceFlavor, find_mismatch
from headgate.quota.fungibility import BEST, WORST, Grade, goes_on, is_better
from headgate.quota.pod_set import PodSet
from headgate.quota.tree import Node
from headgate.quota.workload import Workload

Oracle = Callable[[FlavorResource, int], Grade]
"""How so much of a resource could be had by preemption: no candidates, preempt or reclaim; and from how high."""
Tried = Sequence[Mapping[str, int]]

_NOTHING: Final = frozenset[FlavorResource]()


class _Fit(msgspec.Struct, frozen=True):
    grade: Grade
    reason: str = ""
    why: str = ""
    is_short: bool = False


class FlavorAssigner:
    """For one workload at a time. ``now`` and ``ahead`` are the queue's nodes in the two trees of ``holdings.py``."""

    def __init__(
        self, queue: ClusterQueue, now: Node, ahead: Node, flavors: Mapping[str, ResourceFlavor], oracle: Oracle
    ) -> None:
        self._queue = queue
        self._now = now
        self._ahead = ahead
        self._flavors = flavors
        self._oracle = oracle

    def assign(self, workload: Workload, counts: Sequence[int] = (), tried: Tried = ()) -> Assignment:
        """``counts`` of pods other than asked for; ``tried``: where an earlier search stopped."""
        chosen: list[PodSetChoice] = []
        usage: dict[FlavorResource, int] = {}
        borrow = 0
        for at, pod_set in enumerate(workload.pod_sets):
            count = counts[at] if counts else workload.count_of(pod_set)
            found = self._assign_set(pod_set, count, usage, tried[at] if at < len(tried) else {})
            chosen.append(found)
            for resource, choice in found.flavors.items():
                fr = (choice.flavor, resource)
                usage[fr] = usage.get(fr, 0) + found.requests[resource]
                borrow = max(borrow, choice.borrow)
            if found.is_failed:
                break
        return Assignment(tuple(chosen), usage, borrow)

    def _assign_set(
        self, pod_set: PodSet, count: int, before: Mapping[FlavorResource, int], tried: Mapping[str, int]
    ) -> PodSetChoice:
        requests = {resource: amount * count for resource, amount in pod_set.requests.items()}
        if PODS in self._queue.group_of:
            requests[PODS] = count
        flavors: dict[str, Choice] = {}
        reasons: list[str] = []
        groups: list[tuple[Attempt, ...]] = []
        for resource in sorted(requests):
            group = self._queue.group_of.get(resource)
            if resource in flavors or (group is None and not requests[resource]):
                continue
            if group is None:
                reasons, is_failed = [f"resource {resource} unavailable in ClusterQueue"], True
            else:
                found, said, attempts = self._find(group, pod_set, requests, before, tried.get(resource, -1) + 1)
                groups.append(attempts)
                is_failed = not found
                flavors.update(found)
                reasons = said if is_failed else reasons + said
            if is_failed:
                return PodSetChoice(pod_set.name, count, requests, {}, tuple(reasons), tuple(groups), True)
        return PodSetChoice(pod_set.name, count, requests, flavors, tuple(reasons), tuple(groups))

    def _find(
        self,
        group: ResourceGroup,
        pod_set: PodSet,
        requests: Mapping[str, int],
        before: Mapping[FlavorResource, int],
        first: int,
    ) -> tuple[dict[str, Choice], list[str], tuple[Attempt, ...]]:
        wanted = sorted(resource for resource in group.resources if resource in requests)
        fungibility = self._queue.fungibility
        best, best_grade = {}, WORST
        attempts: list[Attempt] = []
        last = -1
        for last in range(first, len(group.flavors)):
            name = group.flavors[last]
            attempt, choices, grade = self._try(name, pod_set, wanted, requests, before)
            attempts.append(attempt)
            stops = not goes_on(grade, fungibility)
            if stops or is_better(grade, best_grade, fungibility):
                best, best_grade = choices, grade
            if stops:
                break
        stopped_at = -1 if last == len(group.flavors) - 1 else last
        found = {name: msgspec.structs.replace(each, tried=stopped_at) for name, each in best.items()}
        said = [] if best_grade[0] == Degree.FIT else [reason for each in attempts for reason in each.reasons]
        return found, said, tuple(attempts)

    def _try(
        self,
        name: str,
        pod_set: PodSet,
        wanted: Sequence[str],
        requests: Mapping[str, int],
        before: Mapping[FlavorResource, int],
    ) -> tuple[Attempt, dict[str, Choice], Grade]:
        flavor = self._flavors.get(name)
        mismatch = (
            f"flavor {name} not found" if flavor is None else find_mismatch(flavor, pod_set.tolerations, pod_set.nodes)
        )
        if mismatch:
            return Attempt(name, Degree.NO_FIT, 0, (mismatch,), names.NO_MATCHING_FLAVOR), {}, WORST
        grade, choices, borrow = BEST, {}, 0
        fits = {resource: self._fit((name, resource), before, requests[resource]) for resource in wanted}
        for resource, fit in fits.items():
            borrow = max(borrow, fit.grade[1])
            if is_better(grade, fit.grade, self._queue.fungibility):
                grade = fit.grade
            choices[resource] = Choice(name, MODE_OF[fit.grade[0]], fit.grade[1])
        reasons = tuple(sorted(each.reason for each in fits.values() if each.reason))
        short = frozenset((name, resource) for resource, each in fits.items() if each.is_short)
        why = worst(each.why for each in fits.values())
        return Attempt(name, grade[0], borrow, reasons, why, short or _NOTHING), choices, grade

    def _fit(self, fr: FlavorResource, before: Mapping[FlavorResource, int], amount: int) -> _Fit:
        flavor, resource = fr
        assumed = before.get(fr, 0)
        value = assumed + amount
        most = self._now.potential(fr)
        if value > most:
            had, asked, limit = (amount_text(resource, each) for each in (assumed, amount, most))
            reason = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({had})"
                f" + current podset request ({asked}) > maximum capacity ({limit})"
            )
            return _Fit((Degree.NO_FIT, 0), reason, names.EXCEEDS_MAX_QUOTA)
        now, ahead = self._now.available(fr), self._ahead.available(fr)
        if value <= now and value <= ahead:
            return _Fit((Degree.FIT, self._now.lowest_that_has(fr, value)[0]))
        missing = amount_text(resource, value - min(now, ahead))
        reason = f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"
        borrow, is_part = self._ahead.lowest_that_has(fr, value)
        if value <= ahead:
            return _Fit((Degree.DEFERRED, borrow), reason, "", True)
        if self._now.quota(fr).nominal >= value or is_part or self._queue.preemption.may_borrow:
            return _Fit(self._oracle(fr, value), reason, "", True)
        return _Fit((Degree.NO_FIT, borrow), reason, names.WAITING_FOR_QUOTA, True)
