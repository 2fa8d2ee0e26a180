"""The queue engine: the interface of this package for the scheduler, ``headgate explain`` and the status reporter.

It does no I/O. Callers pass API objects in, get grants back, and report the outcome of each grant. A restarted process
rebuilds the state from the API: stamps on the pods record the promises (``capacity/api/stamp.py``). Only a promise
whose stamp is not on its pod yet exists in memory alone. ``capacity/grants/queue_cache.py`` holds the state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.api.lease import Lapse
from headgate.capacity.api.queue import Amounts
from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import GangAttempt, gang_attempt_of
from headgate.capacity.cache.ledger import LedgerColumn
from headgate.capacity.cache.pod_record import NEEDS_NO_NODE, PROMISED, AllocationState
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.grants import grants, queue_contents, wait_reasons
from headgate.capacity.grants.delayed_starts import DelayedStarts
from headgate.capacity.grants.event_handlers import QueueEventHandlers
from headgate.capacity.grants.gate_removal import LiftedPod, find_after_lift
from headgate.capacity.grants.grants import Grant
from headgate.capacity.grants.leases import PromiseInfo, PromiseLeases
from headgate.capacity.grants.plugin_admission import AdmissionUnit, QueuePlugins
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.grants.queue_contents import QueueContents, find_contents, find_line, find_position
from headgate.capacity.grants.remedies import (
    CapabilityGrowth,
    MissingCapacity,
    QueueRemedy,
    find_remedy,
    find_remedy_behind_gates,
)
from headgate.capacity.names import ROOT
from headgate.capacity.ordering.granted_pods import GrantedPodQueue
from headgate.capacity.ordering.order_keys import share_of
from headgate.capacity.preemption import preemption_plan
from headgate.capacity.preemption.preemption_plan import PreemptionPlan
from headgate.capacity.preemption.victim_rules import PreemptionRules, VictimCandidate
from headgate.capacity.queue_wait import QueueWait, WaitReason
from headgate.kube.resource_amounts import PODS

__all__ = [
    "AdmissionUnit",
    "CapabilityGrowth",
    "GangAttempt",
    "Grant",
    "GrantedPodQueue",
    "MissingCapacity",
    "PreemptionPlan",
    "PromiseInfo",
    "QueueContents",
    "QueueEngine",
    "QueueLimits",
    "QueuePlugins",
    "QueueRemedy",
    "QueueUsage",
    "QueueWait",
    "WaitReason",
]


_REVOKED_FOR_PREEMPTOR: Final = "what it was promised, and had no node for, went to a pod of higher priority"


class QueueUsage(msgspec.Struct, frozen=True):
    """The usage of a queue and all queues below it. ``allocated``: the amounts of pods on nodes; ``reserved``: the
    promised amounts; ``inqueue``: the part of ``minResources`` that enqueued groups do not hold yet. ``waiting``: the
    number of waiting pods; ``waiting_amounts``: their requests. ``share``: the largest ratio of allocated and reserved
    amounts to deserved ones. ``terminating``: what terminating pods still use on their nodes; it is not in
    ``allocated``. ``pods_without_node``: the number of pods that have a promise and no node, without pods that did not
    opt in."""

    allocated: Amounts
    reserved: Amounts
    inqueue: Amounts
    waiting: int
    share: float
    waiting_amounts: Amounts = {}
    terminating: Amounts = {}
    pods_without_node: int = 0


class QueueLimits(msgspec.Struct, frozen=True):
    """``capability``: the effective capability, which ancestors and the guarantees of siblings may reduce; a resource
    that is not named is unlimited. ``stated``: the capability in the queue's spec."""

    capability: Amounts
    deserved: Amounts
    guarantee: Amounts
    stated: Amounts = {}
    weight: int = 1


class QueueEngine:
    """The queues of one scheduler. A pod is named by its uid. With the methods that are named after an event
    (``placed``, ``evicted``) the caller reports that event."""

    def __init__(self, conf: SchedulerConf = DEFAULTS, plugins: QueuePlugins | None = None) -> None:
        """``plugins``: queue plugins of other packages; None if there are none."""
        self._cache = QueueCache(conf, plugins)
        self._handlers = QueueEventHandlers(self._cache)
        self._delayed_starts = DelayedStarts(self._cache)
        self._leases = PromiseLeases(self._cache)
        self.victim_rules = PreemptionRules(conf)

    # Events from the API.

    def queue_applied(self, obj: Mapping[str, Any]) -> None:
        self._handlers.apply_queue(obj)

    def queue_removed(self, name: str) -> None:
        self._handlers.remove_queue(name)

    def group_applied(self, obj: Mapping[str, Any]) -> None:
        self._handlers.apply_group(obj)

    def group_removed(self, namespace: str, name: str) -> None:
        self._handlers.remove_group(namespace, name)

    def namespace_applied(self, obj: Mapping[str, Any]) -> None:
        self._handlers.apply_namespace(obj)

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

    def admit(self, now_s: float, max_pods: int, time_of_day_s: float | None = None) -> list[Grant]:
        """The admission step. Pods that did not opt in get tentative grants, which end if no node fits.
        ``time_of_day_s``: the seconds since 1970; without it, ``now_s``."""
        return grants.admit(self._cache, now_s, max_pods, time_of_day_s)

    def set_time_of_day(self, time_of_day_s: float) -> None:
        """For an engine that does not run admission steps, after its objects have changed: the seconds since 1970."""
        grants.set_time_of_day(self._cache, time_of_day_s)
        grants.close_windows(self._cache)

    def wait_reason(self, uid: str) -> QueueWait | None:
        """Why the pod may not be tried now; None if it may. For a pod that returned a tentative grant (it did not opt
        in, and no node fit it) the call is also a request to try it again: it waits for the next admission step, with
        the rest of its group. :meth:`peek_wait_reason` reads without that request."""
        record = self._cache.records.get(uid)
        if record is not None and record.state is AllocationState.RETURNED_GRANT:
            members = (record,) if record.gang is None else tuple(record.gang.members.values())
            for each in members:
                each.has_returned_grant = False
                self._cache.recount(each)
        return self.peek_wait_reason(uid)

    def has_returned_grant(self, uid: str) -> bool:
        """Whether the pod returned a tentative grant and has not requested another one since."""
        record = self._cache.records.get(uid)
        return record is not None and record.state is AllocationState.RETURNED_GRANT

    def peek_wait_reason(self, uid: str) -> QueueWait | None:
        """As :meth:`wait_reason`, without a change of state."""
        self._cache.process_changes()
        record = self._cache.records.get(uid)
        return None if record is None else wait_reasons.find_wait_reason(self._cache, record)

    def pods_to_retry(self) -> list[str]:
        """Pods that may be tried now, or may no longer be tried, because of a change since the last call."""
        self._cache.process_changes()
        found, self._cache.pods_to_retry = list(self._cache.pods_to_retry), {}
        return found

    def next_deadline_s(self) -> float | None:
        """When the next pod whose gate removal was refused waits for a grant again, a delayed start is overdue, a lease
        ends, or the back-off after a lapse does, a pod no longer counts in a window, or plugins of other packages have
        to be called."""
        admission, overdue_s = self._cache.admission, self._cache.windows.timeouts.next_deadline_s()
        found = (
            None if admission is None else admission.next_deadline_s(),
            self._cache.gate_retries.next_deadline_s(),
            self._delayed_starts.next_deadline_s(),
            self._leases.next_deadline_s(),
            self._cache.reviews.next_s(),
            None if overdue_s is None else overdue_s + self._cache.clock_offset_s,
        )
        return min((each for each in found if each is not None), default=None)

    # Queue plugins of other packages (``capacity/grants/plugin_admission.py``).

    def reorder(self, uid: str) -> None:
        """The pod changed in a way that only plugins see, so its place in its queue may be another one."""
        record = self._cache.records.get(uid)
        if record is None or self._cache.admission is None:
            return
        if record.gang is not None:
            self._cache.mark_gang_changed(record.gang)
            return
        self._cache.remove_from_counts(record)
        self._cache.add_to_counts(record)

    def changed_holds(self) -> list[str]:
        """Pods that a plugin began to hold, or holds no more, since the last call."""
        admission = self._cache.admission
        if admission is None:
            return []
        found, admission.changed_holds = list(admission.changed_holds), {}
        return found

    # Pods that another scheduler binds (``scheduling/gates/gate_controller.py``).

    def delay_start(self, uids: Iterable[str], deadline_s: float) -> None:
        """These pods of one grant start when :meth:`pods_to_start` returns them, at ``deadline_s`` at the latest."""
        self._delayed_starts.add(uids, deadline_s)

    def pods_to_start(self, now_s: float, max_pods: int) -> list[tuple[str, ...]]:
        """Pods whose start was delayed and begins now, each with the pods that start together with it."""
        return self._delayed_starts.take(now_s, max_pods)

    def is_start_delayed(self, uid: str) -> bool:
        record = self._cache.records.get(uid)
        return record is not None and record.delayed_unit > 0

    def set_leaving(self, uid: str, leaving: bool) -> None:
        """Set whether the pod, which terminates on its node, delays the start of pods that get its capacity."""
        record = self._cache.records.get(uid)
        if record is not None and record.is_leaving is not leaving:
            self._cache.remove_from_counts(record)
            record.is_leaving = leaving
            self._cache.add_to_counts(record)

    def commit(self, uid: str) -> None:
        """From now on another scheduler may bind the pod at any time, so its promise is not revoked any more."""
        record = self._cache.records.get(uid)
        if record is not None and record.promised_at and not record.is_committed:
            self._cache.remove_from_counts(record)
            record.is_committed = record.is_stamp_sent = True
            self._cache.add_to_counts(record)

    # Leases of promises (``capacity/grants/leases.py``).

    @property
    def has_leases(self) -> bool:
        return self._cache.conf.has_leases

    def priority_class_applied(self, obj: Mapping[str, Any]) -> None:
        self._leases.apply_priority_class(obj)

    def priority_class_removed(self, name: str) -> None:
        self._leases.remove_priority_class(name)

    def find_promise(self, uid: str) -> PromiseInfo | None:
        """The promise to a pod that has no node, as the API shows it."""
        self._cache.process_changes()
        return self._leases.find_promise(uid)

    def update_leases(self, now_s: float, time_of_day_s: float) -> None:
        """Apply the changes since the last call to the leases. ``time_of_day_s``: the seconds since 1970."""
        self._leases.update(now_s, time_of_day_s)

    def end_backoff(self, uid: str) -> None:
        """For an engine that follows a scheduler: the pod asks its queue again there, whatever its lapse says."""
        self._leases.end_backoff(uid)

    def expired_leases(self, now_s: float) -> list[tuple[str, ...]]:
        """The pods whose leases have ended; those of one tuple lapse together. The caller renews them all, or calls
        :meth:`begin_lapse`."""
        return self._leases.expired(now_s)

    def renew_lease(self, uid: str, from_s: float, at_least_s: float = 0.0) -> None:
        """A node is being added for the pod: its lease begins at ``from_s``, and lasts for ``at_least_s``."""
        self._leases.renew(uid, from_s, at_least_s)

    def begin_lapse(self, uids: Iterable[str], time_of_day_s: float) -> dict[str, Lapse]:
        """The stamps of these pods are being removed. Returns what is recorded on each of them."""
        return self._leases.begin_lapse(uids, time_of_day_s)

    def lapse_confirmed(self, uids: Iterable[str]) -> None:
        """The stamps of these pods were removed: their promises end."""
        self._leases.end_lapse(uids)

    # Outcomes of grants and writes, which the caller reports, and changes that the caller polls.

    def stamped(self, uid: str, stamp: Stamp, *, is_sent: bool = True) -> None:
        """The stamp of a promise is fixed. ``is_sent``: whether it is sent now, so that the API may show it at any
        time."""
        record = self._cache.records.get(uid)
        if record is None or (record.promised_at == stamp.at and (record.is_stamp_sent or not is_sent)):
            return
        self._cache.remove_from_counts(record)
        record.promise(stamp.queue, stamp.requests, stamp.at)
        record.is_stamp_sent |= is_sent  # the stamp of a smaller promise may have been sent before
        self._cache.add_to_counts(record)

    def revoke(self, uid: str, why: str) -> bool:
        """Revoke the promise to a pod that has no node, so that other pods can get the capacity; the pod waits again.
        Returns whether there was a promise. It counts until its stamp is removed (:meth:`promises_to_end`). ``why`` is
        part of the pod's wait reason."""
        record = self._cache.records.get(uid)
        if record is None or record.state not in PROMISED:
            return False
        self._cache.end_promise(record, why)
        return True

    def promises_to_end(self) -> list[str]:
        """Pods whose promise ends, since the last call, as soon as their stamp is removed. The caller removes the
        stamp, however often the API server refuses it, and calls :meth:`revocation_confirmed`."""
        found, self._cache.promises_to_end = list(self._cache.promises_to_end), {}
        return found

    @property
    def has_promises_to_end(self) -> bool:
        """Whether :meth:`promises_to_end` would return any pods."""
        return bool(self._cache.promises_to_end)

    def is_being_revoked(self, uid: str) -> bool:
        """Whether the pod has a promise that ends when its stamp is removed."""
        return uid in self._cache.being_revoked

    def revoked_pods(self) -> list[str]:
        """Pods whose promise was revoked since the last call."""
        found, self._cache.revoked_pods = list(self._cache.revoked_pods), {}
        return found

    @property
    def has_revoked_pods(self) -> bool:
        """Whether :meth:`revoked_pods` would return any pods."""
        return bool(self._cache.revoked_pods)

    def is_revoked_stamp(self, uid: str, stamp: Stamp) -> bool:
        """Whether this stamp, which the API shows, belongs to a revoked promise."""
        record = self._cache.records.get(uid)
        return record is not None and stamp.at in record.revoked_stamp_times

    def pods_to_reassign(self) -> list[str]:
        """Pods without a node that the scheduler must evaluate again, because their requests, their group, the object
        of the group or its members changed since the last call."""
        cache = self._cache
        cache.process_changes()
        found, cache.changed_pods = cache.changed_pods, {}
        changed_groups, cache.changed_groups = cache.changed_groups, {}
        for key in changed_groups:
            gang = cache.gangs.get(key)
            found.update(dict.fromkeys(() if gang is None else gang.members))
        return [uid for uid in found if cache.records[uid].state not in NEEDS_NO_NODE]

    def pods_with_new_queue(self) -> list[str]:
        """Pods whose queue changed since the last call."""
        self._cache.process_changes()
        found, self._cache.pods_with_new_queue = list(self._cache.pods_with_new_queue), {}
        return found

    def placed(self, uid: str) -> None:
        """The scheduler chose a node for the pod; the pod need not be bound yet."""
        record = self._cache.records.get(uid)
        if record is not None:
            record.is_placed = True
            self._cache.recount(record)
            record.is_unplaceable = False

    def unplaced(self, uid: str) -> None:
        """The pod did not get the node that the scheduler chose. Its promise stays, unless it is tentative."""
        record = self._cache.records.get(uid)
        if record is None or record.is_bound:
            return
        record.is_placed = False
        if record.is_tentative and record.promised_at:
            record.promised_at, record.has_returned_grant = "", True
        self._cache.recount(record)

    def refused(self, uid: str, until_s: float, why: str, *, is_gate_removed: bool = False) -> None:
        """The API server refused to remove the gate of the pod: the promise ends, and the pod waits for a grant again
        from ``until_s`` on. If the API has shown that the gate was removed after all, or a response has confirmed it
        (``is_gate_removed``), the promise stays. So does a larger promise after a resize whose stamp was refused: the
        smaller stamp, which the API shows, stays superseded, so that it does not count if it is shown after the promise
        was revoked."""
        record = self._cache.records.get(uid)
        if record is None or record.is_bound or record.is_stamped or is_gate_removed:
            return
        self._cache.remove_from_counts(record)
        record.end_promise()
        record.is_placed, record.gate_refusal = False, (until_s, why)
        self._cache.add_to_counts(record)

    def set_unplaceable(self, uid: str, unplaceable: bool) -> None:
        """Set whether the pod was tried, fits no node, and has no nominated node: then its promise can be revoked for a
        pod of higher priority."""
        record = self._cache.records.get(uid)
        if record is None or record.is_unplaceable is unplaceable:
            return
        if record.state not in PROMISED:
            record.is_unplaceable = unplaceable
            return
        self._cache.remove_from_counts(record)
        record.is_unplaceable = unplaceable
        self._cache.add_to_counts(record)

    def set_revoking(self, uid: str, revoking: bool) -> None:
        """Set whether the caller has requested the removal of the pod's stamp: then the pod may not be tried, and its
        promise counts as used until :meth:`revocation_confirmed`."""
        record = self._cache.records.get(uid)
        if record is not None and record.is_being_revoked is not revoking:
            self._cache.set_being_revoked(record, is_being_revoked=revoking)

    def revocation_refused(self, uid: str) -> None:
        """The API server refused to remove the stamp of the pod, so its promise stays. It does not lapse, and is not
        revoked for a pod of higher priority again."""
        record = self._cache.records.get(uid)
        if record is not None:
            self._cache.remove_from_counts(record)
            record.is_being_revoked, record.is_irrevocable = False, True
            record.pending_lapse, record.pending_revocation = None, ""
            self._cache.add_to_counts(record)
            self._cache.mark_for_retry(uid)

    def revocation_confirmed(self, uid: str) -> None:
        """The stamp of the pod was removed: its promise ends, and the pod waits for a grant again, unless it got a node
        in the meantime."""
        record = self._cache.records.get(uid)
        if record is None or not record.is_being_revoked:
            return
        why, record.pending_revocation = record.pending_revocation or _REVOKED_FOR_PREEMPTOR, ""
        self._cache.set_being_revoked(record, is_being_revoked=False)
        if record.state in PROMISED:
            self._cache.revoke(record, why)
            record.is_unplaceable = False

    def evicted(self, uid: str) -> None:
        """The deletion of the pod was requested: the queue may grant what the pod holds to the preemptor at once."""
        self._set_evicted(uid, is_evicted=True)

    def unevicted(self, uid: str) -> None:
        """The deletion of the pod failed."""
        self._set_evicted(uid, is_evicted=False)

    def _set_evicted(self, uid: str, is_evicted: bool) -> None:
        record = self._cache.records.get(uid)
        if record is not None:
            record.is_evicted = is_evicted
            self._cache.recount(record)

    # Preemption.

    def starving(self) -> list[str]:
        """The first waiting pod of each queue that changed since the last call: if it does not fit, a preemption plan
        may help it."""
        return preemption_plan.starving_pods(self._cache)

    def plan_preemption(
        self, uid: str, *, may_evict: bool = True, already_revoked: Collection[str] = ()
    ) -> PreemptionPlan | None:
        """The victims, and the promises to revoke, that give the queue capacity for this pod, or for its gang; None if
        there are none. The caller reports evictions by :meth:`evicted`, and revocations by :meth:`set_revoking` and
        :meth:`revocation_confirmed`; the next admission step then grants the freed capacity. ``may_evict``: whether
        the plan may have victims. ``already_revoked``: pods whose stamps were removed for this pod and whose revocation
        is not confirmed yet."""
        known = [each for each in already_revoked if each in self._cache.records]
        plan = preemption_plan.plan_preemption(
            self._cache, self.victim_rules, uid, may_evict=may_evict, already_revoked=known
        )
        admission = self._cache.admission
        if plan is None or admission is None or admission.may_preempt(self._cache, plan.queue, plan.preemptor_uids):
            return plan
        return None

    def new_granted_pod_queue(self) -> GrantedPodQueue:
        """A new queue for pods that hold a grant."""
        return self._cache.new_granted_pod_queue()

    # Queries.

    def queue_of(self, uid: str) -> str:
        self._cache.process_changes()
        record = self._cache.records.get(uid)
        return "" if record is None else record.queue

    def queue_names(self) -> list[str]:
        """All existing queues, and the root."""
        return sorted(name for name in self._cache.tree.queues if self._cache.tree.get(name) is not None)

    def usage(self, queue: str) -> QueueUsage:
        self._cache.process_changes()
        account, tree_queue = self._cache.ledger.account(queue), self._cache.tree.queues.get(queue)
        allocated, reserved, inqueue = (dict(account.total[column]) for column in list(LedgerColumn)[:3])
        share = share_of({} if tree_queue is None else tree_queue.deserved, account.allocated_plus_reserved)
        waiting_amounts = dict(account.total[LedgerColumn.WAITING])
        terminating = dict(account.total[LedgerColumn.TERMINATING])
        waiting = waiting_amounts.pop(PODS, 0)
        return QueueUsage(
            allocated, reserved, inqueue, waiting, share, waiting_amounts, terminating, account.pods_without_node
        )

    def refusal(self, queue: str) -> QueueWait | None:
        """Why the queue admits no pods at all, whatever its capacity; None if it admits pods."""
        return wait_reasons.find_queue_refusal(self._cache, queue)

    def contents(self, queue: str) -> QueueContents:
        """The pods of the queue and of the queues below it."""
        return find_contents(self._cache, queue)

    def limits(self, queue: str) -> QueueLimits:
        tree_queue = self._cache.tree.queues.get(queue)
        if tree_queue is None:
            return QueueLimits({}, {}, {})
        spec = tree_queue.spec
        return QueueLimits(tree_queue.limits, tree_queue.deserved, spec.guarantee, spec.capability, spec.weight)

    def parent(self, queue: str) -> str:
        """The parent queue; empty for the root and for a queue without a valid path to the root."""
        path = self._cache.tree.path(queue)
        return path[1] if len(path) > 1 and path[-1] == ROOT else ""

    def is_inqueue(self, namespace: str, name: str) -> bool:
        """Whether the group is enqueued."""
        self._cache.process_changes()
        gang = self._cache.gangs.get((namespace, name))
        return gang is not None and self._cache.is_enqueued(gang)

    def victim_candidates(self, uid: str, candidates: Sequence[VictimCandidate]) -> list[str]:
        """Those of the candidates, pods on one node, that this pod may preempt: pods of its own queue, and pods of
        queues above their deserved amounts."""
        self._cache.process_changes()
        record = self._cache.records.get(uid)
        return [] if record is None else self.victim_rules.find_victims(self._cache, record, candidates)

    def minimum(self, uid: str) -> tuple[str, ...]:
        """The pods that form the minimum of its gang, in order; only the pod itself if it has no gang."""
        record = self._cache.records.get(uid)
        return (uid,) if record is None or record.gang is None else record.gang.minimum_members()

    def members(self, namespace: str, group: str) -> tuple[str, ...]:
        """All pods that name the group."""
        gang = self._cache.gangs.get((namespace, group))
        return () if gang is None else tuple(gang.members)

    def atomic_group(self, uid: str) -> tuple[str, str] | None:
        """The group of the pod, by namespace and name, if its members are granted capacity together; None if the pod
        has no group, or if the minimum of the group is on nodes."""
        record = self._cache.records.get(uid)
        gang = None if record is None else record.gang
        return None if gang is None or gang.is_placed or not self._cache.order.is_atomic else gang.key

    def gang_attempt(self, uid: str) -> GangAttempt:
        """The pods to try together with this pod, itself included, and how many of them must get nodes."""
        record = self._cache.records.get(uid)
        return GangAttempt((uid,)) if record is None else gang_attempt_of(record)

    def position(self, uid: str) -> int | None:
        """The number of units before the pod in its queue, also those of its own group; None if it does not wait."""
        return find_position(self._cache, uid)

    def line(self, queue: str) -> list[str]:
        """The units that wait for a grant in this queue (not below it), in order: the uid of one pod of each."""
        return find_line(self._cache, queue)

    def line_version(self, queue: str) -> int:
        """Another number after each change of :meth:`line` of this queue."""
        self._cache.process_changes()
        return self._cache.grant_index.version(queue)

    def remedy(self, uid: str) -> QueueRemedy | None:
        """What would give the pod capacity in its queue, found by dry runs on copies; None if no capacity is missing
        there. For single calls only: each copy costs as much as the whole cache."""
        self._cache.process_changes()
        return find_remedy(self._cache, self._handlers, uid) if uid in self._cache.records else None

    def remedy_behind_gates(self, uid: str) -> QueueRemedy | None:
        """As :meth:`remedy`, as if the pod had no gates of other components."""
        return find_remedy_behind_gates(self._cache, self._handlers, uid)

    def after_lift(self, uid: str, gate: str) -> LiftedPod | None:
        """What would happen to the pod without this gate. For single calls only, as :meth:`remedy`."""
        return find_after_lift(self._cache, self._handlers, uid, gate)

    def oldest_waiting_s(self, queue: str) -> float | None:
        """The creation time of the oldest job that waits for a grant in this queue (not below it)."""
        return queue_contents.find_oldest_s(self._cache, queue)

    def changed_queues(self) -> list[str]:
        """Queues whose usage, limits or state changed since the last call."""
        self._cache.process_changes()
        found, self._cache.changed_queues = list(self._cache.changed_queues), {}
        return found

    def enqueued_groups(self) -> list[tuple[str, str]]:
        """Groups, by namespace and name, that were enqueued since the last call, or whose reason to wait changed."""
        self._cache.process_changes()
        found, self._cache.enqueued_groups = list(self._cache.enqueued_groups), {}
        return found
