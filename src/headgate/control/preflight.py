"""What is looked at before we start on somebody's cluster: does the server know what we need, and is the job taken?

Two schedulers that serve the same pods bind them twice, and two who give quota give it twice, so a job whose owner is
alive is refused. Its owner is whoever renews the Lease of the program that usually does it. Pure: requests are yielded,
answers are sent in.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from headgate.client.leases.record import FREE, Record, read_lease
from headgate.client.outcome import message_of
from headgate.client.transport import Request, Response
from headgate.kube import wire_json
from headgate.kube.resource import LEASES
from headgate.kube.timestamps import parse_time


class _Version(msgspec.Struct):
    major: str
    minor: str


Asking = Generator[Request, Response, str]

OWNERS: Final = {
    "default-scheduler": ("kube-system", "kube-scheduler"),
    "volcano": ("volcano-system", "volcano"),
}
"""Whose Lease says that somebody serves a name: namespace and name of the Lease."""

KUEUE: Final = ("kueue-system", "c1f6bfd2.kueue.x-k8s.io")
"""The Lease that Kueue holds while it works."""
KUEUE_KINDS: Final = "/apis/kueue.x-k8s.io/v1beta2"

_JSON: Final = {"accept": "application/json"}
_CORE: Final = "/openapi/v3/api/v1"
_GATES: Final = b'"schedulingGates"'
_LOCKED: Final = (1, 30)
_MISSING: Final = 404
_decode_version: Final = wire_json.Decoder(_Version).decode


def knows_gates() -> Asking:
    """What is wrong with the server; nothing if all is well. Its version is a small answer, its schema a large one."""
    version = yield Request("GET", "/version", "", _JSON)
    if version.ok and _is_since_ever(version.body):
        return ""
    answer = yield Request("GET", _CORE, "", _JSON)
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


def live_owner(names: Iterable[str], now_s: float) -> Asking:
    """Who else schedules pods with one of these names, with the way out; nothing if nobody does."""
    for name in names:
        if name not in OWNERS:
            continue
        taken = f"pods with schedulerName {name} are scheduled by {{holder}}"
        unseen = f"it cannot be seen whether another scheduler has the name {name}"
        problem = yield from _held(*OWNERS[name], taken, unseen, "leave the name out", now_s)
        if problem:
            return problem
    return ""


def live_quota(now_s: float) -> Asking:
    """Who else gives quota to workloads, with the way out; nothing if nobody does."""
    taken = "quota is given to workloads by {holder}"
    unseen = "it cannot be seen whether Kueue gives quota to workloads"
    return (yield from _held(*KUEUE, taken, unseen, "leave quota out of --components", now_s))


def lacks_kinds() -> Asking:
    """A remark if quota would have nothing to do there yet, with the way out; nothing otherwise."""
    answer = yield Request("GET", KUEUE_KINDS, "", _JSON)
    if answer.status != _MISSING:
        return ""
    return "the server does not serve Kueue's kinds yet, so there is nothing to do; headgate install-crds brings them"


def _held(namespace: str, lease: str, taken: str, unseen: str, way_out: str, now_s: float) -> Asking:
    answer = yield Request("GET", LEASES.object(namespace, lease), "", _JSON)
    if answer.status == _MISSING:
        return ""
    if not answer.ok:
        return (
            f"{unseen}: the Lease {namespace}/{lease} "
            f"answered {answer.status}: {message_of(answer)}; let us read it, {way_out}, or say --takeover"
        )
    record = read_lease(wire_json.decode(answer.body)).record
    if record.holder == FREE or not _is_renewed(record, now_s):
        return ""
    held = f"which holds the Lease {namespace}/{lease}; stop it, {way_out}, or say --takeover"
    return f"{taken.format(holder=record.holder)}, {held}"


def _is_renewed(record: Record, now_s: float) -> bool:
    """Clocks differ a little; one that is ahead of ours must not make a live owner look dead."""
    renewed = parse_time(record.renewed)
    return not isinstance(renewed, str) and now_s - float(renewed) < 2 * max(record.duration_s, 1)
