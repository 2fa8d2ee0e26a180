"""How pods that ended become numbers in the status: each exactly once, whatever dies in between.

A pod that ended is first written down by its uid among the *uncounted*; only then its finalizer may go; and only
when the finalizer is gone the uid becomes a one in ``succeeded`` or ``failed``. So at every moment a pod is either
still tracked, or written down, or counted. Of an Indexed job the successes are told by their indexes instead, which
cannot be counted twice by themselves. Writing and letting go are steps of ``controller.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, Final

import msgspec

from headgate.owners.jobs import policies
from headgate.owners.jobs.indexes import NONE, Indexes
from headgate.owners.jobs.members import Member
from headgate.owners.jobs.spec import JobSpec

Object = dict[str, Any]

MOST_AT_ONCE: Final = 500
"""So that the uids in a status stay below some 20 KB."""


class Tally(msgspec.Struct, frozen=True):
    succeeded: int = 0
    failed: int = 0
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()

    @property
    def uncounted(self) -> int:
        return len(self.uncounted_succeeded) + len(self.uncounted_failed)

    def settled(self, tracked: Set[str]) -> Tally:
        """Uids whose finalizer is gone are numbers now."""
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid in tracked)
        failed = tuple(uid for uid in self.uncounted_failed if uid in tracked)
        return Tally(
            self.succeeded + len(self.uncounted_succeeded) - len(succeeded),
            self.failed + len(self.uncounted_failed) - len(failed),
            succeeded,
            failed,
        )


def read_tally(status: Mapping[str, Any]) -> Tally:
    uncounted = status.get("uncountedTerminatedPods") or {}
    return Tally(
        status.get("succeeded") or 0,
        status.get("failed") or 0,
        tuple(uncounted.get("succeeded") or ()),
        tuple(uncounted.get("failed") or ()),
    )


class Letting(msgspec.Struct, frozen=True):
    """When a pod may be let go of although it has not ended."""

    all_of_them: bool = False
    """The job is over, or going itself."""
    as_failed: bool = False
    """What has not ended by then has failed."""
    held: frozenset[str] = frozenset()
    """Uids of failed pods that stay until they are replaced, because they know how often their index failed."""


class Count(msgspec.Struct, frozen=True):
    tally: Tally
    succeeded_indexes: Indexes
    released: tuple[Member, ...]
    """Whose finalizer may go when the tally is written."""
    is_cut: bool
    """There may be more than fit at once."""


def count(spec: JobSpec, tally: Tally, counted: Indexes, members: Collection[Member], letting: Letting) -> Count:
    """``counted`` are the indexes that the status tells of already; ``tally`` is settled."""
    succeeded, failed = list(tally.uncounted_succeeded), list(tally.uncounted_failed)
    known_succeeded, known_failed = frozenset(succeeded), frozenset(failed)
    indexes: list[int] = []
    released: list[Member] = []
    for member in _in_order(spec, (each for each in members if each.is_tracked and _may_go(spec, each, letting))):
        released.append(member)
        if member.phase == "Succeeded" and member.uid not in known_failed:
            if not spec.is_indexed:
                if member.uid not in known_succeeded:
                    succeeded.append(member.uid)
            elif member.is_valid(spec) and member.index not in counted:
                indexes.append(member.index)
        elif member.has_failed(spec) or letting.as_failed:
            is_new = member.uid not in known_failed and member.is_valid(spec)
            if is_new and policies.match(spec.failure_rules, member).counts:
                failed.append(member.uid)
        if len(indexes) + len(succeeded) + len(failed) >= MOST_AT_ONCE:
            break
    new_tally = Tally(tally.succeeded, tally.failed, tuple(succeeded), tuple(failed))
    is_cut = len(indexes) + len(succeeded) + len(failed) >= MOST_AT_ONCE
    return Count(new_tally, Indexes.of(indexes) if indexes else NONE, tuple(released), is_cut)


def _in_order(spec: JobSpec, members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda each: (each.index if spec.is_indexed else 0, each.name))


def _may_go(spec: JobSpec, member: Member, letting: Letting) -> bool:
    if letting.all_of_them or member.phase == "Succeeded":
        return True
    return not member.is_active and member.has_failed(spec) and member.uid not in letting.held
