"""Removes one scheduling gate from one pod, by name, once, and only from the intended pod.

The JSON patch tests the pod's uid, the index of the gate and its name, and removes nothing else. The tests fail if the
pod was created again under the same name, if another client removed the gate, or if the list of gates changed. Then the
pod is read again, to find out whether it still has the gate. The same is done if there was no response.
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
_READ_HEADERS: Final = {"accept": "application/json"}
_TEST_FAILED: Final = 422
_NOT_FOUND: Final = 404
_TRANSIENT: Final = frozenset({409, 429, 500, 502, 503, 504})
"""Conflicts and failures that may pass soon."""


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
    """Removes the gate of a pod that has it. The caller sends ``None`` if there was no response.

    ``dry_run``: the server performs the request without writing.
    """
    may_be_lifted = False  # a patch was sent and its outcome is unknown
    detail = "the server cannot be reached"
    for attempt in range(_ATTEMPTS):
        response = yield GateLiftRequest(removal(gate, pod, dry_run=dry_run))
        if response is not None and response.ok:
            return GateLiftResult(pod, GateLiftOutcome.LIFTED)
        if response is not None and response.status == _NOT_FOUND:
            return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "the pod is gone")
        if response is not None and response.status != _TEST_FAILED and response.status not in _TRANSIENT:
            refused = ListRefused(refusal_message(response), response.status)
            return GateLiftResult(pod, GateLiftOutcome.FAILED, refusal_text("patch", PODS, pod.namespace, refused))
        may_be_lifted = may_be_lifted or (response is None and not dry_run)
        detail = refusal_message(response) if response is not None else detail
        wait_s = _pause_s(attempt, response)
        # A failed test is not final: another client may have changed the gates. The pod is read again, and the patch is
        # built from its present gates.
        read = yield GateLiftRequest(HTTPRequest("GET", pod.path, "", _READ_HEADERS), wait_s)
        if read is None:
            continue
        if read.status == _NOT_FOUND:
            return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "the pod is gone")
        if read.ok:
            uid, gates = _gates_of(read)
            if uid != pod.uid:
                return GateLiftResult(pod, GateLiftOutcome.ALREADY_GONE, "another pod has its name now")
            if gate not in gates:
                return GateLiftResult(pod, GateLiftOutcome.LIFTED if may_be_lifted else GateLiftOutcome.ALREADY_GONE)
            pod = msgspec.structs.replace(pod, gates=gates)
    return GateLiftResult(pod, GateLiftOutcome.FAILED, detail)


def removal(gate: str, pod: GatedPod, *, dry_run: bool = False) -> HTTPRequest:
    gate_path = f"/spec/schedulingGates/{pod.gates.index(gate)}"
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": gate_path, "value": {"name": gate}},
        {"op": "remove", "path": gate_path},
    ]
    query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
    return HTTPRequest("PATCH", pod.path, encode_query(query), _HEADERS, msgspec.json.encode(operations))


def _gates_of(response: HTTPResponse) -> tuple[str, tuple[str, ...]]:
    """The uid of the pod in the response, and its gates."""
    try:
        pod: dict[str, Any] = wire_json.WireDecoder(dict).decode(response.body)
        listed = (pod.get("spec") or {}).get("schedulingGates") or ()
        return str(pod["metadata"].get("uid")), tuple(str(each.get("name")) for each in listed)
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return "", ()


def _pause_s(attempt: int, response: HTTPResponse | None) -> float:
    requested_s = retry_after_s(response) if response is not None else 0.0
    return requested_s or _BACKOFF.delay_s(attempt + 1)
