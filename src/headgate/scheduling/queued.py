"""A pod on its way through the scheduling queue: where it is, how often it was tried, and who held it up.

Only the queue changes these; everyone else reads. What the numbers mean for the next attempt is in ``backoff.py``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from headgate.scheduling.contract import Rejection
from headgate.scheduling.podlike import PodLike

P = TypeVar("P", bound=PodLike)


class Where(StrEnum):
    """A pod is in exactly one of these. GATED was turned away before an attempt, UNSCHEDULABLE by one."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error-backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


# Mutable, because it is the state itself: one per pod, changed by every step the pod takes.
class Queued(msgspec.Struct, Generic[P], eq=False):
    """``since_s``: when it was added or last failed. ``rejectors``: who turned it away since its last attempt, the
    gating plugin among them. ``initial_attempt_s``: when it first was free to be tried, which leaves gated time out.
    """

    pod: P
    since_s: float
    where: Where | None = None
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
