"""Checks before the start on an existing cluster: does the server have what we need, and does another program do the
job?

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
"""The Lease that Kueue holds while it works."""
KUEUE_KINDS: Final = "/apis/kueue.x-k8s.io/v1beta2"

_JSON: Final = {"accept": "application/json"}
_CORE: Final = "/openapi/v3/api/v1"
_GATES: Final = b'"schedulingGates"'
_LOCKED: Final = (1, 30)
_MISSING: Final = 404
_decode_version: Final = wire_json.WireDecoder(_Version).decode


def check_scheduling_gates() -> PreflightSteps:
    """What is wrong with the server; nothing if all is well. Its version is a small answer, its schema a large one."""
    version = yield HTTPRequest("GET", "/version", "", _JSON)
    if version.ok and _is_since_ever(version.body):
        return ""
    answer = yield HTTPRequest("GET", _CORE, "", _JSON)
    if answer.status in (401, 403):
        return "" if version.ok else f"the server does not let us in: {message_of(answer)}"
    if not answer.ok:
        return f"the server does not say what it serves: {_CORE} answered {answer.status}: {message_of(answer)}"
    if _GATES not in answer.body:
        return "the server does not know spec.schedulingGates of pods: Kubernetes 1.27 or newer is needed"
    return ""


def _is_since_ever(body: bytes) -> bool:
    """Whether servers of this version cannot be told to do without gates any more."""
    try:
        version = _decode_version(body)
        return (int(version.major), int(version.minor.rstrip("+"))) >= _LOCKED
    except (msgspec.DecodeError, ValueError):
        return False  # the schema will tell


def find_other_scheduler(names: Iterable[str], now_s: float) -> PreflightSteps:
    """The other scheduler of pods with one of these names, with the way out; nothing if there is none."""
    for name in names:
        if name not in OWNERS:
            continue
        taken = f"pods with schedulerName {name} are scheduled by {{holder}}"
        unseen = f"it cannot be seen whether another scheduler has the name {name}"
        problem = yield from _held(*OWNERS[name], taken, unseen, "leave the name out", now_s)
        if problem:
            return problem
    return ""


def find_other_quota_manager(now_s: float) -> PreflightSteps:
    """The other program that admits workloads, with the way out; nothing if there is none."""
    taken = "quota is given to workloads by {holder}"
    unseen = "it cannot be seen whether Kueue gives quota to workloads"
    return (yield from _held(*KUEUE, taken, unseen, "leave quota out of --components", now_s))


def check_kueue_kinds() -> PreflightSteps:
    """A remark if quota would have nothing to do there yet, with the way out; nothing otherwise."""
    answer = yield HTTPRequest("GET", KUEUE_KINDS, "", _JSON)
    if answer.status != _MISSING:
        return ""
    return "the server does not serve Kueue's kinds yet, so there is nothing to do; headgate install-crds brings them"


def _held(namespace: str, lease: str, taken: str, unseen: str, way_out: str, now_s: float) -> PreflightSteps:
    answer = yield HTTPRequest("GET", LEASES.object_path(namespace, lease), "", _JSON)
    if answer.status == _MISSING:
        return ""
    if not answer.ok:
        return (
            f"{unseen}: the Lease {namespace}/{lease} "
            f"answered {answer.status}: {message_of(answer)}; let us read it, {way_out}, or say --takeover"
        )
    record = read_lease(wire_json.decode(answer.body)).record
    if record.holder == NO_HOLDER or not _is_renewed(record, now_s):
        return ""
    held = f"which holds the Lease {namespace}/{lease}; stop it, {way_out}, or say --takeover"
    return f"{taken.format(holder=record.holder)}, {held}"


def _is_renewed(record: LeaderElectionRecord, now_s: float) -> bool:
    """Clocks differ a little; one that is ahead of ours must not make a live owner look dead."""
    renewed = parse_time(record.renewed)
    return not isinstance(renewed, str) and now_s - float(renewed) < 2 * max(record.duration_s, 1)
