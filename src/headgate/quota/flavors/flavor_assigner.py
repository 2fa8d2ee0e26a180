"""The flavor assigner: finds the best flavor for every pod set and resource group, in the order of the queue.

A flavor must match the pods (``quota/api/resource_flavor.py``) and have quota, now or by preemption, for all resources
of the group at once; earlier pod sets of the same workload count. ``fungibility.py`` chooses between flavors. The
*oracle* (Kueue's word) is a function that says whether preemption could free the quota; ``quota/cycle/nomination.py``
passes it in, so that this module does not depend on the preemption package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.resource_amounts import PODS, amount_text
from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.pod_set import PodSet
from headgate.quota.api.resource_flavor import ResourceFlavor, find_flavor_mismatch
from headgate.quota.api.resource_groups import FlavorResource, ResourceGroup
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_tree import QuotaNode
from headgate.quota.flavors.assignment import (
    MODE_OF_GRANULAR,
    Assignment,
    FlavorAssignment,
    FlavorCandidate,
    GranularMode,
    PodSetAssignment,
    most_severe,
)
from headgate.quota.flavors.fungibility import BEST, WORST, Grade, is_better, tries_next_flavor

PreemptionOracle = Callable[[FlavorResource, int], Grade]
"""How preemption could free an amount of a resource: the mode (no candidates, preempt or reclaim) and the height."""
LastTriedFlavors = Sequence[Mapping[str, int]]
"""Where an earlier search stopped: for each pod set, by resource, the index of the last flavor that was tried."""

_NO_RESOURCES: Final = frozenset[FlavorResource]()
_NONE_AVOIDED: Final[Mapping[str, str]] = {}


class _QuotaFit(msgspec.Struct, frozen=True):
    """How one resource fits in one flavor. ``is_short``: quota is missing now."""

    grade: Grade
    reason: str = ""
    pending_reason: str = ""
    is_short: bool = False


class FlavorAssigner:
    """For one workload at a time. ``now`` and ``after_evictions`` are the queue's nodes in the two trees of
    ``quota/cache/quota_ledger.py``. ``avoided``: flavors that the workload may not get, and why."""

    def __init__(
        self,
        queue: ClusterQueue,
        now: QuotaNode,
        after_evictions: QuotaNode,
        flavors: Mapping[str, ResourceFlavor],
        oracle: PreemptionOracle,
        avoided: Mapping[str, str] = _NONE_AVOIDED,
    ) -> None:
        self._queue = queue
        self._now = now
        self._after_evictions = after_evictions
        self._flavors = flavors
        self._oracle = oracle
        self._avoided = avoided

    def assign(self, workload: Workload, counts: Sequence[int] = (), tried: LastTriedFlavors = ()) -> Assignment:
        """Assigns flavors to all pod sets of the workload. ``counts``: the number of pods of each pod set, if it
        differs from the requested one; ``tried``: where an earlier search stopped."""
        chosen: list[PodSetAssignment] = []
        usage: dict[FlavorResource, int] = {}
        borrow = 0
        for index, pod_set in enumerate(workload.pod_sets):
            count = counts[index] if counts else workload.count_of(pod_set)
            found = self._assign_set(pod_set, count, usage, tried[index] if index < len(tried) else {})
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
    ) -> PodSetAssignment:
        requests = {resource: amount * count for resource, amount in pod_set.requests.items()}
        if PODS in self._queue.group_of:
            requests[PODS] = count
        flavors: dict[str, FlavorAssignment] = {}
        reasons: list[str] = []
        groups: list[tuple[FlavorCandidate, ...]] = []
        for resource in sorted(requests):
            group = self._queue.group_of.get(resource)
            if resource in flavors or (group is None and not requests[resource]):
                continue
            if group is None:
                reasons, is_failed = [f"resource {resource} unavailable in ClusterQueue"], True
            else:
                found, reasons_found, attempts = self._find_flavor(
                    group, pod_set, requests, before, tried.get(resource, -1) + 1
                )
                groups.append(attempts)
                is_failed = not found
                flavors.update(found)
                reasons = reasons_found if is_failed else reasons + reasons_found
            if is_failed:
                return PodSetAssignment(pod_set.name, count, requests, {}, tuple(reasons), tuple(groups), True)
        return PodSetAssignment(pod_set.name, count, requests, flavors, tuple(reasons), tuple(groups))

    def _find_flavor(
        self,
        group: ResourceGroup,
        pod_set: PodSet,
        requests: Mapping[str, int],
        before: Mapping[FlavorResource, int],
        first: int,
    ) -> tuple[dict[str, FlavorAssignment], list[str], tuple[FlavorCandidate, ...]]:
        """Tries the flavors of the group from the index ``first`` until one is good enough. Returns the best flavor for
        each resource, the reasons against the others, and all tried flavors. ``before``: the usage of earlier pod
        sets."""
        resources = sorted(resource for resource in group.resources if resource in requests)
        fungibility = self._queue.fungibility
        best, best_grade = {}, WORST
        attempts: list[FlavorCandidate] = []
        last = -1
        for last in range(first, len(group.flavors)):
            name = group.flavors[last]
            attempt, choices, grade = self._try_flavor(name, pod_set, resources, requests, before)
            attempts.append(attempt)
            stops = not tries_next_flavor(grade, fungibility)
            if stops or is_better(grade, best_grade, fungibility):
                best, best_grade = choices, grade
            if stops:
                break
        stopped_at = -1 if last == len(group.flavors) - 1 else last
        found = {name: msgspec.structs.replace(each, tried=stopped_at) for name, each in best.items()}
        reasons_found = (
            [] if best_grade[0] == GranularMode.FIT else [reason for each in attempts for reason in each.reasons]
        )
        return found, reasons_found, tuple(attempts)

    def _try_flavor(
        self,
        name: str,
        pod_set: PodSet,
        resources: Sequence[str],
        requests: Mapping[str, int],
        before: Mapping[FlavorResource, int],
    ) -> tuple[FlavorCandidate, dict[str, FlavorAssignment], Grade]:
        """Whether the pod set can use the flavor: the result as a candidate, the assignment of each resource, and the
        grade."""
        flavor = self._flavors.get(name)
        mismatch = (
            f"flavor {name} not found"
            if flavor is None
            else find_flavor_mismatch(flavor, pod_set.tolerations, pod_set.node_affinity)
        )
        if mismatch:
            return FlavorCandidate(name, GranularMode.NO_FIT, 0, (mismatch,), names.NO_MATCHING_FLAVOR), {}, WORST
        if name in self._avoided:
            reason = self._avoided[name]
            return FlavorCandidate(name, GranularMode.NO_FIT, 0, (reason,), names.FIRST_IN_LINE_PROTECTED), {}, WORST
        grade, choices, borrow = BEST, {}, 0
        fits = {resource: self._check_quota((name, resource), before, requests[resource]) for resource in resources}
        for resource, fit in fits.items():
            borrow = max(borrow, fit.grade[1])
            if is_better(grade, fit.grade, self._queue.fungibility):
                grade = fit.grade
            choices[resource] = FlavorAssignment(name, MODE_OF_GRANULAR[fit.grade[0]], fit.grade[1])
        reasons = tuple(sorted(each.reason for each in fits.values() if each.reason))
        short = frozenset((name, resource) for resource, each in fits.items() if each.is_short)
        pending_reason = most_severe(each.pending_reason for each in fits.values())
        return FlavorCandidate(name, grade[0], borrow, reasons, pending_reason, short or _NO_RESOURCES), choices, grade

    def _check_quota(self, fr: FlavorResource, before: Mapping[FlavorResource, int], amount: int) -> _QuotaFit:
        """How well the amount fits the quota of the flavor and resource, besides the usage of earlier pod sets."""
        flavor, resource = fr
        assumed = before.get(fr, 0)
        value = assumed + amount
        maximum = self._now.potential_available(fr)
        if value > maximum:
            had, asked, limit = (amount_text(resource, each) for each in (assumed, amount, maximum))
            reason = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({had})"
                f" + current podset request ({asked}) > maximum capacity ({limit})"
            )
            return _QuotaFit((GranularMode.NO_FIT, 0), reason, names.EXCEEDS_MAX_QUOTA)
        now, after = self._now.available(fr), self._after_evictions.available(fr)
        if value <= now and value <= after:
            return _QuotaFit((GranularMode.FIT, self._now.lowest_fitting_height(fr, value)[0]))
        missing = amount_text(resource, value - min(now, after))
        reason = f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"
        borrow, is_part = self._after_evictions.lowest_fitting_height(fr, value)
        if value <= after:
            return _QuotaFit((GranularMode.DEFERRED, borrow), reason, "", True)
        if self._now.quota(fr).nominal >= value or is_part or self._queue.preemption.borrow_within_cohort:
            return _QuotaFit(self._oracle(fr, value), reason, "", True)
        return _QuotaFit((GranularMode.NO_FIT, borrow), reason, names.WAITING_FOR_QUOTA, True)
