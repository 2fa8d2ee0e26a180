"""Effects of the quota engine: writes to Workloads and Events, as frozen values.

Each names the workload by key and uid, so that a decision never reaches another object of the same name.
``quota/controller/`` performs them and reports the outcome of ``Admit`` and ``Evict`` to ``engine.py``.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.workload import Admission, AdmissionCheckState


class Admit(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Reserve quota. ``is_admitted``: no admission check is pending, so the workload is admitted in the same write.
    ``waited_s``: how long it was queued. ``waits_for``: a text about the terminating pods that still use its quota; its
    own pods start when those are gone. Empty if they start at once."""

    key: str
    uid: str
    admission: Admission
    is_admitted: bool = True
    waited_s: float = 0.0
    waits_for: str = ""


class Evict(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Evict a workload. ``reason``: the reason of its condition Evicted; ``cause``: what led to that reason.
    ``preempted``: the reason of its condition Preempted, if it is a preemption victim; ``preemptor``: the key of the
    workload it is evicted for. ``requeue_at_s`` and ``requeue_count``: its back-off, if it has one; ``checks``: its
    admission checks after the reset."""

    key: str
    uid: str
    reason: str
    message: str
    preempted: str = ""
    preemptor: str = ""
    cause: str = ""
    requeue_at_s: float | None = None
    requeue_count: int = 0
    checks: tuple[AdmissionCheckState, ...] = ()


class Release(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Release quota that was reserved and not used yet. ``reason`` and ``message``: those of the condition
    QuotaReserved."""

    key: str
    uid: str
    reason: str
    message: str


class SetCondition(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Set one condition of the workload."""

    key: str
    uid: str
    type: str
    is_true: bool
    reason: str
    message: str


class Requeue(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Set the condition Requeued to true and remove a back-off that is over."""

    key: str
    uid: str
    reason: str
    message: str


class PutOff(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Set ``status.requeueState.requeueAt``: the workload is not requeued before this time."""

    key: str
    uid: str
    until_s: float


class SetChecks(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Replace the list of admission checks in the status."""

    key: str
    uid: str
    checks: tuple[AdmissionCheckState, ...]


class Deactivate(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Set ``spec.active`` to false."""

    key: str
    uid: str


class ConsumeActivationLabels(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Perform the transition that the workload shows (``api/activation.py``); which one is decided when it is written,
    from the version that is written to. ``is_enabled``: the feature gate ActivationLabels. ``revision``: the version
    that the engine saw, so that the same request on a later version is another effect."""

    key: str
    uid: str
    is_enabled: bool
    revision: int


class EmitWorkloadEvent(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    is_warning: bool
    reason: str
    message: str


Effect = (
    Admit
    | Evict
    | Release
    | SetCondition
    | Requeue
    | PutOff
    | SetChecks
    | Deactivate
    | ConsumeActivationLabels
    | EmitWorkloadEvent
)
