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
from headgate.waiting.heap import Heap

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
    def __init__(self, settings: SchedulerConf) -> None:
        self.settings = settings
        self.order = order = OrderingPolicy(settings)
        self.tree = QueueTree(settings.has_limits)
        self.ledger = Ledger()
        self.records: dict[str, PodRecord] = {}
        self.gangs: dict[tuple[str, str], Gang] = {}
        self.namespaces: dict[str, str] = {}
        self.followers: dict[str, dict[Unit, None]] = {}  # by namespace: pods and groups that name no queue themselves
        self.grant_index = AdmissionIndex(GrantView(order, self.tree, self.ledger), self._ask_of_unit)
        self.enqueue_index = AdmissionIndex(EnqueueView(order, self.tree, self.ledger), self._ask_of_group)
        self.granted_pod_queues: list[GrantedPodQueue] = []
        self.put_off: Heap[str] = Heap()
        self.pods_to_retry: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.moved: dict[str, None] = {}  # pods that count in another queue than before
        self.growing: dict[str, PodRecord] = {}  # pods that were promised something and ask for more
        self.withdrawn: dict[str, None] = {}  # pods whose promise was taken back
        self.regrouped: dict[str, None] = {}  # pods whose group, or whose requests, are others than before
        self.changed_groups: dict[tuple[str, str], None] = {}  # groups whose object or members are others than before
        self.incomplete_gangs: dict[tuple[str, str], Gang] = {}  # groups with promises that are not whole
        self.enqueued_groups: dict[tuple[str, str], None] = {}
        self.on_nodes: dict[str, dict[str, PodRecord]] = {}  # by queue: pods that have a node
        self.priorities_on_nodes: dict[str, Counter[int]] = {}  # by queue: how many of them have which priority
        self.promises_without_node: dict[
            str, dict[str, PodRecord]
        ] = {}  # by queue: promises for which there is no node
        self.priorities_without_node: dict[str, Counter[int]] = {}  # by queue: how many of them have which priority
        self.queues_to_check: dict[str, None] = {}  # queues that changed since the last call of starving
        self.promises = PromiseTracker(self.tree, self.ledger, self.mark_for_retry)
        self._stale: dict[tuple[str, str], Gang] = {}
        self._gangs_in: dict[str, set[tuple[str, str]]] = {}

    def new_granted_pod_queue(self) -> GrantedPodQueue:
        line = GrantedPodQueue(
            self.order,
            PlacementView(self.order, self.tree, self.ledger),
            self.records.get,
            self.placement_key,
            self.flush,
        )
        self.granted_pod_queues.append(line)
        return line

    def mark_for_retry(self, uid: str) -> None:
        self.pods_to_retry[uid] = None

    # A pod.

    def remove_from_counts(self, record: PodRecord) -> None:
        """Take a pod out of all counts."""
        uid, standing, gang = record.task.uid, record.state, record.gang
        column = _COLUMNS.get(standing)
        if column is not None:
            self.ledger.change(record.counted_queue, column, record.counted, -1)
        if standing in PROMISED:
            self.promises.remove(record)
            self._drop(record, self.promises_without_node, self.priorities_without_node)
            self.growing.pop(uid, None)
        elif standing is AllocationState.ALLOCATED:
            self._drop(record, self.on_nodes, self.priorities_on_nodes)
        elif standing is AllocationState.PUT_OFF:
            self.put_off.discard(uid)
        if record.ask is not None:
            self.grant_index.discard(record.counted_queue, uid, record.ask)
            record.ask = None
        if standing in _HELD_BACK:
            self.ledger.change(record.counted_queue, LedgerColumn.WAITING, {**record.wanted, PODS: 1}, -1)
        elif record.is_terminating:
            self.ledger.change(record.counted_queue, LedgerColumn.TERMINATING, record.counted, -1)
        if gang is not None:
            gang.count_member(record, -1)
            self._stale[gang.key] = gang

    @staticmethod
    def _put(record: PodRecord, lists: dict[str, dict[str, PodRecord]], ranks: dict[str, Counter[int]]) -> None:
        lists.setdefault(record.counted_queue, {})[record.task.uid] = record
        ranks.setdefault(record.counted_queue, Counter())[record.task.priority] += 1

    @staticmethod
    def _drop(record: PodRecord, lists: dict[str, dict[str, PodRecord]], ranks: dict[str, Counter[int]]) -> None:
        there = lists.get(record.counted_queue)
        if there is None or there.pop(record.task.uid, None) is None:
            return
        counted = ranks[record.counted_queue]
        counted[record.task.priority] -= 1
        if not counted[record.task.priority]:
            del counted[record.task.priority]
        if not there:
            del lists[record.counted_queue], ranks[record.counted_queue]

    def add_to_counts(self, record: PodRecord) -> None:
        """Count a pod in the queue and the state of its record."""
        task, gang, before = record.task, record.gang, record.state
        place, record.counted_queue = record.counted_queue, self._find_queue(record)
        if place != record.counted_queue:
            self.moved[task.uid] = None
        for line in self.granted_pod_queues:
            line.update(record)
        record.state = standing = classify(record)
        is_promised = standing in PROMISED
        record.counted = record.promised if is_promised else task.requests
        record.wanted = excess_over(task.requests, record.promised) if is_promised else task.requests
        column = _COLUMNS.get(standing)
        if column is not None:
            self.ledger.change(record.counted_queue, column, record.counted, +1)
        if is_promised:
            self.promises.add(record)
            if record.is_idle:
                self._put(record, self.promises_without_node, self.priorities_without_node)
            if standing is AllocationState.GROWING:
                self.growing[task.uid] = record
        elif standing is AllocationState.ALLOCATED:
            self._put(record, self.on_nodes, self.priorities_on_nodes)
        elif standing is AllocationState.PUT_OFF and record.put_off is not None:
            self.put_off.put(task.uid, record.put_off[0])
        if standing is AllocationState.GROWING or (standing is AllocationState.WAITING and gang is None):
            record.ask = self.ask_alone(record)
            self.grant_index.put(record.counted_queue, task.uid, record.ask, self.order.pod_key(task))
        if standing in _HELD_BACK:
            self.ledger.change(record.counted_queue, LedgerColumn.WAITING, {**record.wanted, PODS: 1}, +1)
        elif record.is_terminating:
            self.ledger.change(record.counted_queue, LedgerColumn.TERMINATING, record.counted, +1)
        if gang is not None:
            gang.count_member(record, +1)
            self._stale[gang.key] = gang
        if (before in HOLDING) != (standing in HOLDING):
            self.mark_for_retry(task.uid)

    def recount(self, record: PodRecord) -> None:
        """The record changed since it was counted."""
        if classify(record) is not record.state:
            self.remove_from_counts(record)
            self.add_to_counts(record)

    def ask_alone(self, record: PodRecord) -> Ask:
        """Under what a pod waits that is a unit by itself. One without a group passes what groups pass before they are
        let in."""
        ask = ask_of(record.wanted)
        is_bare = self.order.enqueues and record.gang is None and record.state is AllocationState.WAITING
        return (*ask, ENQUEUED_MARK) if is_bare and ask else ask

    def take_back(self, record: PodRecord, why: str) -> None:
        """A promise to a pod without a node ends: the pod waits again like any other."""
        self.remove_from_counts(record)
        record.withdraw(why)
        self.add_to_counts(record)
        self.withdrawn[record.task.uid] = None

    def _find_queue(self, record: PodRecord) -> str:
        """The queue of its promise; else that of its group, its own, its namespace's, or the default one."""
        task, gang = record.task, record.gang
        place = record.queue if record.has_fixed_queue else ""
        if not place and gang is not None and gang.spec is not None:
            place = gang.queue
        place = place or task.queue
        self._follow(task.namespace, task.uid, follows=not place)
        return place or self.namespaces.get(task.namespace) or DEFAULT

    def unfollow(self, task: TaskInfo) -> None:
        """The pod is gone."""
        self._follow(task.namespace, task.uid, follows=False)

    def _follow(self, namespace: str, unit: Unit, *, follows: bool) -> None:
        """Whether a change of the namespace's queue is one of this unit's."""
        found = self.followers.get(namespace)
        if follows:
            self.followers.setdefault(namespace, {})[unit] = None
        elif found is not None and found.pop(unit, unit) is None and not found:
            del self.followers[namespace]

    # A group.

    def _find_gang_queue(self, gang: Gang) -> None:
        """The queue of a group is what its object says; else what most of its members name, its namespace's, or the
        default one. Members to whom nothing was promised go where it goes."""
        if gang.spec is None:
            place, follows = "", False
        else:
            named = gang.spec.queue or gang.named_by_members()
            place, follows = named or self.namespaces.get(gang.key[0]) or DEFAULT, not named
        self._follow(gang.key[0], gang.key, follows=follows)
        if place == gang.queue:
            return
        gang.queue = place
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
        self._stale[gang.key] = gang

    def mark_gangs_in(self, queue: str) -> None:
        """Its limits changed, and with them how much of it a group holds."""
        for key in self._gangs_in.get(queue, ()):
            gang = self._stale[key] = self.gangs[key]
            if not gang.was_enqueued:
                self.enqueued_groups[key] = None  # why it is not may be something else now

    def forget_if_empty(self, gang: Gang) -> None:
        if gang.spec is None and not gang.members:
            self.flush()
            self._leave_queue(gang)
            self._follow(gang.key[0], gang.key, follows=False)
            self.enqueued_groups.pop(gang.key, None)
            self.changed_groups.pop(gang.key, None)
            self.incomplete_gangs.pop(gang.key, None)
            self.gangs.pop(gang.key, None)

    def _leave_queue(self, gang: Gang) -> None:
        place = gang.indexed_in[0]
        keys = self._gangs_in.get(place)
        if keys is not None:
            keys.discard(gang.key)
            if not keys:
                del self._gangs_in[place]

    def flush(self) -> None:
        """Update groups, admission indexes and promises with all that changed."""
        while self._stale or self.ledger.touched:
            stale, self._stale = self._stale, {}
            for gang in stale.values():
                self._refresh_gang(gang)
            touched, self.ledger.touched = self.ledger.touched, {}
            for name in touched:
                self._use_changed(name)
        self.promises.flush()

    def _use_changed(self, queue: str) -> None:
        """Where nothing is limited or deserved, use changes neither who fits nor who is next."""
        branch = self.tree.nodes.get(queue)
        if branch is None or branch.limits or branch.deserved or self.order.by_weight:
            self.mark_queue_changed(queue)
        else:
            self.changed[queue] = None
            self.queues_to_check[queue] = None

    def mark_queue_changed(self, queue: str) -> None:
        """Its place, its limits or its state may be others, or its use where that counts."""
        self.changed[queue] = None
        self.queues_to_check[queue] = None
        self.grant_index.mark_queue_changed(queue)
        self.enqueue_index.mark_queue_changed(queue)
        for line in self.granted_pod_queues:
            line.mark_queue_changed(queue)
        self.promises.mark_queue_changed(queue)

    def _refresh_gang(self, gang: Gang) -> None:
        self._leave_queue(gang)
        self._find_gang_queue(gang)
        self._gangs_in.setdefault(gang.queue, set()).add(gang.key)
        place, left, beyond = gang.indexed_in
        self.ledger.change(place, LedgerColumn.INQUEUE, left, -1)
        self.ledger.change(place, LedgerColumn.ELASTIC, beyond, -1)
        is_in = self.is_enqueued(gang)
        if is_in != gang.was_enqueued:
            gang.was_enqueued = is_in
            self.enqueued_groups[gang.key] = None
        left, beyond = gang.unmet_min_resources() if is_in else ({}, {})
        self.ledger.change(gang.queue, LedgerColumn.INQUEUE, left, +1)
        self.ledger.change(gang.queue, LedgerColumn.ELASTIC, beyond, +1)
        gang.indexed_in = (gang.queue, left, beyond)
        self._index_gang(gang)
        self._check_promises(gang)
        for line in self.granted_pod_queues:
            line.rekey(gang)

    def _check_promises(self, gang: Gang) -> None:
        """Whether what its members were promised is of use: they are tried only if they are enough, and a promise of a
        group that is not whole ends with the next admission step unless that makes it whole."""
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
        """Whether the group need not wait for its least resources, or not any more: the API says so, it holds
        something already, or the admission step let it in."""
        spec = gang.spec
        if spec is None or spec.problem:
            return False
        if gang.enqueued_by_us or gang.ready > 0 or spec.phase not in ("", PENDING) or not self.order.enqueues:
            return True
        branch = self.tree.get(gang.queue)
        return not spec.min_resources and branch is not None and branch.may_grant

    def _index_gang(self, gang: Gang) -> None:
        """The group's next unit, or the group itself as long as it was not let in."""
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
        asks_in = None if isinstance(unit, str) else self.gangs[unit].enqueue_request
        return () if asks_in is None else asks_in[1]

    def sum_requests(self, uids: tuple[str, ...]) -> Ask:
        total: dict[str, int] = {}
        for uid in uids:
            for name, amount in self.records[uid].task.requests.items():
                total[name] = total.get(name, 0) + amount
        return ask_of(total)

    # Order.

    def gang_key(self, gang: Gang, *, placed: bool = False) -> Key:
        branch = self.tree.nodes.get(gang.queue)
        return self.order.gang_key(gang, {} if branch is None else branch.limits, placed=placed)

    def placement_key(self, record: PodRecord) -> Key:
        """Among those that hold a grant."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang, placed=True)

    def admission_key(self, record: PodRecord) -> Key:
        """Among those that wait for one."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang)
