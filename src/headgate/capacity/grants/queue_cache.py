"""The queue cache: the state of all queues, groups and pods, and how a change of one pod or group updates it.

A pod is removed from all counts, changed, and added to them again; a group whose members changed is updated on the next
read. ``event_handlers.py`` applies API objects, ``grants.py`` decides, ``wait_reasons.py`` explains, and
``capacity/engine.py`` is the interface to all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from headgate.capacity.api.pod_group_phase import PENDING
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.cache.gang import Gang
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
from headgate.capacity.conf import SchedulerConf
from headgate.capacity.names import DEFAULT
from headgate.capacity.ordering.admission_index import AdmissionIndex, Unit
from headgate.capacity.ordering.granted_pods import GrantedPodQueue
from headgate.capacity.ordering.order_keys import Key, OrderingPolicy
from headgate.capacity.ordering.queue_views import ENQUEUED_MARK, EnqueueView, GrantView, PlacementView
from headgate.kube.resource_amounts import PODS
from headgate.waiting.heap import DeadlineHeap

_COLUMNS: Final = {
    AllocationState.ALLOCATED: LedgerColumn.ALLOCATED,
    AllocationState.RESERVED: LedgerColumn.RESERVED,
    AllocationState.GROWING: LedgerColumn.RESERVED,
}
_HELD_BACK: Final = frozenset(
    {
        AllocationState.WAITING,
        AllocationState.PUT_OFF,
        AllocationState.RESTING,
        AllocationState.FOREIGN,
        AllocationState.GROWING,
    }
)


class QueueCache:
    def __init__(self, conf: SchedulerConf) -> None:
        self.conf = conf
        self.order = order = OrderingPolicy(conf)
        self.tree = QueueTree(conf.has_limits)
        self.ledger = Ledger()
        self.records: dict[str, PodRecord] = {}
        self.gangs: dict[tuple[str, str], Gang] = {}
        self.namespaces: dict[str, str] = {}
        self.inheriting_units: dict[
            str, dict[Unit, None]
        ] = {}  # by namespace: pods and groups that name no queue themselves
        self.grant_index = AdmissionIndex(GrantView(order, self.tree, self.ledger), self._ask_of_unit)
        self.enqueue_index = AdmissionIndex(EnqueueView(order, self.tree, self.ledger), self._ask_of_group)
        self.granted_pod_queues: list[GrantedPodQueue] = []
        self.put_off: DeadlineHeap[str] = DeadlineHeap()
        self.pods_to_retry: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.pods_with_new_queue: dict[str, None] = {}  # pods that count in another queue than before
        self.growing: dict[str, PodRecord] = {}  # promised pods that request more than their promise
        self.withdrawn: dict[str, None] = {}  # pods whose promise was taken back
        self.regrouped: dict[str, None] = {}  # pods whose group or requests changed
        self.changed_groups: dict[tuple[str, str], None] = {}  # groups whose object or members changed
        self.incomplete_gangs: dict[tuple[str, str], Gang] = {}  # groups with promises for less than their minimum
        self.enqueued_groups: dict[tuple[str, str], None] = {}
        self.on_nodes: dict[str, dict[str, PodRecord]] = {}  # by queue: pods that have a node
        self.priorities_on_nodes: dict[str, Counter[int]] = {}  # by queue: their number per priority
        self.promises_without_node: dict[
            str, dict[str, PodRecord]
        ] = {}  # by queue: pods with a revocable promise and no node
        self.priorities_without_node: dict[str, Counter[int]] = {}  # by queue: their number per priority
        self.queues_to_check: dict[str, None] = {}  # queues that changed since the last call of starving_pods
        self.promises = PromiseTracker(self.tree, self.ledger, self.mark_for_retry)
        self._stale_gangs: dict[tuple[str, str], Gang] = {}
        self._gangs_by_queue: dict[str, set[tuple[str, str]]] = {}

    def new_granted_pod_queue(self) -> GrantedPodQueue:
        granted_pods = GrantedPodQueue(
            self.order,
            PlacementView(self.order, self.tree, self.ledger),
            self.records.get,
            self.placement_key,
            self.flush,
        )
        self.granted_pod_queues.append(granted_pods)
        return granted_pods

    def mark_for_retry(self, uid: str) -> None:
        self.pods_to_retry[uid] = None

    # A pod.

    def remove_from_counts(self, record: PodRecord) -> None:
        """Remove a pod from all counts."""
        uid, state, gang = record.task.uid, record.state, record.gang
        column = _COLUMNS.get(state)
        if column is not None:
            self.ledger.change(record.counted_queue, column, record.counted, -1)
        if state in PROMISED:
            self.promises.remove(record)
            self._drop(record, self.promises_without_node, self.priorities_without_node)
            self.growing.pop(uid, None)
        elif state is AllocationState.ALLOCATED:
            self._drop(record, self.on_nodes, self.priorities_on_nodes)
        elif state is AllocationState.PUT_OFF:
            self.put_off.discard(uid)
        if record.ask is not None:
            self.grant_index.discard(record.counted_queue, uid, record.ask)
            record.ask = None
        if state in _HELD_BACK:
            self.ledger.change(record.counted_queue, LedgerColumn.WAITING, {**record.wanted, PODS: 1}, -1)
        elif record.is_terminating:
            self.ledger.change(record.counted_queue, LedgerColumn.TERMINATING, record.counted, -1)
        if gang is not None:
            gang.count_member(record, -1)
            self._stale_gangs[gang.key] = gang

    @staticmethod
    def _put(
        record: PodRecord,
        records_by_queue: dict[str, dict[str, PodRecord]],
        priorities_by_queue: dict[str, Counter[int]],
    ) -> None:
        records_by_queue.setdefault(record.counted_queue, {})[record.task.uid] = record
        priorities_by_queue.setdefault(record.counted_queue, Counter())[record.task.priority] += 1

    @staticmethod
    def _drop(
        record: PodRecord,
        records_by_queue: dict[str, dict[str, PodRecord]],
        priorities_by_queue: dict[str, Counter[int]],
    ) -> None:
        records = records_by_queue.get(record.counted_queue)
        if records is None or records.pop(record.task.uid, None) is None:
            return
        priorities = priorities_by_queue[record.counted_queue]
        priorities[record.task.priority] -= 1
        if not priorities[record.task.priority]:
            del priorities[record.task.priority]
        if not records:
            del records_by_queue[record.counted_queue], priorities_by_queue[record.counted_queue]

    def add_to_counts(self, record: PodRecord) -> None:
        """Count a pod in the queue and the state of its record."""
        task, gang, before = record.task, record.gang, record.state
        queue, record.counted_queue = record.counted_queue, self._find_queue(record)
        if queue != record.counted_queue:
            self.pods_with_new_queue[task.uid] = None
        for granted_pods in self.granted_pod_queues:
            granted_pods.update(record)
        record.state = state = classify(record)
        is_promised = state in PROMISED
        record.counted = record.promised if is_promised else task.requests
        record.wanted = excess_over(task.requests, record.promised) if is_promised else task.requests
        column = _COLUMNS.get(state)
        if column is not None:
            self.ledger.change(record.counted_queue, column, record.counted, +1)
        if is_promised:
            self.promises.add(record)
            if record.is_idle:
                self._put(record, self.promises_without_node, self.priorities_without_node)
            if state is AllocationState.GROWING:
                self.growing[task.uid] = record
        elif state is AllocationState.ALLOCATED:
            self._put(record, self.on_nodes, self.priorities_on_nodes)
        elif state is AllocationState.PUT_OFF and record.put_off is not None:
            self.put_off.put(task.uid, record.put_off[0])
        if state is AllocationState.GROWING or (state is AllocationState.WAITING and gang is None):
            record.ask = self.ask_of_pod(record)
            self.grant_index.put(record.counted_queue, task.uid, record.ask, self.order.pod_key(task))
        if state in _HELD_BACK:
            self.ledger.change(record.counted_queue, LedgerColumn.WAITING, {**record.wanted, PODS: 1}, +1)
        elif record.is_terminating:
            self.ledger.change(record.counted_queue, LedgerColumn.TERMINATING, record.counted, +1)
        if gang is not None:
            gang.count_member(record, +1)
            self._stale_gangs[gang.key] = gang
        if (before in HOLDING) != (state in HOLDING):
            self.mark_for_retry(task.uid)

    def recount(self, record: PodRecord) -> None:
        """Count the pod again if its state changed."""
        if classify(record) is not record.state:
            self.remove_from_counts(record)
            self.add_to_counts(record)

    def ask_of_pod(self, record: PodRecord) -> Ask:
        """The ask of a pod that is a unit by itself. A pod without a group must also pass the check for the enqueueing
        of groups."""
        ask = ask_of(record.wanted)
        is_bare = self.order.enqueues and record.gang is None and record.state is AllocationState.WAITING
        return (*ask, ENQUEUED_MARK) if is_bare and ask else ask

    def take_back(self, record: PodRecord, reason: str) -> None:
        """End the promise to a pod without a node: the pod waits again."""
        self.remove_from_counts(record)
        record.withdraw(reason)
        self.add_to_counts(record)
        self.withdrawn[record.task.uid] = None

    def _find_queue(self, record: PodRecord) -> str:
        """The queue of its promise, else of its group, its annotation, its namespace, or the default queue."""
        task, gang = record.task, record.gang
        queue = record.queue if record.has_fixed_queue else ""
        if not queue and gang is not None and gang.spec is not None:
            queue = gang.queue
        queue = queue or task.queue
        self._set_inherits(task.namespace, task.uid, inherits=not queue)
        return queue or self.namespaces.get(task.namespace) or DEFAULT

    def stop_inheriting(self, task: TaskInfo) -> None:
        """The pod was deleted."""
        self._set_inherits(task.namespace, task.uid, inherits=False)

    def _set_inherits(self, namespace: str, unit: Unit, *, inherits: bool) -> None:
        """Record whether the unit inherits the queue of its namespace."""
        found = self.inheriting_units.get(namespace)
        if inherits:
            self.inheriting_units.setdefault(namespace, {})[unit] = None
        elif found is not None and found.pop(unit, unit) is None and not found:
            del self.inheriting_units[namespace]

    # A group.

    def _find_gang_queue(self, gang: Gang) -> None:
        """Set the queue of a group: from its object, else the one that most members name, the namespace's, or the
        default queue. Members without a promise move with it."""
        if gang.spec is None:
            queue, inherits = "", False
        else:
            named = gang.spec.queue or gang.named_by_members()
            queue, inherits = named or self.namespaces.get(gang.key[0]) or DEFAULT, not named
        self._set_inherits(gang.key[0], gang.key, inherits=inherits)
        if queue == gang.queue:
            return
        gang.queue = queue
        gang.enqueued_by_us = gang.enqueued_by_us and gang.ready > 0
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
        """The limits of the queue changed, and with them the shares of its groups."""
        for key in self._gangs_by_queue.get(queue, ()):
            gang = self._stale_gangs[key] = self.gangs[key]
            if not gang.was_enqueued:
                self.enqueued_groups[key] = None  # its reason to wait may have changed

    def forget_if_empty(self, gang: Gang) -> None:
        if gang.spec is None and not gang.members:
            self.flush()
            self._leave_queue(gang)
            self._set_inherits(gang.key[0], gang.key, inherits=False)
            self.enqueued_groups.pop(gang.key, None)
            self.changed_groups.pop(gang.key, None)
            self.incomplete_gangs.pop(gang.key, None)
            self.gangs.pop(gang.key, None)

    def _leave_queue(self, gang: Gang) -> None:
        queue = gang.indexed_in[0]
        keys = self._gangs_by_queue.get(queue)
        if keys is not None:
            keys.discard(gang.key)
            if not keys:
                del self._gangs_by_queue[queue]

    def flush(self) -> None:
        """Update groups, admission indexes and promises with all changes since the last call."""
        while self._stale_gangs or self.ledger.touched:
            stale, self._stale_gangs = self._stale_gangs, {}
            for gang in stale.values():
                self._refresh_gang(gang)
            touched, self.ledger.touched = self.ledger.touched, {}
            for name in touched:
                self._usage_changed(name)
        self.promises.flush()

    def _usage_changed(self, queue: str) -> None:
        """The usage of a queue changed. Without limits and deserved amounts this affects neither fit nor order."""
        queue_node = self.tree.nodes.get(queue)
        if queue_node is None or queue_node.limits or queue_node.deserved or self.order.by_weight:
            self.mark_queue_changed(queue)
        else:
            self.changed[queue] = None
            self.queues_to_check[queue] = None

    def mark_queue_changed(self, queue: str) -> None:
        """The parent, limits, state or usage of the queue may have changed."""
        self.changed[queue] = None
        self.queues_to_check[queue] = None
        self.grant_index.mark_queue_changed(queue)
        self.enqueue_index.mark_queue_changed(queue)
        for granted_pods in self.granted_pod_queues:
            granted_pods.mark_queue_changed(queue)
        self.promises.mark_queue_changed(queue)

    def _refresh_gang(self, gang: Gang) -> None:
        self._leave_queue(gang)
        self._find_gang_queue(gang)
        self._gangs_by_queue.setdefault(gang.queue, set()).add(gang.key)
        queue, unmet, beyond = gang.indexed_in
        self.ledger.change(queue, LedgerColumn.INQUEUE, unmet, -1)
        self.ledger.change(queue, LedgerColumn.ELASTIC, beyond, -1)
        is_enqueued = self.is_enqueued(gang)
        if is_enqueued != gang.was_enqueued:
            gang.was_enqueued = is_enqueued
            self.enqueued_groups[gang.key] = None
        unmet, beyond = gang.unmet_min_resources() if is_enqueued else ({}, {})
        self.ledger.change(gang.queue, LedgerColumn.INQUEUE, unmet, +1)
        self.ledger.change(gang.queue, LedgerColumn.ELASTIC, beyond, +1)
        gang.indexed_in = (gang.queue, unmet, beyond)
        self._index_gang(gang)
        self._check_promises(gang)
        for granted_pods in self.granted_pod_queues:
            granted_pods.rekey(gang)

    def _check_promises(self, gang: Gang) -> None:
        """Update what depends on whether the gang is complete: promises of an incomplete gang end in the next admission
        step unless it completes the gang, and members are tried only if enough of them have grants."""
        is_whole = gang.has_minimum if self.order.is_atomic else gang.is_valid
        if gang.has_promises and not is_whole:
            self.incomplete_gangs[gang.key] = gang
        else:
            self.incomplete_gangs.pop(gang.key, None)
        if gang.lacks_pods is not gang.lacked_pods:
            gang.lacked_pods = gang.lacks_pods
            self.changed_groups[gang.key] = None
        could_start, gang.could_start = (
            gang.could_start,
            not gang.counts.get(AllocationState.RESERVED) or gang.can_start,
        )
        if could_start is not gang.could_start:
            for uid, record in gang.members.items():
                if record.state is AllocationState.RESERVED:
                    self.mark_for_retry(uid)

    def is_enqueued(self, gang: Gang) -> bool:
        """Whether the group is enqueued: the API says so, a member has a grant, the admission step enqueued it, or it
        has no ``minResources``."""
        spec = gang.spec
        if spec is None or spec.problem:
            return False
        if gang.enqueued_by_us or gang.ready > 0 or spec.phase not in ("", PENDING) or not self.order.enqueues:
            return True
        queue_node = self.tree.get(gang.queue)
        return not spec.min_resources and queue_node is not None and queue_node.may_grant

    def _index_gang(self, gang: Gang) -> None:
        """Put the next unit of the group into the grant index, or the group into the enqueue index if it is not
        enqueued."""
        if gang.entry is not None:
            self.grant_index.discard(gang.entry[0], gang.key, gang.entry[1])
            gang.entry = None
        if gang.enqueue_request is not None:
            self.enqueue_index.discard(gang.enqueue_request[0], gang.key, gang.enqueue_request[1])
            gang.enqueue_request = None
        spec = gang.spec
        if spec is None or spec.problem:
            return
        key = self.gang_key(gang)
        if not self.is_enqueued(gang):
            gang.enqueue_request = (gang.queue, ask_of(spec.min_resources))
            self.enqueue_index.put(gang.queue, gang.key, gang.enqueue_request[1], key)
            return
        unit = gang.next_unit(self.order.is_atomic)
        if unit:
            gang.entry = (gang.queue, self.sum_requests(unit), unit)
            self.grant_index.put(gang.queue, gang.key, gang.entry[1], key)

    def _ask_of_unit(self, unit: Unit) -> Ask:
        if isinstance(unit, str):
            return self.records[unit].ask or ()
        entry = self.gangs[unit].entry
        return () if entry is None else entry[1]

    def _ask_of_group(self, unit: Unit) -> Ask:
        request = None if isinstance(unit, str) else self.gangs[unit].enqueue_request
        return () if request is None else request[1]

    def sum_requests(self, uids: tuple[str, ...]) -> Ask:
        total: dict[str, int] = {}
        for uid in uids:
            for name, amount in self.records[uid].task.requests.items():
                total[name] = total.get(name, 0) + amount
        return ask_of(total)

    # Order.

    def gang_key(self, gang: Gang, *, placed: bool = False) -> Key:
        queue_node = self.tree.nodes.get(gang.queue)
        return self.order.gang_key(gang, {} if queue_node is None else queue_node.limits, placed=placed)

    def placement_key(self, record: PodRecord) -> Key:
        """The sort key among pods that hold a grant."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang, placed=True)

    def admission_key(self, record: PodRecord) -> Key:
        """The sort key among units that wait for a grant."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang)
