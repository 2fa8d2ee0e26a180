"""Admission of PodGroups."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.pod_groups import validate_group
from headgate.capacity.names import STATE
from unit.admission.fake_cluster_view import SETTINGS, FakeClusterView


def create(view: FakeClusterView, **spec: Any) -> AdmissionResponse:
    return validate_group(AdmissionRequest("CREATE", "podgroups", "t", "g", obj={"spec": spec}), SETTINGS, view)


def move(view: FakeClusterView, old: dict[str, Any], phase: str, **spec: Any) -> AdmissionResponse:
    before = {"spec": old, "status": {"phase": phase}}
    return validate_group(
        AdmissionRequest("UPDATE", "podgroups", "t", "g", obj={"spec": spec}, old=before), SETTINGS, view
    )


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_only_an_open_queue_takes_groups(state: str) -> None:
    refusal = create(FakeClusterView().queue("q", state=state), queue="q").refusal
    assert refusal == (
        f"spec.queue: can only submit PodGroup to queue with state `Open`, queue `q` status is `{state}`"
    )


@pytest.mark.parametrize("state", ["", "Open"])
def test_an_open_leaf_takes_groups(state: str) -> None:
    assert (
        create(FakeClusterView().queue("q", state=state), queue="q", minMember=3, minResources={"cpu": "1"}) == ALLOWED
    )


def test_a_queue_is_closed_as_soon_as_it_or_an_ancestor_is_requested_to_close() -> None:
    shut = {STATE: "Closed"}
    view = (
        FakeClusterView().queue("asked", annotations=shut).queue("above", annotations=shut).queue("q", parent="above")
    )
    view.queue("reopened", state="Closed", annotations={STATE: "Open"})
    for name in ("asked", "q"):
        assert f"queue `{name}` status is `Closed`" in create(view, queue=name).refusal
    assert create(view, queue="reopened") == ALLOWED


def test_only_a_leaf_takes_groups() -> None:
    view = FakeClusterView().queue("q").queue("below", parent="q").queue("root")
    assert "leaf queue, queue `q`" in create(view, queue="q").refusal
    assert "leaf queue, queue `root`" in create(view, queue="root").refusal
    assert create(view, queue="below") == ALLOWED


def test_a_group_may_be_created_before_its_queue() -> None:
    answer = create(FakeClusterView(), queue="later")
    assert not answer.refusal
    assert answer.warnings == ('spec.queue: queue "later" does not exist yet; until it does, the group waits',)


def test_a_group_that_names_no_queue_is_in_the_default_one() -> None:
    assert create(FakeClusterView()) == ALLOWED
    assert create(FakeClusterView().queue("default", state="Closed")).refusal


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minTaskMember": {"worker": -2}}, "spec.minTaskMember[worker]"),
        ({"minResources": {"cpu": "-1"}}, "spec.minResources[cpu]"),
        ({"minResources": {"cpu": "NaN"}}, "spec.minResources[cpu]"),
        ({"minResources": {"memory": "1Qi"}}, "spec.minResources[memory]"),
    ],
)
def test_invalid_amounts_are_rejected_by_field(spec: dict[str, Any], field: str) -> None:
    assert create(FakeClusterView(), **spec).refusal.startswith(f"{field}: Invalid value: ")
    assert move(FakeClusterView(), {}, "Running", **spec).refusal.startswith(f"{field}: Invalid value: ")


@pytest.mark.parametrize("name", ["", " resized", "run-time ", "set-aside nvidia.com/gpu", "a/b/c"])
def test_names_that_no_resource_can_have_are_rejected(name: str) -> None:
    named = {"minResources": {"cpu": "1", name: "1"}}
    text = f'spec.minResources: Invalid value: "{name}": is not the name of a resource: '
    assert create(FakeClusterView(), **named).refusal.startswith(text)
    assert move(FakeClusterView(), {"minResources": {"cpu": "1"}}, "Running", **named).refusal.startswith(text)
    assert move(FakeClusterView(), named, "Running", minMember=2, **named) == ALLOWED


def test_the_number_of_named_resources_is_limited() -> None:
    most = {f"example.com/{number}": "1" for number in range(100)}
    assert create(FakeClusterView(), minResources=most) == ALLOWED
    refusal = create(FakeClusterView(), minResources={**most, "cpu": "1"}).refusal
    assert refusal == "spec.minResources: Too many: 101: must have at most 100 items"


def test_names_that_volcano_writes_are_accepted() -> None:
    named = {"cpu": "1", "pods": "1", "count/pods": "1", "requests.cpu": "1", "limits.memory": "1Gi"}
    assert create(FakeClusterView(), minResources=named) == ALLOWED


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_an_admitted_group_stays_in_its_queue(phase: str) -> None:
    view = FakeClusterView().queue("a").queue("b")
    assert f'the group is {phase} in queue "a"' in move(view, {"queue": "a"}, phase, queue="b").refusal
    assert move(view, {"queue": "a"}, phase, queue="a", minMember=2) == ALLOWED


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_pending_group_may_move_to_an_open_queue(phase: str) -> None:
    view = FakeClusterView().queue("a").queue("b").queue("shut", state="Closed")
    assert move(view, {"queue": "a"}, phase, queue="b") == ALLOWED
    assert move(view, {"queue": "a"}, phase, queue="shut").refusal


def test_a_group_in_a_queue_that_was_closed_can_still_be_changed() -> None:
    view = FakeClusterView().queue("shut", state="Closed")
    assert move(view, {"queue": "shut"}, "Running", queue="shut", minMember=1) == ALLOWED


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": {"queue": 1, "minMember": "x", "minResources": []}}])
def test_an_invalid_object_raises_nothing(obj: dict[str, Any]) -> None:
    validate_group(AdmissionRequest("CREATE", "podgroups", "t", "g", obj=obj), SETTINGS, FakeClusterView())


def test_a_waiting_time_without_effect_is_warned_about_and_the_other_warnings_stay() -> None:
    obj = {"metadata": {"annotations": {"volcano.sh/sla-waiting-time": "1 hour"}}, "spec": {"queue": "missing"}}
    request = AdmissionRequest("CREATE", "podgroups", "t", "g", obj=obj)
    queue, waiting_time = validate_group(request, SETTINGS, FakeClusterView()).warnings
    assert "does not exist yet" in queue
    assert waiting_time.startswith("metadata.annotations[volcano.sh/sla-waiting-time]: only a duration above 0")
