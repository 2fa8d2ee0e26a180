"""What the scheduler wants done: frozen values, performed by ``control/scheduler/`` and answered as events.

Nothing here is urgent except :class:`Bind` and :class:`LiftGate`: whoever performs effects lets conditions and events
wait for them. How a write can end, as far as the scheduler has to tell the ends apart, is :class:`Result`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec

from headgate.kube.resource import Resource
from headgate.scheduling.pod import Pod


class Result(Enum):
    DONE = "done"
    GONE = "gone"
    """The pod is not there any more, or is another one under the same name."""
    TAKEN = "taken"
    """The pod is not what we thought: it has a node, or is being deleted. The watch will show it."""
    GATED = "gated"
    """The pod has gates, and the server minds."""
    REFUSED = "refused"
    """The server will not do this, however often it is asked as it stands."""
    LATER = "later"
    """It did not happen, and may if it is tried again."""
    UNKNOWN = "unknown"
    """It may have happened, or may yet."""


class Write(msgspec.Struct, frozen=True):
    """A patch of the object with this uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    body: Mapping[str, Any]
    how: Literal["merge", "strategic"] = "merge"
    subresource: str = ""


class Prepare(msgspec.Struct, frozen=True):
    """What has to be written before the pod can be bound, in order. Answered with ``Scheduler.prepared``."""

    pod: Pod
    writes: tuple[Write, ...]


class LiftGate(msgspec.Struct, frozen=True, gc=False):
    """Take the queue's gate off the pod and write the stamp on it (``capacity/stamp.py``), in one patch that may be
    sent again: the pod has the stamp and not the gate, and all else stays. Without a stamp only the gate goes.
    Answered with ``Scheduler.lifted``."""

    pod: Pod
    stamp: str


class RemoveStamp(msgspec.Struct, frozen=True, gc=False):
    """Take this very stamp off the pod: what it proves was taken back, or is to be. A stamp that was written since
    stays. Answered with ``Scheduler.unstamped``."""

    pod: Pod
    stamp: str


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Answered with ``Scheduler.bound``. ``instead``: what a plugin writes where others post a binding."""

    pod: Pod
    node_name: str
    instead: Write | None = None


class SetStatus(msgspec.Struct, frozen=True):
    """``condition`` in place of the pod's ``PodScheduled``; ``nominated_node`` of ``None`` leaves the promise alone."""

    pod: Pod
    condition: Mapping[str, Any] | None = None
    nominated_node: str | None = None


class Preempt(msgspec.Struct, frozen=True):
    """Tell the victims to go, each with the condition that says why, then delete it. Answered with
    ``Scheduler.preempted``."""

    pod: Pod
    node_name: str
    victims: tuple[Pod, ...]


class Say(msgspec.Struct, frozen=True):
    """An Event about a pod. ``once``: at most one in the pod's life, whoever restarts. ``related``: who caused it."""

    pod: Pod
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    message: str
    once: bool = False
    related: Pod | None = None


Effect = Bind | LiftGate | RemoveStamp | Prepare | Write | SetStatus | Preempt | Say
