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
        """Where the queue stands in the order; the root for whoever has no sound place."""
        ...

    def depth(self, queue: str) -> int: ...

    def key(self, queue: str) -> Key: ...

    def may_admit(self, queue: str) -> bool:
        """Whether units of this very queue may come up."""
        ...

    def limited_resources(self, queue: str) -> frozenset[str]:
        """The resources that this queue, or one above it, limits. Whoever stands below limits these, too."""
        ...

    def fits(self, queue: str, ask: Ask) -> bool:
        """Whether this queue, leaving its ancestors aside, has room."""
        ...


class _QueueEntry:
    """``units`` wait here; ``children`` have some; both by kind: the part of an ask that is ``limited`` here.

    ``shown``: the kinds of which there is one that fits. ``listed``: the kinds under which the parent lists this queue,
    as ``parent`` and ``key`` say."""

    __slots__ = ("children", "key", "limited", "listed", "parent", "shown", "units")

    def __init__(self, limited: frozenset[str]) -> None:
        self.limited = limited
        self.units: dict[Ask, Heap[Unit]] = {}
        self.children: dict[Ask, Heap[str]] = {}
        self.shown: frozenset[Ask] = frozenset()
        self.listed: frozenset[Ask] = frozenset()
        self.parent = ROOT
        self.key: Key = ()

    def kind(self, ask: Ask) -> Ask:
        limited = self.limited
        return tuple(each for each in ask if each[0] in limited)


class AdmissionIndex:
    """``ask_of`` returns the requests of a unit in the index."""

    def __init__(self, views: QueueView, ask_of: Callable[[Unit], Ask]) -> None:
        self._views = views
        self._ask_of = ask_of
        self._entries: dict[str, _QueueEntry] = {}
        self._changed: set[str] = set()

    def put(self, queue: str, unit: Unit, ask: Ask, key: Key) -> None:
        """The unit waits here, or its key is another now. Whoever asks for something else is discarded first."""
        desk = self._entry(queue)
        kind = desk.kind(ask)
        heap = desk.units.get(kind)
        if heap is None:
            heap = desk.units[kind] = Heap()
            self._changed.add(queue)
        heap.put(unit, key)

    def discard(self, queue: str, unit: Unit, ask: Ask) -> None:
        desk = self._entries.get(queue)
        if desk is None:
            return
        kind = desk.kind(ask)
        heap = desk.units.get(kind)
        if heap is None:
            return
        heap.discard(unit)
        if not heap:
            del desk.units[kind]
            self._changed.add(queue)

    def mark_queue_changed(self, queue: str) -> None:
        """Its use, limits, state or place may have changed."""
        if queue in self._entries:
            self._changed.add(queue)

    def first(self) -> tuple[str, Unit] | None:
        """The unit that is next, and its queue."""
        self._refresh()
        root = self._entries.get(ROOT)
        if root is None:
            return None
        kinds = {kind for kind in (*root.children, *root.units) if self._views.fits(ROOT, kind)}
        return self._descend(ROOT, root, kinds)

    def _descend(self, name: str, desk: _QueueEntry, kinds: set[Ask]) -> tuple[str, Unit] | None:
        while True:
            if desk.units and self._views.may_admit(name):
                heads = [head for kind in kinds if (head := _head(desk.units, kind)) is not None]
                if heads:
                    return name, min(heads)[1]
            children = [head for kind in kinds if (head := _head(desk.children, kind)) is not None]
            if not children:
                return None
            above, (_, name) = desk, min(children)
            desk = self._entries[name]
            kinds = {kind for kind in desk.shown if above.kind(kind) in kinds}

    def head(self, queue: str) -> Unit | None:
        """Whoever waits in this very queue and comes first, whether there is room or not."""
        desk = self._entries.get(queue)
        heads = [] if desk is None else [head for kind in desk.units if (head := _head(desk.units, kind)) is not None]
        return min(heads)[1] if heads else None

    def count(self, queue: str) -> int:
        """Units that wait in this very queue."""
        desk = self._entries.get(queue)
        return 0 if desk is None else sum(map(len, desk.units.values()))

    def waiting_units(self, queue: str) -> Iterator[tuple[Key, Unit]]:
        """All who wait in this very queue, in no order."""
        desk = self._entries.get(queue)
        return iter(()) if desk is None else chain.from_iterable(heap.entries() for heap in desk.units.values())

    def _entry(self, queue: str) -> _QueueEntry:
        desk = self._entries.get(queue)
        if desk is None:
            desk = self._entries[queue] = _QueueEntry(self._views.limited_resources(queue))
        return desk

    def _refresh(self) -> None:
        """Bring what parents list up to date, from the deepest queue upwards."""
        for name in list(self._changed):
            self._sort_anew(name)
        while self._changed:
            by_depth: dict[int, list[str]] = {}
            for name in self._changed:
                by_depth.setdefault(self._views.depth(name), []).append(name)
            names = by_depth[max(by_depth)]
            self._changed.difference_update(names)
            for name in names:
                if name != ROOT:
                    self._show(name)

    def _sort_anew(self, name: str) -> None:
        """Other resources are limited than before: the kinds are others."""
        desk, limited = self._entries.get(name), self._views.limited_resources(name)
        if desk is None or desk.limited == limited:
            return
        desk.limited = limited
        units, desk.units = desk.units, {}
        for heap in units.values():
            for key, unit in heap.entries():
                self.put(name, unit, self._ask_of(unit), key)
        children, desk.children = desk.children, {}
        for child in {each for listed in children.values() for each in listed}:
            self._entries[child].listed = frozenset()
            self._changed.add(child)

    def _show(self, name: str) -> None:
        views, desk = self._views, self._entries.get(name)
        if desk is None:
            return
        found = set(desk.children)
        if views.may_admit(name):
            found.update(desk.units)
        parent, key = views.parent(name), views.key(name)
        if parent != desk.parent:
            self._hide(name, desk, desk.listed)
            desk.parent, desk.listed = parent, frozenset()
        desk.shown = frozenset(kind for kind in found if views.fits(name, kind))
        kinds: frozenset[Ask] = frozenset()
        if desk.shown:
            above = self._entry(parent)
            kinds = frozenset(map(above.kind, desk.shown))
            for kind in kinds if key != desk.key else kinds - desk.listed:
                if kind not in above.children:
                    above.children[kind] = Heap()
                    self._changed.add(parent)
                above.children[kind].put(name, key)
        self._hide(name, desk, desk.listed - kinds)
        desk.listed, desk.key = kinds, key
        if not desk.units and not desk.children:
            del self._entries[name]

    def _hide(self, name: str, desk: _QueueEntry, kinds: frozenset[Ask]) -> None:
        parent = self._entries.get(desk.parent)
        for kind in kinds:
            heap = None if parent is None else parent.children.get(kind)
            if parent is None or heap is None:
                continue
            heap.discard(name)
            if not heap:
                del parent.children[kind]
                self._changed.add(desk.parent)


def _head(heaps: dict[Ask, Heap[Unit]] | dict[Ask, Heap[str]], kind: Ask) -> tuple[Key, Any] | None:
    heap = heaps.get(kind)
    return None if heap is None else heap.first()
