"""The admission index: the next waiting unit of the queue tree in exact order, without a scan of the others.

Units are in one heap per queue and set of requests; resources that the queue does not limit are left out of that set.
Every queue knows, for each set, which children have such a unit that fits in all queues up to them, in queue order. The
next unit is found by one walk down the tree, and a full queue is skipped until it changes. A change costs the depth of
its queue times the number of sets there, however many units wait. A :class:`QueueView` decides what fits and how queues
are ordered.
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
    """What the admission index reads of queues."""

    def parent(self, queue: str) -> str:
        """The parent of the queue in the order; the root for a queue without a valid path."""
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
    """``units`` wait in this queue, ``children`` have waiting units; both by *kind*: the part of an ask that names
    resources which are ``limited`` in this queue.

    ``fitting``: the kinds with a unit that fits here and in all queues down to it. ``listed``: the kinds under which
    ``parent`` lists this queue with the sort key ``key``."""

    __slots__ = ("children", "fitting", "key", "limited", "listed", "parent", "units")

    def __init__(self, limited: frozenset[str]) -> None:
        self.limited = limited
        self.units: dict[Ask, Heap[Unit]] = {}
        self.children: dict[Ask, Heap[str]] = {}
        self.fitting: frozenset[Ask] = frozenset()
        self.listed: frozenset[Ask] = frozenset()
        self.parent = ROOT
        self.key: Key = ()

    def kind(self, ask: Ask) -> Ask:
        limited = self.limited
        return tuple(each for each in ask if each[0] in limited)


class AdmissionIndex:
    """``ask_of`` returns the requests of a unit in the index."""

    def __init__(self, view: QueueView, ask_of: Callable[[Unit], Ask]) -> None:
        self._view = view
        self._ask_of = ask_of
        self._entries: dict[str, _QueueEntry] = {}
        self._changed: set[str] = set()

    def put(self, queue: str, unit: Unit, ask: Ask, key: Key) -> None:
        """Add a unit, or change its key. If its ask has changed, the caller discards the unit first."""
        entry = self._entry(queue)
        kind = entry.kind(ask)
        heap = entry.units.get(kind)
        if heap is None:
            heap = entry.units[kind] = Heap()
            self._changed.add(queue)
        heap.put(unit, key)

    def discard(self, queue: str, unit: Unit, ask: Ask) -> None:
        entry = self._entries.get(queue)
        if entry is None:
            return
        kind = entry.kind(ask)
        heap = entry.units.get(kind)
        if heap is None:
            return
        heap.discard(unit)
        if not heap:
            del entry.units[kind]
            self._changed.add(queue)

    def mark_queue_changed(self, queue: str) -> None:
        """The usage, limits, state or parent of the queue may have changed."""
        if queue in self._entries:
            self._changed.add(queue)

    def first(self) -> tuple[str, Unit] | None:
        """The queue and the unit that is next."""
        self._refresh()
        root = self._entries.get(ROOT)
        if root is None:
            return None
        kinds = {kind for kind in (*root.children, *root.units) if self._view.fits(ROOT, kind)}
        return self._descend(ROOT, root, kinds)

    def _descend(self, name: str, entry: _QueueEntry, kinds: set[Ask]) -> tuple[str, Unit] | None:
        while True:
            if entry.units and self._view.may_admit(name):
                heads = [head for kind in kinds if (head := _head(entry.units, kind)) is not None]
                if heads:
                    return name, min(heads)[1]
            children = [head for kind in kinds if (head := _head(entry.children, kind)) is not None]
            if not children:
                return None
            parent_entry, (_, name) = entry, min(children)
            entry = self._entries[name]
            kinds = {kind for kind in entry.fitting if parent_entry.kind(kind) in kinds}

    def head(self, queue: str) -> Unit | None:
        """The first unit of this queue (not of queues below it), whether it fits or not."""
        entry = self._entries.get(queue)
        heads = (
            [] if entry is None else [head for kind in entry.units if (head := _head(entry.units, kind)) is not None]
        )
        return min(heads)[1] if heads else None

    def count(self, queue: str) -> int:
        """The number of units that wait in this queue, without those below it."""
        entry = self._entries.get(queue)
        return 0 if entry is None else sum(map(len, entry.units.values()))

    def waiting_units(self, queue: str) -> Iterator[tuple[Key, Unit]]:
        """All units that wait in this queue, without those below it, in no order."""
        entry = self._entries.get(queue)
        return iter(()) if entry is None else chain.from_iterable(heap.entries() for heap in entry.units.values())

    def _entry(self, queue: str) -> _QueueEntry:
        entry = self._entries.get(queue)
        if entry is None:
            entry = self._entries[queue] = _QueueEntry(self._view.limited_resources(queue))
        return entry

    def _refresh(self) -> None:
        """Update the lists of the parents of changed queues, from the deepest queue upwards."""
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
        """Sort the units into new kinds if the set of limited resources changed."""
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
        view, entry = self._view, self._entries.get(name)
        if entry is None:
            return
        found = set(entry.children)
        if view.may_admit(name):
            found.update(entry.units)
        parent, key = view.parent(name), view.key(name)
        if parent != entry.parent:
            self._unlist(name, entry, entry.listed)
            entry.parent, entry.listed = parent, frozenset()
        entry.fitting = frozenset(kind for kind in found if view.fits(name, kind))
        kinds: frozenset[Ask] = frozenset()
        if entry.fitting:
            parent_entry = self._entry(parent)
            kinds = frozenset(map(parent_entry.kind, entry.fitting))
            for kind in kinds if key != entry.key else kinds - entry.listed:
                if kind not in parent_entry.children:
                    parent_entry.children[kind] = Heap()
                    self._changed.add(parent)
                parent_entry.children[kind].put(name, key)
        self._unlist(name, entry, entry.listed - kinds)
        entry.listed, entry.key = kinds, key
        if not entry.units and not entry.children:
            del self._entries[name]

    def _unlist(self, name: str, entry: _QueueEntry, kinds: frozenset[Ask]) -> None:
        parent = self._entries.get(entry.parent)
        for kind in kinds:
            heap = None if parent is None else parent.children.get(kind)
            if parent is None or heap is None:
                continue
            heap.discard(name)
            if not heap:
                del parent.children[kind]
                self._changed.add(entry.parent)


def _head(heaps: dict[Ask, Heap[Unit]] | dict[Ask, Heap[str]], kind: Ask) -> tuple[Key, Any] | None:
    heap = heaps.get(kind)
    return None if heap is None else heap.first()
