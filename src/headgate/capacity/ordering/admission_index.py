"""The admission index: finds the next waiting unit of the queue tree, in exact order, without a scan of all units.

A *unit* is a pod, or the pods of a group that are admitted together. The *limited part* of an ask names only the
resources that a queue limits. Of two units with the same limited part, either both fit in the queue or neither does, so
each queue has one heap of units for each limited part. Each queue also has, for each limited part, a heap of its
children: those that have, in or below them, such a unit that fits in every queue on the way to it. The next unit is
therefore found by one walk down the tree, and a full queue is skipped until it changes. A change of a queue costs the
depth of the queue times the number of limited parts there, however many units wait. A :class:`QueueView` decides what
fits and how queues are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.names import ROOT
from headgate.capacity.ordering.order_keys import Key
from headgate.waiting.heap import Heap

Unit = str | tuple[str, str]
"""The uid of a pod, or namespace and name of a group."""


class QueueView(Protocol):
    """What the admission index needs to know of queues."""

    def parent(self, queue: str) -> str:
        """The parent of the queue; the root for a queue without a valid path to the root."""
        ...

    def depth(self, queue: str) -> int: ...

    def key(self, queue: str) -> Key: ...

    def may_admit(self, queue: str) -> bool:
        """Whether units of this queue may be admitted."""
        ...

    def limited_resources(self, queue: str) -> frozenset[str]:
        """The resources that this queue or an ancestor limits. Every queue below it limits these, too."""
        ...

    def fits(self, queue: str, ask: Ask) -> bool:
        """Whether this queue has capacity for the ask; its ancestors are not checked."""
        ...


class _QueueEntry:
    """One queue in the index. ``limited``: the resources that this queue limits. ``units``: the units that wait in this
    queue; ``children``: the children with a unit that fits; both by the limited part of the ask.

    ``fitting``: the limited parts for which a unit in or below this queue fits here and in every queue on the way to
    it. ``listed``: the limited parts, reduced to the resources that ``parent`` limits, under which ``parent`` has this
    queue among its ``children``, with the sort key ``key``."""

    __slots__ = ("children", "fitting", "key", "limited", "listed", "parent", "units")

    def __init__(self, limited: frozenset[str]) -> None:
        self.limited = limited
        self.units: dict[Ask, Heap[Unit]] = {}
        self.children: dict[Ask, Heap[str]] = {}
        self.fitting: frozenset[Ask] = frozenset()
        self.listed: frozenset[Ask] = frozenset()
        self.parent = ROOT
        self.key: Key = ()

    def limited_part(self, ask: Ask) -> Ask:
        """The part of the ask that names resources which this queue limits."""
        limited = self.limited
        return tuple(each for each in ask if each[0] in limited)


class AdmissionIndex:
    """``ask_of`` returns the ask of a unit that is in the index."""

    def __init__(self, view: QueueView, ask_of: Callable[[Unit], Ask]) -> None:
        self._view = view
        self._ask_of = ask_of
        self._entries: dict[str, _QueueEntry] = {}
        self._changed: set[str] = set()
        self._versions: dict[str, int] = {}  # of the units of each queue
        self._version = 0  # the newest of all queues, so that a queue never has an earlier one again

    def put(self, queue: str, unit: Unit, ask: Ask, key: Key) -> None:
        """Add a unit, or change its key. If its ask has changed, the caller discards the unit first."""
        entry = self._get_or_create_entry(queue)
        limited_ask = entry.limited_part(ask)
        heap = entry.units.get(limited_ask)
        if heap is None:
            heap = entry.units[limited_ask] = Heap()
            self._changed.add(queue)
        heap.put(unit, key)
        self._units_changed(queue)

    def discard(self, queue: str, unit: Unit, ask: Ask) -> None:
        entry = self._entries.get(queue)
        if entry is None:
            return
        limited_ask = entry.limited_part(ask)
        heap = entry.units.get(limited_ask)
        if heap is None:
            return
        heap.discard(unit)
        self._units_changed(queue)
        if not heap:
            del entry.units[limited_ask]
            self._changed.add(queue)

    def _units_changed(self, queue: str) -> None:
        self._version += 1
        self._versions[queue] = self._version

    def version(self, queue: str) -> int:
        """Another number after each change of the units of this queue, or of their order; 0 if no unit waits."""
        return self._versions.get(queue, 0)

    def mark_queue_changed(self, queue: str) -> None:
        """The usage, limits, state or parent of the queue may have changed."""
        if queue in self._entries:
            self._changed.add(queue)

    def first(self) -> tuple[str, Unit] | None:
        """The next unit that fits, and its queue; None if no unit fits."""
        self._refresh()
        root = self._entries.get(ROOT)
        if root is None:
            return None
        limited_asks = {
            limited_ask for limited_ask in (*root.children, *root.units) if self._view.fits(ROOT, limited_ask)
        }
        return self._descend(ROOT, root, limited_asks)

    def _descend(self, name: str, entry: _QueueEntry, limited_asks: set[Ask]) -> tuple[str, Unit] | None:
        """The first unit in or below this queue whose limited part is one of these."""
        while True:
            if entry.units and self._view.may_admit(name):
                heads = [head for limited_ask in limited_asks if (head := _head(entry.units, limited_ask)) is not None]
                if heads:
                    return name, min(heads)[1]
            children = [
                head for limited_ask in limited_asks if (head := _head(entry.children, limited_ask)) is not None
            ]
            if not children:
                return None
            parent_entry, (_, name) = entry, min(children)
            entry = self._entries[name]
            limited_asks = {
                limited_ask for limited_ask in entry.fitting if parent_entry.limited_part(limited_ask) in limited_asks
            }

    def head(self, queue: str) -> Unit | None:
        """The first unit of this queue (not of queues below it), whether it fits or not."""
        entry = self._entries.get(queue)
        heads = (
            []
            if entry is None
            else [head for limited_ask in entry.units if (head := _head(entry.units, limited_ask)) is not None]
        )
        return min(heads)[1] if heads else None

    def heads(self, queue: str) -> list[tuple[Ask, Key, Unit]]:
        """For each limited part, the first unit of this queue (not of queues below it) and its key."""
        entry = self._entries.get(queue)
        if entry is None:
            return []
        found = ((limited_ask, _head(entry.units, limited_ask)) for limited_ask in entry.units)
        return [(limited_ask, *head) for limited_ask, head in found if head is not None]

    def first_possible(
        self, queue: str, may_fit: Callable[[Ask], bool], is_possible: Callable[[Unit], bool]
    ) -> tuple[Key, Unit] | None:
        """The first unit of this queue that is possible, with its key. ``may_fit``: whether units with this limited
        part can be."""
        entry = self._entries.get(queue)
        found = []
        for limited_ask, heap in () if entry is None else entry.units.items():
            head = heap.first() if may_fit(limited_ask) else None
            if head is not None and not is_possible(head[1]):
                head = min((each for each in heap.entries() if is_possible(each[1])), default=None)
            if head is not None:
                found.append(head)
        return min(found, default=None)

    def count(self, queue: str) -> int:
        """The number of units that wait in this queue, without those below it."""
        entry = self._entries.get(queue)
        return 0 if entry is None else sum(map(len, entry.units.values()))

    def waiting_units(self, queue: str) -> Iterator[tuple[Key, Unit]]:
        """All units that wait in this queue, without those below it, in no order."""
        entry = self._entries.get(queue)
        return iter(()) if entry is None else chain.from_iterable(heap.entries() for heap in entry.units.values())

    def _get_or_create_entry(self, queue: str) -> _QueueEntry:
        entry = self._entries.get(queue)
        if entry is None:
            entry = self._entries[queue] = _QueueEntry(self._view.limited_resources(queue))
        return entry

    def _refresh(self) -> None:
        """Update the heaps of children for all changed queues, from the deepest queue upwards."""
        for name in list(self._changed):
            self._rebuild(name)
        while self._changed:
            by_depth: dict[int, list[str]] = {}
            for name in self._changed:
                by_depth.setdefault(self._view.depth(name), []).append(name)
            names = by_depth[max(by_depth)]
            self._changed.difference_update(names)
            for name in names:
                if name != ROOT:
                    self._update_parent(name)

    def _rebuild(self, name: str) -> None:
        """Put the units into new heaps if the set of limited resources changed."""
        entry, limited = self._entries.get(name), self._view.limited_resources(name)
        if entry is None or entry.limited == limited:
            return
        entry.limited = limited
        units, entry.units = entry.units, {}
        for heap in units.values():
            for key, unit in heap.entries():
                self.put(name, unit, self._ask_of(unit), key)
        children, entry.children = entry.children, {}
        for child in {each for listed in children.values() for each in listed}:
            self._entries[child].listed = frozenset()
            self._changed.add(child)

    def _update_parent(self, name: str) -> None:
        """Put this queue into the right heaps of its parent: one for each limited part with a unit that fits."""
        view, entry = self._view, self._entries.get(name)
        if entry is None:
            return
        found = set(entry.children)
        if view.may_admit(name):
            found.update(entry.units)
        parent, key = view.parent(name), view.key(name)
        if parent != entry.parent:
            self._remove_from_parent(name, entry, entry.listed)
            entry.parent, entry.listed = parent, frozenset()
        entry.fitting = frozenset(limited_ask for limited_ask in found if view.fits(name, limited_ask))
        limited_asks: frozenset[Ask] = frozenset()
        if entry.fitting:
            parent_entry = self._get_or_create_entry(parent)
            limited_asks = frozenset(map(parent_entry.limited_part, entry.fitting))
            for limited_ask in limited_asks if key != entry.key else limited_asks - entry.listed:
                if limited_ask not in parent_entry.children:
                    parent_entry.children[limited_ask] = Heap()
                    self._changed.add(parent)
                parent_entry.children[limited_ask].put(name, key)
        self._remove_from_parent(name, entry, entry.listed - limited_asks)
        entry.listed, entry.key = limited_asks, key
        if not entry.units and not entry.children:
            del self._entries[name]
            self._versions.pop(name, None)

    def _remove_from_parent(self, name: str, entry: _QueueEntry, limited_asks: frozenset[Ask]) -> None:
        """Remove the queue from the heaps of its parent for these asks."""
        parent = self._entries.get(entry.parent)
        for limited_ask in limited_asks:
            heap = None if parent is None else parent.children.get(limited_ask)
            if parent is None or heap is None:
                continue
            heap.discard(name)
            if not heap:
                del parent.children[limited_ask]
                self._changed.add(entry.parent)


def _head(heaps: dict[Ask, Heap[Unit]] | dict[Ask, Heap[str]], limited_ask: Ask) -> tuple[Key, Any] | None:
    heap = heaps.get(limited_ask)
    return None if heap is None else heap.first()
