"""What a plugin is: one small protocol per extension point, and the words plugins and engines share.

A plugin that turns a pod away says so with a :class:`Rejection`: its name, a reason for people, and what may change its
mind. Who built the rejection is never asked again before one of those wakers comes up. A plugin that raises has
rejected the pod with its own name (``queue.py``), so a broken plugin stops the pods it looks at, not the scheduler.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from headgate.scheduling.podlike import PodLike
from headgate.waiting.waker import Waker


class Rejection(msgspec.Struct, frozen=True):
    """``pending``: the plugin waits for something of its own that is under way, so when it comes the pod pays no
    backoff. ``expires``: look again after a while even if no waker came up, in case the wakers are not all there is.
    """

    plugin: str
    reason: str
    wakers: tuple[Waker, ...] = ()
    pending: bool = False
    expires: bool = True


class PreEnqueue(Protocol):
    """Decides whether a pod may be tried at all. It must be quick, and reserves nothing: it is asked often."""

    @property
    def name(self) -> str: ...

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None: ...


class QueueSort(Protocol):
    """Decides which pod is tried first: the one with the least key. ``since_s`` is when it was added or last failed."""

    @property
    def name(self) -> str: ...

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[Any, ...]: ...
