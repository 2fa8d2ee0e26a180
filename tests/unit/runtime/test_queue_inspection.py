"""Inspection of queues from lists: one revision, page by page, and unavailable resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.capacity.api.lease import Lapse, write_lapse
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import QUEUE_NAME
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.inspection.queues import QueueInspection, inspect_queues

Wire = dict[str, Any]
KINDS = "/apis/scheduling.volcano.sh/v1beta1"
POD: Wire = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"scheduling.volcano.sh/queue-name": "q"}},
    "spec": {"schedulerName": "headgate", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}
OTHER: Wire = {**POD, "spec": {**POD["spec"], "schedulerName": "default-scheduler"}}
QUEUE = {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "1"}}}


def answer(status: int, **body: Any) -> HTTPResponse:
    return HTTPResponse(status, {}, msgspec.json.encode(body or {"message": f"said {status}"}))


def a_list(*items: Any, token: str = "", revision: str = "7") -> HTTPResponse:
    return answer(200, metadata={"resourceVersion": revision, "continue": token}, items=list(items))


def asked(
    reply: Callable[[HTTPRequest], HTTPResponse], gated: tuple[str, ...] = (), now_s: float = 0.0
) -> tuple[QueueInspection, list[str]]:
    requests = []
    asking = inspect_queues(("headgate",), gated, now_s)
    try:
        request = next(asking)
        while True:
            requests.append(f"{request.path}?{request.query}")
            request = asking.send(reply(request))
    except StopIteration as done:
        return done.value, requests


def everything(request: HTTPRequest) -> HTTPResponse:
    return {"/api/v1/pods": a_list(POD, OTHER), f"{KINDS}/queues": a_list(QUEUE)}.get(request.path) or a_list()


def test_all_lists_are_of_the_moment_of_the_pods() -> None:
    found, requests = asked(everything)
    assert [each.partition("?")[0] for each in requests] == [
        "/api/v1/pods",
        f"{KINDS}/queues",
        f"{KINDS}/podgroups",
        "/api/v1/namespaces",
    ]
    assert all("resourceVersion=7&resourceVersionMatch=Exact" in each for each in requests[1:])
    assert (found.revision, found.pods, found.unavailable) == ("7", 1, ())
    held = found.queues.peek_wait_reason("u")
    assert held is not None
    assert (held.blocker, held.asked, held.limit) == ("q", 2000, 1000)


def test_pages_are_put_together() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        if request.path != "/api/v1/pods":
            return everything(request)
        if "continue" in request.query:
            return a_list({**POD, "metadata": {**POD["metadata"], "name": "p2", "uid": "u2"}})
        return a_list(POD, token="more")

    assert asked(reply)[0].pods == 2


def test_a_server_that_no_longer_has_that_moment_is_asked_for_its_newest() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        return answer(410) if "Exact" in request.query else everything(request)

    found, requests = asked(reply)
    assert found.unavailable == ()
    assert found.specs.keys() == {"root", "q"}
    assert len(requests) == 7


def test_what_may_not_be_listed_is_named_with_its_right_and_the_rest_is_made() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        return answer(403) if request.path in ("/api/v1/pods", "/api/v1/namespaces") else everything(request)

    found, _ = asked(reply)
    assert [gap.right for gap in found.unavailable] == ["list pods in all namespaces", "list namespaces"]
    assert found.is_incomplete
    assert found.specs.keys() == {"root", "q"}
    assert found.revision == "7"


def test_a_cluster_without_the_kinds_has_no_queues_and_that_is_no_secret() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        return answer(404) if request.path.startswith(KINDS) else everything(request)

    found, _ = asked(reply)
    assert not found.is_incomplete
    assert "headgate install-crds" in found.unavailable[0].text
    held = found.queues.peek_wait_reason("u")
    assert held is not None
    assert held.message == "queue q does not exist"
    assert found.pods_of_missing_queues == {"q": 1}


def test_what_cannot_be_read_is_set_aside_by_name() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        broken = {"metadata": {"name": "x", "namespace": "ns"}, "spec": POD["spec"]}
        cyclic = [{"metadata": {"name": name}, "spec": {"parent": other}} for name, other in ("ab", "ba")]
        sick = {"metadata": {"name": "sick"}, "spec": {"capability": {"cpu": "-1"}}}
        lists = {"/api/v1/pods": a_list(POD, broken), f"{KINDS}/queues": a_list(QUEUE, sick, *cyclic)}
        return lists.get(request.path) or a_list()

    found, _ = asked(reply)
    assert found.problems.keys() == {"pod/ns/x", "queue/a", "queue/b", "queue/sick"}
    assert found.pods == 1


def test_an_answer_that_is_no_list_is_a_gap() -> None:
    def reply(request: HTTPRequest) -> HTTPResponse:
        return HTTPResponse(200, {}, b"[]") if request.path == f"{KINDS}/podgroups" else everything(request)

    found, _ = asked(reply)
    assert "sent an invalid list" in found.unavailable[0].text
    assert found.is_incomplete


def test_without_groups_or_namespaces_it_is_not_known_in_which_queue_a_pod_counts() -> None:
    for path in (f"{KINDS}/podgroups", "/api/v1/namespaces", "/api/v1/pods"):

        def reply(request: HTTPRequest, path: str = path) -> HTTPResponse:
            return answer(403) if request.path == path else everything(request)

        found, _ = asked(reply)
        assert not found.knows_usage
        assert found.is_incomplete


def test_pods_of_a_gated_scheduler_count_from_their_binding_on_or_if_they_opted_in() -> None:
    bound = {**OTHER, "metadata": {**OTHER["metadata"], "uid": "bound"}, "spec": {**OTHER["spec"], "nodeName": "n"}}
    found, _ = asked(lambda request: _listed(request, OTHER, bound), gated=("default-scheduler",))
    usage = found.queues.usage("q")
    assert (usage.allocated, usage.waiting) == ({"cpu": 2000}, 0)


def test_a_terminating_pod_of_a_gated_scheduler_delays_the_next_one_until_it_is_overdue() -> None:
    metadata = {**OTHER["metadata"], "uid": "old", "deletionTimestamp": "1970-01-01T00:01:40Z"}
    old = {**OTHER, "metadata": metadata, "spec": {**OTHER["spec"], "nodeName": "n"}}
    annotations = {**OTHER["metadata"]["annotations"], "scheduling.volcano.sh/queue-allocation-gate": "true"}
    gates = [{"name": "scheduling.volcano.sh/queue-allocation-gate"}]
    new = {
        **OTHER,
        "metadata": {**OTHER["metadata"], "uid": "new", "annotations": annotations},
        "spec": {**OTHER["spec"], "schedulingGates": gates},
    }
    for now_s, why in ((102.0, "WaitingForTerminatingPods"), (104.0, "WaitingForTurn")):
        found, _ = asked(lambda request: _listed(request, old, new, cpu="3"), ("default-scheduler",), now_s)
        wait = found.queues.peek_wait_reason("new")
        assert wait is not None
        assert wait.why.value == why


def _listed(request: HTTPRequest, *pods: Wire, cpu: str = "9") -> HTTPResponse:
    queue = {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": cpu}}}
    return {"/api/v1/pods": a_list(*pods), f"{KINDS}/queues": a_list(queue)}.get(request.path) or a_list()


@pytest.mark.parametrize(
    ("reason", "message", "why"),
    [
        ("Unschedulable", "0/1 nodes are available", WaitReason.LAPSED),
        ("WaitingForQueue", "no node was found for it in time, so its promise in queue q lapsed", WaitReason.LAPSED),
        ("WaitingForQueue", "queue q has no capacity for 2 cpu", WaitReason.FULL),
    ],
)
def test_a_lapse_counts_unless_the_condition_shows_that_the_scheduler_has_no_leases(
    reason: str, message: str, why: WaitReason
) -> None:
    lapsed = {"headgate.dev/lapsed": write_lapse(Lapse(1, 90.0), "u"), QUEUE_NAME: "q"}
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    pod = {**POD, "metadata": {**POD["metadata"], "annotations": lapsed}, "status": {"conditions": [condition]}}

    def reply(request: HTTPRequest) -> HTTPResponse:
        return a_list(pod) if request.path == "/api/v1/pods" else everything(request)

    found, _ = asked(reply, now_s=100.0)
    wait = found.queues.peek_wait_reason("u")
    assert wait is not None
    assert wait.why is why
    assert [each.uid for each in found.queues.contents("q").waiting] == ["u"] * (why is WaitReason.FULL)
