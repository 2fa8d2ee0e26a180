"""What stands in a Lease that elects a leader, as values. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

Object = dict[str, Any]

FREE: Final = ""


class Record(msgspec.Struct, frozen=True):
    """Who holds it, and what they wrote about when. The times are their clock's and are compared with nothing."""

    holder: str
    duration_s: int
    acquired: str
    renewed: str
    transitions: int


class Stored(msgspec.Struct, frozen=True):
    """A record at the revision at which the server has it; what else is in the Lease is kept as it is."""

    record: Record
    lease: Object

    @property
    def revision(self) -> str:
        return str(self.lease["metadata"].get("resourceVersion", ""))


def read_lease(lease: Object) -> Stored:
    """Whatever somebody may have written into it."""
    spec = lease.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return Stored(
        Record(
            holder=str(spec.get("holderIdentity") or FREE),
            duration_s=duration if isinstance(duration, int) else 0,
            acquired=str(spec.get("acquireTime") or ""),
            renewed=str(spec.get("renewTime") or ""),
            transitions=transitions if isinstance(transitions, int) else 0,
        ),
        lease,
    )


def lease_of(record: Record, namespace: str, name: str, before: Object | None) -> Object:
    """The Lease to write; ``before`` is what it replaces, at that revision and no other."""
    spec = {
        **((before or {}).get("spec") or {}),
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_s,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }
    metadata = before["metadata"] if before is not None else {"namespace": namespace, "name": name}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
