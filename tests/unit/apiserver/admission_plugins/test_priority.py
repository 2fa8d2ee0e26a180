"""Pods get their priority from a class; answers as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod

PODS = "/api/v1/namespaces/t/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def with_classes() -> Embedded:
    server = Embedded()
    server.post(CLASSES, {"metadata": {"name": "high"}, "value": 77, "preemptionPolicy": "Never"})
    server.post(CLASSES, {"metadata": {"name": "zero"}, "value": 0})
    server.post(CLASSES, {"metadata": {"name": "negative"}, "value": -5})
    return server


def resolved(pod: Any) -> tuple[Any, ...]:
    return tuple(pod["spec"].get(field) for field in ("priorityClassName", "priority", "preemptionPolicy"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (None, 0, "PreemptLowerPriority")),
        ({"priorityClassName": ""}, (None, 0, "PreemptLowerPriority")),
        ({"priority": 0}, (None, 0, "PreemptLowerPriority")),
        ({"preemptionPolicy": "PreemptLowerPriority"}, (None, 0, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, ("high", 77, "Never")),
        ({"priorityClassName": "high", "priority": 77}, ("high", 77, "Never")),
        ({"priorityClassName": "zero"}, ("zero", 0, "PreemptLowerPriority")),
        ({"priorityClassName": "negative"}, ("negative", -5, "PreemptLowerPriority")),
    ],
)
def test_a_pod_is_born_with_the_priority_of_its_class(spec: Any, expected: tuple[Any, ...]) -> None:
    made = with_classes().post(PODS, a_pod(**spec))
    assert (made.status, resolved(made.body)) == (201, expected)


NUMBER = (
    "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {}"
)
POLICY = (
    "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller "
    "computed {}"
)
CLASS_NAME = " from the given PriorityClass name"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priorityClassName": "Not Valid"}, "no PriorityClass with name Not Valid was found"),
        ({"priority": 5}, NUMBER.format(5, 0) + CLASS_NAME),
        ({"priorityClassName": "high", "priority": 0}, NUMBER.format(0, 77) + CLASS_NAME),
        ({"preemptionPolicy": "Never"}, POLICY.format("Never", "PreemptLowerPriority") + CLASS_NAME),
        ({"preemptionPolicy": ""}, POLICY.format("", "PreemptLowerPriority") + CLASS_NAME),
        ({"priorityClassName": "high", "preemptionPolicy": "Odd"}, POLICY.format("Odd", "Never") + CLASS_NAME),
    ],
)
def test_a_pod_may_not_choose_a_priority_of_its_own(spec: Any, problem: str) -> None:
    refused = with_classes().post(PODS, a_pod(**spec))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"] == f'pods "a" is forbidden: {problem}'
    assert refused.body["details"] == {"name": "a", "kind": "pods"}


def test_a_refusal_shows_the_beginning_of_a_name_that_is_still_to_be_made() -> None:
    pod = {**a_pod(priorityClassName="none"), "metadata": {"generateName": "g-"}}
    refused = with_classes().post(PODS, pod)
    assert refused.body["message"] == 'pods "g-" is forbidden: no PriorityClass with name none was found'


def test_pods_without_a_class_get_the_default_class_by_name() -> None:
    server = with_classes()
    server.post(CLASSES, {"metadata": {"name": "usual"}, "value": 33, "globalDefault": True})
    assert resolved(server.post(PODS, a_pod("a")).body) == ("usual", 33, "PreemptLowerPriority")
    assert resolved(server.post(PODS, a_pod("b", priorityClassName="high")).body) == ("high", 77, "Never")
    refused = server.post(PODS, a_pod("c", priority=0))
    assert refused.body["message"] == 'pods "c" is forbidden: ' + NUMBER.format(0, 33) + CLASS_NAME
    server.delete(f"{CLASSES}/usual")
    assert resolved(server.post(PODS, a_pod("d")).body) == (None, 0, "PreemptLowerPriority")


def test_a_second_default_class_is_refused_however_it_comes_about() -> None:
    server = with_classes()
    server.post(CLASSES, {"metadata": {"name": "usual"}, "value": 33, "globalDefault": True})
    problem = "is forbidden: PriorityClass usual is already marked as default. Only one default can exist"
    second = server.post(CLASSES, {"metadata": {"name": "second"}, "value": 1, "globalDefault": True})
    assert second.status == 403
    assert second.body["message"] == f'priorityclasses.scheduling.k8s.io "second" {problem}'
    assert second.body["details"] == {"name": "second", "group": "scheduling.k8s.io", "kind": "priorityclasses"}
    again = server.post(CLASSES, {"metadata": {"name": "usual"}, "value": 33, "globalDefault": True})
    assert again.body["message"] == f'priorityclasses.scheduling.k8s.io "usual" {problem}'
    turned = server.patch(f"{CLASSES}/high", {"globalDefault": True})
    assert turned.body["message"] == f'priorityclasses.scheduling.k8s.io "high" {problem}'


def test_the_default_class_itself_may_be_updated_and_resign() -> None:
    server = with_classes()
    server.post(CLASSES, {"metadata": {"name": "usual"}, "value": 33, "globalDefault": True})
    assert server.patch(f"{CLASSES}/usual", {"description": "for everybody"}).status == 200
    assert server.patch(f"{CLASSES}/usual", {"globalDefault": False}).status == 200
    assert server.patch(f"{CLASSES}/high", {"globalDefault": True}).status == 200


@pytest.mark.parametrize("lost", [("priority",), ("preemptionPolicy",), ("priority", "preemptionPolicy")])
def test_an_update_that_leaves_out_what_admission_added_does_not_remove_it(lost: tuple[str, ...]) -> None:
    server = with_classes()
    pod = server.post(PODS, a_pod(priorityClassName="high")).body
    for field in lost:
        del pod["spec"][field]
    updated = server.put(f"{PODS}/a", pod)
    assert (updated.status, resolved(updated.body)) == (200, ("high", 77, "Never"))
