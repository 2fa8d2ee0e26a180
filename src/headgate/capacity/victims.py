"""Who may have to go for whom: *preempt* inside a queue, *reclaim* between queues.

Inside its queue a pod may take the place of pods of lower priority. Across queues priority does not count: a queue that
uses less than it deserves takes back what others use beyond what they deserve, never what is guaranteed to them, and
each of them is looked at anew with every pod that would go. Plugins of the first tier that has any say (gang,
conformance) can protect pods; pods can protect themselves (``volcano.sh/preemptable: "false"``), and queues theirs
(``reclaimable: false``). Which of them really have to go, and on which node, is ``scheduling/``'s to find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang
from headgate.capacity.names import ROOT
from headgate.capacity.queue import Amounts
from headgate.capacity.record import Record
from headgate.capacity.settings import CONFORMANCE, GANG, PREEMPT, RECLAIM, Settings
from headgate.kube.amounts import is_scalar

_SYSTEM: Final = "kube-system"
_CRITICAL: Final = 2_000_000_000
"""From here on priorities are those of system-cluster-critical and system-node-critical."""


class Resident(msgspec.Struct, frozen=True):
    """A pod on a node that might have to go."""

    uid: str
    namespace: str
    priority: int
    is_preemptable: bool = True


class Rules:
    """What the settings say about it, for all questions to come."""

    def __init__(self, settings: Settings) -> None:
        self._preempts = settings.runs(PREEMPT)
        self._reclaims = settings.runs(RECLAIM)
        self._protects = {
            point: frozenset(next(iter(settings.voters(point)), ())) for point in ("preemptable", "reclaimable")
        }
        self._levels = settings.ancestor_reclaim_level

    @property
    def looks_beyond_nodes(self) -> bool:
        """Whether an answer may change though nothing on the node does."""
        return self._reclaims or GANG in self._protects["preemptable"]

    def find(self, book: Book, record: Record, there: Sequence[Resident]) -> list[str]:
        """Of those on one node, whom this pod may make go."""
        found: list[str] = []
        spared: dict[tuple[str, str], int] = {}
        if self._preempts:
            for each in there:
                other = book.records.get(each.uid)
                if other is None or other.place != record.place or each.priority >= record.task.priority:
                    continue
                if _is_member_of_same(record, other) or not self._may_go(each, other, "preemptable", spared):
                    continue
                found.append(each.uid)
        if self._reclaims and self.may_reclaim(book, record):
            found += self._find_over(book, record, there, spared)
        return found

    def may_reclaim(self, book: Book, record: Record) -> bool:
        """Whether its queue, or one near above it, would still be within what it deserves on something asked for."""
        path = book.tree.path(record.place)[: self._levels + 1]
        return any(_deserves(book, name, record.task.requests) for name in path if name != ROOT)

    def _find_over(
        self, book: Book, record: Record, there: Sequence[Resident], spared: dict[tuple[str, str], int]
    ) -> list[str]:
        found: list[str] = []
        taken: dict[str, dict[str, int]] = {}
        for each in sorted(there, key=lambda resident: (resident.priority, resident.uid)):
            other = book.records.get(each.uid)
            if other is None or other.place == record.place:
                continue
            gone = taken.setdefault(other.place, {})
            if not _is_over(book, other, record.task.requests, gone):
                continue
            if self._may_go(each, other, "reclaimable", spared):
                found.append(each.uid)
                for name, amount in other.counted.items():
                    gone[name] = gone.get(name, 0) + amount
        return found

    def _may_go(self, each: Resident, other: Record, point: str, spared: dict[tuple[str, str], int]) -> bool:
        if not each.is_preemptable:
            return False
        voters = self._protects[point]
        if CONFORMANCE in voters and (each.namespace == _SYSTEM or each.priority >= _CRITICAL):
            return False
        return GANG not in voters or other.gang is None or _can_do_without(other.gang, spared)


def _is_member_of_same(record: Record, other: Record) -> bool:
    return record.gang is not None and record.gang is other.gang


def _can_do_without(gang: Gang, spared: dict[tuple[str, str], int]) -> bool:
    """Whether a gang has more on nodes than its minimum, those counted that would go already."""
    going = spared.get(gang.key, 0)
    if gang.ready - going <= gang.minimum:
        return False
    spared[gang.key] = going + 1
    return True


def _deserves(book: Book, queue: str, asked: Amounts) -> bool:
    branch = book.tree.branches.get(queue)
    if branch is None:
        return False
    account, deserved = book.ledger.account(queue), branch.deserved
    return any(account.placed(name) + amount <= deserved[name] for name, amount in asked.items() if name in deserved)


def _is_over(book: Book, other: Record, asked: Amounts, gone: Mapping[str, int]) -> bool:
    """Whether the pod's queue uses more than it deserves of something that is asked for and the pod has, and would keep
    what is guaranteed to it. Where devices are asked for only they count: CPU and memory come along with them."""
    branch = book.tree.branches.get(other.place)
    if branch is None or not branch.spec.is_reclaimable:
        return False
    account, held, deserved = book.ledger.account(other.place), other.counted, branch.deserved
    left = {name: account.placed(name) - gone.get(name, 0) for name in held}
    guarantee = branch.spec.guarantee
    if any(left[name] - amount < guarantee[name] for name, amount in held.items() if name in guarantee):
        return False
    relevant = [name for name in asked if is_scalar(name)] or list(asked)
    shared = [name for name in relevant if name in held]
    if not any(name in deserved for name in held):
        return bool(shared)
    return any(left[name] > deserved[name] for name in shared if name in deserved)
