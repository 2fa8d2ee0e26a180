"""The engine of queues: the interface for the scheduler, ``explain`` and the status reporter.

API objects come in, grants come out, and the outcome of each grant comes in again. All state can be rebuilt from the
API: promises are on the pods (``capacity/api/stamp.py``); only promises that the API does not show yet are kept in
memory. ``capacity/grants/queue_cache.py`` holds the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import GangAttempt, gang_attempt_of
from headgate.capacity.cache.ledger import LedgerColumn
from headgate.capacity.cache.pod_record import NEEDS_NO_NODE, PROMISED, WAITING_FOR_GRANT, AllocationState
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.grants import grants, wait_reasons
from headgate.capacity.grants.event_handlers import QueueEventHandlers
from headgate.capacity.grants.grants import Grant
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.grants.remedies import (
    CapabilityGrowth,
    MissingCapacity,
    QueueRemedy,
    find_remedy,
    without_other_gates,
)
from headgate.capacity.names import ROOT
from headgate.capacity.ordering.granted_pods import GrantedPodQueue
from headgate.capacity.ordering.order_keys import created_s_of, share_of
from headgate.capacity.preemption import preemption_plan
from headgate.capacity.preemption.preemption_plan import PreemptionPlan
from headgate.capacity.preemption.victim_rules import PreemptionRules, VictimCandidate
from headgate.capacity.wait_reason import QueueWait, WaitReason
from headgate.kube.resource_amounts import PODS

__all__ = [
    "CapabilityGrowth",
    "GangAttempt",
    "Grant",
    "GrantedPodQueue",
    "MissingCapacity",
    "PreemptionPlan",
    "QueueEngine",
    "QueueLimits",
    "QueueRemedy",
    "QueueUsage",
    "QueueWait",
    "WaitReason",
]


_REVOKED_FOR_PREEMPTOR: Final = "what it was promised, and had no node for, went to a pod of higher priority"


class QueueUsage(msgspec.Struct, frozen=True):
    """The usage of a queue and all queues below it, in units. ``waiting``: the number of waiting pods; ``wanted``:
    their requests. ``terminating``: what terminating pods still use on their nodes; it is not in ``allocated``."""

    allocated: Amounts
    reserved: Amounts
    inqueue: Amounts
    waiting: int
    share: float
    wanted: Amounts = {}
    terminating: Amounts = {}


class QueueLimits(msgspec.Struct, frozen=True):
    """``capability``: the effective one, limited by ancestors and siblings; a resource that is not named is unlimited.
    ``stated``: the capability in the queue's spec."""

    capability: Amounts
    deserved: Amounts
    guarantee: Amounts
    stated: Amounts = {}
    weight: int = 1


class QueueEngine:
    def __init__(self, conf: SchedulerConf = DEFAULTS) -> None:
        self._cache = QueueCache(conf)
        self._handlers = QueueEventHandlers(self._cache)
        self.victim_rules = PreemptionRules(conf)

    # Events from the API.

    def queue_applied(self, wire: Mapping[str, Any]) -> None:
        self._handlers.apply_queue(wire)

    def queue_removed(self, name: str) -> None:
        self._handlers.remove_queue(name)

    def group_applied(self, wire: Mapping[str, Any]) -> None:
        self._handlers.apply_group(wire)

    def group_removed(self, namespace: str, name: str) -> None:
        self._handlers.remove_group(namespace, name)

    def namespace_applied(self, wire: Mapping[str, Any]) -> None:
        self._handlers.apply_namespace(wire)

    def namespace_removed(self, name: str) -> None:
        self._handlers.remove_namespace(name)

    def task_applied(self, task: TaskInfo) -> None:
        self._handlers.apply_task(task)

    def task_removed(self, uid: str) -> None:
        self._handlers.remove_task(uid)

    def problems(self) -> Mapping[str, str]:
        """The problems of invalid objects, by ``queue/NAME`` or ``podgroup/NAMESPACE/NAME``."""
        return self._handlers.problems

    # Decisions.

    def admit(self, now_s: float, max_pods: int) -> list[Grant]:
        """The admission step. Pods that did not opt in get tentative grants, which end if they find no node."""
        return grants.admit(self._cache, now_s, max_pods)

    def wait_reason(self, uid: str) -> QueueWait | None:
        """Why the pod may not be tried now; None if it may. For a pod that gave a tentative grant back (it did not opt
        in, and found no node) the call is a request to try it again: it is queued for the next admission, with the rest
        of its group. :meth:`peek_wait_reason` reads without that request."""
        record = self._cache.records.get(uid)
        if record is not None and record.state is AllocationState.RESTING:
            members = (record,) if record.gang is None else tuple(record.gang.members.values())
            for each in members:
                each.gave_grant_back = False
                self._cache.recount(each)
        return self.peek_wait_reason(uid)

    def gave_grant_back(self, uid: str) -> bool:
        """Whether it gave a tentative grant back and has not requested another since."""
        record = self._cache.records.get(uid)
        return record is not None and record.state is AllocationState.RESTING

    def peek_wait_reason(self, uid: str) -> QueueWait | None:
        """As :meth:`wait_reason`, without a change of state."""
        self._cache.flush()
        record = self._cache.records.get(uid)
        return None if record is None else wait_reasons.find_wait_reason(self._cache, record)

    def pods_to_retry(self) -> list[str]:
        """Pods that became triable, or stopped being so, since the last call."""
        self._cache.flush()
        found, self._cache.pods_to_retry = list(self._cache.pods_to_retry), {}
        return found

    def next_deadline_s(self) -> float | None:
        """When the next pod that was put off may be admitted."""
        return self._cache.put_off.next_deadline_s()

    # Outcomes of grants and writes.

    def stamped(self, uid: str, stamp: Stamp) -> None:
        """This stamp was written on the pod; the API may show it later."""
        record = self._cache.records.get(uid)
        if record is None or record.promised_at == stamp.at:
            return
        self._cache.remove_from_counts(record)
        record.promise(stamp.queue, stamp.requests, stamp.at)
        self._cache.add_to_counts(record)

    def take_back(self, uid: str, why: str) -> bool:
        """End the promise to a pod that has no node, so that its share is available to others; the pod waits again.
        Returns whether there was a promise. ``why`` is part of the pod's wait reason."""
        record = self._cache.records.get(uid)
        if record is None or record.state not in PROMISED:
            return False
        self._cache.take_back(record, why)
        return True

    def withdrawn(self) -> list[str]:
        """Pods whose promise was withdrawn since the last call."""
        found, self._cache.withdrawn = list(self._cache.withdrawn), {}
        return found

    @property
    def has_withdrawn(self) -> bool:
        """Whether :meth:`withdrawn` would return any pods."""
        return bool(self._cache.withdrawn)

    def is_withdrawn(self, uid: str, stamp: Stamp) -> bool:
        """Whether this stamp, which the API shows, belongs to a withdrawn promise."""
        record = self._cache.records.get(uid)
        return record is not None and stamp.at in record.withdrawn

    def pods_to_reassign(self) -> list[str]:
        """Pods without a node that must be evaluated again, because their requests, their group, its object or its
        members changed since the last call."""
        cache = self._cache
        cache.flush()
        found, cache.regrouped = cache.regrouped, {}
        changed_groups, cache.changed_groups = cache.changed_groups, {}
        for key in changed_groups:
            gang = cache.gangs.get(key)
            found.update(dict.fromkeys(() if gang is None else gang.members))
        return [uid for uid in found if cache.records[uid].state not in NEEDS_NO_NODE]

    def pods_with_new_queue(self) -> list[str]:
        """Pods whose queue changed since the last call."""
        self._cache.flush()
        found, self._cache.pods_with_new_queue = list(self._cache.pods_with_new_queue), {}
        return found

    def placed(self, uid: str) -> None:
        record = self._cache.records.get(uid)
        if record is not None:
            record.is_placed = True
            self._cache.recount(record)
            record.has_no_node = False

    def unplaced(self, uid: str) -> None:
        """The pod has no node after all. Only a tentative promise ends."""
        record = self._cache.records.get(uid)
        if record is None or record.is_bound:
            return
        record.is_placed = False
        if record.is_tentative and record.promised_at:
            record.promised_at, record.gave_grant_back = "", True
        self._cache.recount(record)

    def refused(self, uid: str, until_s: float, why: str) -> None:
        """The removal of its gate was rejected: the promise ends, and the pod waits again. If the API has shown that
        the gate was removed after all, the promise stays."""
        record = self._cache.records.get(uid)
        if record is None or record.is_bound or record.is_stamped:
            return
        self._cache.remove_from_counts(record)
        record.promised_at, record.is_placed, record.put_off = "", False, (until_s, why)
        self._cache.add_to_counts(record)

    def set_unplaceable(self, uid: str, unplaceable: bool) -> None:
        """Whether it was tried, fits no node, and has no nominated node: then its promise can be revoked for a pod of
        higher priority."""
        record = self._cache.records.get(uid)
        if record is None or record.has_no_node is unplaceable:
            return
        if record.state not in PROMISED:
            record.has_no_node = unplaceable
            return
        self._cache.remove_from_counts(record)
        record.has_no_node = unplaceable
        self._cache.add_to_counts(record)

    def set_retracting(self, uid: str, retracting: bool) -> None:
        """Whether its promise is being revoked: then it may not be tried, and its share counts as used until
        :meth:`retracted`."""
        record = self._cache.records.get(uid)
        if record is not None and record.is_retracting is not retracting:
            record.is_retracting = retracting
            self._cache.mark_for_retry(uid)

    def retraction_refused(self, uid: str) -> None:
        """The API server refused to remove the stamp, so the promise stays."""
        record = self._cache.records.get(uid)
        if record is not None:
            self._cache.remove_from_counts(record)
            record.is_retracting, record.keeps_promise = False, True
            self._cache.add_to_counts(record)
            self._cache.mark_for_retry(uid)

    def retracted(self, uid: str) -> None:
        """Its promise was revoked for a pod of higher priority: it waits for its queue again, unless it got a node in
        the meantime."""
        record = self._cache.records.get(uid)
        if record is None or not record.is_retracting:
            return
        record.is_retracting = False
        if record.state in PROMISED:
            self._cache.take_back(record, _REVOKED_FOR_PREEMPTOR)
            record.has_no_node = False
        self._cache.mark_for_retry(uid)

    def evicted(self, uid: str) -> None:
        """Its deletion was requested: its share is available at once to the preemptor."""
        self._set_evicted(uid, is_evicted=True)

    def unevicted(self, uid: str) -> None:
        self._set_evicted(uid, is_evicted=False)

    def _set_evicted(self, uid: str, is_evicted: bool) -> None:
        record = self._cache.records.get(uid)
        if record is not None:
            record.is_evicted = is_evicted
            self._cache.recount(record)

    # Preemption.

    def starving(self) -> list[str]:
        """The heads of queues without capacity for them, where something changed since the last call."""
        return preemption_plan.starving_pods(self._cache)

    def plan_preemption(
        self, uid: str, *, may_evict: bool = True, freed: Collection[str] = ()
    ) -> PreemptionPlan | None:
        """The victims, and the promises to revoke, that give the queue capacity for this pod, or for its gang; None if
        there are none. The caller reports evictions by :meth:`evicted`, and revocations by :meth:`set_retracting` and
        :meth:`retracted`; the next admission then grants what they held. ``freed``: promises that were revoked for the
        pod and not released yet."""
        known = [each for each in freed if each in self._cache.records]
        return preemption_plan.plan_preemption(self._cache, self.victim_rules, uid, may_evict=may_evict, freed=known)

    def new_granted_pod_queue(self) -> GrantedPodQueue:
        """A new queue for pods that hold a grant."""
        return self._cache.new_granted_pod_queue()

    # Queries.

    def queue_of(self, uid: str) -> str:
        self._cache.flush()
        record = self._cache.records.get(uid)
        return "" if record is None else record.counted_queue

    def queue_names(self) -> list[str]:
        """All existing queues, and the root."""
        return sorted(name for name in self._cache.tree.nodes if self._cache.tree.get(name) is not None)

    def usage(self, queue: str) -> QueueUsage:
        self._cache.flush()
        account, queue_node = self._cache.ledger.account(queue), self._cache.tree.nodes.get(queue)
        allocated, reserved, inqueue = (dict(account.total[column]) for column in list(LedgerColumn)[:3])
        share = share_of({} if queue_node is None else queue_node.deserved, account.used)
        wanted = dict(account.total[LedgerColumn.WAITING])
        terminating = dict(account.total[LedgerColumn.TERMINATING])
        return QueueUsage(allocated, reserved, inqueue, wanted.pop(PODS, 0), share, wanted, terminating)

    def refusal(self, queue: str) -> QueueWait | None:
        """Why the queue admits no pods at all, whatever its capacity; None if it does."""
        return wait_reasons.find_queue_refusal(self._cache, queue)

    def limits(self, queue: str) -> QueueLimits:
        queue_node = self._cache.tree.nodes.get(queue)
        if queue_node is None:
            return QueueLimits({}, {}, {})
        spec = queue_node.spec
        return QueueLimits(queue_node.limits, queue_node.deserved, spec.guarantee, spec.capability, spec.weight)

    def parent(self, queue: str) -> str:
        """The parent queue; empty for the root and for a queue without a valid place."""
        path = self._cache.tree.path(queue)
        return path[1] if len(path) > 1 and path[-1] == ROOT else ""

    def is_inqueue(self, namespace: str, name: str) -> bool:
        """Whether the group is enqueued."""
        self._cache.flush()
        gang = self._cache.gangs.get((namespace, name))
        return gang is not None and self._cache.is_enqueued(gang)

    def victim_candidates(self, uid: str, candidates: Sequence[VictimCandidate]) -> list[str]:
        """Of the pods on one node, those that this pod may preempt: of its own queue, or of queues over their share."""
        self._cache.flush()
        record = self._cache.records.get(uid)
        return [] if record is None else self.victim_rules.find_victims(self._cache, record, candidates)

    def minimum(self, uid: str) -> tuple[str, ...]:
        """The pods that form the minimum of its gang, in order; only itself for a pod without a gang."""
        record = self._cache.records.get(uid)
        return (uid,) if record is None or record.gang is None else record.gang.minimum_members()

    def members(self, namespace: str, group: str) -> tuple[str, ...]:
        """All pods that name the group."""
        gang = self._cache.gangs.get((namespace, group))
        return () if gang is None else tuple(gang.members)

    def gang_attempt(self, uid: str) -> GangAttempt:
        """The pods to try together with this pod, itself included, and how many of them must get nodes."""
        record = self._cache.records.get(uid)
        return GangAttempt((uid,)) if record is None else gang_attempt_of(record)

    def position(self, uid: str) -> int | None:
        """The number of units before it in its queue; None if it does not wait for a grant. Pods of a group that are
        granted together are one unit; units of its own group count, too."""
        self._cache.flush()
        record = self._cache.records.get(uid)
        if record is None or record.state not in WAITING_FOR_GRANT:
            return None
        key = self._cache.admission_key(record)
        others = sum(other < key for other, _ in self._cache.grant_index.waiting_units(record.counted_queue))
        return others + (0 if record.gang is None else record.gang.units_before(uid))

    def remedy(self, uid: str) -> QueueRemedy | None:
        """What would give the pod capacity in its queue, found by dry runs on copies; None if nothing is missing there.
        Costs as much as all pods together: for single calls."""
        self._cache.flush()
        return find_remedy(self._cache, self._handlers, uid) if uid in self._cache.records else None

    def remedy_behind_gates(self, uid: str) -> QueueRemedy | None:
        """As :meth:`remedy`, as if the pod had no gates of other components."""
        self._cache.flush()
        if uid not in self._cache.records:
            return None
        dry_run = without_other_gates(self._cache, self._handlers, uid)
        return find_remedy(dry_run.cache, dry_run.handlers, uid)

    def oldest_waiting_s(self, queue: str) -> float | None:
        """The creation time of the oldest job that waits for a grant in this queue (not below it)."""
        self._cache.flush()
        return min((created_s_of(key) for key, _ in self._cache.grant_index.waiting_units(queue)), default=None)

    def changed_queues(self) -> list[str]:
        """Queues whose usage changed since the last call."""
        self._cache.flush()
        found, self._cache.changed = list(self._cache.changed), {}
        return found

    def enqueued_groups(self) -> list[tuple[str, str]]:
        """Groups, by namespace and name, that were enqueued since the last call, or whose reason to wait changed."""
        self._cache.flush()
        found, self._cache.enqueued_groups = list(self._cache.enqueued_groups), {}
        return found
