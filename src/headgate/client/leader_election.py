"""Leader election: the record in a Lease, one candidate's view of it, and the candidate's next step. Pure;
``client/io/leader_elector.py`` performs the steps.

Safety needs two clocks that run at the same speed and agree on nothing else. A leader may write for ``renew_s`` from
the moment at which it *sent* the last renewal that it knows to have arrived. Another candidate takes the Lease only
after it has *seen* one revision for ``lease_s``, and it cannot have seen it before it was sent. ``lease_s`` is longer,
so a paused or disconnected leader has stopped writing before another candidate takes over; the difference is the time
for writes in flight. Times inside the record are informational.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

Object = dict[str, Any]

NO_HOLDER: Final = ""


class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """The holder, and the times that it wrote. The times are of the holder's clock and are compared with nothing."""

    holder: str
    duration_s: int
    acquired: str
    renewed: str
    transitions: int


class StoredLease(msgspec.Struct, frozen=True):
    """A record at the revision at which the server has it; what else is in the Lease is kept as it is."""

    record: LeaderElectionRecord
    lease: Object

    @property
    def revision(self) -> str:
        return str(self.lease["metadata"].get("resourceVersion", ""))


def read_lease(lease: Object) -> StoredLease:
    """Accepts any content."""
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


_REMEMBERED: Final = 32


class LeaderElectionConfig(msgspec.Struct, frozen=True):
    """The defaults of every Kubernetes component. ``retry_s`` is between attempts, ours and a leader's renewals."""

    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def problem(self) -> str | None:
        if self.lease_s <= self.renew_s:
            return f"the lease duration ({self.lease_s} s) must be longer than the renew deadline ({self.renew_s} s)"
        if self.renew_s <= 1.2 * self.retry_s:
            return f"the renew deadline ({self.renew_s} s) must be longer than 1.2 retry periods ({self.retry_s} s)"
        return "the retry period must be longer than nothing" if self.retry_s <= 0 else None


class ReadLease(msgspec.Struct, frozen=True):
    """Read the Lease, then call ``seen`` or ``failed``."""


class WriteLease(msgspec.Struct, frozen=True):
    """Create the Lease, or replace ``before`` at its revision, then call ``seen`` or ``failed``."""

    record: LeaderElectionRecord
    before: StoredLease | None


class ElectionWait(msgspec.Struct, frozen=True):
    until_s: float


ElectionStep = ReadLease | WriteLease | ElectionWait


class ElectionCandidate:
    """``now_s`` is a clock that never jumps and counts while the machine sleeps."""

    def __init__(self, identity: str, timing: LeaderElectionConfig) -> None:
        self._identity = identity
        self._timing = timing
        self._stored: StoredLease | None = None  # what the server has, as far as we know
        self._known = False  # whether what we know is worth writing on
        self._seen_s = -math.inf  # when we first saw the record that is there
        self._sent: dict[str, float] = {}  # our renewals by what they wrote, and when we sent them
        self._held_until_s = -math.inf
        self._next_s = -math.inf

    def may_write(self, now_s: float) -> bool:
        return now_s < self._held_until_s

    @property
    def held_until_s(self) -> float:
        return self._held_until_s

    @property
    def leader(self) -> str:
        """Who held it when we last looked."""
        return self._stored.record.holder if self._stored is not None else NO_HOLDER

    def write_budget_s(self, now_s: float) -> float:
        """How long a request that starts now may take, so that no other can lead before it ends. 0: not at all."""
        until_s = self._held_until_s  # read once: another thread may renew meanwhile
        return until_s + self._timing.lease_s - self._timing.renew_s - now_s if now_s < until_s else 0.0

    def step(self, now_s: float, clock: str) -> ElectionStep:
        """What to do now. ``clock`` is the time as the record will show it."""
        if now_s < self._next_s:
            return ElectionWait(self._next_s)
        if not self._known:
            return ReadLease()
        stored = self._stored
        if stored is None:
            return self._write(LeaderElectionRecord(self._identity, self._timing.lease_s, clock, clock, 0), now_s)
        record = stored.record
        if self._mine(record):
            return self._write(msgspec.structs.replace(record, renewed=clock, duration_s=self._timing.lease_s), now_s)
        if record.holder == NO_HOLDER or now_s >= self._seen_s + record.duration_s:
            taken = LeaderElectionRecord(self._identity, self._timing.lease_s, clock, clock, record.transitions + 1)
            return self._write(taken, now_s)
        self._known = False  # another candidate leads: look again later
        return ElectionWait(self._next_s)

    def seen(self, stored: StoredLease | None, now_s: float, jitter: float) -> None:
        """The Lease as the server has it now, read or just written; ``None``: there is none."""
        before = self._stored.revision if self._stored is not None else None
        self._stored = stored
        self._known = True
        if stored is None:
            self._held_until_s = -math.inf
            return
        if stored.revision != before:  # not the record: a leader whose clock stands still writes the same one again
            self._seen_s = now_s
        if self._mine(stored.record):
            sent_s = self._sent[stored.record.renewed]
            self._held_until_s = sent_s + self._timing.renew_s
            self._next_s = sent_s + self._timing.retry_s
            return
        self._held_until_s = -math.inf
        if stored.record.holder != NO_HOLDER and now_s < self._seen_s + stored.record.duration_s:
            self._known = False
            self._next_s = now_s + self._timing.retry_s * (1 + 1.2 * jitter)  # candidates should not move in step

    def failed(self, now_s: float, jitter: float, *, contended: bool = False) -> None:
        """No answer, or a refusal: what we know is stale. ``contended``: another candidate was faster, so look soon."""
        self._known = False
        self._next_s = now_s + self._timing.retry_s * (1 + jitter) * (0.05 if contended else 0.5)

    def release(self, clock: str) -> WriteLease | None:
        """From now on nothing may be written; what to write so that the next one need not wait."""
        self._held_until_s = -math.inf
        stored = self._stored
        if not self._known or stored is None or not self._mine(stored.record):
            return None
        freed = msgspec.structs.replace(stored.record, holder=NO_HOLDER, duration_s=1, renewed=clock, acquired=clock)
        return WriteLease(freed, stored)

    def _mine(self, record: LeaderElectionRecord) -> bool:
        """Ours is what we wrote ourselves, not what carries our name: another process may use it too."""
        return record.holder == self._identity and record.renewed in self._sent

    def _write(self, record: LeaderElectionRecord, now_s: float) -> WriteLease:
        # Should the clock of the record stand still, two renewals look alike: then the earlier one counts.
        self._sent.setdefault(record.renewed, now_s)
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        return WriteLease(record, self._stored)
