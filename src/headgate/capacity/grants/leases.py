"""Leases of promises (feature gate ``ReservationLease``): a promise that gets no node in its time lapses.

The lease of a promise begins when the API shows its stamp; a sign that a node is being added for the pod begins it
again (:meth:`PromiseLeases.renew`). A restarted process begins all leases again, because signs are not recorded. The
promises of a gang whose minimum has no nodes lapse together, and a sign for one member counts for all.

A pod whose promise lapsed asks its queue again after a back-off, behind the pods that waited at the time of the lapse:
so a pod that fits no node delays no other pod of its priority for longer than its lease. Deadlines are in heaps; only
pods and queues that changed are looked at. ``scheduling/gates/reservation_leases.py`` decides which expired leases are
renewed, and removes the stamps of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headgate.capacity.api.lease import DEFAULT_LEASE_S, Lapse, read_lease_s
from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, PodRecord
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import LEASE
from headgate.kube.lenient_reader import find_object, find_text
from headgate.waiting.heap import DeadlineHeap


class PromiseInfo(msgspec.Struct, frozen=True):
    """A promise to a pod without a node. ``at``: when it was made, as an API timestamp. ``lease_s``: the time of its
    lease; infinite if it never lapses. ``lease_source``: the object that sets that time; empty for the default.
    ``is_committed``: another scheduler may bind the pod, so that the promise has no lease. ``not_counted_in``: the
    queues in whose windows the pod no longer counts."""

    at: str
    lease_s: float
    lease_source: str = ""
    is_committed: bool = False
    not_counted_in: tuple[str, ...] = ()


class PromiseLeases:
    """The leases of one queue engine. Times are those of the caller's clock, except where they are named as seconds
    since 1970."""

    def __init__(self, cache: QueueCache) -> None:
        self._cache = cache
        self._began_s: dict[str, float] = {}  # by uid: when the lease began, or was renewed
        self._deadlines: DeadlineHeap[str] = DeadlineHeap()  # leases that end
        # Members of gangs whose leases end with the last one, by uid: the key of the gang.
        self._postponed: dict[str, tuple[str, str]] = {}
        self._retries: DeadlineHeap[str] = DeadlineHeap()  # lapsed pods, by the time at which they ask again
        self._class_leases_s: dict[str, float] = {}  # by the name of a PriorityClass

    def apply_priority_class(self, obj: Mapping[str, Any]) -> None:
        metadata = find_object(obj, "metadata")
        lease_s = read_lease_s(find_object(metadata, "annotations").get(LEASE))
        self._set_class(find_text(metadata, "name"), None if isinstance(lease_s, str) else lease_s)

    def remove_priority_class(self, name: str) -> None:
        self._set_class(name, None)

    def _set_class(self, name: str, lease_s: float | None) -> None:
        if self._class_leases_s.get(name) == lease_s:
            return
        if lease_s is None:
            del self._class_leases_s[name]
        else:
            self._class_leases_s[name] = lease_s
        for uid in self._began_s:
            record = self._cache.records.get(uid)
            if record is not None and record.task.priority_class == name:
                self._cache.lease_changes[uid] = None

    def lease_s(self, record: PodRecord) -> float:
        """The time of a lease: the pod's, that of its PriorityClass, that of its queue or the nearest ancestor, or the
        default."""
        return self._time_and_source(record)[0]

    def _time_and_source(self, record: PodRecord) -> tuple[float, str]:
        """The time of a lease, and the object that sets it; empty for the default."""
        if record.task.lease_s is not None:
            return record.task.lease_s, "pod"
        of_class = self._class_leases_s.get(record.task.priority_class)
        if of_class is not None:
            return of_class, f"PriorityClass {record.task.priority_class}"
        for name in self._cache.tree.path(record.queue):
            tree_queue = self._cache.tree.queues.get(name)
            if tree_queue is not None and tree_queue.spec.lease_s is not None:
                return tree_queue.spec.lease_s, f"queue {name}"
        return DEFAULT_LEASE_S, ""

    def find_promise(self, uid: str) -> PromiseInfo | None:
        """The promise to a pod that has no node."""
        record = self._cache.records.get(uid)
        if record is None or record.state not in PROMISED or not record.is_stamped:
            return None
        lease_s, source = self._time_and_source(record)
        overdue = tuple(self._cache.windows.timeouts.overdue_in(uid))
        return PromiseInfo(record.promised_at, lease_s, source, record.is_committed, overdue)

    def update(self, now_s: float, time_of_day_s: float) -> None:
        """Begin the leases of new promises, end those of promises that are gone, and make lapsed pods whose back-off is
        over wait for a grant again. ``time_of_day_s``: the seconds since 1970 at ``now_s``."""
        cache = self._cache
        cache.process_changes()
        changes, cache.lease_changes = cache.lease_changes, {}
        changed_gangs: dict[tuple[str, str], None] = {}
        for uid in changes:
            if uid in self._postponed:
                changed_gangs[self._postponed.pop(uid)] = None
            record = cache.records.get(uid)
            if record is None or not _has_lease(record):
                self._began_s.pop(uid, None)
                self._deadlines.discard(uid)
            else:
                self._began_s.setdefault(uid, now_s)
                self._set_deadline(record)
            if record is None or record.lapse is None or not record.is_lapsed:
                self._retries.discard(uid)
            else:
                if record.lapse.at_s > time_of_day_s:
                    self._correct_lapse(record, time_of_day_s)
                self._retries.put(uid, now_s + record.lapse.retry_s - time_of_day_s)
        for key in changed_gangs:
            gang = cache.gangs.get(key)
            for record in () if gang is None else gang.members.values():
                if record.task.uid in self._began_s:
                    self._set_deadline(record)
        for uid in self._retries.due(now_s):
            self.end_backoff(uid)

    def end_backoff(self, uid: str) -> None:
        """Make a pod whose promise lapsed wait for a grant again."""
        record = self._cache.records.get(uid)
        if record is not None and record.is_lapsed:
            record.is_lapsed = False
            self._cache.recount(record)
            self._cache.changed_pods[uid] = None

    def _correct_lapse(self, record: PodRecord, now_s: float) -> None:
        """The recorded time of the lapse is in the future: the clock that wrote it was ahead. The lapse counts as of
        now, so that the pod waits no longer than its back-off, and not behind pods that come later."""
        self._cache.remove_from_counts(record)
        record.correct_lapse(now_s)
        self._cache.add_to_counts(record)

    def _set_deadline(self, record: PodRecord) -> None:
        uid = record.task.uid
        until_s = self._began_s[uid] + self.lease_s(record)
        if math.isinf(until_s):
            self._deadlines.discard(uid)
        elif self._deadlines.key_of(uid) != until_s:
            self._deadlines.put(uid, until_s)

    def renew(self, uid: str, from_s: float, at_least_s: float = 0.0) -> None:
        """A node is being added for the pod: its lease begins at ``from_s`` again, unless it began later, and lasts for
        ``at_least_s``."""
        record = self._cache.records.get(uid)
        began_s = self._began_s.get(uid)
        if record is None or began_s is None or not _has_lease(record):
            return
        lease_s = self.lease_s(record)
        self._began_s[uid] = max(began_s, from_s + (0.0 if math.isinf(lease_s) else max(at_least_s - lease_s, 0.0)))
        self._set_deadline(record)

    def expired(self, now_s: float) -> list[tuple[str, ...]]:
        """The units whose leases have ended, each with the pods whose promises lapse together. The caller either renews
        the lease of each pod of a unit, or begins its lapse."""
        cache = self._cache
        units: list[tuple[str, ...]] = []
        gangs: dict[tuple[str, str], Gang] = {}
        for uid in self._deadlines.due(now_s):
            gang = cache.records[uid].gang
            if gang is None or gang.is_placed or not cache.order.is_atomic:
                units.append((uid,))
            else:
                gangs[gang.key] = gang
        units += [unit for gang in gangs.values() if (unit := self._expired_members(gang, now_s))]
        return units + [unit for key in cache.incomplete_gangs if (unit := self._partly_lapsed(key, units))]

    def _partly_lapsed(self, key: tuple[str, str], expired: list[tuple[str, ...]]) -> tuple[str, ...]:
        """The promised members of a gang that is below its minimum because other members have lapsed: the process was
        killed before all stamps of the gang were removed, or a member was deleted. They lapse, too, so that their
        capacity is not granted before their stamps are removed."""
        gang = self._cache.gangs[key]
        if not self._cache.order.is_atomic or not gang.counts.get(AllocationState.LAPSED):
            return ()
        found = tuple(sorted(each.task.uid for each in gang.members.values() if _has_lease(each)))
        return () if found in expired else found

    def _expired_members(self, gang: Gang, now_s: float) -> tuple[str, ...]:
        """The promised members of a gang, if all their leases have ended. Otherwise all of them end with the last."""
        promised = [each for each in gang.members.values() if each.state in PROMISED]
        latest_s = max((self._ends_s(each, now_s) for each in promised), default=now_s)
        if latest_s <= now_s:
            return tuple(sorted(each.task.uid for each in promised))
        for uid in (each.task.uid for each in promised if each.task.uid in self._began_s):
            self._postponed[uid] = gang.key
            if math.isinf(latest_s):
                self._deadlines.discard(uid)
            else:
                self._deadlines.put(uid, latest_s)
        return ()

    def _ends_s(self, record: PodRecord, now_s: float) -> float:
        """When the lease of a promised pod ends. A promise that has no lease yet, because its stamp is not shown, has
        its whole time."""
        began_s = self._began_s.get(record.task.uid)
        return (now_s if began_s is None else began_s) + self.lease_s(record)

    def begin_lapse(self, uids: Iterable[str], time_of_day_s: float) -> dict[str, Lapse]:
        """The promises of this unit lapse: from now on the pods are not tried. The promises count until
        :meth:`end_lapse`."""
        records = [self._cache.records[uid] for uid in uids]
        count = 1 + max(0 if each.lapse is None else each.lapse.count for each in records)
        lapse = Lapse(count, time_of_day_s)
        for record in records:
            record.pending_lapse = lapse
            self._cache.set_being_revoked(record, is_being_revoked=True)
            self._cache.lease_changes[record.task.uid] = None
        return {each.task.uid: lapse for each in records}

    def end_lapse(self, uids: Iterable[str]) -> None:
        """The stamps of these pods were removed: their promises end, unless a pod got a node in the meantime. The
        members of their gang that wait for a grant wait with them."""
        cache = self._cache
        waiting: dict[str, tuple[PodRecord, Lapse]] = {}
        for uid in uids:
            record = cache.records.get(uid)
            if record is None or record.pending_lapse is None:
                continue
            lapse, record.pending_lapse = record.pending_lapse, None
            cache.set_being_revoked(record, is_being_revoked=False)
            if record.state not in PROMISED:
                continue
            cache.lapse(record, lapse)
            if record.gang is not None and not record.gang.is_placed and cache.order.is_atomic:
                members = record.gang.members.values()
                waiting |= {each.task.uid: (each, lapse) for each in members if each.state is AllocationState.WAITING}
        for record, lapse in waiting.values():
            cache.set_lapsed(record, lapse)

    def next_deadline_s(self) -> float | None:
        found = (self._deadlines.next_deadline_s(), self._retries.next_deadline_s())
        return min((each for each in found if each is not None), default=None)


def _has_lease(record: PodRecord) -> bool:
    """Whether the promise of the pod can lapse: the API shows its stamp, it is not being revoked, and the API server
    has not refused to remove the stamp."""
    return (
        record.state in PROMISED
        and record.is_stamped
        and not record.is_being_revoked
        and not record.is_irrevocable
        and not record.is_committed
    )
