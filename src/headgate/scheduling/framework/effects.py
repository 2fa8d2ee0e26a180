"""Effects of the scheduler: frozen values. ``runtime/scheduler/`` performs them and passes the results to the
scheduler.

Only :class:`Bind` and :class:`RemoveSchedulingGate` are urgent: the dispatcher performs them before conditions and
Events. :class:`WriteResult` lists the outcomes of a write that the scheduler distinguishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.pod import PodInfo


class WriteResult(Enum):
    """The outcome of a write, as far as the scheduler distinguishes outcomes."""

    DONE = "done"
    GONE = "gone"
    """The pod does not exist, or another pod has its name."""
    TAKEN = "taken"
    """The pod already has a node or is terminating. The watch will show it."""
    GATED = "gated"
    """The API server refused because the pod has scheduling gates."""
    REFUSED = "refused"
    """The API server refused permanently; a retry of the same request is useless."""
    LATER = "later"
    """The write failed; a retry may succeed."""
    UNKNOWN = "unknown"
    """The outcome is unknown: the write may have happened or may still happen."""


class ObjectPatch(msgspec.Struct, frozen=True):
    """A patch of the object with this uid."""

    resource: APIResource
    namespace: str
    name: str
    uid: str
    body: Mapping[str, Any]
    how: Literal["merge", "strategic"] = "merge"
    subresource: str = ""


class PreBindWrites(msgspec.Struct, frozen=True):
    """Writes that must be done before the pod is bound, in order. The result goes to ``Scheduler.prepared``."""

    pod: PodInfo
    writes: tuple[ObjectPatch, ...]


class RemoveSchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """Remove the queue's gate from the pod and write the stamp (``capacity/api/stamp.py``) in one idempotent patch that
    changes nothing else. If the stamp is empty, only the gate is removed. The result goes to
    ``Scheduler.gate_removed``."""

    pod: PodInfo
    stamp: str


class RemoveStamp(msgspec.Struct, frozen=True, gc=False):
    """Remove exactly this stamp from the pod, because its promise was or will be revoked. A later stamp is kept.
    ``lapse``: if the promise lapses, what the same patch records on the pod (``capacity/api/lease.py``). The result
    goes to ``Scheduler.stamp_removed``."""

    pod: PodInfo
    stamp: str
    lapse: str = ""


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Bind the pod to the node. The result goes to ``Scheduler.bound``. ``instead``: what a Bind plugin writes in place
    of a binding."""

    pod: PodInfo
    node_name: str
    instead: ObjectPatch | None = None


class SetStatus(msgspec.Struct, frozen=True):
    """Write the status of the pod. ``condition``: the new ``PodScheduled`` condition; ``nominated_node``: the new
    nominated node, or empty for none. ``None`` leaves each of them unchanged."""

    pod: PodInfo
    condition: Mapping[str, Any] | None = None
    nominated_node: str | None = None


class Preempt(msgspec.Struct, frozen=True):
    """Set the DisruptionTarget condition on each victim, then delete it. The result goes to ``Scheduler.preempted``."""

    pod: PodInfo
    node_name: str
    victims: tuple[PodInfo, ...]


class EmitPodEvent(msgspec.Struct, frozen=True):
    """An Event about a pod. ``once``: at most one in the pod's life, also across restarts. ``related``: the cause."""

    pod: PodInfo
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    message: str
    once: bool = False
    related: PodInfo | None = None


Effect = Bind | RemoveSchedulingGate | RemoveStamp | PreBindWrites | ObjectPatch | SetStatus | Preempt | EmitPodEvent
