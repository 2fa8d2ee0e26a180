"""Who is next: units that wait in the leaves of the queue tree, found in exact order without looking at the others.

Units with equal asks stand in one heap per queue. Every queue knows, for each kind of ask, which of its children have
such a unit that fits all the way up to them, in the order of queues; so the next unit is found by walking down once,
and a queue that is full by itself is not looked at until it changes. A change costs the depth of its queue times the
kinds of ask there, however many units wait.

What fits, and in which order queues stand, is asked of a :class:`Views`; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

from headgate.capacity.names import ROOT
from headgate.capacity.order import Key
from headgate.capacity.record import Ask
from headgate.waiting.heap import Heap

Unit = str | tuple[str, str]
"""The uid of a pod, or namespace and name of a group."""


class Views(Protocol):
    """What the lineup has to know of queues."""

    def parent(self, queue: str) -> str:
        """Where the queue stands in the order; the root for whoever has no sound place."""
        ...

    def depth(self, queue: str) -> int: ...

    def key(self, queue: str) -> Key: ...

    def may_take(self, queue: str) -> bool:
        """Whether units of this very queue may come up."""
        ...

    def fits(self, queue: str, ask: Ask) -> bool:
        """Whether this queue, leaving its ancestors aside, has room."""
        ...


class _Desk:
    """``units`` wait here; ``children`` have some. ``shown``: the asks under which the parent lists this queue, as
    ``parent`` and ``key`` say."""

    __slots__ = ("children", "key", "parent", "shown", "units")

    def __init__(self) -> None:
        self.units: dict[Ask, Heap[Unit]] = {}
        self.children: dict[Ask, Heap[str]] = {}
        self.shown: frozenset[Ask] = frozenset()
        self.parent = ROOT
        self.key: Key = ()


class Lineup:
    def __init__(self, views: Views) -> None:
        self._views = views
        self._desks: dict[str, _Desk] = {}
        self._stale: set[str] = set()

    def put(self, queue: str, unit: Unit, ask: Ask, key: Key) -> None:
        """The unit waits here, or its key is another now. Whoever asks for something else is discarded first."""
        desk = self._desk(queue)
        heap = desk.units.get(ask)
        if heap is None:
            heap = desk.units[ask] = Heap()
            self._stale.add(queue)
        heap.put(unit, key)

    def discard(self, queue: str, unit: Unit, ask: Ask) -> None:
        desk = self._desks.get(queue)
        heap = None if desk is None else desk.units.get(ask)
        if desk is None or heap is None:
            return
        heap.discard(unit)
        if not heap:
            del desk.units[ask]
            self._stale.add(queue)

    def touch(self, queue: str) -> None:
        """Its use, limits, state or place may have changed."""
        if queue in self._desks:
            self._stale.add(queue)

    def first(self) -> tuple[str, Unit, Ask] | None:
        """The unit that is next: queue, unit, ask."""
        self._refresh()
        root = self._desks.get(ROOT)
        if root is None:
            return None
        asks = [ask for ask in {**root.children, **root.units} if self._views.fits(ROOT, ask)]
        return self._descend(ROOT, root, asks)

    def _descend(self, name: str, desk: _Desk, asks: list[Ask]) -> tuple[str, Unit, Ask] | None:
        while True:
            if desk.units and self._views.may_take(name):
                heads = [(head[0], ask, head[1]) for ask in asks if (head := _head(desk.units, ask)) is not None]
                if heads:
                    _, ask, unit = min(heads)
                    return name, unit, ask
            children = [head for ask in asks if (head := _head(desk.children, ask)) is not None]
            if not children:
                return None
            _, name = min(children)
            desk = self._desks[name]
            asks = [ask for ask in asks if ask in desk.shown]

    def head(self, queue: str) -> Unit | None:
        """Whoever waits in this very queue and comes first, whether there is room or not."""
        desk = self._desks.get(queue)
        heads = [] if desk is None else [head for ask in desk.units if (head := _head(desk.units, ask)) is not None]
        return min(heads)[1] if heads else None

    def count(self, queue: str) -> int:
        """Units that wait in this very queue."""
        desk = self._desks.get(queue)
        return 0 if desk is None else sum(map(len, desk.units.values()))

    def standing(self, queue: str) -> Iterator[tuple[Key, Unit]]:
        """All who wait in this very queue, in no order."""
        desk = self._desks.get(queue)
        return iter(()) if desk is None else chain.from_iterable(heap.entries() for heap in desk.units.values())

    def _desk(self, queue: str) -> _Desk:
        desk = self._desks.get(queue)
        if desk is None:
            desk = self._desks[queue] = _Desk()
        return desk

    def _refresh(self) -> None:
        """Bring what parents list up to date, from the deepest queue upwards."""
        while self._stale:
            by_depth: dict[int, list[str]] = {}
            for name in self._stale:
                by_depth.setdefault(self._views.depth(name), []).append(name)
            deepest = max(by_depth)
            names = by_depth[deepest]
            self._stale.difference_update(names)
            for name in names:
                if name != ROOT:
                    self._show(name)

    def _show(self, name: str) -> None:
        views, desk = self._views, self._desks.get(name)
        if desk is None:
            return
        found = set(desk.children)
        if views.may_take(name):
            found.update(desk.units)
        asks = frozenset(ask for ask in found if views.fits(name, ask))
        parent, key = views.parent(name), views.key(name)
        if parent != desk.parent:
            self._hide(name, desk, desk.shown)
            desk.parent, desk.shown = parent, frozenset()
        self._hide(name, desk, desk.shown - asks)
        for ask in asks if key != desk.key else asks - desk.shown:
            listed = self._desk(parent).children
            if ask not in listed:
                listed[ask] = Heap()
                self._stale.add(parent)
            listed[ask].put(name, key)
        desk.shown, desk.key = asks, key
        if not desk.units and not desk.children:
            del self._desks[name]

    def _hide(self, name: str, desk: _Desk, asks: frozenset[Ask]) -> None:
        parent = self._desks.get(desk.parent)
        for ask in asks:
            heap = None if parent is None else parent.children.get(ask)
            if parent is None or heap is None:
                continue
            heap.discard(name)
            if not heap:
                del parent.children[ask]
                self._stale.add(desk.parent)


def _head(heaps: dict[Ask, Heap[Unit]] | dict[Ask, Heap[str]], ask: Ask) -> tuple[Key, Any] | None:
    heap = heaps.get(ask)
    return None if heap is None else heap.first()
