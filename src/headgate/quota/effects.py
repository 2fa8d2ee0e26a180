"""Effects of the engine: writes to Workloads and Events, as frozen values.

Each names the workload by key and uid, so that a decision never reaches another object of the same name.
``quota/controller/`` performs them and reports the outcome of ``Admit`` and ``Evict`` to ``engine.py``.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.workload import Admission, AdmissionCheckState


class Admit(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Reserve quota. ``is_admitted``: no admission check is pending, so the workload is admitted in the same write.
    ``waited_s``: since it was queued. ``waits_for``: describes the terminating pods that still use its quota; its pods
    start when those are gone. Empty if they start at once."""

    key: str
    uid: str
    admission: Admission
    is_admitted: bool = True
    waited_s: float = 0.0
    waits_for: str = ""


class Evict(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Evict a workload. ``preempted`` is the reason of its condition Preempted, if it is a preemption victim.
    ``requeue_at_s`` and ``requeue_count`` are its back-off, if it has one; ``checks`` its admission checks after the
    reset."""

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
    """Release quota that was reserved and not used yet: the condition has the reason."""

    key: str
    uid: str
    reason: str
    message: str


class SetCondition(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    type: str
    is_true: bool
    reason: str
    message: str


class Requeue(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Sets the condition Requeued to true and removes a back-off that is over."""

    key: str
    uid: str
    reason: str
    message: str


class PutOff(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Requeue not before this time."""

    key: str
    uid: str
    until_s: float


class SetChecks(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    checks: tuple[AdmissionCheckState, ...]


class Deactivate(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """``spec.active`` becomes false."""

    key: str
    uid: str


class EmitWorkloadEvent(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    is_warning: bool
    reason: str
    message: str


Effect = Admit | Evict | Release | SetCondition | Requeue | PutOff | SetChecks | Deactivate | EmitWorkloadEvent
