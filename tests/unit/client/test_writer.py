"""Writes and their outcomes: retries, the fence, and binds of unknown outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus, status_of_response
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable
from headgate.kube.api_resources import PODS

T = TypeVar("T")
Object = dict[str, Any]
POD = ("team", "web", "uid-1")


def response(code: int, body: Object | None = None, **headers: str) -> HTTPResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPResponse(code, named, json.dumps(body or {"kind": "Status", "code": code, "message": "no"}).encode())


def status(code: int, message: str = "no", reason: str = "", causes: list[Object] | None = None) -> HTTPResponse:
    details = {"causes": causes} if causes else {}
    return response(code, {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details})


def pod(node: str = "", uid: str = "uid-1") -> HTTPResponse:
    spec = {"nodeName": node} if node else {}
    return response(200, {"metadata": {"name": "web", "uid": uid, "resourceVersion": "7"}, "spec": spec})


class Script:
    """A ``Transport`` that answers from a list, and remembers what it was asked."""

    def __init__(self, *responses: HTTPResponse | Unreachable, write_budget_s: float = 30.0) -> None:
        self.responses = list(responses)
        self.requests: list[HTTPRequest] = []
        self.slept: list[float] = []
        self.write_budget_s = write_budget_s
        self.now_s = 0.0
        self.writer = Writer(
            self,
            write_budget_s=lambda: self.write_budget_s,
            jitter=lambda: 0.0,
            sleep=self.sleep,
            clock=lambda: self.now_s,
        )

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.requests.append(request)
        found = self.responses.pop(0)
        if isinstance(found, Unreachable):
            raise found
        return found

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        raise AssertionError("no writer opens a watch")

    async def close(self) -> None: ...

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.write_budget_s -= seconds

    def methods(self) -> str:
        return " ".join(request.method for request in self.requests)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def lost() -> Unreachable:
    return Unreachable("cut off")


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (response(200), WriteOutcome.DONE),
        (response(201), WriteOutcome.DONE),
        (status(400), WriteOutcome.REFUSED),
        (status(401), WriteOutcome.LATER),
        (status(403), WriteOutcome.REFUSED),
        (status(404), WriteOutcome.GONE),
        (status(409, reason="Conflict"), WriteOutcome.CONFLICT),
        (status(409, reason="AlreadyExists"), WriteOutcome.CONFLICT),
        (status(409, "Precondition failed: UID in precondition: a, UID in object meta: b"), WriteOutcome.REPLACED),
        (status(409, "the UID in the precondition (a) does not match the UID in record (b)"), WriteOutcome.REPLACED),
        (status(410), WriteOutcome.GONE),
        (status(413), WriteOutcome.REFUSED),
        (status(422), WriteOutcome.REFUSED),
        (status(422, causes=[{"field": "metadata.uid"}]), WriteOutcome.REPLACED),
        (status(429), WriteOutcome.LATER),
        (status(429, causes=[{"reason": "DisruptionBudget"}]), WriteOutcome.BLOCKED),
        (status(500), WriteOutcome.UNKNOWN),
        (status(503), WriteOutcome.LATER),
        (status(504), WriteOutcome.UNKNOWN),
        (status(599), WriteOutcome.UNKNOWN),
        (HTTPResponse(302, {}, b""), WriteOutcome.REFUSED),
        (HTTPResponse(500, {}, b"<html>"), WriteOutcome.UNKNOWN),
        (HTTPResponse(422, {}, b'{"details":{"causes":[1]}}'), WriteOutcome.REFUSED),
    ],
)
def test_an_answer_means_one_of_few_things(response: HTTPResponse, outcome: WriteOutcome) -> None:
    assert status_of_response(response).outcome is outcome


def test_a_binding_and_a_patch_name_the_uid() -> None:
    script = Script(response(201), response(200), response(200), response(201))
    run(script.writer.bind(*POD, "node-1"))
    run(script.writer.patch(PODS, *POD, {"metadata": {"labels": {"a": "b"}}}, "strategic", "status"))
    run(script.writer.json_patch(PODS, *POD, [{"op": "remove", "path": "/spec/x"}]))
    run(script.writer.evict(*POD, grace_s=0))
    bodies = [json.loads(request.body) for request in script.requests]
    assert bodies[0]["metadata"]["uid"] == "uid-1"
    assert bodies[1] == {"metadata": {"labels": {"a": "b"}, "uid": "uid-1"}}
    assert bodies[2][0] == {"op": "test", "path": "/metadata/uid", "value": "uid-1"}
    assert bodies[3]["deleteOptions"] == {"preconditions": {"uid": "uid-1"}, "gracePeriodSeconds": 0}
    assert [request.path.rpartition("/")[2] for request in script.requests] == ["binding", "status", "web", "eviction"]


def test_what_the_server_did_not_do_is_tried_again_after_the_time_it_asked_for() -> None:
    refused = Unreachable("connection refused", sent=False)
    script = Script(response(429, retry_after="7"), refused, response(503), response(200))
    assert run(script.writer.patch(PODS, *POD, {})).done
    assert script.slept == [7.0, 0.1, 0.2]


def test_what_is_never_done_ends_after_a_few_attempts() -> None:
    script = Script(*(response(503) for _ in range(9)))
    assert run(script.writer.bind(*POD, "n")).outcome is WriteOutcome.LATER
    assert len(script.requests) == 5


def test_a_patch_whose_answer_was_lost_is_repeated_but_one_of_steps_is_not() -> None:
    script = Script(lost(), response(504), response(200))
    assert run(script.writer.patch(PODS, *POD, {})).done
    script = Script(lost())
    assert run(script.writer.json_patch(PODS, *POD, [])).outcome is WriteOutcome.UNKNOWN


@pytest.mark.parametrize(
    "later",
    [[response(403)], [response(422)], [response(429)] * 4, [Unreachable("refused", sent=False, connected=False)] * 4],
    ids=["forbidden", "invalid", "busy", "unreachable"],
)
@pytest.mark.parametrize("first", [lost(), response(500), response(504)], ids=["lost", "500", "504"])
def test_a_patch_may_have_been_performed_if_only_its_repetition_was_not(
    first: HTTPResponse | Unreachable, later: list[HTTPResponse | Unreachable]
) -> None:
    script = Script(first, *later)
    assert run(script.writer.patch(PODS, *POD, {})).outcome is WriteOutcome.UNKNOWN
    assert len(script.requests) == 1 + len(later)


def test_a_step_that_tests_and_fails_is_a_conflict() -> None:
    script = Script(status(422, "the server rejected our request due to an error in our request"))
    assert run(script.writer.json_patch(PODS, *POD, [])).outcome is WriteOutcome.CONFLICT


def test_a_patch_of_steps_that_other_writes_overtook_was_not_performed() -> None:
    script = Script(status(409, 'Operation cannot be fulfilled on pods "web": the object has been modified'))
    assert run(script.writer.json_patch(PODS, *POD, [])).outcome is WriteOutcome.LATER
    script = Script(status(409, "Precondition failed: UID in precondition: uid-1, UID in object meta: uid-2"))
    assert run(script.writer.json_patch(PODS, *POD, [])).outcome is WriteOutcome.REPLACED


@pytest.mark.parametrize(
    ("responses", "outcome", "methods"),
    [
        ([lost(), pod("node-1")], WriteOutcome.DONE, "POST GET"),
        ([lost(), pod("node-2")], WriteOutcome.CONFLICT, "POST GET"),
        ([lost(), pod(uid="uid-2")], WriteOutcome.REPLACED, "POST GET"),
        ([lost(), response(404)], WriteOutcome.GONE, "POST GET"),
        ([lost(), pod(), response(201)], WriteOutcome.DONE, "POST GET POST"),
        ([lost(), pod(), response(409), pod("node-1")], WriteOutcome.DONE, "POST GET POST GET"),
        ([response(409), pod()], WriteOutcome.CONFLICT, "POST GET"),
        ([response(500), *[lost()] * 5], WriteOutcome.UNKNOWN, "POST" + 5 * " GET"),
        ([response(500), lost(), pod("node-1")], WriteOutcome.DONE, "POST GET GET"),
        ([lost(), pod(), response(403)], WriteOutcome.UNKNOWN, "POST GET POST"),
        ([lost(), pod(), *[response(429)] * 5], WriteOutcome.UNKNOWN, "POST GET" + 5 * " POST"),
        ([response(500), HTTPResponse(200, {}, b"<html>")], WriteOutcome.UNKNOWN, "POST GET"),
        ([response(422)], WriteOutcome.REFUSED, "POST"),
    ],
)
def test_a_bind_of_unknown_outcome_is_settled_by_reading_the_pod(
    responses: list[HTTPResponse | Unreachable], outcome: WriteOutcome, methods: str
) -> None:
    script = Script(*responses)
    assert run(script.writer.bind(*POD, "node-1")).outcome is outcome
    assert script.methods() == methods


def test_nothing_is_sent_behind_the_fence_not_even_after_a_wait() -> None:
    script = Script(write_budget_s=0.0)
    assert run(script.writer.bind(*POD, "n")).outcome is WriteOutcome.FENCED
    assert script.requests == []
    script = Script(response(429, retry_after="7"), write_budget_s=5.0)
    assert run(script.writer.patch(PODS, *POD, {})).outcome is WriteOutcome.FENCED
    assert len(script.requests) == 1


def test_a_write_may_take_no_longer_than_the_fence_allows() -> None:
    script = Script(response(200), response(200), write_budget_s=3.5)
    run(script.writer.patch(PODS, *POD, {}))
    assert script.requests[0].timeout_s == 3.5
    script.write_budget_s = 1000.0
    run(script.writer.patch(PODS, *POD, {}))
    assert script.requests[1].timeout_s == 30.0


def test_a_verdict_says_what_the_server_said() -> None:
    verdict = status_of_response(status(403, "pods is forbidden", "Forbidden"))
    assert verdict == WriteStatus(WriteOutcome.REFUSED, 403, "Forbidden", "pods is forbidden")


def test_a_403_is_not_final_until_half_a_minute_after_a_refused_connection() -> None:
    """kube-apiserver answers 403 until it has read the permissions."""
    refused = Unreachable("connection refused", sent=False, connected=False)
    script = Script(response(403), refused, response(403), response(403), response(200))
    assert run(script.writer.delete(PODS, *POD)).outcome is WriteOutcome.REFUSED
    assert run(script.writer.delete(PODS, *POD)).done
    script.now_s = 29.0
    script.responses = [response(403)] * 5
    assert run(script.writer.delete(PODS, *POD)).outcome is WriteOutcome.LATER
    script.now_s = 31.0
    script.responses = [response(403)]
    assert run(script.writer.delete(PODS, *POD)).outcome is WriteOutcome.REFUSED
