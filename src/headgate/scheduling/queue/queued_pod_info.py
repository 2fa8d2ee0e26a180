"""A pod in the scheduling queue: its state, its attempts, and the plugins that rejected it.

Only the queue changes these fields. ``backoff_queue.py`` computes the next attempt from them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.pod_lifecycle import PodState

P = TypeVar("P", bound=PodLike)


# Mutable, because it is the state itself: one per pod, changed by every step the pod takes.
class QueuedPodInfo(msgspec.Struct, Generic[P], eq=False):
    """``since_s``: when the pod was added or last failed. ``rejections``: the rejections of its last attempt;
    ``gating``: the rejection of the PreEnqueue plugin that gates it. ``rejectors``: the names of all plugins that
    rejected it since its last attempt, the gating plugin included. ``initial_attempt_s``: when it first could be tried,
    so the time before, in which it was gated, does not count."""

    pod: P
    since_s: float
    state: PodState | None = None
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_s: float | None = None
    backoff_until_s: float | None = None
    rejectors: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    gating: Rejection | None = None

    @property
    def uid(self) -> str:
        return self.pod.uid
