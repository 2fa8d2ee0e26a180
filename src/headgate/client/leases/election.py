"""Who leads: one candidate's view of a Lease, and what it does next. Pure; ``leases/shell.py`` performs the steps.

Safety rests on two clocks that run at one speed and agree on nothing else. A leader may write for ``renew_s`` from the
moment at which it *sent* the last renewal that it knows to have arrived. Another candidate takes the lease only when it
has *seen* one revision for ``lease_s``, and it cannot have seen it before it was sent. Since ``lease_s`` is longer, a
paused or cut-off leader has stopped writing before anybody can follow it, and the time between the two is room for what
it had on the way. Times inside the record are for people.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from headgate.client.leases.record import FREE, Record, Stored

_REMEMBERED: Final = 32


class Timing(msgspec.Struct, frozen=True):
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


class Ask(msgspec.Struct, frozen=True):
    """Read the Lease, then tell ``seen`` or ``failed``."""


class Write(msgspec.Struct, frozen=True):
    """Create the Lease, or replace ``before`` at its revision, then tell ``seen`` or ``failed``."""

    record: Record
    before: Stored | None


class Wait(msgspec.Struct, frozen=True):
    until_s: float


Step = Ask | Write | Wait


class Election:
    """``now_s`` is a clock that never jumps and counts while the machine sleeps."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self._identity = identity
        self._timing = timing
        self._stored: Stored | None = None  # what the server has, as far as we know
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
        return self._stored.record.holder if self._stored is not None else FREE

    def room_s(self, now_s: float) -> float:
        """How long a request that starts now may take, so that nobody else can lead before it ends. 0: not at all."""
        until_s = self._held_until_s  # read once: another thread may renew meanwhile
        return until_s + self._timing.lease_s - self._timing.renew_s - now_s if now_s < until_s else 0.0

    def step(self, now_s: float, clock: str) -> Step:
        """What to do now. ``clock`` is the time as the record will show it."""
        if now_s < self._next_s:
            return Wait(self._next_s)
        if not self._known:
            return Ask()
        stored = self._stored
        if stored is None:
            return self._write(Record(self._identity, self._timing.lease_s, clock, clock, 0), now_s)
        record = stored.record
        if self._mine(record):
            return self._write(msgspec.structs.replace(record, renewed=clock, duration_s=self._timing.lease_s), now_s)
        if record.holder == FREE or now_s >= self._seen_s + record.duration_s:
            taken = Record(self._identity, self._timing.lease_s, clock, clock, record.transitions + 1)
            return self._write(taken, now_s)
        self._known = False  # somebody else leads: look again later
        return Wait(self._next_s)

    def seen(self, stored: Stored | None, now_s: float, jitter: float) -> None:
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
        if stored.record.holder != FREE and now_s < self._seen_s + stored.record.duration_s:
            self._known = False
            self._next_s = now_s + self._timing.retry_s * (1 + 1.2 * jitter)  # candidates should not move in step

    def failed(self, now_s: float, jitter: float, *, contended: bool = False) -> None:
        """No answer, or a refusal: what we know is stale. ``contended``: somebody was faster, so look soon."""
        self._known = False
        self._next_s = now_s + self._timing.retry_s * (1 + jitter) * (0.05 if contended else 0.5)

    def release(self, clock: str) -> Write | None:
        """From now on nothing may be written; what to write so that the next one need not wait."""
        self._held_until_s = -math.inf
        stored = self._stored
        if not self._known or stored is None or not self._mine(stored.record):
            return None
        freed = msgspec.structs.replace(stored.record, holder=FREE, duration_s=1, renewed=clock, acquired=clock)
        return Write(freed, stored)

    def _mine(self, record: Record) -> bool:
        """Ours is what we wrote ourselves, not what carries our name: another process may use it too."""
        return record.holder == self._identity and record.renewed in self._sent

    def _write(self, record: Record, now_s: float) -> Write:
        # Should the clock of the record stand still, two renewals look alike: then the earlier one counts.
        self._sent.setdefault(record.renewed, now_s)
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        return Write(record, self._stored)
