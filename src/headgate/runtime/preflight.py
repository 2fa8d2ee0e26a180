"""Checks before the start on an existing cluster: does the server have the required features, and does another program
do the same work?

Two schedulers that serve the same pods bind them twice, and two programs that admit workloads give quota twice, so the
start is refused while the usual program renews its Lease. Pure: it yields requests and is sent responses.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from headgate.client.leader_election import NO_HOLDER, LeaderElectionRecord, read_lease
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import LEASES
from headgate.kube.serializer import wire_json
from headgate.kube.timestamps import parse_time


class _Version(msgspec.Struct):
    major: str
    minor: str


PreflightSteps = Generator[HTTPRequest, HTTPResponse, str]

OWNERS: Final = {
    "default-scheduler": ("kube-system", "kube-scheduler"),
    "volcano": ("volcano-system", "volcano"),
}
"""The Lease whose holder serves a scheduler name: its namespace and name."""

KUEUE: Final = ("kueue-system", "c1f6bfd2.kueue.x-k8s.io")
"""The Lease of Kueue's leader."""
KUEUE_KINDS: Final = "/apis/kueue.x-k8s.io/v1beta2"

_JSON: Final = {"accept": "application/json"}
_CORE: Final = "/openapi/v3/api/v1"
_GATES: Final = b'"schedulingGates"'
_GATES_LOCKED_SINCE: Final = (1, 30)
_NOT_FOUND: Final = 404
_decode_version: Final = wire_json.WireDecoder(_Version).decode


def check_scheduling_gates() -> PreflightSteps:
    """The problem with the server, or an empty text. The version is read first because the schema is large."""
    version = yield HTTPRequest("GET", "/version", "", _JSON)
    if version.ok and _always_has_gates(version.body):
        return ""
    response = yield HTTPRequest("GET", _CORE, "", _JSON)
    if response.status in (401, 403):
        return "" if version.ok else f"the server denies access: {message_of(response)}"
    if not response.ok:
        return f"the server does not say what it serves: {_CORE} answered {response.status}: {message_of(response)}"
    if _GATES not in response.body:
        return "the server does not know spec.schedulingGates of pods: Kubernetes 1.27 or newer is needed"
    return ""


def _always_has_gates(body: bytes) -> bool:
    """Whether scheduling gates cannot be switched off in this version."""
    try:
        version = _decode_version(body)
        return (int(version.major), int(version.minor.rstrip("+"))) >= _GATES_LOCKED_SINCE
    except (msgspec.DecodeError, ValueError):
        return False  # the schema is read next


def find_other_scheduler(names: Iterable[str], now_s: float) -> PreflightSteps:
    """A message about another scheduler with one of these names, with a hint; empty if there is none."""
    for name in names:
        if name not in OWNERS:
            continue
        held_text = f"pods with schedulerName {name} are scheduled by {{holder}}"
        unknown_text = f"it cannot be seen whether another scheduler has the name {name}"
        problem = yield from _check_lease(*OWNERS[name], held_text, unknown_text, "leave the name out", now_s)
        if problem:
            return problem
    return ""


def find_other_quota_manager(now_s: float) -> PreflightSteps:
    """A message about another program that admits workloads, with a hint; empty if there is none."""
    held_text = "quota is given to workloads by {holder}"
    unknown_text = "it cannot be seen whether Kueue gives quota to workloads"
    return (yield from _check_lease(*KUEUE, held_text, unknown_text, "leave quota out of --components", now_s))


def check_kueue_kinds() -> PreflightSteps:
    """A message with a hint if Kueue's kinds are not served; empty otherwise."""
    response = yield HTTPRequest("GET", KUEUE_KINDS, "", _JSON)
    if response.status != _NOT_FOUND:
        return ""
    return "the server does not serve Kueue's kinds yet, so there is nothing to do; headgate install-crds brings them"


def _check_lease(
    namespace: str, lease: str, held_text: str, unknown_text: str, hint: str, now_s: float
) -> PreflightSteps:
    response = yield HTTPRequest("GET", LEASES.object_path(namespace, lease), "", _JSON)
    if response.status == _NOT_FOUND:
        return ""
    if not response.ok:
        return (
            f"{unknown_text}: the Lease {namespace}/{lease} "
            f"answered {response.status}: {message_of(response)}; grant access to it, {hint}, or pass --takeover"
        )
    record = read_lease(wire_json.decode(response.body)).record
    if record.holder == NO_HOLDER or not _is_renewed(record, now_s):
        return ""
    lease_text = f"which holds the Lease {namespace}/{lease}; stop it, {hint}, or say --takeover"
    return f"{held_text.format(holder=record.holder)}, {lease_text}"


def _is_renewed(record: LeaderElectionRecord, now_s: float) -> bool:
    """Whether the holder renews the Lease. The limit is generous because clocks differ."""
    renewed = parse_time(record.renewed)
    return not isinstance(renewed, str) and now_s - float(renewed) < 2 * max(record.duration_s, 1)
