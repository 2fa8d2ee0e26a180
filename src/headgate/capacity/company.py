"""Whom a pod is tried with: as long as a gang's minimum is not on nodes, all of it that was granted, together.

Which of them get nodes does not matter, as long as they are enough, of every role: one that fits nowhere does not keep
the others if they can do without it. Beyond the minimum, pods go alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from headgate.capacity.record import Record, Standing


class Company(msgspec.Struct, frozen=True):
    """``uids`` in order. ``least``: how many of them have to get nodes, and ``least_of`` which roles."""

    uids: tuple[str, ...]
    least: int = 1
    least_of: Mapping[str, int] = {}
    roles: Mapping[str, str] = {}

    @property
    def must_be_several(self) -> bool:
        """Whether any single one of them would not be enough."""
        return self.least > 1 or bool(self.least_of)

    def is_enough(self, uids: Collection[str]) -> bool:
        if len(uids) < self.least:
            return False
        if not self.least_of:
            return True
        have = Counter(self.roles[uid] for uid in uids)
        return all(have[role] >= least for role, least in self.least_of.items())


def company_of(record: Record) -> Company:
    gang, uid = record.gang, record.task.uid
    if gang is None or gang.is_placed:
        return Company((uid,))
    granted = [each.task for each in gang.members.values() if each.standing is Standing.RESERVED]
    granted.sort(key=gang.task_key)
    uids = tuple(task.uid for task in granted)
    if uid not in uids:
        return Company((uid,))
    least, least_of = gang.lacks_on_nodes()
    return Company(uids, least, least_of, {task.uid: task.role for task in granted})
