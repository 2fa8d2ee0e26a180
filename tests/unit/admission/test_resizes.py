"""Admission of resizes: a pod on a node can grow only within the limits of its queue and its ancestors."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.pods import validate_resize
from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME, QUEUES, STAMP
from unit.admission.fake_cluster_view import POLICY, FakeClusterView

Object = dict[str, Any]


def a_queue(
    view: FakeClusterView, name: str, allocated: Object, reserved: Object | None = None, **spec: Any
) -> FakeClusterView:
    status = {"state": "Open", "allocated": allocated, "reserved": reserved or {}}
    return view.put(QUEUES, {"metadata": {"name": name}, "spec": spec, "status": status})


def a_tree() -> FakeClusterView:
    """Of 8 CPU in ``team`` 4 are in use and 2 promised; ``t1`` may have 6 of them, ``t2`` has 1 of its own."""
    view = a_queue(FakeClusterView(), "root", {"cpu": "4"})
    a_queue(view, "team", {"cpu": "4"}, {"cpu": "2"}, capability={"cpu": "8"})
    a_queue(view, "t1", {"cpu": "4"}, capability={"cpu": "6"}, parent="team")
    a_queue(view, "t2", {}, {"cpu": "2"}, guarantee={"resource": {"cpu": "1"}}, parent="team")
    return a_queue(view, "default", {}, capability={"cpu": "1"})


def asked(requests: Object) -> list[Object]:
    return [{"name": "c", "image": "i", "resources": {"requests": requests}}]


def resize(
    after: Object,
    before: Object | None = None,
    words: dict[str, str] | None = None,
    view: FakeClusterView | None = None,
    namespace: str = "t",
    status: Object | None = None,
    **spec: Any,
) -> AdmissionResponse:
    metadata: Object = {"name": "p", "uid": "u", "annotations": {QUEUE_NAME: "t1"} if words is None else words}
    shared = {"schedulerName": "headgate", "nodeName": "n1", **spec}
    old, new = (
        {"metadata": metadata, "spec": {**shared, "containers": asked(each)}, "status": status or {}}
        for each in (before or {"cpu": "1"}, after)
    )
    request = AdmissionRequest("UPDATE", "pods", namespace, "p", "resize", obj=new, old=old)
    return validate_resize(request, POLICY, view or a_tree())


def test_a_resize_above_the_limit_of_the_queue_is_rejected_with_numbers() -> None:
    refusal = resize({"cpu": "100"}).refusal
    assert refusal.startswith("spec.containers: queue t1 has no room for 99 cpu: 4 of 6 are in use or promised; ")


def test_usage_and_promises_of_ancestor_queues_count() -> None:
    assert resize({"cpu": "3"}) == ALLOWED
    view = a_queue(a_tree(), "team", {"cpu": "4"}, {"cpu": "3"}, capability={"cpu": "8"})
    assert "queue team has no room for 2 cpu: 7 of 8" in resize({"cpu": "3"}, view=view).refusal


def test_capacity_guaranteed_to_other_queues_is_not_available() -> None:
    view = a_queue(a_tree(), "t1", {"cpu": "5"}, parent="team")
    assert resize({"cpu": "3"}, view=view) == ALLOWED
    assert "queue t1 has no room for 3 cpu: 5 of 7" in resize({"cpu": "4"}, view=view).refusal


def test_a_resize_that_requests_no_more_is_allowed_even_above_the_limit() -> None:
    view = a_queue(a_tree(), "t1", {"cpu": "9"}, capability={"cpu": "6"}, parent="team")
    assert resize({"cpu": "500m"}, view=view) == ALLOWED
    assert resize({"cpu": "1", "memory": "9Gi"}, view=view) == ALLOWED
    assert resize({"cpu": "1001m"}, view=view).refusal


def test_the_queue_is_that_of_the_stamp_then_of_the_annotation() -> None:
    stamp = write_stamp(Stamp("u", "default", {"cpu": 1000}, "2026-01-01T00:00:00.000000Z"))
    assert "queue default" in resize({"cpu": "3"}, words={QUEUE_NAME: "t1", STAMP: stamp}).refusal
    forged = stamp.replace('"u"', '"other"')
    assert "queue t1" in resize({"cpu": "9"}, words={QUEUE_NAME: "t1", STAMP: forged}).refusal
    view = a_tree().group("g", queue="t1").namespace("t", queue="t1")
    assert "queue t1" in resize({"cpu": "9"}, words={GROUP_NAMES[0]: "g"}, view=view).refusal
    assert "queue t1" in resize({"cpu": "9"}, words={}, view=view).refusal
    assert "queue default" in resize({"cpu": "9"}, words={}).refusal
    assert "queue default" in resize({"cpu": "9"}, words={GROUP_NAMES[0]: "missing"}).refusal


@pytest.mark.parametrize(
    "more",
    [
        {"nodeName": ""},
        {"schedulerName": "other"},
        {"namespace": "kube-system"},
        {"status": {"phase": "Succeeded"}},
        {"words": {QUEUE_NAME: "missing", OPT_IN: "true"}},
    ],
    ids=["without a node", "of another scheduler", "in an exempt namespace", "that ended", "in a missing queue"],
)
def test_other_pods_are_allowed(more: Object) -> None:
    assert resize({"cpu": "100"}, **more) == ALLOWED


def test_a_resize_is_compared_with_the_counted_requests() -> None:
    held: Object = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    assert resize({"cpu": "5"}, status=held) == ALLOWED
    refused = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    held = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "conditions": [refused]}
    assert resize({"cpu": "5"}, {"cpu": "50"}, status=held).refusal


def test_with_invalid_statuses_only_requests_above_the_limit_are_rejected() -> None:
    view = a_queue(a_tree(), "t1", {"cpu": "what"}, capability={"cpu": "6"}, parent="team")
    assert resize({"cpu": "3"}, view=view) == ALLOWED
    assert resize({"cpu": "8"}, view=view).refusal
