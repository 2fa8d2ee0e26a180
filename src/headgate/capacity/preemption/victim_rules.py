"""Which pods are eligible as victims: Volcano's actions *preempt* (inside a queue) and *reclaim* (between queues).

Inside its queue a pod may preempt pods of lower priority. Between queues priority does not count: a queue below its
deserved amounts reclaims what other queues use beyond theirs, never what is guaranteed to them. Each victim reduces the
usage against which the next candidate is checked. With an ancestor reclaim level (``ancestorReclaimLevel``), the
ancestors that the two queues do not share are checked, too. The plugins ``gang`` and ``conformance`` can protect pods;
only those in the first tier that has an enabled plugin count. Pods (``volcano.sh/preemptable: "false"``) and queues
(``reclaimable: false``) can be protected by their owners. ``scheduling/`` selects victims for a node,
``preemption_plan.py`` for a queue.

In all functions ``record`` is the preemptor and ``other`` the possible victim. The used amounts here are those of pods
on nodes, unless a comment says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.task import NOTHING
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import AllocationState, PodRecord
from headgate.capacity.cache.queue_tree import TreeQueue
from headgate.capacity.conf import CONFORMANCE, GANG, PREEMPT, RECLAIM, SchedulerConf
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import ROOT
from headgate.kube.resource_amounts import is_scalar

_SYSTEM_NAMESPACE: Final = "kube-system"
_CRITICAL_PRIORITY: Final = 2_000_000_000
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
        """Whether the eligible victims of a node depend on the usage of queues or gangs, not only on the pods of the
        node."""
        return self._reclaims or GANG in self._protecting_plugins["preemptable"]

    def may_preempt(self, cache: QueueCache, record: PodRecord) -> bool:
        """Whether the queue of the pod has pods of lower priority on nodes. This is cheap: a cluster has few
        priorities."""
        return self._preempts and any(
            priority < record.task.priority for priority in cache.priorities_on_nodes.get(record.queue, ())
        )

    def find_victims(
        self,
        cache: QueueCache,
        record: PodRecord,
        candidates: Sequence[VictimCandidate],
        requests: Amounts | None = None,
    ) -> list[str]:
        """The candidates that this pod may preempt. ``requests``: the sum of the requests of the pods that are granted
        together with it, if it is not alone."""
        requests = record.task.requests if requests is None else requests
        found: list[str] = []
        chosen_by_gang: dict[tuple[str, str], int] = {}
        if self._preempts:
            for each in candidates:
                other = cache.records.get(each.uid)
                if other is None or other.queue != record.queue or each.priority >= record.task.priority:
                    continue
                if _is_same_gang(record, other) or not self._is_eligible(each, other, "preemptable", chosen_by_gang):
                    continue
                found.append(each.uid)
        if self.may_reclaim(cache, record, requests):
            found += self._find_reclaimable(cache, record, candidates, requests, chosen_by_gang)
        return found

    def may_reclaim(self, cache: QueueCache, record: PodRecord, requests: Amounts) -> bool:
        """Whether, with these requests, the pod's queue stays within its limits, and the queue, or an ancestor within
        the reclaim level, stays within its deserved amount of at least one requested resource."""
        if not self._reclaims or not _is_within_limit(cache, record, requests):
            return False
        path = cache.tree.path(record.queue)[: self._ancestor_levels + 1]
        return any(_is_within_deserved(cache, name, requests) for name in path if name != ROOT)

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
            if other.queue == record.queue or not self._is_reclaimable(
                cache, record, other, requests, released_by_queue
            ):
                continue
            if self._is_eligible(each, other, "reclaimable", chosen_by_gang):
                found.append(each.uid)
                for queue in cache.tree.path(other.queue):
                    released = released_by_queue.setdefault(queue, {})
                    for name, amount in other.counted_amounts.items():
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
        tree_queue = cache.tree.queues.get(other.queue)
        if (
            tree_queue is None
            or not tree_queue.spec.is_reclaimable
            or not _keeps_guarantee(cache, tree_queue, other, released_by_queue)
        ):
            return False
        own_path, other_path = cache.tree.path(record.queue), cache.tree.path(other.queue)
        levels = range(1, self._ancestor_levels + 1)
        has_deserved = any(name in tree_queue.deserved for name in other.counted_amounts)
        shared = {*own_path[1 : self._ancestor_levels + 1]} & {*other_path[1 : self._ancestor_levels + 1]} - {ROOT}
        if shared and not has_deserved and not any(name in _deserved(cache, record.queue) for name in requests):
            return False  # siblings without a deserved amount of these resources: neither can reclaim from the other
        separate = [
            other_path[level]
            for level in levels
            if level < len(other_path) and other_path[level] not in (ROOT, *own_path[level:][:1])
        ]
        return all(
            _exceeds_deserved(cache, queue, other, requests, released_by_queue.get(queue, {}))
            for queue in (other.queue, *separate)
        )

    def _is_eligible(
        self, each: VictimCandidate, other: PodRecord, point: str, chosen_by_gang: dict[tuple[str, str], int]
    ) -> bool:
        """Whether neither the pod itself nor a plugin of this extension point protects it."""
        if not each.is_preemptable:
            return False
        plugins = self._protecting_plugins[point]
        if CONFORMANCE in plugins and (each.namespace == _SYSTEM_NAMESPACE or each.priority >= _CRITICAL_PRIORITY):
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


def _is_within_deserved(cache: QueueCache, queue: str, requests: Amounts) -> bool:
    tree_queue = cache.tree.queues.get(queue)
    if tree_queue is None:
        return False
    account, deserved = cache.ledger.account(queue), tree_queue.deserved
    return any(
        account.allocated_amount(name) + amount <= deserved[name]
        for name, amount in requests.items()
        if name in deserved
    )


def _deserved(cache: QueueCache, queue: str) -> Amounts:
    tree_queue = cache.tree.queues.get(queue)
    return {} if tree_queue is None else tree_queue.deserved


def _is_within_limit(cache: QueueCache, record: PodRecord, requests: Amounts) -> bool:
    """Whether the queue stays within its limits with these requests. Promised amounts count as used here; a promise to
    the pod itself is already part of them."""
    tree_queue = cache.tree.queues.get(record.queue)
    if tree_queue is None or tree_queue.problem:
        return False
    already_counted = record.counted_amounts if record.state is AllocationState.RESERVED else NOTHING
    account, limits = cache.ledger.account(record.queue), tree_queue.limits
    return all(
        account.allocated_plus_reserved(name) - already_counted.get(name, 0) + amount <= limits[name]
        for name, amount in requests.items()
        if name in limits
    )


def _distance(cache: QueueCache, record: PodRecord, other: PodRecord) -> int:
    """The number of levels up to the nearest common ancestor: pods of near queues are reclaimed first."""
    own_path, other_path = cache.tree.path(record.queue), cache.tree.path(other.queue)
    return next((steps for steps, name in enumerate(own_path) if name in other_path), len(own_path))


def _keeps_guarantee(
    cache: QueueCache, tree_queue: TreeQueue, other: PodRecord, released_by_queue: Mapping[str, Mapping[str, int]]
) -> bool:
    """Whether the queue still uses at least its guarantee without this pod and the victims chosen so far."""
    account, released, held = (
        cache.ledger.account(tree_queue.name),
        released_by_queue.get(tree_queue.name, {}),
        other.counted_amounts,
    )
    return all(
        account.allocated_amount(name) - released.get(name, 0) - held[name] >= amount
        for name, amount in tree_queue.spec.guarantee.items()
        if name in held
    )


def _exceeds_deserved(
    cache: QueueCache, queue: str, other: PodRecord, requests: Amounts, released: Mapping[str, int]
) -> bool:
    """Whether the queue uses more than its deserved amount of a requested resource that ``other`` holds; ``released``
    is what earlier victims free. If the queue has no deserved amount of any resource that ``other`` holds, any usage is
    too much. If devices are requested, only devices count, not CPU and memory."""
    account, held, deserved = cache.ledger.account(queue), other.counted_amounts, _deserved(cache, queue)
    relevant = [name for name in requests if is_scalar(name)] or list(requests)
    shared = [name for name in relevant if name in held]
    if not any(name in deserved for name in held):
        return bool(shared)
    remaining = {name: account.allocated_amount(name) - released.get(name, 0) for name in shared}
    return any(remaining[name] > deserved[name] for name in shared if name in deserved)
