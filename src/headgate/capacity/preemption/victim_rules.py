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
"""The lowest priority of system-cluster-critical and system-node-critical pods."""


class VictimCandidate(msgspec.Struct, frozen=True):
    """A pod on a node that may be a victim."""

    uid: str
    namespace: str
    priority: int
    is_preemptable: bool = True


class PreemptionRules:
    """The victim rules of one configuration."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._preempts = conf.runs(PREEMPT)
        self._reclaims = conf.runs(RECLAIM)
        self._protecting_plugins = {
            point: frozenset(next(iter(conf.plugins_by_tier(point)), ())) for point in ("preemptable", "reclaimable")
        }
        self._ancestor_levels = conf.ancestor_reclaim_level

    @property
    def depends_on_queues(self) -> bool:
        """Whether a result may change while the node and its pods stay the same."""
        return self._reclaims or GANG in self._protecting_plugins["preemptable"]

    def may_preempt(self, cache: QueueCache, record: PodRecord) -> bool:
        """Whether its queue has pods of lower priority on nodes. This is cheap: a cluster has few priorities."""
        return self._preempts and any(
            priority < record.task.priority for priority in cache.priorities_on_nodes.get(record.counted_queue, ())
        )

    def find_victims(
        self,
        cache: QueueCache,
        record: PodRecord,
        candidates: Sequence[VictimCandidate],
        requests: Amounts | None = None,
    ) -> list[str]:
        """The candidates, all on one node, that this pod may preempt. ``requests``: the requests of its unit, if that
        is more than the pod."""
        requests = record.task.requests if requests is None else requests
        found: list[str] = []
        chosen_by_gang: dict[tuple[str, str], int] = {}
        if self._preempts:
            for each in candidates:
                other = cache.records.get(each.uid)
                if (
                    other is None
                    or other.counted_queue != record.counted_queue
                    or each.priority >= record.task.priority
                ):
                    continue
                if _is_same_gang(record, other) or not self._is_eligible(each, other, "preemptable", chosen_by_gang):
                    continue
                found.append(each.uid)
        if self.may_reclaim(cache, record, requests):
            found += self._find_reclaimable(cache, record, candidates, requests, chosen_by_gang)
        return found

    def may_reclaim(self, cache: QueueCache, record: PodRecord, requests: Amounts) -> bool:
        """Whether its queue stays within its limits, and the queue, or an ancestor within the reclaim level, stays
        within its deserved amount of at least one requested resource."""
        if not self._reclaims or not _is_within_limit(cache, record, requests):
            return False
        path = cache.tree.path(record.counted_queue)[: self._ancestor_levels + 1]
        return any(_deserves(cache, name, requests) for name in path if name != ROOT)

    def _find_reclaimable(
        self,
        cache: QueueCache,
        record: PodRecord,
        candidates: Sequence[VictimCandidate],
        requests: Amounts,
        chosen_by_gang: dict[tuple[str, str], int],
    ) -> list[str]:
        found: list[str] = []
        released_by_queue: dict[str, dict[str, int]] = {}
        others = [(each, other) for each in candidates if (other := cache.records.get(each.uid)) is not None]
        others.sort(key=lambda pair: (_distance(cache, record, pair[1]), pair[0].priority, pair[0].uid))
        for each, other in others:
            if other.counted_queue == record.counted_queue or not self._is_reclaimable(
                cache, record, other, requests, released_by_queue
            ):
                continue
            if self._is_eligible(each, other, "reclaimable", chosen_by_gang):
                found.append(each.uid)
                for queue in cache.tree.path(other.counted_queue):
                    released = released_by_queue.setdefault(queue, {})
                    for name, amount in other.counted.items():
                        released[name] = released.get(name, 0) + amount
        return found

    def _is_reclaimable(
        self,
        cache: QueueCache,
        record: PodRecord,
        other: PodRecord,
        requests: Amounts,
        released_by_queue: Mapping[str, Mapping[str, int]],
    ) -> bool:
        """Whether ``other`` may be reclaimed: its queue exceeds its deserved amounts, and so does each ancestor within
        the reclaim level that is not an ancestor of the preemptor's queue."""
        queue_node = cache.tree.nodes.get(other.counted_queue)
        if (
            queue_node is None
            or not queue_node.spec.is_reclaimable
            or not _keeps_guarantee(cache, queue_node, other, released_by_queue)
        ):
            return False
        own_path, other_path = cache.tree.path(record.counted_queue), cache.tree.path(other.counted_queue)
        levels = range(1, self._ancestor_levels + 1)
        has_claim = any(name in queue_node.deserved for name in other.counted)
        shared = {*own_path[1 : self._ancestor_levels + 1]} & {*other_path[1 : self._ancestor_levels + 1]} - {ROOT}
        if shared and not has_claim and not any(name in _deserved(cache, record.counted_queue) for name in requests):
            return False  # siblings without a deserved amount of these resources: neither can reclaim from the other
        separate = [
            other_path[level]
            for level in levels
            if level < len(other_path) and other_path[level] not in (ROOT, *own_path[level:][:1])
        ]
        return all(
            _exceeds(cache, queue, other, requests, released_by_queue.get(queue, {}))
            for queue in (other.counted_queue, *separate)
        )

    def _is_eligible(
        self, each: VictimCandidate, other: PodRecord, point: str, chosen_by_gang: dict[tuple[str, str], int]
    ) -> bool:
        if not each.is_preemptable:
            return False
        plugins = self._protecting_plugins[point]
        if CONFORMANCE in plugins and (each.namespace == _SYSTEM or each.priority >= _CRITICAL):
            return False
        return GANG not in plugins or other.gang is None or _exceeds_minimum(other.gang, chosen_by_gang)


def _is_same_gang(record: PodRecord, other: PodRecord) -> bool:
    return record.gang is not None and record.gang is other.gang


def _exceeds_minimum(gang: Gang, chosen_by_gang: dict[tuple[str, str], int]) -> bool:
    """Whether a gang keeps its minimum without one more member, after the victims chosen so far. A gang with a minimum
    of 1 is not protected."""
    if gang.minimum <= 1:
        return True
    chosen = chosen_by_gang.get(gang.key, 0)
    if gang.ready - chosen <= gang.minimum:
        return False
    chosen_by_gang[gang.key] = chosen + 1
    return True


def _deserves(cache: QueueCache, queue: str, requests: Amounts) -> bool:
    queue_node = cache.tree.nodes.get(queue)
    if queue_node is None:
        return False
    account, deserved = cache.ledger.account(queue), queue_node.deserved
    return any(account.placed(name) + amount <= deserved[name] for name, amount in requests.items() if name in deserved)


def _deserved(cache: QueueCache, queue: str) -> Amounts:
    queue_node = cache.tree.nodes.get(queue)
    return {} if queue_node is None else queue_node.deserved


def _is_within_limit(cache: QueueCache, record: PodRecord, requests: Amounts) -> bool:
    """Whether the queue stays within its limits. A promise to the pod itself is already part of the usage."""
    queue_node = cache.tree.nodes.get(record.counted_queue)
    if queue_node is None or queue_node.problem:
        return False
    own = record.counted if record.state is AllocationState.RESERVED else NOTHING
    account, limits = cache.ledger.account(record.counted_queue), queue_node.limits
    return all(
        account.used(name) - own.get(name, 0) + amount <= limits[name]
        for name, amount in requests.items()
        if name in limits
    )


def _distance(cache: QueueCache, record: PodRecord, other: PodRecord) -> int:
    """The number of levels up to the nearest common ancestor: pods of near queues are reclaimed first."""
    own_path, other_path = cache.tree.path(record.counted_queue), cache.tree.path(other.counted_queue)
    return next((steps for steps, name in enumerate(own_path) if name in other_path), len(own_path))


def _keeps_guarantee(
    cache: QueueCache, queue_node: QueueNode, other: PodRecord, released_by_queue: Mapping[str, Mapping[str, int]]
) -> bool:
    account, released, held = (
        cache.ledger.account(queue_node.name),
        released_by_queue.get(queue_node.name, {}),
        other.counted,
    )
    return all(
        account.placed(name) - released.get(name, 0) - held[name] >= amount
        for name, amount in queue_node.spec.guarantee.items()
        if name in held
    )


def _exceeds(cache: QueueCache, queue: str, other: PodRecord, requests: Amounts, released: Mapping[str, int]) -> bool:
    """Whether the queue uses more than it deserves of a requested resource that the pod holds. If it deserves none of
    the pod's resources, any usage is too much. If devices are requested, only they count, not CPU and memory."""
    account, held, deserved = cache.ledger.account(queue), other.counted, _deserved(cache, queue)
    relevant = [name for name in requests if is_scalar(name)] or list(requests)
    shared = [name for name in relevant if name in held]
    if not any(name in deserved for name in held):
        return bool(shared)
    remaining = {name: account.placed(name) - released.get(name, 0) for name in shared}
    return any(remaining[name] > deserved[name] for name in shared if name in deserved)
