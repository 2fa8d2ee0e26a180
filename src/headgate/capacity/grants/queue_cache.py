"""The queue cache: the state of all queues, groups and pods, and how a change of one pod or group updates it.

To change a pod, a caller removes it from all counts, changes its record, and adds it to the counts again. Groups whose
members changed, and queues whose usage changed, are only marked; :meth:`QueueCache.process_changes` updates all that
depends on them, and every reader calls it first. ``event_handlers.py`` applies API objects, ``grants.py`` decides
grants, ``wait_reasons.py`` says why a pod waits, and ``capacity/engine.py`` is the interface to all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from headgate.capacity.api.lease import Lapse
from headgate.capacity.api.pod_group_phase import PENDING
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import EnqueueRequest, Gang, GrantRequest
from headgate.capacity.cache.ledger import Ledger, LedgerColumn
from headgate.capacity.cache.pod_record import (
    HOLDING,
    PROMISED,
    AllocationState,
    Ask,
    PodRecord,
    ask_of,
    classify,
    excess_over,
)
from headgate.capacity.cache.promises import PromiseTracker
from headgate.capacity.cache.queue_tree import QueueTree
from headgate.capacity.cache.run_times import RunTimes, with_run_time
from headgate.capacity.conf import SchedulerConf
from headgate.capacity.grants.held_unit_reviews import HeldUnitReviews
from headgate.capacity.grants.plugin_admission import PluginAdmission, QueuePlugins
from headgate.capacity.names import DEFAULT
from headgate.capacity.ordering.admission_index import AdmissionIndex, Unit
from headgate.capacity.ordering.grant_windows import GrantWindows, pods_in_window, with_window
from headgate.capacity.ordering.granted_pods import GrantedPodQueue
from headgate.capacity.ordering.held_units import RESIZED, HeldUnits, OverdueUnits, with_set_aside
from headgate.capacity.ordering.order_keys import Key, OrderingPolicy
from headgate.capacity.ordering.protected_units import ProtectedUnits
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK, EnqueueView, GrantView, PlacementView
from headgate.capacity.ordering.start_forecast import StartForecaster
from headgate.kube.resource_amounts import PODS
from headgate.waiting.heap import DeadlineHeap

_LEDGER_COLUMNS: Final = {  # by the state of a pod
    AllocationState.ALLOCATED: LedgerColumn.ALLOCATED,
    AllocationState.RESERVED: LedgerColumn.RESERVED,
    AllocationState.RESIZED: LedgerColumn.RESERVED,
}
_ONE_POD: Final = {PODS: 1}
_COUNTED_AS_WAITING: Final = frozenset(
    {
        AllocationState.WAITING,
        AllocationState.GATE_REMOVAL_REFUSED,
        AllocationState.RETURNED_GRANT,
        AllocationState.FOREIGN_GATE,
        AllocationState.RESIZED,
        AllocationState.LAPSED,
    }
)


class QueueCache:
    """A *unit* is what gets one grant: a pod, by its uid, or the next pods of a group, by the namespace and name of the
    group. Attributes of the type ``dict[…, None]`` are ordered sets of changes; ``engine.py`` returns and clears
    them."""

    def __init__(self, conf: SchedulerConf, plugins: QueuePlugins | None = None) -> None:
        self.conf = conf
        self.admission = None if plugins is None else PluginAdmission(plugins)
        self.order = order = OrderingPolicy(conf)
        self.tree = QueueTree(conf.has_limits)
        self.ledger = Ledger()
        self.records: dict[str, PodRecord] = {}  # by the uid of the pod
        self.gangs: dict[tuple[str, str], Gang] = {}  # by namespace and name of the PodGroup
        self.namespaces: dict[str, str] = {}  # by namespace: the queue that its annotation names
        # By namespace: pods and groups that name no queue themselves.
        self.inheriting_units: dict[str, dict[Unit, None]] = {}
        self.windows = GrantWindows(self.tree, self.ledger)
        self.held_units = HeldUnits()
        self.overdue_units = OverdueUnits()  # empty without the plugin ``sla``
        self.protected_units = ProtectedUnits()
        self.run_times = RunTimes()
        self.forecaster = StartForecaster(self.tree, self.ledger, self.run_times)
        self.time_of_day_s = 0.0  # at the last admission step, in seconds since 1970
        self.clock_offset_s = (
            0.0  # what the caller's clock showed more than the time of day, at the last admission step
        )
        # The units that wait for a grant, and the groups that wait for the enqueue action, each in queue order.
        view = order, self.tree, self.ledger, self.windows, self.held_units
        self.grant_index = AdmissionIndex(GrantView(*view), self.ask_of_unit)
        self.enqueue_index = AdmissionIndex(EnqueueView(*view), self._ask_of_group)
        self.reviews = HeldUnitReviews(self.held_units, self.ledger.triggers, (self.grant_index, self.enqueue_index))
        self.granted_pod_queues: list[GrantedPodQueue] = []
        # Pods whose gate removal the API server refused, by the time at which they wait for a grant again.
        self.gate_retries: DeadlineHeap[str] = DeadlineHeap()
        self.pods_to_retry: dict[str, None] = {}  # pods that may now be tried, or may no longer be
        self.changed_queues: dict[str, None] = {}  # queues whose usage, limits or state changed
        self.pods_with_new_queue: dict[str, None] = {}  # pods that count in another queue than before
        self.lease_changes: dict[str, None] = {}  # pods whose lease or lapse may have changed; empty without leases
        self.resized: dict[str, PodRecord] = {}  # promised pods that request more than their promise
        self.revoked_pods: dict[str, None] = {}  # pods whose promise was revoked
        self.promises_to_end: dict[str, None] = {}  # pods whose stamp is to be removed, because their promise ends
        self.being_revoked: dict[str, PodRecord] = {}  # pods whose promise counts until their stamp is removed
        self.changed_pods: dict[str, None] = {}  # pods whose group or requests changed
        self.changed_groups: dict[tuple[str, str], None] = {}  # groups whose object or members changed
        self.incomplete_gangs: dict[tuple[str, str], Gang] = {}  # groups with promises for less than their minimum
        self.enqueued_groups: dict[tuple[str, str], None] = {}  # groups that were enqueued or wait for another reason
        self.on_nodes: dict[str, dict[str, PodRecord]] = {}  # by queue: pods that have a node
        self.priorities_on_nodes: dict[str, Counter[int]] = {}  # by queue: the number of these pods per priority
        self.revocable_promises: dict[str, dict[str, PodRecord]] = {}  # by queue: pods with a revocable promise
        self.revocable_priorities: dict[str, Counter[int]] = {}  # by queue: the number of these pods per priority
        self.queues_to_check: dict[str, None] = {}  # queues that changed since the last search for preemptors
        self.promises = PromiseTracker(self.tree, self.ledger, self.mark_for_retry)
        self.limited_usage_changed = False  # since the last search for delayed starts that may begin
        self._stale_gangs: dict[tuple[str, str], Gang] = {}  # gangs that the next process_changes updates
        self._gangs_by_queue: dict[str, set[tuple[str, str]]] = {}

    def new_granted_pod_queue(self) -> GrantedPodQueue:
        granted_pods = GrantedPodQueue(
            self.order,
            PlacementView(self.order, self.tree, self.ledger),
            self.records.get,
            self.placement_key,
            self.process_changes,
        )
        self.granted_pod_queues.append(granted_pods)
        return granted_pods

    def mark_for_retry(self, uid: str) -> None:
        self.pods_to_retry[uid] = None

    # Pods.

    def remove_from_counts(self, record: PodRecord) -> None:
        """Remove a pod from the ledger, from its gang and from all indexes, as the record says that it is counted."""
        uid, state, gang = record.task.uid, record.state, record.gang
        column = _LEDGER_COLUMNS.get(state)
        if column is not None:
            self.ledger.change(record.queue, column, record.counted_amounts, -1)
            self.run_times.remove(record)
        if state in PROMISED:
            if record.delayed_unit:
                self.ledger.change(record.queue, LedgerColumn.DELAYED, record.counted_amounts, -1)
            self.promises.remove(record)
            self._remove_by_queue(record, self.revocable_promises, self.revocable_priorities)
            self.resized.pop(uid, None)
            self.being_revoked.pop(uid, None)
            if record.is_in_window:
                record.is_in_window = False
                self.ledger.change(record.queue, LedgerColumn.WITHOUT_NODE, _ONE_POD, -1)
                self.windows.timeouts.remove(record)
        elif state is AllocationState.ALLOCATED:
            self._remove_by_queue(record, self.on_nodes, self.priorities_on_nodes)
        elif state is AllocationState.GATE_REMOVAL_REFUSED:
            self.gate_retries.discard(uid)
        if record.ask is not None:
            self.grant_index.discard(record.queue, uid, record.ask)
            self._line_changed(record.queue)
            self.overdue_units.discard(uid)
            record.ask = None
        if state in _COUNTED_AS_WAITING:
            self.ledger.change(record.queue, LedgerColumn.WAITING, {**record.waiting_amounts, PODS: 1}, -1)
        elif record.is_terminating:
            self.ledger.change(record.queue, LedgerColumn.TERMINATING, record.counted_amounts, -1)
            if record.is_leaving:
                self.ledger.change(record.queue, LedgerColumn.LEAVING, record.counted_amounts, -1)
        if gang is not None:
            gang.count_member(record, -1)
            self._stale_gangs[gang.key] = gang

    @staticmethod
    def _add_by_queue(
        record: PodRecord,
        records_by_queue: dict[str, dict[str, PodRecord]],
        priorities_by_queue: dict[str, Counter[int]],
    ) -> None:
        records_by_queue.setdefault(record.queue, {})[record.task.uid] = record
        priorities_by_queue.setdefault(record.queue, Counter())[record.task.priority] += 1

    @staticmethod
    def _remove_by_queue(
        record: PodRecord,
        records_by_queue: dict[str, dict[str, PodRecord]],
        priorities_by_queue: dict[str, Counter[int]],
    ) -> None:
        records = records_by_queue.get(record.queue)
        if records is None or records.pop(record.task.uid, None) is None:
            return
        priorities = priorities_by_queue[record.queue]
        priorities[record.task.priority] -= 1
        if not priorities[record.task.priority]:
            del priorities[record.task.priority]
        if not records:
            del records_by_queue[record.queue], priorities_by_queue[record.queue]

    def add_to_counts(self, record: PodRecord) -> None:
        """Find the queue and the state of a pod from its record, and count the pod there."""
        task, gang, before = record.task, record.gang, record.state
        queue_before, record.queue = record.queue, self._find_queue(record)
        if queue_before != record.queue:
            self.pods_with_new_queue[task.uid] = None
        if self.admission is not None and gang is None:
            record.order_keys = self.admission.pod_order_keys(self, record)
        for granted_pods in self.granted_pod_queues:
            granted_pods.update(record)
        record.state = state = classify(record)
        is_promised = state in PROMISED
        record.counted_amounts = record.promised_amounts if is_promised else task.requests
        record.waiting_amounts = excess_over(task.requests, record.promised_amounts) if is_promised else task.requests
        column = _LEDGER_COLUMNS.get(state)
        if column is not None:
            self.ledger.change(record.queue, column, record.counted_amounts, +1)
            self.run_times.add(record)
        if is_promised:
            if record.delayed_unit:
                self.ledger.change(record.queue, LedgerColumn.DELAYED, record.counted_amounts, +1)
            if not record.is_committed:
                self.promises.add(record)
            record.is_in_window = state is AllocationState.RESERVED and not record.is_tentative
            if record.is_in_window:
                self.ledger.change(record.queue, LedgerColumn.WITHOUT_NODE, _ONE_POD, +1)
                self.windows.timeouts.add(record)
            if record.has_revocable_promise:
                self._add_by_queue(record, self.revocable_promises, self.revocable_priorities)
            if state is AllocationState.RESIZED:
                self.resized[task.uid] = record
            if record.is_being_revoked:
                self.being_revoked[task.uid] = record
        elif state is AllocationState.ALLOCATED:
            self._add_by_queue(record, self.on_nodes, self.priorities_on_nodes)
        elif state is AllocationState.GATE_REMOVAL_REFUSED and record.gate_refusal is not None:
            self.gate_retries.put(task.uid, record.gate_refusal[0])
        is_unit = record.waits_for_grant and (gang is None or state is AllocationState.RESIZED)
        if self.admission is not None:
            is_unit = not self.admission.pod_counted(record) and is_unit
        if is_unit:
            record.ask = self.ask_of_pod(record)
            key = self.order.pod_key(record)
            self.grant_index.put(record.queue, task.uid, record.ask, key)
            self._line_changed(record.queue)
            if self.order.has_sla:
                self.overdue_units.put(record.queue, task.uid, key, self.order.pod_deadline_s(task))
        if state in _COUNTED_AS_WAITING:
            self.ledger.change(record.queue, LedgerColumn.WAITING, {**record.waiting_amounts, PODS: 1}, +1)
        elif record.is_terminating:
            self.ledger.change(record.queue, LedgerColumn.TERMINATING, record.counted_amounts, +1)
            if record.is_leaving:
                self.ledger.change(record.queue, LedgerColumn.LEAVING, record.counted_amounts, +1)
        if gang is not None:
            gang.count_member(record, +1)
            self._stale_gangs[gang.key] = gang
        if (before in HOLDING) != (state in HOLDING):
            self.mark_for_retry(task.uid)
        if self.conf.has_leases:
            self.lease_changes[task.uid] = None

    def recount(self, record: PodRecord) -> None:
        """Count the pod again if its state changed."""
        if classify(record) is not record.state:
            self.remove_from_counts(record)
            self.add_to_counts(record)

    def ask_of_pod(self, record: PodRecord) -> Ask:
        """The ask of a pod that is a unit by itself. A waiting pod without a group must also pass the check of the
        enqueue action, as a group of one pod."""
        ask = ask_of(record.waiting_amounts)
        has_no_group = self.order.enqueues and record.gang is None and record.state is AllocationState.WAITING
        ask = with_run_time((*ask, ENQUEUE_CHECK) if has_no_group and ask else ask, (record,))
        ask = (*ask, RESIZED) if record.state is AllocationState.RESIZED else ask
        return with_window(ask, self.count_in_window((record,)))

    @staticmethod
    def count_in_window(records: Iterable[PodRecord]) -> int:
        """How many of these waiting pods would count in the windows of their queue after a grant."""
        return sum(not each.is_tentative for each in records)

    def _line_changed(self, queue: str) -> None:
        """A unit was added to the units that wait in this queue, or removed from them."""
        self.open_windows(queue)
        self.drop_protected_unit(queue)

    def drop_protected_unit(self, queue: str) -> None:
        """The first unit of this queue may have changed."""
        self.protected_units.drop(queue)
        self.reviews.release(queue)

    def open_windows(self, queue: str) -> None:
        """The first unit in this queue or an ancestor, or the number of pods that one of their windows still allows,
        may have changed."""
        if self.windows.closed:
            for name in self.tree.path(queue):
                if name in self.windows.closed:
                    self.windows.closed.discard(name)
                    self.grant_index.mark_queue_changed(name)

    def close_window(self, queue: str, unit: Unit) -> bool:
        """Whether the unit, the first in order, does not fit in a window. Then that window is closed."""
        full = self.windows.find_full(queue, pods_in_window(self.ask_of_unit(unit)))
        if full is None:
            return False
        self.windows.closed.add(full)
        self.grant_index.mark_queue_changed(full)
        return True

    def end_promise(self, record: PodRecord, reason: str) -> bool:
        """End a promise that the queue does not keep. If the API may show its stamp, the promise counts until the
        stamp is removed, so that the API never shows more promises than the queue has capacity for. Returns whether it
        has ended at once."""
        if not record.may_be_stamped:
            self.revoke(record, reason)
            return True
        if not record.is_being_revoked:
            self.set_being_revoked(record, is_being_revoked=True)
            record.pending_revocation = reason
            self.promises_to_end[record.task.uid] = None
        return False

    def set_being_revoked(self, record: PodRecord, *, is_being_revoked: bool) -> None:
        """Set whether the stamp of the pod is being removed: then the pod may not be tried."""
        self.remove_from_counts(record)
        record.is_being_revoked = is_being_revoked
        self.add_to_counts(record)
        self.mark_for_retry(record.task.uid)

    def revoke(self, record: PodRecord, reason: str) -> None:
        """Revoke the promise to a pod without a node: the pod waits again."""
        self.remove_from_counts(record)
        record.revoke(reason)
        self.add_to_counts(record)
        self.revoked_pods[record.task.uid] = None

    def lapse(self, record: PodRecord, lapse: Lapse) -> None:
        """End the promise to a pod that got no node in time: the pod waits, and asks again after a back-off."""
        self.remove_from_counts(record)
        record.revoke("")
        record.is_unplaceable = False
        record.set_lapse(lapse)
        self.add_to_counts(record)
        self.revoked_pods[record.task.uid] = None

    def set_lapsed(self, record: PodRecord, lapse: Lapse) -> None:
        """Promises of its gang lapsed: this waiting member asks again when they do."""
        self.remove_from_counts(record)
        record.set_lapse(lapse)
        self.add_to_counts(record)

    def observe_lapse(self, record: PodRecord) -> None:
        """Take over a lapse that the API shows. The caller counts the pod again."""
        if self.conf.has_leases and record.new_lapse is not None:
            record.set_lapse(record.new_lapse)

    def _find_queue(self, record: PodRecord) -> str:
        """The queue of its promise, else of its group, its annotation, its namespace, or the default queue."""
        task, gang = record.task, record.gang
        queue = record.promise_queue if record.has_fixed_queue else ""
        if not queue and gang is not None and gang.spec is not None:
            queue = gang.queue
        queue = queue or task.queue
        self._set_inherits(task.namespace, task.uid, inherits=not queue)
        return queue or self.namespaces.get(task.namespace) or DEFAULT

    def stop_inheriting(self, task: TaskInfo) -> None:
        """Remove a deleted pod from the pods that inherit the queue of their namespace."""
        self._set_inherits(task.namespace, task.uid, inherits=False)

    def _set_inherits(self, namespace: str, unit: Unit, *, inherits: bool) -> None:
        """Record whether the unit inherits the queue of its namespace."""
        found = self.inheriting_units.get(namespace)
        if inherits:
            self.inheriting_units.setdefault(namespace, {})[unit] = None
        elif found is not None and found.pop(unit, unit) is None and not found:
            del self.inheriting_units[namespace]

    # Groups.

    def _set_gang_queue(self, gang: Gang) -> None:
        """Set the queue of a group: from its object, else the one that most members name, the namespace's, or the
        default queue. Members without a promise move with it."""
        if gang.spec is None:
            queue, inherits = "", False
        else:
            named = gang.spec.queue or gang.most_named_queue()
            queue, inherits = named or self.namespaces.get(gang.key[0]) or DEFAULT, not named
        self._set_inherits(gang.key[0], gang.key, inherits=inherits)
        if queue == gang.queue:
            return
        gang.queue = queue
        gang.enqueued_by_engine = gang.enqueued_by_engine and gang.ready > 0
        for record in list(gang.members.values()):
            if not record.has_fixed_queue:
                self.remove_from_counts(record)
                self.add_to_counts(record)

    def gang(self, namespace: str, name: str) -> Gang:
        gang = self.gangs.get((namespace, name))
        if gang is None:
            gang = self.gangs[namespace, name] = Gang(namespace, name, self.order.task_key)
        return gang

    def mark_gang_changed(self, gang: Gang) -> None:
        self._stale_gangs[gang.key] = gang

    def mark_gangs_in(self, queue: str) -> None:
        """The limits of the queue changed, and with them the dominant shares of its gangs."""
        for key in self._gangs_by_queue.get(queue, ()):
            gang = self._stale_gangs[key] = self.gangs[key]
            if not gang.reported_enqueued:
                self.enqueued_groups[key] = None  # its wait reason may have changed

    def forget_if_empty(self, gang: Gang) -> None:
        if gang.spec is None and not gang.members:
            self.process_changes()
            self._remove_from_gangs_by_queue(gang)
            self._set_inherits(gang.key[0], gang.key, inherits=False)
            self.enqueued_groups.pop(gang.key, None)
            self.changed_groups.pop(gang.key, None)
            self.incomplete_gangs.pop(gang.key, None)
            self.gangs.pop(gang.key, None)
            if self.admission is not None:
                self.admission.gang_removed(gang)

    def _remove_from_gangs_by_queue(self, gang: Gang) -> None:
        queue = gang.ledger_amounts[0]
        keys = self._gangs_by_queue.get(queue)
        if keys is not None:
            keys.discard(gang.key)
            if not keys:
                del self._gangs_by_queue[queue]

    def process_changes(self) -> None:
        """Update what depends on the changes since the last call: the queue and the next unit of each changed group,
        the admission indexes, and which promises exceed a limit."""
        while self._stale_gangs or self.ledger.touched:
            stale, self._stale_gangs = self._stale_gangs, {}
            for gang in stale.values():
                self._refresh_gang(gang)
            touched, self.ledger.touched = self.ledger.touched, {}
            for name in touched:
                self._usage_changed(name)
        self.reviews.review()
        self.promises.process_changes()

    def _usage_changed(self, queue: str) -> None:
        """And with it the place of the queue in the order. Without limits and window, the same units fit as before."""
        tree_queue = self.tree.queues.get(queue)
        if tree_queue is None or tree_queue.limits or tree_queue.has_window:
            self.mark_queue_changed(queue)
        else:
            self._mark_usage_changed(queue)

    def queue_applied(self, queue: str) -> None:
        """The parent, limits, state or strategy of the queue may have changed: this matters for the first units of all
        queues in and below it."""
        for below in self.protected_units.queues_below(queue):
            self.drop_protected_unit(below)
        self.mark_queue_changed(queue)

    def mark_queue_changed(self, queue: str) -> None:
        """The parent, limits, state or usage of the queue may have changed."""
        self.open_windows(queue)
        self._mark_usage_changed(queue)
        self.reviews.release(queue)
        self.promises.mark_queue_changed(queue)
        self.limited_usage_changed = True

    def _mark_usage_changed(self, queue: str) -> None:
        """The usage of the queue, and with it its place in the order, may have changed."""
        self.changed_queues[queue] = None
        self.queues_to_check[queue] = None
        self.grant_index.mark_queue_changed(queue)
        self.enqueue_index.mark_queue_changed(queue)
        for granted_pods in self.granted_pod_queues:
            granted_pods.mark_queue_changed(queue)

    def _refresh_gang(self, gang: Gang) -> None:
        self._remove_from_gangs_by_queue(gang)
        self._set_gang_queue(gang)
        self._gangs_by_queue.setdefault(gang.queue, set()).add(gang.key)
        queue, unmet, beyond = gang.ledger_amounts
        self.ledger.change(queue, LedgerColumn.INQUEUE, unmet, -1)
        self.ledger.change(queue, LedgerColumn.ELASTIC, beyond, -1)
        is_enqueued = self.is_enqueued(gang)
        if is_enqueued != gang.reported_enqueued:
            gang.reported_enqueued = is_enqueued
            self.enqueued_groups[gang.key] = None
        unmet, beyond = gang.unmet_min_resources() if is_enqueued else ({}, {})
        if self.admission is not None:
            unmet = {} if self.admission.has_hold(gang.key) else unmet
            gang.order_keys = self.admission.gang_order_keys(self, gang)
        self.ledger.change(gang.queue, LedgerColumn.INQUEUE, unmet, +1)
        self.ledger.change(gang.queue, LedgerColumn.ELASTIC, beyond, +1)
        gang.ledger_amounts = (gang.queue, unmet, beyond)
        self._index_gang(gang)
        self._update_completeness(gang)
        for granted_pods in self.granted_pod_queues:
            granted_pods.rekey(gang)

    def _update_completeness(self, gang: Gang) -> None:
        """Update what depends on whether the gang is complete: the next admission step revokes the promises of an
        incomplete gang unless it completes the gang, and members are tried only if enough of them have grants."""
        is_complete = gang.has_minimum if self.order.is_atomic else gang.is_valid
        if gang.has_promises and not is_complete:
            self.incomplete_gangs[gang.key] = gang
        else:
            self.incomplete_gangs.pop(gang.key, None)
        if gang.lacks_pods is not gang.reported_lacks_pods:
            gang.reported_lacks_pods = gang.lacks_pods
            self.changed_groups[gang.key] = None
        reported_can_start, gang.reported_can_start = (
            gang.reported_can_start,
            not gang.counts.get(AllocationState.RESERVED) or gang.can_start,
        )
        if reported_can_start is not gang.reported_can_start:
            for uid, record in gang.members.items():
                if record.state is AllocationState.RESERVED:
                    self.mark_for_retry(uid)

    def is_enqueued(self, gang: Gang) -> bool:
        """Whether the group is enqueued: the API says so, a member has a grant, the admission step enqueued it, or it
        has no ``minResources``."""
        spec = gang.spec
        if spec is None or spec.problem:
            return False
        if gang.enqueued_by_engine or gang.ready > 0 or spec.phase not in ("", PENDING) or not self.order.enqueues:
            return True
        tree_queue = self.tree.get(gang.queue)
        return not spec.min_resources and tree_queue is not None and tree_queue.may_grant

    def _index_gang(self, gang: Gang) -> None:
        """Put the next unit of the group into ``grant_index``, or the group into ``enqueue_index`` while it is not
        enqueued."""
        if gang.grant_request is not None:
            self.grant_index.discard(gang.grant_request.queue, gang.key, gang.grant_request.ask)
            self._line_changed(gang.grant_request.queue)
            gang.grant_request = None
        if gang.enqueue_request is not None:
            self.enqueue_index.discard(gang.enqueue_request.queue, gang.key, gang.enqueue_request.ask)
            self._line_changed(gang.enqueue_request.queue)
            gang.enqueue_request = None
        self.overdue_units.discard(gang.key)
        spec = gang.spec
        if spec is None or spec.problem:
            return
        key = self.gang_key(gang)
        if not self.is_enqueued(gang):
            gang.enqueue_request = EnqueueRequest(gang.queue, ask_of(spec.min_resources))
            self.enqueue_index.put(gang.queue, gang.key, gang.enqueue_request.ask, key)
            self._gang_waits(gang, key)
            return
        unit = gang.next_unit(self.order.is_atomic)
        if self.admission is not None and self.admission.holds_gang(self, gang, unit):
            return
        if unit:
            records = [self.records[uid] for uid in unit]
            ask = with_set_aside(with_run_time(self.sum_requests(unit), records), gang.ledger_amounts[1])
            ask = with_window(ask, self.count_in_window(records))
            gang.grant_request = GrantRequest(gang.queue, ask, unit)
            self.grant_index.put(gang.queue, gang.key, gang.grant_request.ask, key)
            self._gang_waits(gang, key)

    def _gang_waits(self, gang: Gang, key: Key) -> None:
        self._line_changed(gang.queue)
        if self.order.has_sla:
            self.overdue_units.put(gang.queue, gang.key, key, self.order.gang_deadline_s(gang))

    def ask_of_unit(self, unit: Unit) -> Ask:
        if isinstance(unit, str):
            return self.records[unit].ask or ()
        request = self.gangs[unit].grant_request
        return () if request is None else request.ask

    def _ask_of_group(self, unit: Unit) -> Ask:
        request = None if isinstance(unit, str) else self.gangs[unit].enqueue_request
        return () if request is None else request.ask

    def sum_requests(self, uids: tuple[str, ...]) -> Ask:
        total: dict[str, int] = {}
        for uid in uids:
            for name, amount in self.records[uid].task.requests.items():
                total[name] = total.get(name, 0) + amount
        return ask_of(total)

    # Sort keys.

    def gang_key(self, gang: Gang, *, placed: bool = False) -> Key:
        tree_queue = self.tree.queues.get(gang.queue)
        return self.order.gang_key(gang, {} if tree_queue is None else tree_queue.limits, placed=placed)

    def placement_key(self, record: PodRecord) -> Key:
        """The sort key among pods that hold a grant."""
        return self.order.pod_key(record) if record.gang is None else self.gang_key(record.gang, placed=True)

    def admission_key(self, record: PodRecord) -> Key:
        """The sort key among units that wait for a grant."""
        return self.order.pod_key(record) if record.gang is None else self.gang_key(record.gang)
