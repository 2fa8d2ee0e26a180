"""Removes one scheduling gate from one pod, by name, once, and only from the intended pod.

The patch tests the pod's uid, the index of the gate and its name, and removes nothing else. Its tests fail if the pod
was created again under the same name, if another client removed the gate, or if the list of gates changed; the pod is
then read again to find the outcome. A lost response is resolved in the same way.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Any, Final

import msgspec

from headgate.client.gated_pods import GatedPod
from headgate.client.pager import ListRefused, refusal_message
from headgate.client.permissions import refusal_text
from headgate.client.write_status import retry_after_s
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.kube.api_resources import PODS
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.serializer import wire_json

MANAGER: Final = "headgate"
_ATTEMPTS: Final = 6
_BACKOFF: Final = ExponentialBackoff(0.02, 10.0, factor=3.0)
_HEADERS: Final = {"accept": "application/json", "content-type": "application/json-patch+json"}
_READ: Final = {"accept": "application/json"}
_TEST_FAILED: Final = 422
_NOT_FOUND: Final = 404
_PASSING: Final = frozenset({409, 429, 500, 502, 503, 504})
"""Conflicts and trouble that may be over a moment later."""


class GateLiftOutcome(Enum):
    LIFTED = "lifted"
    ALREADY_GONE = "already gone"
    FAILED = "failed"


class GateLiftResult(msgspec.Struct, frozen=True):
    pod: GatedPod
    outcome: GateLiftOutcome
    detail: str = ""


class GateLiftRequest(msgspec.Struct, frozen=True):
    """A request, and how long to wait before it is sent."""

    request: HTTPRequest
    wait_s: float = 0.0


def lift(
    gate: str, pod: GatedPod, *, dry_run: bool = False
) -> Generator[GateLiftRequest, HTTPResponse | None, GateLiftResult]:
    """For a pod that has the gate. Sent ``None`` for an answer that did not come.

    ``dry_run``: the server does everything but write.
    """
    doubtful = False  # a patch was sent and its answer is not known
    detail = "the server cannot be reached"
    for attempt in range(_ATTEMPTS):
        answer = yield GateLiftRequest(removal(gate, pod, dry_run=dry_run))
        if answer is not None and answer.ok:
            return GateLiftResult(pod, GateLiftOutcome.LIFTED)
        if answer is not None and answer.status == _NOT_FOUND:
            return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "the pod is gone")
        if answer is not None and answer.status != _TEST_FAILED and answer.status not in _PASSING:
            refused = ListRefused(refusal_message(answer), answer.status)
            return GateLiftResult(pod, GateLiftOutcome.FAILED, refusal_text("patch", PODS, pod.namespace, refused))
        doubtful = doubtful or (answer is None and not dry_run)
        detail = refusal_message(answer) if answer is not None else detail
        wait_s = _pause_s(attempt, answer)
        # A failed test is no refusal: another one's write may be done and not yet to be read. Or it was something else,
        # and will be the same when the pod has been looked at a few times.
        seen = yield GateLiftRequest(HTTPRequest("GET", pod.path, "", _READ), wait_s)
        if seen is None:
            continue
        if seen.status == _NOT_FOUND:
            return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "the pod is gone")
        if seen.ok:
            uid, gates = _gates_of(seen)
            if uid != pod.uid:
                return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "another pod has its name now")
            if gate not in gates:
                return GateLiftResult(pod, GateLiftOutcome.LIFTED if doubtful else GateLiftOutcome.ALREADY_GONE)
            pod = msgspec.structs.replace(pod, gates=gates)
    return GateLiftResult(pod, GateLiftOutcome.FAILED, detail)


def removal(gate: str, pod: GatedPod, *, dry_run: bool = False) -> HTTPRequest:
    at = f"/spec/schedulingGates/{pod.gates.index(gate)}"
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": at, "value": {"name": gate}},
        {"op": "remove", "path": at},
    ]
    query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
    return HTTPRequest("PATCH", pod.path, encode_query(query), _HEADERS, msgspec.json.encode(steps))


def _gates_of(answer: HTTPResponse) -> tuple[str, tuple[str, ...]]:
    try:
        pod: dict[str, Any] = wire_json.WireDecoder(dict).decode(answer.body)
        listed = (pod.get("spec") or {}).get("schedulingGates") or ()
        return str(pod["metadata"].get("uid")), tuple(str(each.get("name")) for each in listed)
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return "", ()


def _pause_s(attempt: int, answer: HTTPResponse | None) -> float:
    asked_s = retry_after_s(answer) if answer is not None else 0.0
    return asked_s or _BACKOFF.delay_s(attempt + 1)
