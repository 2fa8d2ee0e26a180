"""Which pods are eligible as victims: *preempt* inside a queue, *reclaim* between queues.

Inside its queue a pod may preempt pods of lower priority. Between queues priority does not count: a queue below its
deserved amount reclaims what others use beyond theirs, never what is guaranteed to them, and each is checked again with
every victim; with an ancestor reclaim level, so are the branches in which the two queues differ. Plugins of the first
tier with a result (gang, conformance) can protect pods; so can pods (``volcano.sh/preemptable: "false"``) and queues
(``reclaimable: false``). ``scheduling/`` selects victims for a node, ``preemption_plan.py`` for a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.task import NOTHING
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import AllocationState, PodRecord
from headgate.capacity.cache.queue_tree import QueueNode
from headgate.capacity.conf import CONFORMANCE, GANG, PREEMPT, RECLAIM, SchedulerConf
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import ROOT
from headgate.kube.resource_amounts import is_scalar

_SYSTEM: Final = "kube-system"
_CRITICAL: Final = 2_000_000_000
"""From here on priorities are those of system-cluster-critical and system-node-critical."""


class VictimCandidate(msgspec.Struct, frozen=True):
    """A pod on a node that may be a victim."""

    uid: str
    namespace: str
    priority: int
    is_preemptable: bool = True


class PreemptionRules:
    """The victim rules of one configuration."""

    def __init__(self, settings: SchedulerConf) -> None:
        self._preempts = settings.runs(PREEMPT)
        self._reclaims = settings.runs(RECLAIM)
        self._protects = {
            point: frozenset(next(iter(settings.plugins_by_tier(point)), ()))
            for point in ("preemptable", "reclaimable")
        }
        self._levels = settings.ancestor_reclaim_level

    @property
    def depends_on_queues(self) -> bool:
        """Whether an answer may change though nothing on the node does."""
        return self._reclaims or GANG in self._protects["preemptable"]

    def may_preempt(self, book: QueueCache, record: PodRecord) -> bool:
        """Whether there is anybody less important in its queue. A cluster has few priorities."""
        return self._preempts and any(
            rank < record.task.priority for rank in book.priorities_on_nodes.get(record.counted_queue, ())
        )

    def find_victims(
        self, book: QueueCache, record: PodRecord, there: Sequence[VictimCandidate], asked: Amounts | None = None
    ) -> list[str]:
        """Of those on one node, whom this pod may make go. ``asked``: for its gang, if it does not ask alone."""
        asked = record.task.requests if asked is None else asked
        found: list[str] = []
        spared: dict[tuple[str, str], int] = {}
        if self._preempts:
            for each in there:
                other = book.records.get(each.uid)
                if (
                    other is None
                    or other.counted_queue != record.counted_queue
                    or each.priority >= record.task.priority
                ):
                    continue
                if _is_member_of_same(record, other) or not self._may_go(each, other, "preemptable", spared):
                    continue
                found.append(each.uid)
        if self.may_reclaim(book, record, asked):
            found += self._find_over(book, record, there, asked, spared)
        return found

    def may_reclaim(self, book: QueueCache, record: PodRecord, asked: Amounts) -> bool:
        """Whether its queue stays within its limit, and it, or one near above it, within what it deserves on something
        that is asked for."""
        if not self._reclaims or not _is_within_limit(book, record, asked):
            return False
        path = book.tree.path(record.counted_queue)[: self._levels + 1]
        return any(_deserves(book, name, asked) for name in path if name != ROOT)

    def _find_over(
        self,
        book: QueueCache,
        record: PodRecord,
        there: Sequence[VictimCandidate],
        asked: Amounts,
        spared: dict[tuple[str, str], int],
    ) -> list[str]:
        found: list[str] = []
        taken: dict[str, dict[str, int]] = {}
        others = [(each, other) for each in there if (other := book.records.get(each.uid)) is not None]
        others.sort(key=lambda pair: (_distance(book, record, pair[1]), pair[0].priority, pair[0].uid))
        for each, other in others:
            if other.counted_queue == record.counted_queue or not self._is_over(book, record, other, asked, taken):
                continue
            if self._may_go(each, other, "reclaimable", spared):
                found.append(each.uid)
                for queue in book.tree.path(other.counted_queue):
                    gone = taken.setdefault(queue, {})
                    for name, amount in other.counted.items():
                        gone[name] = gone.get(name, 0) + amount
        return found

    def _is_over(
        self,
        book: QueueCache,
        record: PodRecord,
        other: PodRecord,
        asked: Amounts,
        taken: Mapping[str, Mapping[str, int]],
    ) -> bool:
        """The pod's queue, and every branch near above it in which the asking one does not stand."""
        branch = book.tree.nodes.get(other.counted_queue)
        if branch is None or not branch.spec.is_reclaimable or not _keeps_guarantee(book, branch, other, taken):
            return False
        mine, its = book.tree.path(record.counted_queue), book.tree.path(other.counted_queue)
        levels = range(1, self._levels + 1)
        has_claim = any(name in branch.deserved for name in other.counted)
        shares = {*mine[1 : self._levels + 1]} & {*its[1 : self._levels + 1]} - {ROOT}
        if shares and not has_claim and not any(name in _deserved(book, record.counted_queue) for name in asked):
            return False  # siblings of whom neither deserves any of it: there is no claim that could be settled
        apart = [its[level] for level in levels if level < len(its) and its[level] not in (ROOT, *mine[level:][:1])]
        return all(_exceeds(book, queue, other, asked, taken.get(queue, {})) for queue in (other.counted_queue, *apart))

    def _may_go(self, each: VictimCandidate, other: PodRecord, point: str, spared: dict[tuple[str, str], int]) -> bool:
        if not each.is_preemptable:
            return False
        voters = self._protects[point]
        if CONFORMANCE in voters and (each.namespace == _SYSTEM or each.priority >= _CRITICAL):
            return False
        return GANG not in voters or other.gang is None or _can_do_without(other.gang, spared)


def _is_member_of_same(record: PodRecord, other: PodRecord) -> bool:
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


def _deserves(book: QueueCache, queue: str, asked: Amounts) -> bool:
    branch = book.tree.nodes.get(queue)
    if branch is None:
        return False
    account, deserved = book.ledger.account(queue), branch.deserved
    return any(account.placed(name) + amount <= deserved[name] for name, amount in asked.items() if name in deserved)


def _deserved(book: QueueCache, queue: str) -> Amounts:
    branch = book.tree.nodes.get(queue)
    return {} if branch is None else branch.deserved


def _is_within_limit(book: QueueCache, record: PodRecord, asked: Amounts) -> bool:
    """What was promised to the pod itself is in what its queue uses already."""
    branch = book.tree.nodes.get(record.counted_queue)
    if branch is None or branch.problem:
        return False
    own = record.counted if record.state is AllocationState.RESERVED else NOTHING
    account, limits = book.ledger.account(record.counted_queue), branch.limits
    return all(
        account.used(name) - own.get(name, 0) + amount <= limits[name]
        for name, amount in asked.items()
        if name in limits
    )


def _distance(book: QueueCache, record: PodRecord, other: PodRecord) -> int:
    """Queues that part late are near: their pods go first."""
    mine, its = book.tree.path(record.counted_queue), book.tree.path(other.counted_queue)
    return next((steps for steps, name in enumerate(mine) if name in its), len(mine))


def _keeps_guarantee(
    book: QueueCache, branch: QueueNode, other: PodRecord, taken: Mapping[str, Mapping[str, int]]
) -> bool:
    account, gone, held = book.ledger.account(branch.name), taken.get(branch.name, {}), other.counted
    return all(
        account.placed(name) - gone.get(name, 0) - held[name] >= amount
        for name, amount in branch.spec.guarantee.items()
        if name in held
    )


def _exceeds(book: QueueCache, queue: str, other: PodRecord, asked: Amounts, gone: Mapping[str, int]) -> bool:
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
