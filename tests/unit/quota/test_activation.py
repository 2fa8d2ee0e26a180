"""The tables of activation by labels: what the KEP draws is in them, they are total, and states are read correctly."""

from __future__ import annotations

import pytest

from headgate.quota import names
from headgate.quota.api.activation import (
    JOB_TRANSITIONS,
    WORKLOAD_TRANSITIONS,
    ActivationEvent,
    JobActivationEffect,
    JobActivationState,
    WorkloadActivationEffect,
    WorkloadActivationState,
    is_deactivating,
    label_event,
    pending_event,
    pending_transition,
    suspended_state,
    workload_state,
)
from headgate.quota.api.workload import Workload, WorkloadCondition

ACTIVATE, DEACTIVATE, OTHER = ActivationEvent.ACTIVATE, ActivationEvent.DEACTIVATE, ActivationEvent.OTHER
TRUE, FALSE = WorkloadCondition(True), WorkloadCondition(False)


def a_workload(labels: str = "", **more: object) -> Workload:
    listed = dict(each.split("=") for each in labels.split())
    found = {f"kueue.x-k8s.io/{key}": value for key, value in listed.items()}
    return Workload("ns", "w", "uid", activation_labels=found, **more)  # type: ignore[arg-type]  # fields by name


# -- the diagrams of the KEP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "event", "target"),
    [
        (JobActivationState.SUSPENDED, ACTIVATE, JobActivationState.ACTIVATE_PASSED_ON),
        (JobActivationState.SUSPENDED, DEACTIVATE, JobActivationState.DEACTIVATE_PASSED_ON),
        (JobActivationState.SUSPENDED, OTHER, JobActivationState.SUSPENDED),
        (JobActivationState.UNSUSPENDED, ACTIVATE, JobActivationState.UNSUSPENDED),
        (JobActivationState.UNSUSPENDED, DEACTIVATE, JobActivationState.UNSUSPENDED),
        (JobActivationState.UNSUSPENDED, OTHER, JobActivationState.UNSUSPENDED),
    ],
)
def test_every_arrow_of_the_diagram_of_jobs_is_a_row(
    source: JobActivationState, event: ActivationEvent, target: JobActivationState
) -> None:
    assert JOB_TRANSITIONS[source, event].target is target


@pytest.mark.parametrize(
    ("source", "event", "target"),
    [
        (WorkloadActivationState.INACTIVE, ACTIVATE, WorkloadActivationState.INACTIVE),
        (WorkloadActivationState.ACTIVE, ACTIVATE, WorkloadActivationState.ACTIVE),
        (WorkloadActivationState.ACTIVE, DEACTIVATE, WorkloadActivationState.ACTIVE),
        (WorkloadActivationState.ACTIVE, OTHER, WorkloadActivationState.ACTIVE),
        (WorkloadActivationState.INACTIVE_MANUAL, ACTIVATE, WorkloadActivationState.INACTIVE),
        (WorkloadActivationState.INACTIVE, DEACTIVATE, WorkloadActivationState.INACTIVE_MANUAL),
        (WorkloadActivationState.INACTIVE, ActivationEvent.ADMITTED, WorkloadActivationState.ACTIVE),
    ],
)
def test_every_arrow_of_the_diagram_of_workloads_is_a_row(
    source: WorkloadActivationState, event: ActivationEvent, target: WorkloadActivationState
) -> None:
    assert WORKLOAD_TRANSITIONS[source, event].target is target


def test_every_state_has_a_row_for_every_value_of_a_label() -> None:
    for event in (ACTIVATE, DEACTIVATE, OTHER):
        for state in JobActivationState:
            assert JobActivationEffect.REMOVE_LABELS in JOB_TRANSITIONS[state, event].effects
        for workload in WorkloadActivationState:
            assert WorkloadActivationEffect.REMOVE_LABELS in WORKLOAD_TRANSITIONS[workload, event].effects


def test_the_request_is_on_the_workload_before_it_leaves_the_job() -> None:
    passing = {JobActivationEffect.PASS_ON_ACTIVATE, JobActivationEffect.PASS_ON_DEACTIVATE}
    for row in JOB_TRANSITIONS.values():
        if passing & {*row.effects}:
            assert row.effects[0] in passing
            assert row.effects[1:] == (JobActivationEffect.REMOVE_LABELS,)


def test_only_a_deactivation_by_label_is_undone() -> None:
    changed = {
        source
        for (source, _), row in WORKLOAD_TRANSITIONS.items()
        if WorkloadActivationEffect.SET_ACTIVE in row.effects
    }
    assert changed == {WorkloadActivationState.INACTIVE_MANUAL}


# -- what objects show -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "event"),
    [
        ({}, None),
        ({"example.com/activate": "true"}, None),
        ({names.ACTIVATE: "true"}, ACTIVATE),
        ({names.ACTIVATE: "True"}, ACTIVATE),
        ({names.DEACTIVATE: "1"}, DEACTIVATE),
        ({names.DEACTIVATE: "t"}, DEACTIVATE),
        ({names.ACTIVATE: "yes"}, OTHER),
        ({names.ACTIVATE: ""}, OTHER),
        ({names.DEACTIVATE: "false"}, OTHER),
        ({names.DEACTIVATE: "tRUE"}, OTHER),
        ({names.ACTIVATE: "true", names.DEACTIVATE: "true"}, DEACTIVATE),
        ({names.ACTIVATE: "true", names.DEACTIVATE: "false"}, ACTIVATE),
        ({names.ACTIVATE: "no", names.DEACTIVATE: "true"}, DEACTIVATE),
    ],
)
def test_a_label_counts_if_its_value_is_true_and_deactivate_wins(
    labels: dict[str, str], event: ActivationEvent | None
) -> None:
    assert label_event(labels) is event


def test_the_state_of_a_suspended_job_is_the_label_of_its_workload() -> None:
    assert suspended_state({}) is JobActivationState.SUSPENDED
    assert suspended_state({names.ACTIVATE: "no"}) is JobActivationState.SUSPENDED
    assert suspended_state({names.ACTIVATE: "true"}) is JobActivationState.ACTIVATE_PASSED_ON
    assert suspended_state({names.DEACTIVATE: "true"}) is JobActivationState.DEACTIVATE_PASSED_ON


@pytest.mark.parametrize(
    ("workload", "state"),
    [
        (a_workload(), WorkloadActivationState.INACTIVE),
        (a_workload(conditions={"QuotaReserved": TRUE}), WorkloadActivationState.INACTIVE),
        (a_workload(conditions={"Admitted": TRUE}), WorkloadActivationState.ACTIVE),
        (a_workload(conditions={"Admitted": TRUE, "Evicted": TRUE}), WorkloadActivationState.INACTIVE),
        (a_workload(conditions={"Admitted": FALSE}), WorkloadActivationState.INACTIVE),
        (a_workload(is_active=False), WorkloadActivationState.DEACTIVATED),
        (a_workload(is_active=False, is_marked=True), WorkloadActivationState.INACTIVE_MANUAL),
        (a_workload(is_marked=True), WorkloadActivationState.INACTIVE),
        (a_workload(conditions={"DeactivationTarget": TRUE}), WorkloadActivationState.DEACTIVATED),
        (a_workload(conditions={"DeactivationTarget": TRUE}, is_marked=True), WorkloadActivationState.DEACTIVATED),
    ],
)
def test_the_state_of_a_workload_is_read_from_the_object(workload: Workload, state: WorkloadActivationState) -> None:
    assert workload_state(workload) is state


def test_labels_are_events_only_while_the_feature_is_on_and_a_mark_is_one_while_it_is_off() -> None:
    labelled, marked = a_workload("deactivate=true"), a_workload(is_active=False, is_marked=True)
    assert pending_event(labelled, is_enabled=True) is DEACTIVATE
    assert pending_event(labelled, is_enabled=False) is None
    assert pending_event(marked, is_enabled=True) is None
    assert pending_event(marked, is_enabled=False) is ActivationEvent.SWITCHED_OFF
    assert pending_event(a_workload(is_marked=True), is_enabled=True) is ActivationEvent.REACTIVATED
    assert is_deactivating(labelled, is_enabled=True)
    assert not is_deactivating(labelled, is_enabled=False)
    assert not is_deactivating(a_workload("deactivate=true", conditions={"Admitted": TRUE}), is_enabled=True)


def test_a_finished_workload_has_no_transition() -> None:
    ended = a_workload("deactivate=true", conditions={"Finished": TRUE})
    assert pending_transition(ended, is_enabled=True) is None
