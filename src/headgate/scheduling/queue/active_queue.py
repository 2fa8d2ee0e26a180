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

    def __init__(self, own: Mapping[str, SubQueue] | None = None) -> None:
        self._keyed: Heap[str] = Heap()
        self._own = dict(own or {})
        self._others = tuple({id(lane): lane for lane in self._own.values()}.values())
        self._turn = 0

    def put(self, scheduler_name: str, uid: str, key: Any) -> None:
        lane = self._own.get(scheduler_name)
        if lane is None:
            self._keyed.put(uid, key)
        else:
            lane.put(uid)

    def discard(self, scheduler_name: str, uid: str) -> None:
        lane = self._own.get(scheduler_name)
        if lane is None:
            self._keyed.discard(uid)
        else:
            lane.discard(uid)

    def pop(self) -> str | None:
        if not self._others:
            return self._keyed.pop()
        lanes: tuple[_Popped, ...] = (self._keyed, *self._others)
        for _ in lanes:
            self._turn = (self._turn + 1) % len(lanes)
            uid = lanes[self._turn].pop()
            if uid is not None:
                return uid
        return None
