"""The queues there are, and who is below whom: what the rules ask.

A plain index that follows what it is told, in O(1) per queue. What queues may use is ``tree.py``'s to work out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.capacity.queue import Queue, read_queue


class Register:
    """``Known`` (``rules.py``)."""

    def __init__(self, queues: Iterable[Mapping[str, Any]] = ()) -> None:
        self._queues: dict[str, Queue] = {}
        self._children: dict[str, set[str]] = {}
        for wire in queues:
            self.apply(wire)

    def apply(self, wire: Mapping[str, Any]) -> Queue:
        queue = read_queue(wire)
        self.remove(queue.name)
        self._queues[queue.name] = queue
        if queue.parent:
            self._children.setdefault(queue.parent, set()).add(queue.name)
        return queue

    def remove(self, name: str) -> None:
        queue = self._queues.pop(name, None)
        if queue is None or not queue.parent:
            return
        siblings = self._children[queue.parent]
        siblings.discard(name)
        if not siblings:
            del self._children[queue.parent]

    def get(self, name: str, /) -> Queue | None:
        return self._queues.get(name)

    def children(self, name: str, /) -> Iterable[str]:
        return sorted(self._children.get(name, ()))

    def names(self) -> list[str]:
        return sorted(self._queues)
