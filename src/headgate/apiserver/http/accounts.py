"""What all connections hold together, and who has to go when that is too much.

A connection is a *stranger* until it has been served once; a flood of strangers pushes out its own oldest, never a
client that works. Of answers that nobody reads, the one that waits longest goes first. No I/O: a :class:`Holder` does
the going.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.apiserver.http.limits import ORDINARY_HEAD_BYTES, Limits


class Holder(Protocol):
    """A connection, as seen from here."""

    def abort(self, reason: str) -> None:
        """Go at once. It calls :meth:`Accounts.leave` before it returns."""

    def finish(self) -> None:
        """Answer what is being answered, then go."""


class Accounts:
    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._holders: Final[dict[Holder, None]] = {}
        self._strangers: Final[dict[Holder, None]] = {}  # oldest first
        self._heads: Final[dict[Holder, int]] = {}
        self._heads_bytes = 0
        self._bodies: Final[dict[Holder, int]] = {}
        self._bodies_bytes = 0
        self._unsent: Final[dict[Holder, int]] = {}  # longest first
        self._unsent_bytes = 0
        self._in_flight: Final = {True: 0, False: 0}

    def __len__(self) -> int:
        return len(self._holders)

    def holders(self) -> list[Holder]:
        return list(self._holders)

    def enter(self, holder: Holder) -> bool:
        """Whether there is room for one more."""
        if len(self._holders) >= self._limits.connections:
            if not self._strangers:
                return False
            next(iter(self._strangers)).abort("a newer connection needs its place")
        self._holders[holder] = None
        self._strangers[holder] = None
        return True

    def served(self, holder: Holder) -> None:
        """It has asked for something that it may have."""
        self._strangers.pop(holder, None)

    def leave(self, holder: Holder) -> None:
        self._holders.pop(holder, None)
        self._strangers.pop(holder, None)
        self.head(holder, 0)
        self.body(holder, 0)
        self.reads_again(holder)

    def head(self, holder: Holder, count: int) -> bool:
        """It holds ``count`` bytes of a head that is not complete; whether all of them together are not too many.

        A head of ordinary length always has room: clients that send long ones cannot crowd out the others.
        """
        excess = max(count - ORDINARY_HEAD_BYTES, 0)
        before = self._heads.get(holder, 0)
        if not excess and not before:
            return True
        self._heads_bytes += excess - before
        if excess:
            self._heads[holder] = excess
        else:
            del self._heads[holder]
        return not excess or self._heads_bytes <= self._limits.heads_in_all_bytes

    def body(self, holder: Holder, count: int) -> bool:
        """It holds ``count`` bytes of a body that is not complete; whether all of them together are not too many."""
        self._bodies_bytes += count - self._bodies.get(holder, 0)
        if count:
            self._bodies[holder] = count
        else:
            self._bodies.pop(holder, None)
        return self._bodies_bytes <= self._limits.bodies_in_all_bytes

    def does_not_read(self, holder: Holder, count: int) -> None:
        """``count`` bytes wait for its client to read."""
        self._unsent_bytes += count - self._unsent.get(holder, 0)
        self._unsent[holder] = count
        while self._unsent_bytes > self._limits.unsent_in_all_bytes:
            next(iter(self._unsent)).abort("too much waits for clients that do not read")

    def reads_again(self, holder: Holder) -> None:
        self._unsent_bytes -= self._unsent.pop(holder, 0)

    def busy(self, *, reading: bool) -> bool:
        """Whether as many requests as allowed are being worked on."""
        limit = self._limits.reads_in_flight if reading else self._limits.writes_in_flight
        return self._in_flight[reading] >= limit

    def begin(self, *, reading: bool) -> None:
        self._in_flight[reading] += 1

    def finish(self, *, reading: bool) -> None:
        self._in_flight[reading] -= 1
