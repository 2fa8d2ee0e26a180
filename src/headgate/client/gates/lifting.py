"""Lifting one gate from one pod: by name, once, and only from the pod that was meant.

The patch names the pod's uid, the place of the gate and the gate, and takes away nothing else. A pod that was made anew
under the same name, a gate that somebody else lifted meanwhile and a list of gates that shifted all fail its tests;
then the pod is read again and the answer found there. An answer that was lost is looked for in the same way.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Any, Final

import msgspec

from headgate.client.gates.census import GatedPod
from headgate.client.listing import Refused, what_it_said
from headgate.client.outcome import retry_after_s
from headgate.client.rights import refusal_text
from headgate.client.transport import Request, Response, encode_query
from headgate.kube import wire_json
from headgate.kube.resource import PODS

MANAGER: Final = "headgate"
_ATTEMPTS: Final = 6
_HEADERS: Final = {"accept": "application/json", "content-type": "application/json-patch+json"}
_READ: Final = {"accept": "application/json"}
_TEST_FAILED: Final = 422
_NOT_FOUND: Final = 404
_PASSING: Final = frozenset({409, 429, 500, 502, 503, 504})
"""Conflicts and trouble that may be over a moment later."""


class Outcome(Enum):
    LIFTED = "lifted"
    ALREADY_GONE = "already gone"
    FAILED = "failed"


class Lifted(msgspec.Struct, frozen=True):
    pod: GatedPod
    outcome: Outcome
    detail: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A request, and how long to wait before it is sent."""

    request: Request
    wait_s: float = 0.0


def lift(gate: str, pod: GatedPod, *, dry_run: bool = False) -> Generator[Ask, Response | None, Lifted]:
    """For a pod that has the gate. Sent ``None`` for an answer that did not come.

    ``dry_run``: the server does everything but write.
    """
    doubtful = False  # a patch was sent and its answer is not known
    detail = "the server cannot be reached"
    for attempt in range(_ATTEMPTS):
        answer = yield Ask(removal(gate, pod, dry_run=dry_run))
        if answer is not None and answer.ok:
            return Lifted(pod, Outcome.LIFTED)
        if answer is not None and answer.status == _NOT_FOUND:
            return Lifted(pod, Outcome.ALREADY_GONE, "the pod is gone")
        if answer is not None and answer.status != _TEST_FAILED and answer.status not in _PASSING:
            refused = Refused(what_it_said(answer), answer.status)
            return Lifted(pod, Outcome.FAILED, refusal_text("patch", PODS, pod.namespace, refused))
        doubtful = doubtful or (answer is None and not dry_run)
        detail = what_it_said(answer) if answer is not None else detail
        wait_s = _pause_s(attempt, answer)
        # A failed test is no refusal: another one's write may be done and not yet to be read. Or it was something else,
        # and will be the same when the pod has been looked at a few times.
        seen = yield Ask(Request("GET", pod.path, "", _READ), wait_s)
        if seen is None:
            continue
        if seen.status == _NOT_FOUND:
            return Lifted(pod, Outcome.ALREADY_GONE, "the pod is gone")
        if seen.ok:
            uid, gates = _gates_of(seen)
            if uid != pod.uid:
                return Lifted(pod, Outcome.ALREADY_GONE, "another pod has its name now")
            if gate not in gates:
                return Lifted(pod, Outcome.LIFTED if doubtful else Outcome.ALREADY_GONE)
            pod = msgspec.structs.replace(pod, gates=gates)
    return Lifted(pod, Outcome.FAILED, detail)


def removal(gate: str, pod: GatedPod, *, dry_run: bool = False) -> Request:
    at = f"/spec/schedulingGates/{pod.gates.index(gate)}"
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": at, "value": {"name": gate}},
        {"op": "remove", "path": at},
    ]
    query = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
    return Request("PATCH", pod.path, encode_query(query), _HEADERS, msgspec.json.encode(steps))


def _gates_of(answer: Response) -> tuple[str, tuple[str, ...]]:
    try:
        pod: dict[str, Any] = wire_json.Decoder(dict).decode(answer.body)
        listed = (pod.get("spec") or {}).get("schedulingGates") or ()
        return str(pod["metadata"].get("uid")), tuple(str(each.get("name")) for each in listed)
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return "", ()


def _pause_s(attempt: int, answer: Response | None) -> float:
    asked_s = retry_after_s(answer) if answer is not None else 0.0
    return asked_s or 0.02 * 3**attempt
