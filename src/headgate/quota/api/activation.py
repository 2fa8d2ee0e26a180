"""Activation by labels (KEP-6915, "Label-based Activation/Deactivation Approach"): its two state diagrams as tables.

A user sets ``kueue.x-k8s.io/activate=true`` or ``kueue.x-k8s.io/deactivate=true`` on a suspended job. The job
controller passes the label on to the Workload and removes it from the job (:data:`JOB_TRANSITIONS`). The quota
controller removes it from the Workload and sets ``spec.active`` (:data:`WORKLOAD_TRANSITIONS`). The states are read
from the objects, so a process that is killed between two writes continues from the row that the objects show.
``jobs/framework/activation_labels.py`` and ``quota/controller/activation_writes.py`` perform the effects; ADR 0037
explains the rows that are not in the KEP.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from headgate.quota import names
from headgate.quota.api.workload import Workload


class ActivationEvent(StrEnum):
    """The first three: what the labels of an object ask for. The others happen to Workloads only."""

    ACTIVATE = "activate=true is set"
    DEACTIVATE = "deactivate=true is set"
    OTHER = "a label with another value is set"
    ADMITTED = "the Workload is admitted"
    REACTIVATED = "another client sets spec.active to true"
    SWITCHED_OFF = "the feature gate ActivationLabels is switched off"


LABEL_OF: Final = {ActivationEvent.ACTIVATE: names.ACTIVATE, ActivationEvent.DEACTIVATE: names.DEACTIVATE}

# The spellings of true that Go's ParseBool accepts: the KEP speaks of values that are "truth-y".
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))


def label_event(labels: Mapping[str, str]) -> ActivationEvent | None:
    """What the labels ask for; None if there is no such label. If both labels are set, ``deactivate`` takes
    precedence, because a deactivation can be undone and a start cannot."""
    activate, deactivate = labels.get(names.ACTIVATE), labels.get(names.DEACTIVATE)
    if deactivate in _TRUE:
        return ActivationEvent.DEACTIVATE
    if activate in _TRUE:
        return ActivationEvent.ACTIVATE
    return None if activate is None and deactivate is None else ActivationEvent.OTHER


# -- the job -------------------------------------------------------------------------------------------------------


class JobActivationState(StrEnum):
    """A job, and the label that its Workload has."""

    SUSPENDED = "suspended job, Workload without a label"
    ACTIVATE_PASSED_ON = "suspended job, Workload with activate=true"
    DEACTIVATE_PASSED_ON = "suspended job, Workload with deactivate=true"
    UNSUSPENDED = "unsuspended job"


class JobActivationEffect(StrEnum):
    """In the order in which they are written: the request is on the Workload before it is removed from the job."""

    PASS_ON_ACTIVATE = "set activate=true on the Workload"
    PASS_ON_DEACTIVATE = "set deactivate=true on the Workload"
    REMOVE_LABELS = "remove both labels from the job"
    REPORT_IGNORED = "emit an Event that the labels are ignored"


class JobActivation(msgspec.Struct, frozen=True):
    target: JobActivationState
    effects: tuple[JobActivationEffect, ...]


_REMOVED: Final = (JobActivationEffect.REMOVE_LABELS,)
_IGNORED: Final = (JobActivationEffect.REMOVE_LABELS, JobActivationEffect.REPORT_IGNORED)
_TO_ACTIVATE: Final = JobActivation(
    JobActivationState.ACTIVATE_PASSED_ON, (JobActivationEffect.PASS_ON_ACTIVATE, JobActivationEffect.REMOVE_LABELS)
)
_TO_DEACTIVATE: Final = JobActivation(
    JobActivationState.DEACTIVATE_PASSED_ON, (JobActivationEffect.PASS_ON_DEACTIVATE, JobActivationEffect.REMOVE_LABELS)
)

JOB_TRANSITIONS: Final[Mapping[tuple[JobActivationState, ActivationEvent], JobActivation]] = {
    (JobActivationState.SUSPENDED, ActivationEvent.ACTIVATE): _TO_ACTIVATE,
    (JobActivationState.SUSPENDED, ActivationEvent.DEACTIVATE): _TO_DEACTIVATE,
    (JobActivationState.ACTIVATE_PASSED_ON, ActivationEvent.DEACTIVATE): _TO_DEACTIVATE,
    (JobActivationState.DEACTIVATE_PASSED_ON, ActivationEvent.ACTIVATE): _TO_ACTIVATE,
    (JobActivationState.ACTIVATE_PASSED_ON, ActivationEvent.ACTIVATE): JobActivation(
        JobActivationState.ACTIVATE_PASSED_ON, _REMOVED
    ),
    (JobActivationState.DEACTIVATE_PASSED_ON, ActivationEvent.DEACTIVATE): JobActivation(
        JobActivationState.DEACTIVATE_PASSED_ON, _REMOVED
    ),
    **{
        (state, ActivationEvent.OTHER): JobActivation(state, _IGNORED)
        for state in JobActivationState
        if state is not JobActivationState.UNSUSPENDED
    },
    **{
        (JobActivationState.UNSUSPENDED, event): JobActivation(JobActivationState.UNSUSPENDED, _IGNORED)
        for event in (ActivationEvent.ACTIVATE, ActivationEvent.DEACTIVATE, ActivationEvent.OTHER)
    },
}


def suspended_state(workload_labels: Mapping[str, str]) -> JobActivationState:
    """The state of a suspended job whose Workload has these labels."""
    match label_event(workload_labels):
        case ActivationEvent.ACTIVATE:
            return JobActivationState.ACTIVATE_PASSED_ON
        case ActivationEvent.DEACTIVATE:
            return JobActivationState.DEACTIVATE_PASSED_ON
        case _:
            return JobActivationState.SUSPENDED


# -- the Workload --------------------------------------------------------------------------------------------------


class WorkloadActivationState(StrEnum):
    """The first three are those of the KEP. ``DEACTIVATED``: ``spec.active`` is false, and not because of a label: a
    client with rights on Workloads, or a limit of Kueue, decided so, and a label of a job does not undo that."""

    ACTIVE = "Active: the Workload is admitted"
    INACTIVE = "Inactive: the Workload is not admitted and may be"
    INACTIVE_MANUAL = "InactiveManual: a label set spec.active to false"
    DEACTIVATED = "Deactivated: another client or a limit set spec.active to false"


class WorkloadActivationEffect(StrEnum):
    """All effects of a transition are one write. The mark is the annotation ``headgate.dev/deactivated-by-label``."""

    REMOVE_LABELS = "remove both labels"
    SET_INACTIVE = "set spec.active to false and the mark"
    SET_ACTIVE = "set spec.active to true and remove the mark"
    REMOVE_MARK = "remove the mark"
    RETURN_LABEL = "set deactivate=true again"
    REPORT_IGNORED = "emit an Event that the label is ignored"


class WorkloadActivation(msgspec.Struct, frozen=True):
    target: WorkloadActivationState
    effects: tuple[WorkloadActivationEffect, ...] = ()


_State = WorkloadActivationState
_Effect = WorkloadActivationEffect
_CONSUMED: Final = (_Effect.REMOVE_LABELS,)
_REFUSED: Final = (_Effect.REMOVE_LABELS, _Effect.REPORT_IGNORED)

WORKLOAD_TRANSITIONS: Final[Mapping[tuple[WorkloadActivationState, ActivationEvent], WorkloadActivation]] = {
    (_State.INACTIVE, ActivationEvent.ACTIVATE): WorkloadActivation(_State.INACTIVE, _CONSUMED),
    (_State.INACTIVE, ActivationEvent.DEACTIVATE): WorkloadActivation(
        _State.INACTIVE_MANUAL, (_Effect.REMOVE_LABELS, _Effect.SET_INACTIVE)
    ),
    (_State.INACTIVE, ActivationEvent.OTHER): WorkloadActivation(_State.INACTIVE, _REFUSED),
    (_State.INACTIVE, ActivationEvent.ADMITTED): WorkloadActivation(_State.ACTIVE),
    (_State.INACTIVE_MANUAL, ActivationEvent.ACTIVATE): WorkloadActivation(
        _State.INACTIVE, (_Effect.REMOVE_LABELS, _Effect.SET_ACTIVE)
    ),
    (_State.INACTIVE_MANUAL, ActivationEvent.DEACTIVATE): WorkloadActivation(_State.INACTIVE_MANUAL, _CONSUMED),
    (_State.INACTIVE_MANUAL, ActivationEvent.OTHER): WorkloadActivation(_State.INACTIVE_MANUAL, _REFUSED),
    (_State.ACTIVE, ActivationEvent.ACTIVATE): WorkloadActivation(_State.ACTIVE, _CONSUMED),
    (_State.ACTIVE, ActivationEvent.DEACTIVATE): WorkloadActivation(_State.ACTIVE, _REFUSED),
    (_State.ACTIVE, ActivationEvent.OTHER): WorkloadActivation(_State.ACTIVE, _REFUSED),
    **{
        (_State.DEACTIVATED, event): WorkloadActivation(_State.DEACTIVATED, _REFUSED)
        for event in (ActivationEvent.ACTIVATE, ActivationEvent.DEACTIVATE, ActivationEvent.OTHER)
    },
    # The mark of a Workload whose spec.active is true, and the feature gate off: not in the KEP.
    **{
        (state, event): WorkloadActivation(state, (_Effect.REMOVE_MARK,))
        for state in (_State.ACTIVE, _State.INACTIVE, _State.DEACTIVATED)
        for event in (ActivationEvent.REACTIVATED, ActivationEvent.SWITCHED_OFF)
    },
    (_State.INACTIVE_MANUAL, ActivationEvent.SWITCHED_OFF): WorkloadActivation(
        _State.INACTIVE, (_Effect.SET_ACTIVE, _Effect.RETURN_LABEL)
    ),
}


def workload_state(workload: Workload) -> WorkloadActivationState:
    if workload.has(names.ADMITTED) and not workload.is_evicted:
        return WorkloadActivationState.ACTIVE
    if workload.is_active and not workload.has(names.DEACTIVATION_TARGET):
        return WorkloadActivationState.INACTIVE
    is_by_label = workload.is_marked and not workload.is_active
    return WorkloadActivationState.INACTIVE_MANUAL if is_by_label else WorkloadActivationState.DEACTIVATED


def pending_event(workload: Workload, is_enabled: bool) -> ActivationEvent | None:
    """The event that the Workload shows and that no write has answered yet. ``is_enabled``: the feature gate."""
    if not (workload.activation_labels or workload.is_marked) or workload.is_finished:
        return None
    if not is_enabled:
        return ActivationEvent.SWITCHED_OFF if workload.is_marked else None
    found = label_event(workload.activation_labels)
    if found is None and workload.is_marked and workload.is_active:
        return ActivationEvent.REACTIVATED
    return found


def pending_transition(workload: Workload, is_enabled: bool) -> WorkloadActivation | None:
    """The row of :data:`WORKLOAD_TRANSITIONS` that applies now; None if there is nothing to do."""
    event = pending_event(workload, is_enabled)
    return None if event is None else WORKLOAD_TRANSITIONS.get((workload_state(workload), event))


def is_deactivating(workload: Workload, is_enabled: bool) -> bool:
    """Whether a label asks for a deactivation that is not written yet: the Workload must not be admitted meanwhile."""
    found = pending_transition(workload, is_enabled)
    return found is not None and WorkloadActivationEffect.SET_INACTIVE in found.effects
