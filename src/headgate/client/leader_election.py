"""Leader election: the record in a Lease, the state of one candidate, and its next step. Pure;
``client/io/leader_elector.py`` performs the steps.

The election is safe if the clocks of the candidates run at the same speed; their times may differ. A leader may write
for ``renew_s`` after it *sent* the last successful renewal. Another candidate takes the Lease only after it has *seen*
the same revision of the Lease for ``lease_s``, and it cannot have seen that revision before the leader sent it.
``lease_s`` is longer than ``renew_s``, so a paused or disconnected leader has stopped writing before another candidate
becomes the leader. The difference between the two is the time for writes in flight. The times inside the record are
only for the user.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

Object = dict[str, Any]

NO_HOLDER: Final = ""


class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """The holder, and the times that it wrote, by its own clock. The times are never compared."""

    holder: str
    duration_s: int
    acquired: str
    renewed: str
    transitions: int


class StoredLease(msgspec.Struct, frozen=True):
    """A record and the Lease that it was read from. Other fields of the Lease are kept."""

    record: LeaderElectionRecord
    lease: Object

    @property
    def revision(self) -> str:
        return str(self.lease["metadata"].get("resourceVersion", ""))


def read_lease(lease: Object) -> StoredLease:
    """Accepts a Lease with invalid fields."""
    spec = lease.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return StoredLease(
        LeaderElectionRecord(
            holder=str(spec.get("holderIdentity") or NO_HOLDER),
            duration_s=duration if isinstance(duration, int) else 0,
            acquired=str(spec.get("acquireTime") or ""),
            renewed=str(spec.get("renewTime") or ""),
            transitions=transitions if isinstance(transitions, int) else 0,
        ),
        lease,
    )


def lease_of(record: LeaderElectionRecord, namespace: str, name: str, before: Object | None) -> Object:
    """The Lease to write. ``before``: the Lease that it replaces; the write fails if that has another revision now."""
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


_MAX_SENT: Final = 32


class LeaderElectionConfig(msgspec.Struct, frozen=True):
    """The defaults of Kubernetes. ``retry_s`` is the time between attempts, and between renewals of the leader."""

    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def problem(self) -> str | None:
        if self.lease_s <= self.renew_s:
            return f"the lease duration ({self.lease_s} s) must be longer than the renew deadline ({self.renew_s} s)"
        if self.renew_s <= 1.2 * self.retry_s:
            return f"the renew deadline ({self.renew_s} s) must be longer than 1.2 retry periods ({self.retry_s} s)"
        return "the retry period must be longer than 0 s" if self.retry_s <= 0 else None


class ReadLease(msgspec.Struct, frozen=True):
    """Read the Lease, then call ``observed`` or ``failed`` of the candidate."""


class WriteLease(msgspec.Struct, frozen=True):
    """Create the Lease, or replace ``before`` at its revision, then call ``observed`` or ``failed`` of the
    candidate."""

    record: LeaderElectionRecord
    before: StoredLease | None


class ElectionWait(msgspec.Struct, frozen=True):
    until_s: float


ElectionStep = ReadLease | WriteLease | ElectionWait


class ElectionCandidate:
    """``now_s`` is from a monotonic clock that also counts while the machine is suspended."""

    def __init__(self, identity: str, config: LeaderElectionConfig) -> None:
        self._identity = identity
        self._config = config
        self._stored: StoredLease | None = None  # the Lease as last seen
        self._is_current = False  # whether ``_stored`` may be used for a write
        self._observed_s = -math.inf  # when the present revision was first seen
        self._sent: dict[str, float] = {}  # by renewTime of our writes: when they were sent
        self._held_until_s = -math.inf
        self._next_s = -math.inf

    def may_write(self, now_s: float) -> bool:
        return now_s < self._held_until_s

    @property
    def held_until_s(self) -> float:
        return self._held_until_s

    @property
    def leader(self) -> str:
        """The holder when the Lease was last read."""
        return self._stored.record.holder if self._stored is not None else NO_HOLDER

    def write_budget_s(self, now_s: float) -> float:
        """How long a request that starts now may take, so that it ends before another candidate can become the leader.
        Zero if no request may start."""
        until_s = self._held_until_s  # read once: another thread may renew meanwhile
        return until_s + self._config.lease_s - self._config.renew_s - now_s if now_s < until_s else 0.0

    def step(self, now_s: float, timestamp: str) -> ElectionStep:
        """The next step. ``timestamp`` is the time to write into the record."""
        if now_s < self._next_s:
            return ElectionWait(self._next_s)
        if not self._is_current:
            return ReadLease()
        stored = self._stored
        if stored is None:
            return self._write(
                LeaderElectionRecord(self._identity, self._config.lease_s, timestamp, timestamp, 0), now_s
            )
        record = stored.record
        if self._is_own(record):
            return self._write(
                msgspec.structs.replace(record, renewed=timestamp, duration_s=self._config.lease_s), now_s
            )
        if record.holder == NO_HOLDER or now_s >= self._observed_s + record.duration_s:
            acquired = LeaderElectionRecord(
                self._identity, self._config.lease_s, timestamp, timestamp, record.transitions + 1
            )
            return self._write(acquired, now_s)
        self._is_current = False  # another candidate leads: read again later
        return ElectionWait(self._next_s)

    def observed(self, stored: StoredLease | None, now_s: float, jitter: float) -> None:
        """The Lease was read or written; ``None``: it does not exist."""
        before = self._stored.revision if self._stored is not None else None
        self._stored = stored
        self._is_current = True
        if stored is None:
            self._held_until_s = -math.inf
            return
        # Revisions are compared, not records: a leader whose clock has stopped writes equal records.
        if stored.revision != before:
            self._observed_s = now_s
        if self._is_own(stored.record):
            sent_s = self._sent[stored.record.renewed]
            self._held_until_s = sent_s + self._config.renew_s
            self._next_s = sent_s + self._config.retry_s
            return
        self._held_until_s = -math.inf
        if stored.record.holder != NO_HOLDER and now_s < self._observed_s + stored.record.duration_s:
            self._is_current = False
            self._next_s = now_s + self._config.retry_s * (
                1 + 1.2 * jitter
            )  # candidates should not retry at the same time

    def failed(self, now_s: float, jitter: float, *, contended: bool = False) -> None:
        """The request failed or was rejected. ``contended``: another candidate has written the Lease first, so it is
        read again soon."""
        self._is_current = False
        self._next_s = now_s + self._config.retry_s * (1 + jitter) * (0.05 if contended else 0.5)

    def release(self, timestamp: str) -> WriteLease | None:
        """Ends the leadership. Returns the write that releases the Lease, so that the next candidate need not wait."""
        self._held_until_s = -math.inf
        stored = self._stored
        if not self._is_current or stored is None or not self._is_own(stored.record):
            return None
        released = msgspec.structs.replace(
            stored.record, holder=NO_HOLDER, duration_s=1, renewed=timestamp, acquired=timestamp
        )
        return WriteLease(released, stored)

    def _is_own(self, record: LeaderElectionRecord) -> bool:
        """Whether this candidate wrote the record. The identity alone is no proof: another process may use it, too."""
        return record.holder == self._identity and record.renewed in self._sent

    def _write(self, record: LeaderElectionRecord, now_s: float) -> WriteLease:
        # If the wall clock stands still, two renewals are equal; then the earlier one counts.
        self._sent.setdefault(record.renewed, now_s)
        if len(self._sent) > _MAX_SENT:
            del self._sent[next(iter(self._sent))]
        return WriteLease(record, self._stored)
