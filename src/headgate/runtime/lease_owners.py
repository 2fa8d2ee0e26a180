"""The check before the start on an existing cluster whether another program does the same work.

Two schedulers for the same pods would reserve the same capacity of a node, and two programs that admit workloads would
reserve the same quota. The start is therefore refused while kube-scheduler, Volcano, Kueue or another Headgate renews
the Lease of that work. The times in a Lease are not used, because its holder wrote them by its own clock. As in leader
election (``client/leader_election.py``), the Lease is observed: a live holder changes it every few seconds; if the
Lease does not change for its own duration, its holder has stopped. ``find_live_owner`` is pure: it yields reads and is
sent responses. ``check_owners`` performs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

import msgspec

from headgate.client.leader_election import NO_HOLDER, LeaderElectionRecord, StoredLease, read_lease
from headgate.client.write_requests import ACCEPT
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube.api_resources import LEASES
from headgate.kube.serializer import wire_json

_READ_EVERY_S: Final = 0.5
_DEFAULT_DURATION_S: Final = 15
"""For a Lease without a duration: the default of Kubernetes."""
_MAX_DURATION_S: Final = 60
"""A Lease with a longer duration is not observed: its holder counts as alive."""
_READ_RETRIES: Final = 10
"""How often a read is repeated while the API server is overloaded or fails."""
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


class WorkLease(msgspec.Struct, frozen=True):
    """The Lease whose holder does some work. ``held_text``: what ``{holder}`` does. ``unknown_text``: what is unknown
    if the Lease cannot be read. ``hint``: what to do instead of stopping the holder. ``may_be_unreadable``: a Lease
    that may not be read counts as free."""

    namespace: str
    name: str
    held_text: str
    unknown_text: str
    hint: str
    may_be_unreadable: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def held(self, holder: str, remark: str = "") -> str:
        """The error text."""
        lease_text = f"which holds the Lease {self.namespace}/{self.name}{remark}"
        return f"{self.held_text.format(holder=holder)}, {lease_text}; stop it, {self.hint}, or pass --takeover"


class LeaseRead(msgspec.Struct, frozen=True):
    """Read the Lease after ``wait_s``. ``progress`` is printed before."""

    request: HTTPRequest
    wait_s: float = 0.0
    progress: str = ""


OwnerSteps = Generator[LeaseRead, HTTPResponse, str]
"""Reads and their responses. The result is an error text with a hint, or empty if there is no live owner."""

_SCHEDULERS: Final = {
    "default-scheduler": ("kube-system", "kube-scheduler"),
    "volcano": ("volcano-system", "volcano"),
}
"""By scheduler name: the namespace and name of the Lease whose holder schedules pods with that name."""
GATES_LEASE: Final = ("kube-system", "headgate-gates")
"""The Lease of Headgate's gate controller."""
_HEADGATE_SCHEDULER: Final = ("kube-system", "headgate-scheduler")
"""The Lease of Headgate's scheduler, unless its configuration names another one."""
_KUEUE: Final = ("kueue-system", "c1f6bfd2.kueue.x-k8s.io")
"""The Lease of Kueue's leader."""


def scheduler_leases(names: Iterable[str]) -> list[WorkLease]:
    """The Leases of other schedulers with these names."""
    return [
        WorkLease(
            *_SCHEDULERS[name],
            f"pods with schedulerName {name} are scheduled by {{holder}}",
            f"it is unknown whether another scheduler has the name {name}",
            "leave the name out",
        )
        for name in names
        if name in _SCHEDULERS
    ]


def queue_owner_leases(*, is_scheduler: bool) -> list[WorkLease]:
    """The Leases of other programs that reserve capacity of queues, for the gate controller. A running Volcano is one,
    whatever its feature gate SchedulingGatesQueueAdmission, which cannot be read. ``is_scheduler``: replicas of this
    process are also Headgate's scheduler, without queues, and share its Lease."""
    unknown_text = "it is unknown whether another scheduler gives capacity of queues to pods"
    volcano = WorkLease(
        *_SCHEDULERS["volcano"],
        "capacity of queues is given to pods by {holder}, which may also remove their queue gates (Volcano's feature "
        "gate SchedulingGatesQueueAdmission)",
        unknown_text,
        "switch that feature off",
    )
    scheduler = WorkLease(
        *_HEADGATE_SCHEDULER,
        "capacity of queues may be given to pods by {holder}",
        unknown_text,
        "leave gates out of --components",
    )
    return [volcano] if is_scheduler else [volcano, scheduler]


def gate_controller_lease() -> WorkLease:
    """The Lease of a gate controller, for a scheduler with queues. Rights of releases without a gate controller do not
    include it."""
    return WorkLease(
        *GATES_LEASE,
        "capacity of queues is given to pods by the component gates of {holder}",
        "it is unknown whether a gate controller gives capacity of queues to pods",
        "leave names that use queues out",
        may_be_unreadable=True,
    )


def kueue_lease() -> WorkLease:
    return WorkLease(
        *_KUEUE,
        "quota is given to workloads by {holder}",
        "it is unknown whether Kueue gives quota to workloads",
        "leave quota out of --components",
    )


def headgate_lease(component: str, namespace: str, name: str) -> WorkLease:
    """The Lease of another Headgate with this component. A Headgate without leader election would work beside it."""
    return WorkLease(
        namespace,
        name,
        f"the work of the component {component} is done by {{holder}}",
        f"it is unknown whether another Headgate runs the component {component}",
        "pass --leader-elect to wait until this process is elected",
    )


async def check_owners(transport: Transport, leases: Sequence[WorkLease], print_line: Callable[[str], None]) -> str:
    """An error text about a live owner, or an empty text. It takes as long as the longest duration of a Lease if the
    holder has stopped without releasing it, and about two seconds if the holder is alive."""
    steps = find_live_owner(leases)
    try:
        read = next(steps)
        while True:
            if read.progress:
                print_line(read.progress)
            if read.wait_s:
                await asyncio.sleep(read.wait_s)
            read = steps.send(await transport.request(read.request))
    except StopIteration as done:
        problem: str = done.value
        return problem


def find_live_owner(leases: Sequence[WorkLease]) -> OwnerSteps:
    """Observes all Leases at the same time, until each of them is free or one of them is renewed."""
    observed: dict[WorkLease, StoredLease] = {}
    for lease in leases:
        stored = yield from _read(lease)
        if isinstance(stored, str):
            return stored
        if stored is None:
            continue
        if _duration_s(stored.record) > _MAX_DURATION_S:
            return lease.held(stored.record.holder, f" for {stored.record.duration_s} s after each renewal")
        observed[lease] = stored
    progress = _progress(observed)
    waited_s = 0.0
    while observed:
        wait_s = _READ_EVERY_S
        waited_s += wait_s
        for lease, before in list(observed.items()):
            stored = yield from _read(lease, wait_s, progress)
            wait_s, progress = 0.0, ""
            if isinstance(stored, str):
                return stored
            if stored is not None and stored.revision != before.revision:
                return lease.held(stored.record.holder)
            if stored is None or waited_s >= _duration_s(before.record):
                del observed[lease]
    return ""


def _read(
    lease: WorkLease, wait_s: float = 0.0, progress: str = ""
) -> Generator[LeaseRead, HTTPResponse, StoredLease | str | None]:
    """The Lease; None if it is free; or an error text."""
    path = LEASES.object_path(lease.namespace, lease.name)
    response = yield LeaseRead(HTTPRequest("GET", path, "", ACCEPT), wait_s, progress)
    for _ in range(_READ_RETRIES):
        if response.status != _TOO_MANY_REQUESTS and response.status < _SERVER_ERROR:
            break
        response = yield LeaseRead(HTTPRequest("GET", path, "", ACCEPT), _READ_EVERY_S)
    if response.status == _NOT_FOUND or (lease.may_be_unreadable and response.status == _FORBIDDEN):
        return None
    if not response.ok:
        return (
            f"{lease.unknown_text}: the read of the Lease {lease.namespace}/{lease.name} "
            f"returned {response.status}: {message_of(response)}; grant access to it, {lease.hint}, or pass --takeover"
        )
    stored = read_lease(wire_json.decode(response.body))
    return None if stored.record.holder == NO_HOLDER else stored


def _duration_s(record: LeaderElectionRecord) -> int:
    return record.duration_s if record.duration_s > 0 else _DEFAULT_DURATION_S


def _progress(observed: dict[WorkLease, StoredLease]) -> str:
    if not observed:
        return ""
    limit_s = max(_duration_s(stored.record) for stored in observed.values())
    holders = ", ".join(
        f"{lease.namespace}/{lease.name} (held by {stored.record.holder})" for lease, stored in observed.items()
    )
    return f"waits up to {limit_s} s to see whether these Leases are renewed: {holders}"
