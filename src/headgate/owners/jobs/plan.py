"""Which pods of a Job to make or to end, and how long to wait first. Ending comes before making, never both at once.

Of too many pods those go first that are least far: ``order.py`` ranks them. An index is worked on by one
pod at a time; who works on an index that another one has, or on one that there is not, goes in any case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.owners.jobs import backoff
from headgate.owners.jobs.indexes import NONE, Indexes
from headgate.owners.jobs.members import UNKNOWN, Member
from headgate.owners.jobs.order import rank
from headgate.owners.jobs.spec import JobSpec
from headgate.owners.jobs.sums import Sums

MOST_AT_ONCE: Final = 500


class Plan(msgspec.Struct, frozen=True):
    ends: tuple[Member, ...] = ()
    makes: tuple[int, ...] = ()
    """The index of each pod to make; :data:`UNKNOWN` for a job that has none."""
    wait_s: float | None = None
    """More may be made then: something failed a short while ago."""
    is_cut: bool = False
    """There is more to do than fits at once."""


def plan(spec: JobSpec, sums: Sums, members: Iterable[Member], record: backoff.Record, now_s: float) -> Plan:
    if spec.is_suspended:
        return Plan(ends=tuple(_least(spec, sums.active, len(sums.active))))
    wanted = _wanted_active(spec, sums)
    ends = tuple(_least(spec, sums.active, max(0, len(sums.active) - wanted)))
    if ends:
        return Plan(ends=ends[:MOST_AT_ONCE], is_cut=len(ends) > MOST_AT_ONCE)
    going = sums.terminating if spec.replaces_only_failed else 0
    missing = wanted - going - len(sums.active)
    if missing <= 0:
        return Plan()
    if spec.backoff_limit_per_index is None:
        wait_s = backoff.wait_s(record, now_s)
        if wait_s > 0:
            return Plan(wait_s=wait_s)
    at_once = min(missing, MOST_AT_ONCE)
    if not spec.is_indexed:
        return Plan(makes=(UNKNOWN,) * at_once, is_cut=missing > at_once)
    pending = _taken(spec, sums, members).absent(at_once, spec.indexes)
    waits_s = {index: backoff.index_wait_s(sums.held.get(index), now_s) for index in pending}
    makes = tuple(index for index in pending if waits_s[index] == 0)
    later = [wait_s for wait_s in waits_s.values() if wait_s > 0]
    return Plan(makes=makes, wait_s=min(later, default=None), is_cut=missing > at_once and bool(makes))


def _wanted_active(spec: JobSpec, sums: Sums) -> int:
    if spec.completions is None:
        return len(sums.active) if sums.succeeded > 0 else spec.parallelism
    return max(0, min(spec.completions - sums.succeeded, spec.parallelism))


def _taken(spec: JobSpec, sums: Sums, members: Iterable[Member]) -> Indexes:
    """Indexes that need no pod: they have ended, or have one."""
    taken = {each.index for each in sums.active}
    if spec.replaces_only_failed:
        taken.update(each.index for each in members if each.is_terminating)
    taken.discard(UNKNOWN)
    return sums.completed | Indexes.of(taken) | (sums.failed_indexes or NONE)


def _least(spec: JobSpec, active: Iterable[Member], at_least: int) -> list[Member]:
    """The active pods to end: those with the same or no index, then the least until there are enough."""
    ends: list[Member] = []
    kept = list(active)
    if spec.is_indexed:
        ends, kept = _without_doubles(spec, kept)
    missing = at_least - len(ends)
    return ends + sorted(kept, key=rank)[:missing] if missing > 0 else ends


def _without_doubles(spec: JobSpec, active: list[Member]) -> tuple[list[Member], list[Member]]:
    """Who has to go, and who stays: of each index the pod that is furthest."""
    ends = [each for each in active if not each.is_valid(spec)]
    kept: dict[int, Member] = {}
    for each in active:
        if each.is_valid(spec):
            other = kept.get(each.index)
            if other is not None:
                each, other = (each, other) if rank(other) < rank(each) else (other, each)
                ends.append(other)
            kept[each.index] = each
    return ends, list(kept.values())
