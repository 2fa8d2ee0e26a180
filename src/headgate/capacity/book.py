"""The book: everything the queues know, and how one change of one pod or group moves through it.

A pod is *lifted* out of all counts, changed, and *settled* again; a group whose members changed is brought up to date
when somebody next looks. ``intake.py`` brings the API's facts, ``admitting.py`` decides, ``verdicts.py`` explains, and
``queues.py`` is the door to all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from headgate.capacity.groups import Gang
from headgate.capacity.ledger import Column, Ledger
from headgate.capacity.line import Line
from headgate.capacity.lineup import Lineup, Unit
from headgate.capacity.names import DEFAULT
from headgate.capacity.order import Key, Order
from headgate.capacity.phases import PENDING
from headgate.capacity.promises import Promises
from headgate.capacity.record import HELD, PROMISED, Ask, Record, Standing, ask_of, beyond, classify
from headgate.capacity.settings import Settings
from headgate.capacity.task import Task
from headgate.capacity.tree import Tree
from headgate.capacity.views import ENQUEUED, EnqueueViews, GrantViews, PlainViews
from headgate.kube.amounts import PODS
from headgate.waiting.heap import Heap

_COLUMNS: Final = {
    Standing.ALLOCATED: Column.ALLOCATED,
    Standing.RESERVED: Column.RESERVED,
    Standing.GROWING: Column.RESERVED,
}
_HELD_BACK: Final = frozenset(
    {Standing.WAITING, Standing.PUT_OFF, Standing.RESTING, Standing.FOREIGN, Standing.GROWING}
)


class Book:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.order = order = Order(settings)
        self.tree = Tree(settings.has_limits)
        self.ledger = Ledger()
        self.records: dict[str, Record] = {}
        self.gangs: dict[tuple[str, str], Gang] = {}
        self.namespaces: dict[str, str] = {}
        self.followers: dict[str, dict[Unit, None]] = {}  # by namespace: pods and groups that name no queue themselves
        self.grants = Lineup(GrantViews(order, self.tree, self.ledger), self._ask_of_unit)
        self.enqueues = Lineup(EnqueueViews(order, self.tree, self.ledger), self._ask_of_group)
        self.lines: list[Line] = []
        self.put_off: Heap[str] = Heap()
        self.stirred: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.moved: dict[str, None] = {}  # pods that count in another queue than before
        self.growing: dict[str, Record] = {}  # pods that were promised something and ask for more
        self.withdrawn: dict[str, None] = {}  # pods whose promise was taken back
        self.regrouped: dict[str, None] = {}  # pods whose group, or whose requests, are others than before
        self.respecified: dict[tuple[str, str], None] = {}  # groups whose object or members are others than before
        self.short: dict[tuple[str, str], Gang] = {}  # groups with promises that are not whole
        self.entered: dict[tuple[str, str], None] = {}
        self.on_nodes: dict[str, dict[str, Record]] = {}  # by queue: pods that have a node
        self.ranks: dict[str, Counter[int]] = {}  # by queue: how many of them have which priority
        self.idle: dict[str, dict[str, Record]] = {}  # by queue: promises for which there is no node
        self.idle_ranks: dict[str, Counter[int]] = {}  # by queue: how many of them have which priority
        self.restless: dict[str, None] = {}  # queues in which something changed since somebody looked who starves
        self.promises = Promises(self.tree, self.ledger, self.stir)
        self._stale: dict[tuple[str, str], Gang] = {}
        self._gangs_in: dict[str, set[tuple[str, str]]] = {}

    def new_line(self) -> Line:
        line = Line(
            self.order, PlainViews(self.order, self.tree, self.ledger), self.records.get, self.turn_key, self.settle_all
        )
        self.lines.append(line)
        return line

    def stir(self, uid: str) -> None:
        self.stirred[uid] = None

    # A pod.

    def lift(self, record: Record) -> None:
        """Take a pod out of all counts."""
        uid, standing, gang = record.task.uid, record.standing, record.gang
        column = _COLUMNS.get(standing)
        if column is not None:
            self.ledger.change(record.place, column, record.counted, -1)
        if standing in PROMISED:
            self.promises.remove(record)
            self._drop(record, self.idle, self.idle_ranks)
            self.growing.pop(uid, None)
        elif standing is Standing.ALLOCATED:
            self._drop(record, self.on_nodes, self.ranks)
        elif standing is Standing.PUT_OFF:
            self.put_off.discard(uid)
        if record.ask is not None:
            self.grants.discard(record.place, uid, record.ask)
            record.ask = None
        if standing in _HELD_BACK:
            self.ledger.change(record.place, Column.WAITING, {**record.wanted, PODS: 1}, -1)
        elif record.is_terminating:
            self.ledger.change(record.place, Column.TERMINATING, record.counted, -1)
        if gang is not None:
            gang.counted(record, -1)
            self._stale[gang.key] = gang

    @staticmethod
    def _put(record: Record, lists: dict[str, dict[str, Record]], ranks: dict[str, Counter[int]]) -> None:
        lists.setdefault(record.place, {})[record.task.uid] = record
        ranks.setdefault(record.place, Counter())[record.task.priority] += 1

    @staticmethod
    def _drop(record: Record, lists: dict[str, dict[str, Record]], ranks: dict[str, Counter[int]]) -> None:
        there = lists.get(record.place)
        if there is None or there.pop(record.task.uid, None) is None:
            return
        counted = ranks[record.place]
        counted[record.task.priority] -= 1
        if not counted[record.task.priority]:
            del counted[record.task.priority]
        if not there:
            del lists[record.place], ranks[record.place]

    def settle(self, record: Record) -> None:
        """Put a pod where its record says that it belongs."""
        task, gang, before = record.task, record.gang, record.standing
        place, record.place = record.place, self._find_place(record)
        if place != record.place:
            self.moved[task.uid] = None
        for line in self.lines:
            line.follow(record)
        record.standing = standing = classify(record)
        is_promised = standing in PROMISED
        record.counted = record.promised if is_promised else task.requests
        record.wanted = beyond(task.requests, record.promised) if is_promised else task.requests
        column = _COLUMNS.get(standing)
        if column is not None:
            self.ledger.change(record.place, column, record.counted, +1)
        if is_promised:
            self.promises.add(record)
            if record.is_idle:
                self._put(record, self.idle, self.idle_ranks)
            if standing is Standing.GROWING:
                self.growing[task.uid] = record
        elif standing is Standing.ALLOCATED:
            self._put(record, self.on_nodes, self.ranks)
        elif standing is Standing.PUT_OFF and record.put_off is not None:
            self.put_off.put(task.uid, record.put_off[0])
        if standing is Standing.GROWING or (standing is Standing.WAITING and gang is None):
            record.ask = self.ask_alone(record)
            self.grants.put(record.place, task.uid, record.ask, self.order.pod_key(task))
        if standing in _HELD_BACK:
            self.ledger.change(record.place, Column.WAITING, {**record.wanted, PODS: 1}, +1)
        elif record.is_terminating:
            self.ledger.change(record.place, Column.TERMINATING, record.counted, +1)
        if gang is not None:
            gang.counted(record, +1)
            self._stale[gang.key] = gang
        if (before in HELD) != (standing in HELD):
            self.stir(task.uid)

    def change(self, record: Record) -> None:
        """The record says something else now than when it was settled."""
        if classify(record) is not record.standing:
            self.lift(record)
            self.settle(record)

    def ask_alone(self, record: Record) -> Ask:
        """Under what a pod waits that is a unit by itself. One without a group passes what groups pass before they are
        let in."""
        ask = ask_of(record.wanted)
        is_bare = self.order.enqueues and record.gang is None and record.standing is Standing.WAITING
        return (*ask, ENQUEUED) if is_bare and ask else ask

    def take_back(self, record: Record, why: str) -> None:
        """A promise to a pod without a node ends: the pod waits again like any other."""
        self.lift(record)
        record.withdraw(why)
        self.settle(record)
        self.withdrawn[record.task.uid] = None

    def _find_place(self, record: Record) -> str:
        """The queue of its promise; else that of its group, its own, its namespace's, or the default one."""
        task, gang = record.task, record.gang
        place = record.queue if record.is_fixed else ""
        if not place and gang is not None and gang.spec is not None:
            place = gang.place
        place = place or task.queue
        self._follow(task.namespace, task.uid, follows=not place)
        return place or self.namespaces.get(task.namespace) or DEFAULT

    def unfollow(self, task: Task) -> None:
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

    def _locate(self, gang: Gang) -> None:
        """The queue of a group is what its object says; else what most of its members name, its namespace's, or the
        default one. Members to whom nothing was promised go where it goes."""
        if gang.spec is None:
            place, follows = "", False
        else:
            named = gang.spec.queue or gang.named_by_members()
            place, follows = named or self.namespaces.get(gang.key[0]) or DEFAULT, not named
        self._follow(gang.key[0], gang.key, follows=follows)
        if place == gang.place:
            return
        gang.place = place
        gang.let_in = gang.let_in and gang.ready > 0
        for record in list(gang.members.values()):
            if not record.is_fixed:
                self.lift(record)
                self.settle(record)

    def gang(self, namespace: str, name: str) -> Gang:
        gang = self.gangs.get((namespace, name))
        if gang is None:
            gang = self.gangs[namespace, name] = Gang(namespace, name, self.order.task_key)
        return gang

    def mark(self, gang: Gang) -> None:
        self._stale[gang.key] = gang

    def mark_gangs_in(self, queue: str) -> None:
        """Its limits changed, and with them how much of it a group holds."""
        for key in self._gangs_in.get(queue, ()):
            gang = self._stale[key] = self.gangs[key]
            if not gang.was_in:
                self.entered[key] = None  # why it is not may be something else now

    def forget_if_empty(self, gang: Gang) -> None:
        if gang.spec is None and not gang.members:
            self.settle_all()
            self._leave_queue(gang)
            self._follow(gang.key[0], gang.key, follows=False)
            self.entered.pop(gang.key, None)
            self.respecified.pop(gang.key, None)
            self.short.pop(gang.key, None)
            self.gangs.pop(gang.key, None)

    def _leave_queue(self, gang: Gang) -> None:
        place = gang.posted[0]
        keys = self._gangs_in.get(place)
        if keys is not None:
            keys.discard(gang.key)
            if not keys:
                del self._gangs_in[place]

    def settle_all(self) -> None:
        """Bring groups, lineups and promises up to date with all that changed."""
        while self._stale or self.ledger.touched:
            stale, self._stale = self._stale, {}
            for gang in stale.values():
                self._bring_up_to_date(gang)
            touched, self.ledger.touched = self.ledger.touched, {}
            for name in touched:
                self._use_changed(name)
        self.promises.settle()

    def _use_changed(self, queue: str) -> None:
        """Where nothing is limited or deserved, use changes neither who fits nor who is next."""
        branch = self.tree.branches.get(queue)
        if branch is None or branch.limits or branch.deserved or self.order.by_weight:
            self.touch(queue)
        else:
            self.changed[queue] = None
            self.restless[queue] = None

    def touch(self, queue: str) -> None:
        """Its place, its limits or its state may be others, or its use where that counts."""
        self.changed[queue] = None
        self.restless[queue] = None
        self.grants.touch(queue)
        self.enqueues.touch(queue)
        for line in self.lines:
            line.touch(queue)
        self.promises.check(queue)

    def _bring_up_to_date(self, gang: Gang) -> None:
        self._leave_queue(gang)
        self._locate(gang)
        self._gangs_in.setdefault(gang.place, set()).add(gang.key)
        place, left, beyond = gang.posted
        self.ledger.change(place, Column.INQUEUE, left, -1)
        self.ledger.change(place, Column.ELASTIC, beyond, -1)
        is_in = self.is_in(gang)
        if is_in != gang.was_in:
            gang.was_in = is_in
            self.entered[gang.key] = None
        left, beyond = gang.minimum_left() if is_in else ({}, {})
        self.ledger.change(gang.place, Column.INQUEUE, left, +1)
        self.ledger.change(gang.place, Column.ELASTIC, beyond, +1)
        gang.posted = (gang.place, left, beyond)
        self._stand_in_line(gang)
        self._judge(gang)
        for line in self.lines:
            line.rekey(gang)

    def _judge(self, gang: Gang) -> None:
        """Whether what its members were promised is of use: they are tried only if they are enough, and a promise of a
        group that is not whole ends with the next admission step unless that makes it whole."""
        is_whole = gang.is_whole if self.order.is_atomic else gang.is_sound
        if gang.has_promises and not is_whole:
            self.short[gang.key] = gang
        else:
            self.short.pop(gang.key, None)
        if gang.is_short is not gang.was_short:
            gang.was_short = gang.is_short
            self.respecified[gang.key] = None
        could_start, gang.could_start = gang.could_start, not gang.counts.get(Standing.RESERVED) or gang.can_start
        if could_start is not gang.could_start:
            for uid, record in gang.members.items():
                if record.standing is Standing.RESERVED:
                    self.stir(uid)

    def is_in(self, gang: Gang) -> bool:
        """Whether the group need not wait for its least resources, or not any more: the API says so, it holds
        something already, or the admission step let it in."""
        spec = gang.spec
        if spec is None or spec.problem:
            return False
        if gang.let_in or gang.ready > 0 or spec.phase not in ("", PENDING) or not self.order.enqueues:
            return True
        branch = self.tree.get(gang.place)
        return not spec.min_resources and branch is not None and branch.may_grant

    def _stand_in_line(self, gang: Gang) -> None:
        """The group's next unit, or the group itself as long as it was not let in."""
        if gang.entry is not None:
            self.grants.discard(gang.entry[0], gang.key, gang.entry[1])
            gang.entry = None
        if gang.asks_in is not None:
            self.enqueues.discard(gang.asks_in[0], gang.key, gang.asks_in[1])
            gang.asks_in = None
        spec = gang.spec
        if spec is None or spec.problem:
            return
        key = self.gang_key(gang)
        if not self.is_in(gang):
            gang.asks_in = (gang.place, ask_of(spec.min_resources))
            self.enqueues.put(gang.place, gang.key, gang.asks_in[1], key)
            return
        unit = gang.next_unit(self.order.is_atomic)
        if unit:
            gang.entry = (gang.place, self.sum_up(unit), unit)
            self.grants.put(gang.place, gang.key, gang.entry[1], key)

    def _ask_of_unit(self, unit: Unit) -> Ask:
        if isinstance(unit, str):
            return self.records[unit].ask or ()
        entry = self.gangs[unit].entry
        return () if entry is None else entry[1]

    def _ask_of_group(self, unit: Unit) -> Ask:
        asks_in = None if isinstance(unit, str) else self.gangs[unit].asks_in
        return () if asks_in is None else asks_in[1]

    def sum_up(self, uids: tuple[str, ...]) -> Ask:
        total: dict[str, int] = {}
        for uid in uids:
            for name, amount in self.records[uid].task.requests.items():
                total[name] = total.get(name, 0) + amount
        return ask_of(total)

    # Order.

    def gang_key(self, gang: Gang, *, placed: bool = False) -> Key:
        branch = self.tree.branches.get(gang.place)
        return self.order.gang_key(gang, {} if branch is None else branch.limits, placed=placed)

    def turn_key(self, record: Record) -> Key:
        """Among those that hold a grant."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang, placed=True)

    def job_key(self, record: Record) -> Key:
        """Among those that wait for one."""
        return self.order.pod_key(record.task) if record.gang is None else self.gang_key(record.gang)
