"""Admission of Queues. The rules have their own tests; these test how the handler calls them."""

from __future__ import annotations

from typing import Any

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.queues import validate_queue
from unit.admission.fake_cluster_view import SETTINGS, FakeClusterView


def write(view: FakeClusterView, name: str, old: dict[str, Any] | None = None, **spec: Any) -> AdmissionResponse:
    wire = {"metadata": {"name": name}, "spec": spec}
    before = {} if old is None else {"metadata": {"name": name}, "spec": old}
    operation = "CREATE" if old is None else "UPDATE"
    return validate_queue(AdmissionRequest(operation, "queues", "", name, obj=wire, old=before), SETTINGS, view)


def delete(view: FakeClusterView, name: str, *, by_name: bool = True) -> AdmissionResponse:
    request = AdmissionRequest("DELETE", "queues", "", name if by_name else "", old={"metadata": {"name": name}})
    return validate_queue(request, SETTINGS, view)


def a_tree() -> FakeClusterView:
    return FakeClusterView().queue("root").queue("default").queue("a", capability={"cpu": "4"}).queue("b", parent="a")


def test_a_valid_queue_can_be_created_updated_and_deleted() -> None:
    assert write(a_tree(), "c", parent="a", capability={"cpu": "2"}) == ALLOWED
    assert write(a_tree(), "b", {"parent": "a"}, parent="a", capability={"cpu": "4"}) == ALLOWED
    assert delete(a_tree(), "b") == ALLOWED


def test_all_problems_are_reported_at_once_with_their_fields() -> None:
    refusal = write(a_tree(), "c", parent="a", capability={"cpu": "5"}, deserved={"cpu": "6"}).refusal
    assert "spec.capability.cpu: " in refusal
    assert "spec.deserved.cpu: " in refusal


def test_bad_trees_and_bad_amounts_are_refused() -> None:
    assert "does not exist" in write(a_tree(), "c", parent="nowhere").refusal
    assert "circle" in write(a_tree(), "a", {}, parent="b").refusal
    assert "is negative" in write(a_tree(), "c", capability={"cpu": "-1"}).refusal
    assert write(a_tree(), "c", capability={"cpu": "NaN"}).refusal


def test_a_queue_in_use_and_a_builtin_queue_cannot_be_deleted() -> None:
    view = a_tree().group("g", queue="b")
    assert "1 PodGroup" in delete(view, "b").refusal
    assert "below it" in delete(view, "a").refusal
    for name in ("root", "default"):
        assert "cannot be deleted" in delete(view, name, by_name=False).refusal


def test_a_queue_with_groups_cannot_have_queues_below_it() -> None:
    assert "no queue can be below it" in write(a_tree().group("g", queue="b"), "c", parent="b").refusal


def test_an_invalid_object_raises_nothing() -> None:
    for obj in ({}, {"metadata": None, "spec": None}, {"metadata": {"name": 7}, "spec": {"parent": []}}):
        validate_queue(AdmissionRequest("CREATE", "queues", "", "x", obj=obj), SETTINGS, FakeClusterView())
        validate_queue(AdmissionRequest("UPDATE", "queues", "", "x", obj=obj, old=obj), SETTINGS, FakeClusterView())
        validate_queue(AdmissionRequest("DELETE", "queues", old=obj), SETTINGS, FakeClusterView())


def test_a_zero_limit_is_accepted_with_a_warning() -> None:
    answer = write(a_tree(), "c", capability={"cpu": 0, "memory": "0Gi", "example.com/gpu": "1"})
    assert answer.refusal == ""
    assert [text.split(":")[0] for text in answer.warnings] == ["spec.capability.cpu", "spec.capability.memory"]
    assert "0 means that the queue may use no cpu at all; Volcano takes it for no limit" in answer.warnings[0]


def test_the_warning_about_a_zero_limit_comes_only_with_the_write_that_adds_it() -> None:
    nothing, more = {"capability": {"cpu": 0}}, {"capability": {"cpu": 1}}
    assert write(a_tree(), "c", more, **nothing).warnings
    assert write(a_tree(), "c", nothing, **nothing, weight=2) == ALLOWED
    assert write(a_tree(), "c", nothing, **more) == ALLOWED
    assert delete(a_tree(), "c") == ALLOWED


def test_a_resource_that_no_container_can_request_is_answered_with_a_warning() -> None:
    answer = write(
        a_tree(),
        "c",
        capability={"pods": 1, "cpu": "1", "requests.cpu": "1", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"},
        deserved={"storage": "1Gi"},
        guarantee={"resource": {"pods": "1"}},
    )
    assert answer.refusal == ""
    assert answer.warnings == (
        "spec.capability.pods: queues do not count pods, as in Volcano, so this has no effect. "
        "Limit the number of pods with a ResourceQuota in each namespace",
        "spec.capability.requests.cpu: no container can request requests.cpu, so queues do not count it and this has "
        "no effect. Name cpu instead",
        "spec.deserved.storage: no container can request storage, so queues do not count it and this has no effect",
        "spec.guarantee.resource.pods: queues do not count pods, as in Volcano, so this has no effect. "
        "Limit the number of pods with a ResourceQuota in each namespace",
    )


def test_the_warning_about_an_uncounted_resource_comes_with_the_write_that_adds_it() -> None:
    pods = {"capability": {"pods": 1}}
    assert write(a_tree(), "c", {}, **pods).warnings
    assert write(a_tree(), "c", pods, **pods, weight=2) == ALLOWED
    assert len(write(a_tree(), "c", pods, **pods, deserved={"pods": 1}).warnings) == 1
    assert write(a_tree(), "c", pods) == ALLOWED


def test_uncounted_resources_are_not_compared_with_those_of_other_queues() -> None:
    view = a_tree()
    assert write(view, "c", parent="a", capability={"pods": 5}, deserved={"pods": 9}).refusal == ""
    assert "spec.capability.pods" in write(view, "c", capability={"pods": "many"}).refusal
