"""The labels ``activate`` and ``deactivate`` of a job: the writes that pass them on to the Workload and remove them.

The rows are those of ``JOB_TRANSITIONS`` in ``quota/api/activation.py``. A label waits on the job while the job has no
Workload, or is about to be stopped. The label is written to the Workload with the version of the Workload as a
precondition, also if it would change nothing there: the write is what shows that the known version is current.
``job_plan.py`` calls this module; the quota controller consumes the label of the Workload.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from headgate.jobs.framework import job_writes
from headgate.jobs.framework.job_writes import PassedOnLabel, PlannedWrite
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import JobKind, is_suspended
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.quota import names
from headgate.quota.api.activation import (
    JOB_TRANSITIONS,
    LABEL_OF,
    ActivationEvent,
    JobActivationEffect,
    JobActivationState,
    label_event,
    suspended_state,
)

_PASSES_ON = {
    JobActivationEffect.PASS_ON_ACTIVATE: ActivationEvent.ACTIVATE,
    JobActivationEffect.PASS_ON_DEACTIVATE: ActivationEvent.DEACTIVATE,
}
_STATE_AFTER = {
    ActivationEvent.ACTIVATE: JobActivationState.ACTIVATE_PASSED_ON,
    ActivationEvent.DEACTIVATE: JobActivationState.DEACTIVATE_PASSED_ON,
}


def plan_activation(
    kind: JobKind, job: Object, workload: Object | None, passed_on: PassedOnLabel | None
) -> PlannedWrite | None:
    """The next write for the labels of the job; None if there is none, or if they wait. ``passed_on``: the label that
    this process has written to the Workload last."""
    event = label_event(_labels(job))
    if event is None:
        return None
    state = _state(kind, job, workload, event, passed_on)
    if state is None and event is not ActivationEvent.OTHER:
        return None
    transition = JOB_TRANSITIONS[state or JobActivationState.SUSPENDED, event]
    for effect in transition.effects:
        if effect in _PASSES_ON and workload is not None:
            return job_writes.pass_on_label(kind, job, workload, _PASSES_ON[effect])
    is_ignored = JobActivationEffect.REPORT_IGNORED in transition.effects
    return job_writes.remove_activation_labels(kind, job, _why_ignored(kind, job, event) if is_ignored else "")


def _why_ignored(kind: JobKind, job: Object, event: ActivationEvent) -> str:
    if event is ActivationEvent.OTHER:
        return "its value is not true"
    return "the job or its Workload has ended" if is_suspended(kind, job) else "the job is not suspended"


def requested_label(job: Object) -> Mapping[str, str]:
    """The label for a new Workload of the job, so that it is never admitted before the request is known."""
    event = label_event(_labels(job))
    return {} if event is None or event not in LABEL_OF else {LABEL_OF[event]: "true"}


def keep_deactivation(
    kind: JobKind, job: Object, workloads: Iterable[Object], lost_holds: Container[str]
) -> PlannedWrite | None:
    """Sets the label on the job again if a Workload that it deactivated is being deleted: the next one gets it.
    ``lost_holds``: the uids of jobs whose deactivated Workload is gone already."""
    if not needs_label(kind, job):
        return None
    is_lost = any(_is_terminating(each) and is_deactivated_by_label(each) for each in workloads)
    if is_lost or job["metadata"]["uid"] in lost_holds:
        return job_writes.return_deactivation(kind, job)
    return None


def needs_label(kind: JobKind, job: Object) -> bool:
    """Whether the deactivation of the job is lost with its Workload: the job has no label that the next Workload
    gets."""
    return label_event(_labels(job)) not in LABEL_OF and kind.outcome(job) is None


def _state(
    kind: JobKind, job: Object, workload: Object | None, event: ActivationEvent, passed_on: PassedOnLabel | None
) -> JobActivationState | None:
    """None if the labels wait: for a Workload, or until the job is stopped."""
    if kind.outcome(job) is not None or (workload is not None and _has(workload, names.FINISHED)):
        return JobActivationState.UNSUSPENDED
    if workload is None or _is_terminating(workload):
        return None
    if not is_suspended(kind, job):
        runs = _has(workload, names.ADMITTED) and not _has(workload, names.EVICTED)
        return JobActivationState.UNSUSPENDED if runs else None
    if passed_on == job_writes.passed_on_label(job, workload, event):
        return _STATE_AFTER.get(event)  # the quota controller may have consumed it already
    return suspended_state(_labels(workload))


def is_deactivated_by_label(workload: Object) -> bool:
    """Whether a label has deactivated the Workload, or is going to."""
    if _has(workload, names.FINISHED):
        return False
    event = label_event(_labels(workload))
    is_marked = names.DEACTIVATED_BY_LABEL in (workload["metadata"].get("annotations") or {})
    is_inactive = get_path(workload, ("spec", "active")) is False
    return event is ActivationEvent.DEACTIVATE or (event is not ActivationEvent.ACTIVATE and is_marked and is_inactive)


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _has(workload: Object, condition: str) -> bool:
    return conditions.is_true(get_path(workload, ("status", "conditions")), condition)


def _is_terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
