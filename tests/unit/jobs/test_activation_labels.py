"""The labels ``activate`` and ``deactivate`` on the embedded server: every row of both tables, and what users see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.controllers.framework.effects import Patch
from headgate.jobs.framework.activation_labels import plan_activation
from headgate.jobs.kinds.batch_job import JOB
from headgate.kube import conditions
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.api.activation import (
    JOB_TRANSITIONS,
    WORKLOAD_TRANSITIONS,
    ActivationEvent,
    JobActivationState,
    WorkloadActivationState,
    suspended_state,
)
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs.activation_fixtures import (
    OFF,
    QUOTA_OFF,
    activation_labels,
    an_activation_world,
    job_labels,
    label,
    label_workload,
    patch_workload,
    read,
    state,
    switch,
    traces,
)
from unit.jobs.fixtures import GATE, JOBS, a_job, a_world, add, has, is_complete, job, running, workload
from unit.jobs.queue_fixtures import API, WORKLOADS, create

ACTIVATE, DEACTIVATE = "activate", "deactivate"
LONG_AGO = "2020-01-01T00:00:00Z"


def emitted(world: World, reason: str, kind: str = "") -> list[str]:
    return [
        each.message for each in world.emitted if each.reason == reason and (not kind or each.about["kind"] == kind)
    ]


def condition(world: World, name: str, type_: str) -> tuple[str, str, str]:
    found = workload(world, name)
    assert found is not None
    shown = conditions.find((found.get("status") or {}).get("conditions"), type_)
    return ("", "", "") if shown is None else (shown["status"], shown["reason"], shown["message"])


def a_full_queue(**more: Any) -> CrashingWorld:
    """``first`` runs and has all the quota; ``job`` waits."""
    world = an_activation_world(**more)
    add(world, "first")
    world.advance(1)
    add(world, "job", ends=True)
    world.advance(1)
    assert running(world) == ["first"]
    return world


def end_first(world: CrashingWorld) -> None:
    assert world.server.delete(f"{JOBS}/first", {"propagationPolicy": "Background"}).status == 200
    world.advance(3)


# -- every row of the table of jobs ------------------------------------------------------------------------------------


def a_suspended_job(world_label: str = "") -> CrashingWorld:
    """The quota controller has the feature off, so that labels stay on the Workload."""
    world = a_full_queue(quota=QUOTA_OFF)
    if world_label:
        label_workload(world, "job", **{world_label: "true"})
        world.advance(1)
    return world


def an_unsuspended_job() -> CrashingWorld:
    world = an_activation_world(quota=QUOTA_OFF)
    add(world, "job")
    world.advance(1)
    assert running(world) == ["job"]
    return world


JOB_STATES: dict[JobActivationState, Callable[[], CrashingWorld]] = {
    JobActivationState.SUSPENDED: a_suspended_job,
    JobActivationState.ACTIVATE_PASSED_ON: lambda: a_suspended_job(ACTIVATE),
    JobActivationState.DEACTIVATE_PASSED_ON: lambda: a_suspended_job(DEACTIVATE),
    JobActivationState.UNSUSPENDED: an_unsuspended_job,
}
LABELS = {
    ActivationEvent.ACTIVATE: {ACTIVATE: "true"},
    ActivationEvent.DEACTIVATE: {DEACTIVATE: "true"},
    ActivationEvent.OTHER: {ACTIVATE: "maybe", DEACTIVATE: "false"},
}


@pytest.mark.parametrize(("source", "event"), JOB_TRANSITIONS)
def test_a_row_of_the_table_of_jobs_happens(source: JobActivationState, event: ActivationEvent) -> None:
    world = JOB_STATES[source]()
    is_suspended = source is not JobActivationState.UNSUSPENDED
    label(world, "job", **LABELS[event])
    world.advance(1)
    assert job_labels(world, "job") == {}, "removed whatever its value"
    found = workload(world, "job")
    assert found is not None
    target = suspended_state(found["metadata"]["labels"]) if is_suspended else JobActivationState.UNSUSPENDED
    assert target is JOB_TRANSITIONS[source, event].target
    assert job(world, "job")["spec"]["suspend"] is is_suspended
    if not is_suspended:
        assert activation_labels(found) == {}
    is_ignored = event is ActivationEvent.OTHER or not is_suspended
    assert bool(emitted(world, "ActivationLabelIgnored", "Job")) is is_ignored


# -- every row of the table of Workloads -------------------------------------------------------------------------------


def an_inactive_workload() -> CrashingWorld:
    return a_full_queue()


def a_held_workload() -> CrashingWorld:
    world = a_full_queue()
    label(world, "job", deactivate="true")
    world.advance(1)
    return world


def an_active_workload() -> CrashingWorld:
    world = an_activation_world()
    add(world, "job")
    world.advance(1)
    return world


def a_deactivated_workload() -> CrashingWorld:
    world = a_full_queue()
    patch_workload(world, "job", {"spec": {"active": False}})
    world.advance(1)
    return world


def mark(world: CrashingWorld) -> None:
    """Another process wrote the mark and died before it removed it."""
    patch_workload(world, "job", {"metadata": {"annotations": {"headgate.dev/deactivated-by-label": "true"}}})


def mark_and_target(world: CrashingWorld) -> None:
    """A limit is about to deactivate it."""
    found = workload(world, "job")
    assert found is not None
    target = {
        "type": "DeactivationTarget",
        "status": "True",
        "reason": "AdmissionCheck",
        "message": "",
        "lastTransitionTime": LONG_AGO,
    }
    listed = [*found["status"].get("conditions", []), target]
    mark(world)
    path = f"{WORKLOADS}/{found['metadata']['name']}/status"
    assert world.server.patch(path, {"status": {"conditions": listed}}).status == 200


WORKLOAD_STATES: dict[WorkloadActivationState, Callable[[], CrashingWorld]] = {
    WorkloadActivationState.INACTIVE: an_inactive_workload,
    WorkloadActivationState.INACTIVE_MANUAL: a_held_workload,
    WorkloadActivationState.ACTIVE: an_active_workload,
    WorkloadActivationState.DEACTIVATED: a_deactivated_workload,
}


def act(world: CrashingWorld, source: WorkloadActivationState, event: ActivationEvent) -> None:
    if event in LABELS:
        label_workload(world, "job", **LABELS[event])
    elif event is ActivationEvent.ADMITTED:
        end_first(world)
    else:
        if source is WorkloadActivationState.DEACTIVATED:
            patch_workload(world, "job", {"spec": {"active": True}})
            mark_and_target(world)
        elif source is not WorkloadActivationState.INACTIVE_MANUAL:
            mark(world)
        if event is ActivationEvent.SWITCHED_OFF:
            switch(world, is_on=False)
    world.advance(1)


@pytest.mark.parametrize(("source", "event"), WORKLOAD_TRANSITIONS)
def test_a_row_of_the_table_of_workloads_happens(source: WorkloadActivationState, event: ActivationEvent) -> None:
    world = WORKLOAD_STATES[source]()
    assert state(world, "job") is source
    before = len(world.emitted)
    act(world, source, event)
    row = WORKLOAD_TRANSITIONS[source, event]
    assert state(world, "job") is row.target
    is_returned = "set deactivate=true again" in row.effects
    assert activation_labels(workload(world, "job") or {}) == ({DEACTIVATE: "true"} if is_returned else {})
    found = read(world, "job")
    assert found.is_marked is (row.target is WorkloadActivationState.INACTIVE_MANUAL)
    assert found.is_active is (row.target in (WorkloadActivationState.ACTIVE, WorkloadActivationState.INACTIVE))
    is_ignored = any(each.reason == "ActivationLabelIgnored" for each in world.emitted[before:])
    assert is_ignored is ("emit an Event that the label is ignored" in row.effects)


# -- what users do -----------------------------------------------------------------------------------------------------


def test_a_held_job_is_not_admitted_though_there_is_quota_until_it_is_resumed() -> None:
    world = a_held_workload()
    assert job_labels(world, "job") == {}
    end_first(world)
    world.advance(60)
    assert running(world) == []
    assert condition(world, "job", "QuotaReserved")[:2] == ("False", "Deactivated")
    assert "kueue.x-k8s.io/deactivate" in condition(world, "job", "QuotaReserved")[2]
    assert condition(world, "job", "Evicted")[1] == "DeactivatedDueToDeactivateLabel"
    label(world, "job", activate="true")
    world.advance(5)
    assert is_complete(world, "job")
    for reason in ("DeactivatedByLabel", "ActivatedByLabel"):
        assert len(emitted(world, reason, "Job")) == 1, "users look at their job"
        assert len(emitted(world, reason, "Workload")) == 1


def test_a_held_job_is_changed_and_admitted_with_its_new_requests() -> None:
    """The use that the KEP names: a job that requests too much is patched while nothing can admit it."""
    world = an_activation_world(cpu=2)
    add(world, "job", cpu="9", ends=True)
    world.advance(1)
    label(world, "job", deactivate="true")
    world.advance(1)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    answer = world.server.patch(f"{JOBS}/job", {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert answer.status == 200, answer.body
    world.advance(5)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL, "a change of the job keeps the hold"
    assert running(world) == []
    label(world, "job", activate="true")
    world.advance(5)
    assert is_complete(world, "job")


def test_a_job_that_is_created_with_the_label_is_never_admitted_before_it_is_resumed() -> None:
    world = an_activation_world()
    seen: list[tuple[dict[str, str], bool]] = []

    def look(told: World) -> None:
        found = workload(told, "job")
        if found is not None:
            seen.append((activation_labels(found), has(told, "job", "QuotaReserved")))

    world.check = look
    body = a_job("job", ends=True)
    body["metadata"]["labels"]["kueue.x-k8s.io/deactivate"] = "true"
    create(world.server, JOBS, body)
    world.advance(30)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert job_labels(world, "job") == {}
    assert seen[0][0] == {DEACTIVATE: "true"}, "it was created with the label"
    assert not any(has_quota for _, has_quota in seen)
    label(world, "job", activate="true")
    world.advance(5)
    assert is_complete(world, "job")


def test_a_job_that_the_webhook_missed_is_stopped_and_then_held() -> None:
    world = an_activation_world(has_admission=False)
    body = a_job("job")
    body["metadata"]["labels"]["kueue.x-k8s.io/deactivate"] = "true"
    create(world.server, JOBS, body)
    world.advance(5)
    assert running(world) == []
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL


def test_a_label_on_a_gated_job_waits_for_its_workload() -> None:
    world = an_activation_world(features=FeatureGates(activation_labels=True, scheduling_gated_by=True))
    add(world, "job", annotations={GATE: "example.com/g"})
    label(world, "job", deactivate="true")
    world.advance(2)
    assert job_labels(world, "job") == {DEACTIVATE: "true"}
    world.server.patch(f"{JOBS}/job", {"metadata": {"annotations": {GATE: None}}})
    world.advance(2)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert job_labels(world, "job") == {}


def test_of_both_labels_deactivate_takes_precedence_and_the_event_says_so() -> None:
    world = a_full_queue()
    label(world, "job", activate="true", deactivate="true")
    world.advance(1)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert job_labels(world, "job") == {}
    (text,) = [each for each in emitted(world, "UpdatedWorkload", "Job") if "Passed" in each]
    assert "it takes precedence over the other label" in text


def test_a_held_job_releases_the_quota_that_is_reserved_for_an_admission_check() -> None:
    world = an_activation_world(admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "check"}}
    create(world.server, f"{API}/admissionchecks", {**check, "spec": {"controllerName": "example.com/c"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": LONG_AGO}
    answer = world.server.patch(f"{API}/admissionchecks/check/status", {"status": {"conditions": [active]}})
    assert answer.status == 200
    add(world, "job")
    world.advance(2)
    assert has(world, "job", "QuotaReserved")
    assert not has(world, "job", "Admitted")
    label(world, "job", deactivate="true")
    world.advance(2)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert not has(world, "job", "QuotaReserved")
    label(world, "job", activate="true")
    world.advance(2)
    assert has(world, "job", "QuotaReserved")


def test_a_workload_that_is_deleted_while_its_job_is_held_is_held_again() -> None:
    world = a_held_workload()
    end_first(world)
    found = workload(world, "job")
    assert found is not None
    assert world.server.delete(f"{WORKLOADS}/{found['metadata']['name']}").status == 200
    world.advance(5)
    again = workload(world, "job")
    assert again is not None
    assert again["metadata"]["uid"] != found["metadata"]["uid"]
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert running(world) == []
    assert job_labels(world, "job") == {}


def test_the_hold_is_kept_if_the_workload_is_deleted_without_its_finalizer() -> None:
    world = a_full_queue()
    label(world, "job", deactivate="true")
    world.advance(5)
    before = read(world, "job").uid
    patch_workload(world, "job", {"metadata": {"finalizers": None}})
    found = workload(world, "job")
    assert found is not None
    assert world.server.delete(f"{WORKLOADS}/{found['metadata']['name']}").status == 200
    end_first(world)
    world.advance(10)
    assert read(world, "job").uid != before
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert running(world) == []
    assert job_labels(world, "job") == {}
    assert len(emitted(world, "DeactivationKept", "Job")) == 1


def test_a_resumed_job_is_not_held_again_when_its_workload_is_deleted_without_its_finalizer() -> None:
    world = a_full_queue()
    label(world, "job", deactivate="true")
    world.advance(5)
    label(world, "job", activate="true")
    patch_workload(world, "job", {"metadata": {"finalizers": None}})
    found = workload(world, "job")
    assert found is not None
    assert world.server.delete(f"{WORKLOADS}/{found['metadata']['name']}").status == 200
    end_first(world)
    world.advance(20)
    assert is_complete(world, "job")


def test_a_label_of_a_job_does_not_undo_what_a_client_with_rights_on_workloads_decided() -> None:
    world = a_deactivated_workload()
    for each in (DEACTIVATE, ACTIVATE):
        label(world, "job", **{each: "true"})
        world.advance(2)
        assert state(world, "job") is WorkloadActivationState.DEACTIVATED, each
    assert len(emitted(world, "ActivationLabelIgnored", "Job")) == 2
    end_first(world)
    assert running(world) == []


def test_a_client_with_rights_on_workloads_may_end_a_hold() -> None:
    world = a_held_workload()
    patch_workload(world, "job", {"spec": {"active": True}})
    end_first(world)
    assert is_complete(world, "job")
    assert not read(world, "job").is_marked


def test_a_label_that_arrives_before_the_admission_is_written_wins() -> None:
    world = an_activation_world()
    add(world, "job")
    labelled: list[bool] = []

    def overtake(effect: object) -> bool:
        """Between the creation of the Workload and the next write, which is its admission."""
        if not labelled and workload(world, "job") is not None:
            labelled.append(True)
            label_workload(world, "job", deactivate="true")
        return True

    world.is_counted_write = overtake
    world.advance(5)
    assert labelled
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert running(world) == []


def test_a_label_that_is_consumed_before_it_leaves_the_job_is_not_passed_on_again() -> None:
    world = a_full_queue()
    before, found = job(world, "job"), workload(world, "job")
    assert found is not None
    before["metadata"]["labels"]["kueue.x-k8s.io/deactivate"] = "true"
    first = plan_activation(JOB, before, found, None)
    assert first is not None
    assert isinstance(first.write, Patch)
    assert first.write.resource == WORKLOAD
    then = plan_activation(JOB, before, found, first.passes_on)
    assert then is not None
    assert isinstance(then.write, Patch)
    assert then.write.resource == JOB.resource
    replaced = {**found, "metadata": {**found["metadata"], "uid": "another"}}
    again = plan_activation(JOB, before, replaced, first.passes_on)
    assert again is not None
    assert isinstance(again.write, Patch)
    assert again.write.resource == WORKLOAD, "the Workload that got the label is gone"


# -- the feature gate --------------------------------------------------------------------------------------------------


def test_with_the_feature_off_labels_stay_and_nothing_is_written() -> None:
    world = a_world(features=OFF, quota=QUOTA_OFF)
    body = a_job("job", ends=True)
    body["metadata"]["labels"] |= {"kueue.x-k8s.io/deactivate": "true", "kueue.x-k8s.io/activate": "no"}
    create(world.server, JOBS, body)
    world.advance(1)
    label_workload(world, "job", deactivate="true")
    world.advance(5)
    assert is_complete(world, "job"), "a label holds nothing"
    assert job_labels(world, "job") == {DEACTIVATE: "true", ACTIVATE: "no"}
    assert activation_labels(workload(world, "job") or {}) == {DEACTIVATE: "true"}
    assert [each for each in traces(world, "job") if each not in (ACTIVATE, DEACTIVATE)] == []


def test_switching_the_feature_off_lets_held_jobs_run() -> None:
    world = a_held_workload()
    switch(world, is_on=False)
    assert state(world, "job") is WorkloadActivationState.INACTIVE
    assert len(emitted(world, "ActivationLabelsDisabled", "Job")) == 1
    end_first(world)
    assert is_complete(world, "job")


def test_a_job_that_still_waits_is_held_again_when_the_feature_is_on_again() -> None:
    world = a_held_workload()
    switch(world, is_on=False)
    assert read(world, "job").is_active
    switch(world, is_on=True)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    end_first(world)
    assert running(world) == []
    label(world, "job", activate="true")
    world.advance(5)
    assert is_complete(world, "job")


def test_a_job_that_was_admitted_while_the_feature_was_off_keeps_running() -> None:
    world = a_full_queue()
    label(world, "job", deactivate="true")
    create(world.server, JOBS, a_job("other"))
    world.advance(1)
    label(world, "other", deactivate="true")
    world.advance(1)
    switch(world, is_on=False)
    end_first(world)
    world.advance(5)
    assert is_complete(world, "job")
    assert running(world) == ["job", "other"]
    switch(world, is_on=True)
    world.advance(5)
    assert "other" in running(world)
    assert state(world, "other") is WorkloadActivationState.ACTIVE
    assert activation_labels(workload(world, "other") or {}) == {}


def test_a_label_that_was_set_while_the_feature_was_off_is_consumed_when_it_is_on() -> None:
    world = a_full_queue()
    switch(world, is_on=False)
    label(world, "job", deactivate="true")
    world.advance(2)
    assert job_labels(world, "job") == {DEACTIVATE: "true"}
    switch(world, is_on=True)
    assert job_labels(world, "job") == {}
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL


def test_a_label_that_no_quota_controller_consumes_holds_nothing() -> None:
    """The components run in two processes, and only one has the feature on."""
    world = a_full_queue(quota=QUOTA_OFF)
    label(world, "job", deactivate="true")
    world.advance(1)
    assert job_labels(world, "job") == {}
    end_first(world)
    assert is_complete(world, "job")
