"""Admission of resizes: a pod on a node can grow only within the limits of its queue and its ancestors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.assumed_resizes import LIFETIME_S
from headgate.admission.pods import validate_resize
from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME, QUEUES, STAMP
from unit.admission.fake_cluster_view import SETTINGS, FakeClusterView

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
    uid: str = "u",
    now_s: float = 0.0,
    dry_run: bool = False,
    **spec: Any,
) -> AdmissionResponse:
    """The response of a server, which also counts what it allowed."""
    view = view or a_tree()
    metadata: Object = {"name": "p", "uid": uid, "annotations": {QUEUE_NAME: "t1"} if words is None else words}
    shared = {"schedulerName": "headgate", "nodeName": "n1", **spec}
    old, new = (
        {"metadata": metadata, "spec": {**shared, "containers": asked(each)}, "status": status or {}}
        for each in (before or {"cpu": "1"}, after)
    )
    request = AdmissionRequest(
        "UPDATE", "pods", namespace, "p", "resize", obj=new, old=old, now_s=now_s, dry_run=dry_run
    )
    response = validate_resize(request, SETTINGS, view)
    if response.assumes is not None:
        view.assume(response.assumes, now_s)
    return msgspec.structs.replace(response, assumes=None)


def test_a_resize_above_the_limit_of_the_queue_is_rejected_with_numbers() -> None:
    refusal = resize({"cpu": "100"}).refusal
    assert refusal.startswith("spec.containers: queue t1 has no capacity for 99 cpu: 4 of 6 are in use or promised; ")


def test_usage_and_promises_of_ancestor_queues_count() -> None:
    assert resize({"cpu": "3"}) == ALLOWED
    view = a_queue(a_tree(), "team", {"cpu": "4"}, {"cpu": "3"}, capability={"cpu": "8"})
    assert "queue team has no capacity for 2 cpu: 7 of 8" in resize({"cpu": "3"}, view=view).refusal


def test_capacity_guaranteed_to_other_queues_is_not_available() -> None:
    view = a_queue(a_tree(), "t1", {"cpu": "5"}, parent="team")
    assert resize({"cpu": "3"}, view=view) == ALLOWED
    assert "queue t1 has no capacity for 3 cpu: 5 of 7" in resize({"cpu": "4"}, view=view).refusal


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


def test_an_allowed_resize_counts_before_the_status_shows_it() -> None:
    view = a_tree()
    assert resize({"cpu": "3"}, view=view, uid="w") == ALLOWED
    refusal = resize({"cpu": "2"}, view=view, uid="w2").refusal
    assert "queue t1 has no capacity for 1 cpu: 6 of 6 are in use or promised" in refusal


def test_an_allowed_resize_counts_in_the_ancestors_of_its_queue() -> None:
    view = a_queue(a_tree(), "t3", {}, parent="team")
    assert resize({"cpu": "2"}, view=view, uid="w") == ALLOWED
    refusal = resize({"cpu": "3"}, view=view, uid="w2", words={QUEUE_NAME: "t3"}).refusal
    assert "queue team has no capacity for 2 cpu: 7 of 8" in refusal


def test_an_allowed_resize_counts_once_when_the_status_shows_it() -> None:
    view = a_tree()
    assert resize({"cpu": "2"}, view=view, uid="w") == ALLOWED
    a_queue(view, "t1", {"cpu": "5"}, capability={"cpu": "6"}, parent="team")
    a_queue(view, "team", {"cpu": "5"}, {"cpu": "2"}, capability={"cpu": "8"})
    assert resize({"cpu": "2"}, view=view, uid="w2", now_s=1.0) == ALLOWED
    assert resize({"cpu": "2"}, view=view, uid="w3", now_s=1.0).refusal


def test_an_allowed_resize_whose_write_failed_counts_for_a_few_seconds() -> None:
    view = a_tree()
    assert resize({"cpu": "3"}, view=view, uid="w") == ALLOWED
    assert resize({"cpu": "3"}, view=view, uid="w2", now_s=LIFETIME_S - 0.1).refusal
    assert resize({"cpu": "3"}, view=view, uid="w2", now_s=LIFETIME_S) == ALLOWED


def test_the_same_resize_again_counts_once_and_the_next_one_of_the_pod_counts_too() -> None:
    view = a_tree()
    assert resize({"cpu": "2"}, view=view) == ALLOWED
    assert resize({"cpu": "2"}, view=view) == ALLOWED, "the first write met a conflict"
    assert resize({"cpu": "3"}, {"cpu": "2"}, view=view) == ALLOWED
    assert "for 1 cpu: 6 of 6" in resize({"cpu": "4"}, {"cpu": "3"}, view=view).refusal


def test_refused_resizes_and_dry_runs_do_not_count() -> None:
    view = a_tree()
    assert resize({"cpu": "9"}, view=view, uid="w").refusal
    assert resize({"cpu": "3"}, view=view, uid="w", dry_run=True) == ALLOWED
    assert resize({"cpu": "3"}, view=view, uid="w2") == ALLOWED


def test_expired_resizes_use_no_memory() -> None:
    view = a_tree()
    assert resize({"cpu": "2"}, view=view, uid="w") == ALLOWED
    assert len(view.resizes) == 2
    other = {QUEUE_NAME: "default"}
    assert resize({"cpu": "2"}, view=view, uid="w2", words=other, now_s=LIFETIME_S) == ALLOWED
    assert len(view.resizes) == 1
