"""Nomination of one workload: its flavor assignment, the victims it needs, and partial admission.

The workload is nominated with all pods if possible, otherwise with fewer pods if it allows partial admission. The
counts of all pod sets are reduced together, in proportion to the difference of count and minimum count. A binary search
finds the largest counts; like Kueue's, it assumes that fewer pods never fit worse. The ledger is left unchanged;
``admission_cycle.py`` acts on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.flavors.assignment import Assignment, AssignmentMode
from headgate.quota.flavors.flavor_assigner import FlavorAssigner, LastTriedFlavors
from headgate.quota.flavors.fungibility import Grade
from headgate.quota.preemption.candidates import Preemptor
from headgate.quota.preemption.targets import PreemptionTarget, find_targets, grade_preemption

Found = TypeVar("Found")
_NONE_AVOIDED: Final[Mapping[str, str]] = {}


def can_reduce_counts(workload: Workload) -> bool:
    return any(_reducible_counts(workload))


def min_counts(workload: Workload) -> list[int]:
    return [min(workload.count_of(each), each.effective_min_count) for each in workload.pod_sets]


def find_largest_counts(workload: Workload, attempt: Callable[[Sequence[int]], Found | None]) -> Found | None:
    """The result of ``attempt`` for the largest reduced counts for which it is not None."""
    reducible = _reducible_counts(workload)
    total = sum(reducible)
    full = [workload.count_of(each) for each in workload.pod_sets]
    low, high, best = 0, total + 1, None
    while low < high:
        middle = (low + high) // 2
        found = attempt([count - less * middle // total for count, less in zip(full, reducible, strict=True)])
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best


def _reducible_counts(workload: Workload) -> list[int]:
    return [max(0, workload.count_of(each) - each.effective_min_count) for each in workload.pod_sets]


class Nomination(msgspec.Struct, frozen=True):
    """A flavor assignment, and the workloads that would have to be evicted for it."""

    assignment: Assignment
    targets: tuple[PreemptionTarget, ...] = ()


def nominate(
    ledger: QuotaLedger,
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    workload: Workload,
    order_s: float,
    tried: LastTriedFlavors = (),
    avoided: Mapping[str, str] = _NONE_AVOIDED,
) -> Nomination:
    """Nominate a workload. ``order_s``: the time that orders the workload in its queue. ``tried``: where an earlier
    search for flavors stopped. ``avoided``: flavors that the workload may not get, and why. The caller has removed the
    workload's own claim from the ledger."""
    now, after = ledger.now.queue(queue.name), ledger.after_evictions.queue(queue.name)
    if now is None or after is None:
        return Nomination(Assignment())
    preemptor = Preemptor(workload.key, queue, workload.priority, order_s, {}, frozenset())

    def oracle(fr: FlavorResource, amount: int) -> Grade:
        return grade_preemption(ledger, preemptor, fr, amount)

    assigner = FlavorAssigner(queue, now, after, flavors, oracle, avoided)

    def attempt(counts: Sequence[int]) -> Nomination:
        assignment = assigner.assign(workload, counts, tried)
        if assignment.mode != AssignmentMode.PREEMPT:
            return Nomination(assignment)
        needs = msgspec.structs.replace(
            preemptor, usage=assignment.usage, needs=assignment.flavor_resources_needing_preemption
        )
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
    # If the full counts exceed the maximum quota, no shortage is reported for them. A new attempt is useful when there
    # is quota for the minimum counts, so their shortage is recorded.
    short = attempt(min_counts(workload)).assignment.short_of
    return msgspec.structs.replace(full, assignment=msgspec.structs.replace(full.assignment, short_of_minimum=short))


def can_be_admitted(nomination: Nomination) -> bool:
    """Whether the workload fits now, or when evicted workloads have ended."""
    mode = nomination.assignment.mode
    return mode in (AssignmentMode.FIT, AssignmentMode.DEFERRED) or (
        mode == AssignmentMode.PREEMPT and bool(nomination.targets)
    )
