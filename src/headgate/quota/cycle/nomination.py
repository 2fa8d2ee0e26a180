"""Nomination of one workload: its flavor assignment, the victims it needs, and partial admission.

The workload is nominated in full if possible, otherwise with fewer pods if it allows partial admission. Pod sets shrink
together, each in proportion to its range, by binary search; like Kueue, it assumes that fewer pods always fit better.
The ledger is left unchanged; ``admission_cycle.py`` acts on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.cohort import FlavorResource
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.flavors.assignment import Assignment, AssignmentMode
from headgate.quota.flavors.flavor_assigner import FlavorAssigner, LastTriedFlavors
from headgate.quota.flavors.fungibility import Grade
from headgate.quota.preemption.candidates import Preemptor
from headgate.quota.preemption.targets import PreemptionTarget, find_targets, grade_preemption

Found = TypeVar("Found")


def can_reduce_counts(workload: Workload) -> bool:
    return any(_slack(workload))


def min_counts(workload: Workload) -> list[int]:
    return [min(workload.count_of(each), each.effective_min_count) for each in workload.pod_sets]


def find_largest_counts(workload: Workload, attempt: Callable[[Sequence[int]], Found | None]) -> Found | None:
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
    return [max(0, workload.count_of(each) - each.effective_min_count) for each in workload.pod_sets]


class Nomination(msgspec.Struct, frozen=True):
    assignment: Assignment
    targets: tuple[PreemptionTarget, ...] = ()


def nominate(
    ledger: QuotaLedger,
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    workload: Workload,
    order_s: float,
    tried: LastTriedFlavors = (),
) -> Nomination:
    """``order_s``: the queue order time of the workload. The caller has removed the workload's own claim."""
    now, ahead = ledger.now.queue(queue.name), ledger.ahead.queue(queue.name)
    if now is None or ahead is None:
        return Nomination(Assignment())
    preemptor = Preemptor(workload.key, queue, workload.priority, order_s, {}, frozenset())

    def oracle(fr: FlavorResource, amount: int) -> Grade:
        return grade_preemption(ledger, preemptor, fr, amount)

    assigner = FlavorAssigner(queue, now, ahead, flavors, oracle)

    def attempt(counts: Sequence[int]) -> Nomination:
        assignment = assigner.assign(workload, counts, tried)
        if assignment.mode != AssignmentMode.PREEMPT:
            return Nomination(assignment)
        needs = msgspec.structs.replace(preemptor, usage=assignment.usage, needs=assignment.needs_preemption)
        return Nomination(assignment, find_targets(ledger, needs))

    full = attempt(())
    if can_be_admitted(full) or not can_reduce_counts(workload):
        return full

    def attempt_part(counts: Sequence[int]) -> Nomination | None:
        part = attempt(counts)
        return part if can_be_admitted(part) else None

    part = find_largest_counts(workload, attempt_part)
    if part is not None:
        return part
    # The full counts may exceed the maximum quota, so that nothing is short; quota for the minimum is enough.
    short = attempt(min_counts(workload)).assignment.short_of
    return msgspec.structs.replace(full, assignment=msgspec.structs.replace(full.assignment, short_of_minimum=short))


def can_be_admitted(nomination: Nomination) -> bool:
    """Whether the workload fits now, or when evicted workloads have ended."""
    mode = nomination.assignment.mode
    return mode in (AssignmentMode.FIT, AssignmentMode.DEFERRED) or (
        mode == AssignmentMode.PREEMPT and bool(nomination.targets)
    )
