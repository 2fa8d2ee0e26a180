"""Pods take overhead and scheduling hints from their runtime class; results as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod

PODS = "/api/v1/namespaces/t/pods"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NOT_READY, UNREACHABLE = (
    {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for word in ("not-ready", "unreachable")
)


def with_classes() -> Embedded:
    server = Embedded()
    classes: dict[str, dict[str, Any]] = {
        "plain": {},
        "empty": {"overhead": {}},
        "heavy": {"overhead": {"podFixed": {"cpu": "250m", "memory": "1Gi"}}},
        "nowhere": {"scheduling": {}},
        "picky": {
            "scheduling": {"nodeSelector": {"a": "b", "z": "y"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
        },
        "anywhere": {"scheduling": {"tolerations": [{"operator": "Exists"}]}},
    }
    for name, fields in classes.items():
        assert server.post(CLASSES, {"metadata": {"name": name}, "handler": "h", **fields}).status == 201
    return server


MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
UNFOUNDED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, UNFOUNDED),
        ({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}, UNFOUNDED),
        ({"runtimeClassName": "empty", "overhead": {"cpu": "1"}}, MISMATCH),
        ({"runtimeClassName": "heavy", "overhead": {"cpu": "250m"}}, MISMATCH),
        ({"runtimeClassName": "heavy", "overhead": {"cpu": "250m", "memory": "1"}}, MISMATCH),
        (
            {"runtimeClassName": "picky", "nodeSelector": {"a": "x"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x",
        ),
    ],
)
def test_a_pod_that_contradicts_its_class_is_refused(spec: Any, problem: str) -> None:
    refused = with_classes().post(PODS, a_pod(**spec))
    assert (refused.status, refused.body["message"]) == (403, f'pods "a" is forbidden: {problem}')
    assert refused.body["details"] == {"name": "a", "kind": "pods"}


def test_an_empty_class_name_is_an_error_without_a_reason() -> None:
    refused = with_classes().post(PODS, a_pod(runtimeClassName=""))
    assert (refused.status, refused.body["message"]) == (500, "resource name may not be empty")
    assert "reason" not in refused.body


@pytest.mark.parametrize("own", [{}, {"overhead": {"cpu": "0.25", "memory": "1024Mi"}}])
def test_overhead_comes_from_the_class_in_its_words(own: Any) -> None:
    made = with_classes().post(PODS, a_pod(runtimeClassName="heavy", **own))
    assert (made.status, made.body["spec"]["overhead"]) == (201, {"cpu": "250m", "memory": "1Gi"})


@pytest.mark.parametrize("name", ["plain", "empty", "nowhere"])
def test_a_class_that_says_nothing_changes_nothing(name: str) -> None:
    server = with_classes()
    plain = server.post(PODS, a_pod("a")).body["spec"]
    made = server.post(PODS, a_pod("b", runtimeClassName=name))
    assert made.status == 201
    assert made.body["spec"] == {**plain, "runtimeClassName": name}


def test_selector_and_tolerations_of_the_class_are_added() -> None:
    made = with_classes().post(PODS, a_pod(runtimeClassName="picky", nodeSelector={"c": "d", "a": "b"})).body["spec"]
    assert made["nodeSelector"] == {"a": "b", "c": "d", "z": "y"}
    assert made["tolerations"] == [NOT_READY, UNREACHABLE, {"key": "k", "operator": "Exists"}]


def test_a_toleration_of_everything_leaves_no_other() -> None:
    made = with_classes().post(PODS, a_pod(runtimeClassName="anywhere")).body["spec"]
    assert made["tolerations"] == [{"operator": "Exists"}]


def test_a_pod_loses_tolerations_that_others_of_its_own_cover() -> None:
    covered = [
        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
        {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
        {"key": "f", "operator": "Equal", "value": "1", "effect": "NoSchedule"},
        {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
    ]
    kept = [
        {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"key": "f", "operator": "Equal", "value": "1"},
        {"key": "e", "value": "1"},
    ]
    own = [covered[0], kept[0], covered[1], kept[1], covered[2], kept[2], kept[3], covered[3]]
    server = with_classes()
    assert server.post(PODS, a_pod("a", tolerations=own)).body["spec"]["tolerations"] == [*own, NOT_READY, UNREACHABLE]
    made = server.post(PODS, a_pod("b", runtimeClassName="nowhere", tolerations=own)).body["spec"]
    assert made["tolerations"] == [*kept, NOT_READY, UNREACHABLE]


def test_a_pod_outlives_its_class() -> None:
    server = with_classes()
    server.post(PODS, a_pod(runtimeClassName="heavy"))
    server.delete(f"{CLASSES}/heavy")
    assert server.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}).status == 200
