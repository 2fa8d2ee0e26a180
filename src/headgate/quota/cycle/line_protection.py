"""Protection of the first in line of a ClusterQueue: which workloads may get quota before it.

The *line* of a queue is its pending workloads in order (``quota/queues/line.py``). In a queue with the annotation
``DEQUEUE_STRATEGY`` (``quota/names.py``), the first workload in line is protected until it gets quota. A workload that
comes after it may get quota only if that does not delay it: the workload has ended before the first can start at the
earliest, or it leaves enough quota for the first in each flavor that the first could get
(``start_forecast.py``).

These workloads come after the first in line: those after it in its own queue, and those of other queues in the same
cohort tree that have a lower priority or, with the same priority, a later time. This order is total, so protected
workloads never wait for each other in a circle: the first of all of them waits only for workloads that run. A workload
of another queue is not held back from the quota of its own queue: it must borrow from a cohort that it shares with the
first. Nor is a preemptor whose victims are evicted held back: what they release is for it, and the first waits for it.
It may not take other quota instead.
``admission_cycle.py`` asks for each workload that could get quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headgate.kube.resource_amounts import PODS, amount_text
from headgate.kube.timestamps import format_time
from headgate.quota.api.admission_checks import are_satisfied, required_checks
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.pod_set import PodSet
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_flavor import ResourceFlavor, find_flavor_mismatch
from headgate.quota.api.resource_groups import FlavorResource, ResourceGroup, Usage
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_ledger import QuotaLedger, fits
from headgate.quota.cache.quota_tree import QuotaNode, QuotaTree
from headgate.quota.cycle.nomination import (
    Nomination,
    can_be_admitted,
    can_reduce_counts,
    find_largest_counts,
    min_counts,
    nominate,
)
from headgate.quota.cycle.start_forecast import (
    Demand,
    LimitedWorkloads,
    LineForecast,
    ProtectedWorkload,
    ends_s,
    gone_s,
)
from headgate.quota.flavors.assignment import Assignment, AssignmentMode, GranularMode
from headgate.quota.flavors.flavor_assigner import FlavorAssigner
from headgate.quota.queues.queue_manager import PendingWorkload, QueueManager
from headgate.waiting.queueing_hints import Topic


class WorkloadDelay(msgspec.Struct, frozen=True):
    """Why a workload may not get quota before the first in line. ``not_before_s``: the earliest start of the first;
    None if it may start at any time. ``spare``: how much of the resource it leaves. ``usage``: the quota that the
    workload would use."""

    first: PendingWorkload
    not_before_s: float | None
    resource: FlavorResource
    spare: int
    usage: Usage

    def topics(self, tree: str) -> list[Topic]:
        """The events after which there may be no delay any more. ``tree``: that of the workload."""
        return [("line", self.first.queue), *(("freed", tree, *fr) for fr in sorted(self.usage))]

    @property
    def message(self) -> str:
        flavor, resource = self.resource
        start = "may start at any time"
        if self.not_before_s is not None:
            start = f"cannot start before {format_time(self.not_before_s)}"
        return (
            f"The workload could get quota; it would delay workload {self.first.key}, the first in line of "
            f"ClusterQueue {self.first.queue}, which is protected, {start}, and leaves "
            f"{amount_text(resource, self.spare)} {resource} in flavor {flavor}"
        )

    @property
    def flavor_message(self) -> str:
        """The reason against the flavor, if the workload may get another one."""
        return (
            f"quota in flavor {self.resource[0]} would delay workload {self.first.key}, the first in line of "
            f"ClusterQueue {self.first.queue}"
        )


class LineProtection:
    """``queues`` and ``flavors``: all of them, by name."""

    def __init__(
        self,
        ledger: QuotaLedger,
        queue_manager: QueueManager,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
    ) -> None:
        self._ledger = ledger
        self._queue_manager = queue_manager
        self._queues = queues
        self._flavors = flavors
        self._by_tree: dict[str, list[str]] = {}  # the queues that protect their first in line
        self._protected: dict[str, ProtectedWorkload] = {}  # by queue: as it was found last
        self._forecasts: dict[str, LineForecast] = {}  # by queue: for its protected workload
        self._earliest_s: dict[str, float] = {}  # by queue: the earliest start that the last forecast found
        self._later: set[str] = set()  # queues whose first may start later than in the forecast before
        self._idle_trees: dict[str, QuotaTree] = {}  # by tree: its quotas, without usage
        self._limited: dict[str, LimitedWorkloads] = {}  # by tree
        ledger.on_limit = self._limit_changed

    def reset(self) -> None:
        """Quotas, flavors or the annotation of a queue changed."""
        self._queue_manager.reset_lines()
        for known in (
            self._by_tree,
            self._protected,
            self._forecasts,
            self._earliest_s,
            self._idle_trees,
            self._limited,
        ):
            known.clear()

    def wake_after_later_starts(self, now_s: float) -> None:
        """Wakes workloads that wait for the first in line of a queue, if that may start later than when they were
        tried: a workload that came before it has got quota until then."""
        for queue in [each for each in self._earliest_s if each not in self._forecasts]:
            first = self._first_in_line(queue)
            if first is None:
                self._earliest_s.pop(queue, None)
            else:
                self._forecast(first, now_s)
        if self._later:
            self._queue_manager.wake([("line", queue) for queue in sorted(self._later)])
            self._later.clear()

    def avoid_delay(
        self, pending: PendingWorkload, nomination: Nomination, claimed: Usage, now_s: float
    ) -> tuple[Nomination, list[WorkloadDelay]]:
        """A nomination that delays no protected workload, and the delays by those that were tried before it: the given
        one, then others without the flavors in which it would delay one. If each of them delays one, the last
        nomination cannot be admitted. ``claimed``: the quota that is freed for this workload."""
        delays: list[WorkloadDelay] = []
        while (delay := self._find_delay(pending, nomination, claimed, now_s)) is not None:
            delays.append(delay)
            avoided = {each.resource[0]: each.flavor_message for each in delays}
            queue = self._queues[pending.queue]
            nomination = nominate(self._ledger, queue, self._flavors, pending.workload, pending.order_s, (), avoided)
        return nomination, delays

    def _find_delay(
        self, pending: PendingWorkload, nomination: Nomination, claimed: Usage, now_s: float
    ) -> WorkloadDelay | None:
        """Why the workload may not get the quota for which it is nominated; None if it may."""
        assignment = nomination.assignment
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        if not can_be_admitted(nomination) or all(amount <= claimed.get(fr, 0) for fr, amount in usage.items()):
            return None
        firsts = self._firsts_before(pending, usage)
        if not firsts:
            return None
        end_s = self._gone_s(pending, assignment, now_s)
        simulated: list[tuple[str, Usage, int]] = []

        def simulate(queue: str, simulated_usage: Usage, sign: int) -> None:
            simulated.append((queue, simulated_usage, sign))
            self._ledger.simulate_in_both(queue, simulated_usage, sign)

        for target in nomination.targets:
            simulate(target.holder.queue, target.holder.usage, -1)
        tree = self._ledger.now if assignment.mode == AssignmentMode.FIT else self._ledger.after_evictions
        contested = [_contested(tree, pending.queue, usage, first) for first in firsts]
        simulate(pending.queue, usage, +1)
        found = None
        for first, resources in zip(firsts, contested, strict=True):
            if resources:
                forecast = self._forecast(first, now_s)
                if end_s is None or end_s > max(forecast.not_before_s, now_s):
                    # Which of its victims would have ended by then does not matter: they are evicted.
                    gone = {} if nomination.targets else forecast.gone
                    shortage = self._find_shortage(pending, first, gone, resources)
                    if shortage is not None:
                        fr, missing = shortage
                        start_s = forecast.not_before_s if forecast.not_before_s > now_s else None
                        found = WorkloadDelay(first.pending, start_s, fr, max(usage[fr] - missing, 0), usage)
            if found is not None:
                break
            # The next one has to fit beside this one.
            simulate(first.queue, {fr: first.needs[fr] for fr in usage if fr in first.needs}, +1)
        for queue, simulated_usage, sign in reversed(simulated):
            self._ledger.simulate_in_both(queue, simulated_usage, -sign)
        return found

    def limit_end_s(
        self, pending: PendingWorkload, assignment: Assignment, now_s: float, *, waits_for_pods: bool
    ) -> float | None:
        """When the run-time limit of the workload ends if it gets quota now. None if it has no limit, or if the limit
        does not begin now: the workload waits for admission checks, or for terminating pods (``waits_for_pods``)."""
        workload, queue = pending.workload, self._queues[pending.queue]
        if workload.max_execution_s is None or waits_for_pods:
            return None
        if not are_satisfied(workload, required_checks(queue, assignment.admission(queue.name))):
            return None
        return now_s + max(workload.max_execution_s - workload.past_execution_s, 0)

    def _gone_s(self, pending: PendingWorkload, assignment: Assignment, now_s: float) -> float | None:
        """When the pods of the workload have ended at the latest, if it gets quota now; None if that is unknown."""
        if pending.workload.max_execution_s is None or assignment.mode != AssignmentMode.FIT:
            return None
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        terminating = self._ledger.occupancy.terminating_ahead(pending.queue, usage, now_s)
        end_s = self.limit_end_s(pending, assignment, now_s, waits_for_pods=terminating is not None)
        return None if end_s is None else end_s + pending.workload.grace_s

    def _find_shortage(
        self,
        pending: PendingWorkload,
        first: ProtectedWorkload,
        gone: Mapping[str, Usage],
        resources: Sequence[FlavorResource],
    ) -> tuple[FlavorResource, int] | None:
        """The first of the resources of which the protected workload finds too little, and how much is missing, with
        the simulated usage and without the usage that is gone."""
        for queue, usage in gone.items():
            self._ledger.simulate_in_both(queue, usage, -1)
        trees = self._ledger.now, self._ledger.after_evictions
        shortages = ((fr, max(_missing(tree, pending.queue, first, fr) for tree in trees)) for fr in resources)
        found = next(((fr, missing) for fr, missing in shortages if missing > 0), None)
        for queue, usage in gone.items():
            self._ledger.simulate_in_both(queue, usage, +1)
        return found

    def _firsts_before(self, pending: PendingWorkload, usage: Usage) -> list[ProtectedWorkload]:
        """The protected workloads of the tree that come before this one and could use the same resources, in order. One
        that waits for its victims has a claim, which protects it."""
        tree = self._ledger.tree_of(pending.queue)
        if not self._by_tree:
            for queue in self._queue_manager.protecting_queues():
                self._by_tree.setdefault(self._ledger.tree_of(queue), []).append(queue)
        found = (
            first
            for queue in self._by_tree.get(tree, ())
            if (first := self._first_in_line(queue)) is not None
            and first.pending.order < pending.order
            and not first.needs.keys().isdisjoint(usage)
            and self._ledger.claim_of(first.pending.key) is None
        )
        return sorted(found, key=lambda each: each.pending.order)

    def _first_in_line(self, queue: str) -> ProtectedWorkload | None:
        spec = self._queues.get(queue)
        while spec is not None and (pending := self._queue_manager.first_in_line(queue)) is not None:
            known = self._protected.get(queue)
            if known is not None and (known.pending.order, known.pending.shape) == (pending.order, pending.shape):
                return known
            protected = self._protect(pending, spec)
            if protected is not None:
                self._protected[queue] = protected
                self._forecasts.pop(queue, None)
                self._earliest_s.pop(queue, None)
                return protected
            self._queue_manager.leave_out_of_line(pending)
        return None

    def _protect(self, pending: PendingWorkload, queue: ClusterQueue) -> ProtectedWorkload | None:
        """The workload with its needs; None if the queue can never admit it."""
        tree = self._idle_tree(queue.name)
        node = tree.queue(queue.name)
        if node is None or not self._fits_alone(pending.workload, queue, node):
            return None
        demands: list[Demand] = []
        needs: dict[FlavorResource, int] = {}
        for pod_set, least in zip(pending.workload.pod_sets, min_counts(pending.workload), strict=True):
            for group, amounts in _requests_by_group(pod_set, queue).items():
                options = [
                    option
                    for name in self._matching_flavors(group, pod_set)
                    if fits(node, option := {(name, resource): amount * least for resource, amount in amounts.items()})
                ]
                demands.append(tuple(options))
                count = pending.workload.count_of(pod_set)
                for flavor, resource in (fr for option in options for fr in option):
                    needs[flavor, resource] = needs.get((flavor, resource), 0) + amounts[resource] * count
        return ProtectedWorkload(pending, queue, tuple(demands), {fr: amount for fr, amount in needs.items() if amount})

    def _fits_alone(self, workload: Workload, queue: ClusterQueue, node: QuotaNode) -> bool:
        """Whether the workload gets quota if it is the only one, maybe with fewer pods."""
        assigner = FlavorAssigner(queue, node, node, self._flavors, lambda fr, amount: (GranularMode.NO_CANDIDATES, 0))

        def attempt(counts: Sequence[int]) -> bool | None:
            return assigner.assign(workload, counts).mode == AssignmentMode.FIT or None

        return bool(attempt(()) or (can_reduce_counts(workload) and find_largest_counts(workload, attempt)))

    def _matching_flavors(self, group: ResourceGroup, pod_set: PodSet) -> Iterator[str]:
        for name in group.flavors:
            flavor = self._flavors.get(name)
            if flavor is not None and not find_flavor_mismatch(flavor, pod_set.tolerations, pod_set.node_affinity):
                yield name

    def _idle_tree(self, queue: str) -> QuotaTree:
        name, node = self._ledger.tree_of(queue), self._ledger.now.queue(queue)
        if name not in self._idle_trees:
            self._idle_trees[name] = QuotaTree() if node is None else self._ledger.now.without_usage(node.root)
        return self._idle_trees[name]

    def _forecast(self, first: ProtectedWorkload, now_s: float) -> LineForecast:
        known = self._forecasts.get(first.queue)
        if known is None or now_s >= known.until_s:
            tree = self._ledger.tree_of(first.queue)
            limited = self._limited.get(tree)
            if limited is None:
                node = self._ledger.now.queue(first.queue)
                quotas = QuotaTree() if node is None else self._ledger.now.without_usage(node.root)
                limited = self._limited[tree] = LimitedWorkloads(quotas, self._ledger.with_limit(tree))
            known = self._forecasts[first.queue] = limited.forecast(first, now_s)
            if known.not_before_s > max(self._earliest_s.get(first.queue, known.not_before_s), now_s):
                self._later.add(first.queue)
            self._earliest_s[first.queue] = known.not_before_s
        return known

    def _limit_changed(self, holder: QuotaHolder, sign: int) -> None:
        """A workload with a run-time limit got quota (+1) or lost it (-1). The earliest start of a protected workload
        stays if the new one ends before it."""
        tree = self._ledger.tree_of(holder.queue)
        limited = self._limited.get(tree)
        if limited is None:
            return
        (limited.put if sign > 0 else limited.remove)(holder)
        for queue in [each for each in self._forecasts if self._ledger.tree_of(each) == tree]:
            forecast = self._forecasts[queue]
            if sign < 0 or ends_s(holder) > forecast.not_before_s:
                del self._forecasts[queue]
            elif gone_s(holder) <= forecast.not_before_s:
                forecast.add_gone(holder)


def _requests_by_group(pod_set: PodSet, queue: ClusterQueue) -> dict[ResourceGroup, dict[str, int]]:
    """What one pod requests, by resource group."""
    requests = dict(pod_set.requests)
    if PODS in queue.group_of:
        requests[PODS] = 1
    found: dict[ResourceGroup, dict[str, int]] = {}
    for resource, amount in requests.items():
        group = queue.group_of.get(resource)
        if group is not None:
            found.setdefault(group, {})[resource] = amount
    return found


def _missing(tree: QuotaTree, queue: str, first: ProtectedWorkload, fr: FlavorResource) -> int:
    """How much the protected workload lacks in the nodes that it shares with a workload of this queue. What it lacks
    below them has other reasons."""
    node, current = tree.queue(queue), tree.queue(first.queue)
    shared = [] if node is None else [id(each) for each in node.path()]
    amount = first.needs[fr]
    while current is not None and id(current) not in shared:
        amount = max(0, amount - current.local_available(fr))
        current = current.parent
    return 0 if current is None or not amount else amount - current.available(fr)


def _contested(tree: QuotaTree, queue: str, usage: Usage, first: ProtectedWorkload) -> list[FlavorResource]:
    """The resources of which a workload of this queue would take quota that the protected workload could use, and to
    which its own queue, or a cohort that does not include the protected workload, is not entitled."""
    node, first_node = tree.queue(queue), tree.queue(first.queue)
    if node is None or first_node is None:
        return []
    shared = [id(each) for each in first_node.path()]
    return sorted(fr for fr, amount in usage.items() if fr in first.needs and _borrows(node, fr, amount, shared))


def _borrows(node: QuotaNode, fr: FlavorResource, amount: int, shared: Sequence[int]) -> bool:
    """Whether a part of the amount is borrowed from one of the shared nodes, or used in one of them itself."""
    current: QuotaNode | None = node
    is_borrowed = True
    while current is not None and id(current) not in shared:
        is_borrowed = current.borrows_with(fr, amount)
        amount = max(0, amount - current.local_available(fr))
        if not amount:
            return False
        current = current.parent
    return is_borrowed
