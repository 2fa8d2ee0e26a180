"""What could be done for one workload as things stand: which flavors, and who would have to go.

In full if that can be had at all, else in part if the workload allows it (``reducing.py``). The book is left as it
was found; acting on it is ``cycle.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headgate.quota.assignment import Assignment, Mode
from headgate.quota.candidates import Preemptor
from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.cohort import FlavorResource
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.flavors import FlavorAssigner, Tried
from headgate.quota.fungibility import Grade
from headgate.quota.holdings import Holdings
from headgate.quota.preemption import Target, find_targets, grade_preemption
from headgate.quota.reducing import can_shrink, find_largest, least_counts
from headgate.quota.workload import Workload


class Nomination(msgspec.Struct, frozen=True):
    assignment: Assignment
    targets: tuple[Target, ...] = ()


def nominate(
    book: Holdings,
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    workload: Workload,
    order_s: float,
    tried: Tried = (),
) -> Nomination:
    """``order_s``: since when the workload waits. A claim of its own must have been lifted before."""
    now, ahead = book.now.queue(queue.name), book.ahead.queue(queue.name)
    if now is None or ahead is None:
        return Nomination(Assignment())
    preemptor = Preemptor(workload.key, queue, workload.priority, order_s, {}, frozenset())

    def ask(fr: FlavorResource, amount: int) -> Grade:
        return grade_preemption(book, preemptor, fr, amount)

    assigner = FlavorAssigner(queue, now, ahead, flavors, ask)

    def attempt(counts: Sequence[int]) -> Nomination:
        assignment = assigner.assign(workload, counts, tried)
        if assignment.mode != Mode.PREEMPT:
            return Nomination(assignment)
        needs = msgspec.structs.replace(preemptor, usage=assignment.usage, needs=assignment.needs_preemption)
        return Nomination(assignment, find_targets(book, needs))

    full = attempt(())
    if leads_somewhere(full) or not can_shrink(workload):
        return full

    def attempt_part(counts: Sequence[int]) -> Nomination | None:
        part = attempt(counts)
        return part if leads_somewhere(part) else None

    part = find_largest(workload, attempt_part)
    if part is not None:
        return part
    # All of it may be more than there ever is, so that nothing is short; but room for the least would do.
    short = attempt(least_counts(workload)).assignment.short
    return msgspec.structs.replace(full, assignment=msgspec.structs.replace(full.assignment, short_of_least=short))


def leads_somewhere(nomination: Nomination) -> bool:
    """Whether the workload fits, now or once somebody has gone."""
    mode = nomination.assignment.mode
    return mode in (Mode.FIT, Mode.DEFERRED) or (mode == Mode.PREEMPT and bool(nomination.targets))
