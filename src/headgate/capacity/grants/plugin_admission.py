"""Queue plugins of other packages in the queue engine: which units they hold, and which pods they were told about.

A plugin may hold a unit that its queue has capacity for, reserve something for the pods of a unit, and order the units
of a queue. The engine calls them through :class:`QueuePlugins`; ``scheduling/gates/queue_plugins.py`` implements it,
and keeps their failures away from the engine. An engine without plugins has no :class:`PluginAdmission`.

A held unit is in no index until its hold ends, so it costs nothing and blocks no other unit: it is not in the line of
its queue, nothing is preempted for it, and nothing is set aside for its group. A plugin has a reservation for exactly
the pods that hold capacity of a queue, by a promise or on a node. :meth:`PluginAdmission.settle` compares the two: a
pod that holds capacity no more is released, once, and a pod that got it from an earlier process is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, PodRecord
from headgate.capacity.ordering.admission_index import Unit
from headgate.capacity.ordering.order_keys import Key

if TYPE_CHECKING:
    from headgate.capacity.grants.queue_cache import QueueCache

_HOLD_CAPACITY: Final = (AllocationState.ALLOCATED, *PROMISED)
_NOT_MEMBERS: Final = (AllocationState.GONE, AllocationState.SUCCEEDED)


class AdmissionUnit(msgspec.Struct, frozen=True):
    """Pods that are let in together. ``ancestors``: the queues above ``queue``, the nearest first. ``group``: the name
    of their PodGroup; empty for a pod without one."""

    queue: str
    ancestors: tuple[str, ...]
    namespace: str
    group: str
    uids: tuple[str, ...]

    @property
    def key(self) -> Unit:
        return (self.namespace, self.group) if self.group else self.uids[0]


class QueuePlugins(Protocol):
    """All queue plugins of an engine. ``time_of_day_s``: the seconds since 1970."""

    @property
    def has_order(self) -> bool:
        """Whether a plugin orders units."""

    def admit(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        """Let the unit in, and reserve what it needs. Returns why a plugin holds the unit; then nothing is reserved.
        Empty if it is let in."""

    def check(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        """Whether a plugin would hold the unit, as :meth:`admit`, without a reservation."""

    def ended_holds(self, now_s: float) -> Iterable[Unit]:
        """The held units that the plugins have to be asked about again."""

    def forget_hold(self, unit: Unit) -> None: ...

    def restore(self, unit: AdmissionUnit, time_of_day_s: float) -> None:
        """The pod of the unit got its capacity without the plugins: an earlier process, or another client, gave it."""

    def release(self, uid: str, time_of_day_s: float) -> None:
        """The pod holds capacity no more."""

    def order_keys(self, unit: AdmissionUnit) -> Mapping[str, Key]:
        """By plugin, the part of the sort key of a unit; parts of one plugin are comparable."""

    def forget_order(self, unit: Unit) -> None: ...

    def next_deadline_s(self) -> float | None: ...


class _HeldUnit(msgspec.Struct, frozen=True):
    queue: str
    uids: tuple[str, ...]
    reason: str
    created_s: float


class PluginAdmission:
    """The holds and reservations of one engine."""

    def __init__(self, plugins: QueuePlugins) -> None:
        self._plugins = plugins
        self._held: dict[Unit, _HeldUnit] = {}
        self._held_by_queue: dict[str, dict[Unit, None]] = {}
        self._reserved: dict[str, str] = {}  # by the uid of the pod: the queue that the plugins were told
        self._unsettled: dict[str, None] = {}  # pods whose reservation does not match their state
        self.changed_holds: dict[str, None] = {}  # pods whose hold began or ended; ``engine.py`` returns and clears it
        self._now_s = self._time_of_day_s = 0.0

    def __deepcopy__(self, memo: Any) -> None:
        """A dry run on a copy of the cache (``remedies.py``) calls no plugins."""

    def next_deadline_s(self) -> float | None:
        return -float("inf") if self._unsettled else self._plugins.next_deadline_s()

    def begin_step(self, cache: QueueCache, now_s: float, time_of_day_s: float) -> None:
        """An admission step begins. What is released may end holds."""
        self._now_s, self._time_of_day_s = now_s, time_of_day_s
        self.settle(cache)
        for unit in self._plugins.ended_holds(now_s):
            self._end_hold(unit)
            _index_again(cache, unit)
        cache.process_changes()

    # Holds

    def admit(self, cache: QueueCache, queue: str, uids: tuple[str, ...]) -> bool:
        """Whether the plugins let in the unit of these pods, which its queue has capacity for. Then they have reserved
        what it needs. A larger promise for a resized pod is not asked about: the pod keeps what the unit before it may
        lack."""
        if cache.records[uids[0]].state is AllocationState.RESIZED:
            return True
        self.settle(cache)
        unit = _unit_of(cache, queue, uids)
        reason = self._plugins.admit(unit, self._now_s, self._time_of_day_s)
        if reason:
            self._hold(cache, unit, reason)
            return False
        self._reserved.update(dict.fromkeys(uids, queue))
        return True

    def may_preempt(self, cache: QueueCache, queue: str, uids: tuple[str, ...]) -> bool:
        """Whether capacity may be freed for this unit: not if the plugins would hold it afterwards."""
        record = cache.records[uids[0]]
        if record.state is AllocationState.RESIZED:
            return True
        unit = _unit_of(cache, queue, uids)
        if unit.key in self._held:
            return False
        reason = self._plugins.check(unit, self._now_s, self._time_of_day_s)
        if reason:
            self._hold(cache, unit, reason)
        return not reason

    def holds_gang(self, cache: QueueCache, gang: Gang, uids: tuple[str, ...]) -> bool:
        """Whether the next unit of the gang, these pods, is held. A hold ends when the queue or the pods change."""
        held = self._held.get(gang.key)
        if held is None:
            return False
        if (held.queue, held.uids) == (gang.queue, uids):
            return True
        self.drop_hold(gang.key)
        cache.mark_gang_changed(gang)  # amounts are set aside for it again
        return False

    def has_hold(self, unit: Unit) -> bool:
        return unit in self._held

    def reason(self, unit: Unit) -> str:
        """Why the unit is held; empty if it is not."""
        held = self._held.get(unit)
        return "" if held is None else held.reason

    def held_since_s(self, queue: str) -> list[float]:
        """The creation times of the units that are held in this queue."""
        return [self._held[unit].created_s for unit in self._held_by_queue.get(queue, ())]

    def _hold(self, cache: QueueCache, unit: AdmissionUnit, reason: str) -> None:
        gang = cache.gangs.get((unit.namespace, unit.group)) if unit.group else None
        task = cache.records[unit.uids[0]].task
        created_s = task.created_s if gang is None or gang.spec is None else gang.spec.created_s
        self._held[unit.key] = _HeldUnit(unit.queue, unit.uids, reason, created_s)
        self._held_by_queue.setdefault(unit.queue, {})[unit.key] = None
        self.changed_holds.update(dict.fromkeys(unit.uids))
        _index_again(cache, unit.key)
        cache.process_changes()

    def drop_hold(self, unit: Unit) -> bool:
        """The unit waits no more, or is another one now. Returns whether it was held."""
        if unit not in self._held:
            return False
        self._plugins.forget_hold(unit)
        self._end_hold(unit)
        return True

    def _end_hold(self, unit: Unit) -> None:
        held = self._held.pop(unit)
        units = self._held_by_queue[held.queue]
        del units[unit]
        if not units:
            del self._held_by_queue[held.queue]
        self.changed_holds.update(dict.fromkeys(held.uids))

    # Reservations

    def pod_counted(self, record: PodRecord) -> bool:
        """The state or the queue of the pod may have changed. Returns whether the pod is a unit by itself and held."""
        uid = record.task.uid
        queue = record.queue if record.state in _HOLD_CAPACITY else None
        if self._reserved.get(uid) == queue:
            self._unsettled.pop(uid, None)
        else:
            self._unsettled[uid] = None
        held = self._held.get(uid)
        if held is None:
            return False
        if record.gang is None and record.state is AllocationState.WAITING and record.queue == held.queue:
            return True
        self.drop_hold(uid)
        return False

    def pod_removed(self, uid: str) -> None:
        self.drop_hold(uid)
        self._plugins.forget_order(uid)
        self.changed_holds.pop(uid, None)
        if uid in self._reserved:
            self._unsettled[uid] = None
        else:
            self._unsettled.pop(uid, None)

    def gang_removed(self, gang: Gang) -> None:
        self.drop_hold(gang.key)
        self._plugins.forget_order(gang.key)

    def settle(self, cache: QueueCache) -> None:
        """Tell the plugins about pods that hold capacity no more, and about pods that hold it and that no call of
        :meth:`admit` let in."""
        unsettled, self._unsettled = self._unsettled, {}
        holding: list[PodRecord] = []
        for uid in unsettled:
            record = cache.records.get(uid)
            queue = record.queue if record is not None and record.state in _HOLD_CAPACITY else None
            before = self._reserved.get(uid)
            if before == queue:
                continue
            if before is not None:
                del self._reserved[uid]
                self._plugins.release(uid, self._time_of_day_s)
            if record is not None and queue is not None:
                holding.append(record)
        for record in holding:
            self._reserved[record.task.uid] = record.queue
            self._plugins.restore(_unit_of(cache, record.queue, (record.task.uid,)), self._time_of_day_s)

    # Order

    def pod_order_keys(self, cache: QueueCache, record: PodRecord) -> Mapping[str, Key]:
        if not self._plugins.has_order or record.is_bound:
            return record.order_keys
        return self._plugins.order_keys(_unit_of(cache, record.queue, (record.task.uid,)))

    def gang_order_keys(self, cache: QueueCache, gang: Gang) -> Mapping[str, Key]:
        members = [each.task for each in gang.members.values() if each.state not in _NOT_MEMBERS]
        if not self._plugins.has_order or not members:
            return gang.order_keys
        members.sort(key=gang.task_key)
        return self._plugins.order_keys(_unit_of(cache, gang.queue, tuple(task.uid for task in members)))


def _unit_of(cache: QueueCache, queue: str, uids: tuple[str, ...]) -> AdmissionUnit:
    record = cache.records[uids[0]]
    group = "" if record.gang is None else record.gang.key[1]
    return AdmissionUnit(queue, tuple(cache.tree.path(queue)[1:]), record.task.namespace, group, uids)


def _index_again(cache: QueueCache, unit: Unit) -> None:
    """Put the unit into the index of waiting units, or take it out, if it still waits."""
    if not isinstance(unit, str):
        gang = cache.gangs.get(unit)
        if gang is not None:
            cache.mark_gang_changed(gang)
    elif unit in cache.records:
        record = cache.records[unit]
        cache.remove_from_counts(record)
        cache.add_to_counts(record)
