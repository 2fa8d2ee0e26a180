"""What the engine asks for: writes to Workloads and Events, as frozen values.

Each names the workload by key and uid: what was decided for one must never reach another of the same name. Performing
them is the shell's; what became of an ``Admit`` or ``Evict`` it tells the engine (``engine.py``).
"""

from __future__ import annotations

import msgspec

from headgate.quota.workload import Admission, CheckState


class Admit(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Reserve quota. ``is_admitted``: no admission check is waited for, so the workload is admitted in the same write.
    ``waited_s``: since it was queued. ``waits_for``: the terminating pods that still use what it is given, in words;
    its pods start when those have left. Empty if they start at once."""

    key: str
    uid: str
    admission: Admission
    is_admitted: bool = True
    waited_s: float = 0.0
    waits_for: str = ""


class Evict(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Tell a workload to go. ``preempted`` is the reason of its condition Preempted, if it makes room for another.
    ``requeue_at_s`` and ``requeue_count`` are its back-off, if it has to wait before it may come again; ``checks`` its
    admission checks, which start anew."""

    key: str
    uid: str
    reason: str
    message: str
    preempted: str = ""
    preemptor: str = ""
    cause: str = ""
    requeue_at_s: float | None = None
    requeue_count: int = 0
    checks: tuple[CheckState, ...] = ()


class Release(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Take back quota that was reserved and not used yet: the condition says why."""

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
    """The condition Requeued turns true, and a back-off that is over is forgotten."""

    key: str
    uid: str
    reason: str
    message: str


class PutOff(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """Not before this moment."""

    key: str
    uid: str
    until_s: float


class SetChecks(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    checks: tuple[CheckState, ...]


class Deactivate(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    """``spec.active`` becomes false."""

    key: str
    uid: str


class Emit(msgspec.Struct, frozen=True, tag=True, tag_field="effect"):
    key: str
    uid: str
    is_warning: bool
    reason: str
    message: str


Effect = Admit | Evict | Release | SetCondition | Requeue | PutOff | SetChecks | Deactivate | Emit
