"""Removal of a gate from a pod, with a fake server that can fail in several ways."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec
import pytest

from headgate.client.gate_lifting import GateLiftOutcome, GateLiftResult, lift
from headgate.client.gated_pods import GatedPod, count_gates, gated_pods, setter_of
from headgate.client.pager import ListRefused
from headgate.http.transport import HTTPRequest, HTTPResponse

Object = dict[str, Any]
GATE = "example.com/a"


def a_pod(*gates: str, uid: str = "u1") -> Object:
    metadata = {"namespace": "ns", "name": "p", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


def seen(*gates: str) -> GatedPod:
    return GatedPod("ns", "p", "u1", "2026-01-01T00:00:00Z", gates)


def response(status: int, body: Any = None, **headers: str) -> HTTPResponse:
    return HTTPResponse(
        status, headers, msgspec.json.encode(body if body is not None else {"message": f"said {status}"})
    )


class Cluster:
    """One pod. ``before`` runs before each request and may meddle, or return an answer of its own (None: no answer)."""

    def __init__(
        self, pod: Object | None, before: Callable[[Cluster, HTTPRequest], Any] = lambda cluster, request: ...
    ):
        self.pod, self.before = pod, before
        self.patches = 0

    def handle(self, request: HTTPRequest) -> HTTPResponse | None:
        instead: Any = self.before(self, request)
        if instead is ...:
            return self.plainly(request)
        assert instead is None or isinstance(instead, HTTPResponse)
        return instead

    def plainly(self, request: HTTPRequest) -> HTTPResponse:
        if self.pod is None:
            return response(404)
        if request.method == "GET":
            return response(200, self.pod)
        by_uid, by_gate, removal = msgspec.json.decode(request.body)
        gates, index = self.pod["spec"]["schedulingGates"], int(removal["path"].rsplit("/", 1)[1])
        if by_uid["value"] != self.pod["metadata"]["uid"] or gates[index : index + 1] != [by_gate["value"]]:
            return response(422)
        if "dryRun=All" not in request.query:
            self.patches += 1
            del gates[index]
        return response(200, self.pod)

    def gates(self) -> list[str]:
        return [] if self.pod is None else [gate["name"] for gate in self.pod["spec"]["schedulingGates"]]


def lifted(cluster: Cluster, pod: GatedPod, *, dry_run: bool = False) -> GateLiftResult:
    steps = lift(GATE, pod, dry_run=dry_run)
    request = next(steps)
    while True:
        try:
            request = steps.send(cluster.handle(request.request))
        except StopIteration as done:
            result: GateLiftResult = done.value
            return result


def told(steps: Generator[HTTPRequest, HTTPResponse, Any], *responses: HTTPResponse) -> Any:
    """What a generator makes of these answers."""
    next(steps)
    for each in responses[:-1]:
        steps.send(each)
    with pytest.raises(StopIteration) as done:
        steps.send(responses[-1])
    return done.value.value


def test_the_gate_goes_and_foreign_gates_stay() -> None:
    cluster = Cluster(a_pod("other/x", GATE, "other/y"))
    assert lifted(cluster, seen("other/x", GATE, "other/y")).outcome is GateLiftOutcome.LIFTED
    assert cluster.gates() == ["other/x", "other/y"]


def test_a_dry_run_writes_nothing() -> None:
    cluster = Cluster(a_pod(GATE))
    assert lifted(cluster, seen(GATE), dry_run=True).outcome is GateLiftOutcome.LIFTED
    assert cluster.gates() == [GATE]


def test_gates_that_shifted_are_found_at_their_new_place() -> None:
    cluster = Cluster(a_pod(GATE, "other/y"))
    assert lifted(cluster, seen("other/x", GATE, "other/y")).outcome is GateLiftOutcome.LIFTED
    assert cluster.gates() == ["other/y"]
    assert cluster.patches == 1


def test_a_gate_that_another_client_lifted_is_already_gone() -> None:
    cluster = Cluster(a_pod("other/y"))
    assert lifted(cluster, seen(GATE, "other/y")).outcome is GateLiftOutcome.ALREADY_GONE
    assert (cluster.gates(), cluster.patches) == (["other/y"], 0)


def test_a_pod_of_the_same_name_keeps_its_gate() -> None:
    cluster = Cluster(a_pod(GATE, uid="u2"))
    done = lifted(cluster, seen(GATE))
    assert (done.outcome, done.detail) == (GateLiftOutcome.ALREADY_GONE, "another pod has its name now")
    assert cluster.gates() == [GATE]


def test_a_deleted_pod_is_already_gone() -> None:
    assert lifted(Cluster(None), seen(GATE)).outcome is GateLiftOutcome.ALREADY_GONE


def test_a_lost_answer_is_looked_for_and_the_patch_not_sent_twice() -> None:
    def lose_the_first(cluster: Cluster, request: HTTPRequest) -> Any:
        if request.method == "PATCH" and not cluster.patches:
            cluster.plainly(request)
            return None
        return ...

    cluster = Cluster(a_pod(GATE, "other/y"), lose_the_first)
    assert lifted(cluster, seen(GATE, "other/y")).outcome is GateLiftOutcome.LIFTED
    assert (cluster.patches, cluster.gates()) == (1, ["other/y"])


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    refusals = [response(429, **{"retry-after": "7"})]
    cluster = Cluster(a_pod(GATE), lambda cluster, request: refusals.pop() if refusals else ...)
    steps = lift(GATE, seen(GATE))
    ask = steps.send(cluster.handle(next(steps).request))
    assert ask.wait_s == 7.0


def test_a_user_without_the_right_to_lift_it_gets_the_missing_right_and_the_message_of_the_server() -> None:
    said = 'pods "p" is forbidden: User "eve" cannot patch resource "pods" in API group "" in the namespace "ns"'
    done = lifted(Cluster(a_pod(GATE), lambda cluster, request: response(403, {"message": said})), seen(GATE))
    right = f"missing right: patch pods in namespace ns (the server returned 403: {said})"
    assert (done.outcome, done.detail) == (GateLiftOutcome.FAILED, right)


@pytest.mark.parametrize(
    "prefix", ['admission webhook "gate-policies" denied the request: ', 'pods "p" is forbidden: ']
)
def test_a_refusal_of_a_policy_is_no_missing_right_and_says_who_may_lift_the_gate(prefix: str) -> None:
    said = f'{prefix}spec.schedulingGates: user "eve" may not lift the gate "g": GatePolicy "p" allows it for user root'
    done = lifted(Cluster(a_pod(GATE), lambda cluster, request: response(403, {"message": said})), seen(GATE))
    assert done.detail == f"cannot patch pods in namespace ns: the server returned 403: {said}"


def test_a_refusal_that_is_no_failed_test_is_a_failure() -> None:
    def refuses(cluster: Cluster, request: HTTPRequest) -> Any:
        return response(422) if request.method == "PATCH" else ...

    assert lifted(Cluster(a_pod(GATE), refuses), seen(GATE)).outcome is GateLiftOutcome.FAILED


def test_a_server_that_never_answers_is_given_up() -> None:
    done = lifted(Cluster(a_pod(GATE), lambda cluster, request: None), seen(GATE))
    assert (done.outcome, done.detail) == (GateLiftOutcome.FAILED, "the server cannot be reached")


def test_pods_are_read_page_by_page_and_again_in_one_piece_if_that_takes_too_long() -> None:
    steps = gated_pods("", "app=x")
    first = next(steps)
    assert (first.path, first.query) == ("/api/v1/pods", "labelSelector=app%3Dx&limit=500")
    second = steps.send(response(200, {"metadata": {"continue": "t"}, "items": [a_pod(GATE)]}))
    assert "continue=t" in second.query
    whole = steps.send(response(410))
    assert "limit" not in whole.query
    pages = [{"metadata": {"continue": "t"}, "items": [a_pod(GATE)]}, {"metadata": {}, "items": [a_pod(GATE), a_pod()]}]
    responses = (response(200, pages[0]), response(410), response(200, pages[1]))
    assert told(gated_pods("", ""), *responses) == [seen(GATE)]


def test_a_refused_list_says_why() -> None:
    assert told(gated_pods("ns", ""), response(403)) == ListRefused(
        "missing right: list pods in namespace ns (the server returned 403: said 403)", 403
    )


def test_a_tally_counts_each_gate_and_knows_the_oldest_pod() -> None:
    younger = GatedPod("a", "q", "u2", "2026-01-02T00:00:00Z", ("b", "a"))
    older = GatedPod("z", "p", "u1", "2026-01-01T00:00:00Z", ("b",))
    assert [(each.gate, each.pods, each.oldest.name) for each in count_gates([younger, older])] == [
        ("a", 1, "q"),
        ("b", 2, "p"),
    ]


def test_the_setter_of_a_gate_is_the_manager_of_its_field() -> None:
    pod = a_pod(GATE)
    fields: Object = {"f:spec": {"f:schedulingGates": {f'k:{{"name":"{GATE}"}}': {}}}}
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}, {"manager": "creator", "fieldsV1": fields}]
    assert told(setter_of(GATE, seen(GATE)), response(200, pod)) == "creator"


def test_the_setter_of_a_gate_is_unknown_if_the_pod_may_not_be_read() -> None:
    refused = told(setter_of(GATE, seen(GATE)), response(403))
    assert isinstance(refused, ListRefused)
    assert refused.text.startswith("missing right: get pods in namespace ns")
    assert told(setter_of(GATE, seen(GATE)), response(404)) == ""
