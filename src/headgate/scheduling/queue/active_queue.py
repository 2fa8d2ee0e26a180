"""The active queue: pods that may be tried now, in several sub-queues.

A sub-queue adds and removes names and returns the next one; the default is a heap of sort keys. Pods of profiles that
are ordered by queues (``capacity/``) have a sub-queue with shares and groups, whose order changes with every placement,
so that no fixed key can express it. Nonempty sub-queues take turns, so that no kind of profile starves another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headgate.waiting.heap import Heap


class _Popped(Protocol):
    def pop(self) -> str | None: ...


class SubQueue(_Popped, Protocol):
    def put(self, uid: str, /) -> None: ...

    def discard(self, uid: str, /) -> None: ...


class ActiveQueue:
    """``own``: the sub-queue of each scheduler name that is not ordered by keys; several names may share one."""

    def __init__(self, sub_queues: Mapping[str, SubQueue] | None = None) -> None:
        self._heap: Heap[str] = Heap()
        self._sub_queues = dict(sub_queues or {})
        self._others = tuple({id(sub_queue): sub_queue for sub_queue in self._sub_queues.values()}.values())
        self._turn = 0

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
        if not self._others:
            return self._heap.pop()
        sub_queues: tuple[_Popped, ...] = (self._heap, *self._others)
        for _ in sub_queues:
            self._turn = (self._turn + 1) % len(sub_queues)
            uid = sub_queues[self._turn].pop()
            if uid is not None:
                return uid
        return None
