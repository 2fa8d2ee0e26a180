"""Who may have to go for whom: *preempt* inside a queue, *reclaim* between queues.

Inside its queue a pod may take the place of pods of lower priority. Across queues priority does not count: a queue that
uses less than it deserves takes back what others use beyond what they deserve, never what is guaranteed to them, and
each of them is looked at anew with every pod that would go; with an ancestor reclaim level, so are the branches in
which the two stand apart. Plugins of the first tier that has any say (gang, conformance) can protect pods; pods can
protect themselves (``volcano.sh/preemptable: "false"``), and queues theirs (``reclaimable: false``). Which of them
really have to go is ``scheduling/``'s to find for a node, ``room.py``'s for a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang
from headgate.capacity.names import ROOT
from headgate.capacity.queue import Amounts
from headgate.capacity.record import Record, Standing
from headgate.capacity.settings import CONFORMANCE, GANG, PREEMPT, RECLAIM, Settings
from headgate.capacity.task import NOTHING
from headgate.capacity.tree import Branch
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

    def may_preempt(self, book: Book, record: Record) -> bool:
        """Whether there is anybody less important in its queue. A cluster has few priorities."""
        return self._preempts and any(rank < record.task.priority for rank in book.ranks.get(record.place, ()))

    def find(self, book: Book, record: Record, there: Sequence[Resident], asked: Amounts | None = None) -> list[str]:
        """Of those on one node, whom this pod may make go. ``asked``: for its gang, if it does not ask alone."""
        asked = record.task.requests if asked is None else asked
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
        if self.may_reclaim(book, record, asked):
            found += self._find_over(book, record, there, asked, spared)
        return found

    def may_reclaim(self, book: Book, record: Record, asked: Amounts) -> bool:
        """Whether its queue stays within its limit, and it, or one near above it, within what it deserves on something
        that is asked for."""
        if not self._reclaims or not _is_within_limit(book, record, asked):
            return False
        path = book.tree.path(record.place)[: self._levels + 1]
        return any(_deserves(book, name, asked) for name in path if name != ROOT)

    def _find_over(
        self,
        book: Book,
        record: Record,
        there: Sequence[Resident],
        asked: Amounts,
        spared: dict[tuple[str, str], int],
    ) -> list[str]:
        found: list[str] = []
        taken: dict[str, dict[str, int]] = {}
        others = [(each, other) for each in there if (other := book.records.get(each.uid)) is not None]
        others.sort(key=lambda pair: (_distance(book, record, pair[1]), pair[0].priority, pair[0].uid))
        for each, other in others:
            if other.place == record.place or not self._is_over(book, record, other, asked, taken):
                continue
            if self._may_go(each, other, "reclaimable", spared):
                found.append(each.uid)
                for queue in book.tree.path(other.place):
                    gone = taken.setdefault(queue, {})
                    for name, amount in other.counted.items():
                        gone[name] = gone.get(name, 0) + amount
        return found

    def _is_over(
        self, book: Book, record: Record, other: Record, asked: Amounts, taken: Mapping[str, Mapping[str, int]]
    ) -> bool:
        """The pod's queue, and every branch near above it in which the asking one does not stand."""
        branch = book.tree.branches.get(other.place)
        if branch is None or not branch.spec.is_reclaimable or not _keeps_guarantee(book, branch, other, taken):
            return False
        mine, its = book.tree.path(record.place), book.tree.path(other.place)
        levels = range(1, self._levels + 1)
        has_claim = any(name in branch.deserved for name in other.counted)
        shares = {*mine[1 : self._levels + 1]} & {*its[1 : self._levels + 1]} - {ROOT}
        if shares and not has_claim and not any(name in _deserved(book, record.place) for name in asked):
            return False  # siblings of whom neither deserves any of it: there is no claim that could be settled
        apart = [its[level] for level in levels if level < len(its) and its[level] not in (ROOT, *mine[level:][:1])]
        return all(_exceeds(book, queue, other, asked, taken.get(queue, {})) for queue in (other.place, *apart))

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
    """Whether a gang has more on nodes than its minimum, those counted that would go already. One has no whole."""
    if gang.minimum <= 1:
        return True
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


def _deserved(book: Book, queue: str) -> Amounts:
    branch = book.tree.branches.get(queue)
    return {} if branch is None else branch.deserved


def _is_within_limit(book: Book, record: Record, asked: Amounts) -> bool:
    """What was promised to the pod itself is in what its queue uses already."""
    branch = book.tree.branches.get(record.place)
    if branch is None or branch.problem:
        return False
    own = record.counted if record.standing is Standing.RESERVED else NOTHING
    account, limits = book.ledger.account(record.place), branch.limits
    return all(
        account.used(name) - own.get(name, 0) + amount <= limits[name]
        for name, amount in asked.items()
        if name in limits
    )


def _distance(book: Book, record: Record, other: Record) -> int:
    """Queues that part late are near: their pods go first."""
    mine, its = book.tree.path(record.place), book.tree.path(other.place)
    return next((steps for steps, name in enumerate(mine) if name in its), len(mine))


def _keeps_guarantee(book: Book, branch: Branch, other: Record, taken: Mapping[str, Mapping[str, int]]) -> bool:
    account, gone, held = book.ledger.account(branch.name), taken.get(branch.name, {}), other.counted
    return all(
        account.placed(name) - gone.get(name, 0) - held[name] >= amount
        for name, amount in branch.spec.guarantee.items()
        if name in held
    )


def _exceeds(book: Book, queue: str, other: Record, asked: Amounts, gone: Mapping[str, int]) -> bool:
    """Whether the queue uses more than it deserves of something that is asked for and the pod has; if it deserves
    nothing of what the pod has, anything is too much. Where devices are asked for only they count: CPU and memory come
    along with them."""
    account, held, deserved = book.ledger.account(queue), other.counted, _deserved(book, queue)
    relevant = [name for name in asked if is_scalar(name)] or list(asked)
    shared = [name for name in relevant if name in held]
    if not any(name in deserved for name in held):
        return bool(shared)
    left = {name: account.placed(name) - gone.get(name, 0) for name in shared}
    return any(left[name] > deserved[name] for name in shared if name in deserved)
