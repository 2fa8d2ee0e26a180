"""The active queue: pods that may be tried now, in several sub-queues.

A sub-queue adds and removes uids and returns the next one; the default is a heap of sort keys. Pods of profiles with
queues (``capacity/``) have a sub-queue that orders them by the usage of queues and groups. This order changes with
every pod that gets a node, so no fixed sort key can express it. Nonempty sub-queues are popped in rotation, so that no
profile starves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headgate.waiting.heap import Heap


class _Poppable(Protocol):
    def pop(self) -> str | None: ...


class SubQueue(_Poppable, Protocol):
    """A queue of active pods with an order of its own."""

    def put(self, uid: str, /) -> None: ...

    def discard(self, uid: str, /) -> None: ...


class ActiveQueue:
    """``sub_queues``: by scheduler name, for pods that are not in the default heap; several names may share one."""

    def __init__(self, sub_queues: Mapping[str, SubQueue] | None = None) -> None:
        self._heap: Heap[str] = Heap()
        self._sub_queues = dict(sub_queues or {})
        self._unique_sub_queues = tuple({id(sub_queue): sub_queue for sub_queue in self._sub_queues.values()}.values())
        self._last_popped = 0

    def put(self, scheduler_name: str, uid: str, key: Any) -> None:
        sub_queue = self._sub_queues.get(scheduler_name)
        if sub_queue is None:
            self._heap.put(uid, key)
        else:
            sub_queue.put(uid)

    def discard(self, scheduler_name: str, uid: str) -> None:
        sub_queue = self._sub_queues.get(scheduler_name)
        if sub_queue is None:
            self._heap.discard(uid)
        else:
            sub_queue.discard(uid)

    def pop(self) -> str | None:
        if not self._unique_sub_queues:
            return self._heap.pop()
        sub_queues: tuple[_Poppable, ...] = (self._heap, *self._unique_sub_queues)
        for _ in sub_queues:
            self._last_popped = (self._last_popped + 1) % len(sub_queues)
            uid = sub_queues[self._last_popped].pop()
            if uid is not None:
                return uid
        return None
