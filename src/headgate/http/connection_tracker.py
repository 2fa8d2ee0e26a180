"""What all connections hold together, and which are closed when that is too much.

A connection is *unserved* until its first request has been served; a flood of unserved connections evicts its own
oldest, never a working client. Of unread responses, the one that waits longest is closed first. No I/O: a
:class:`TrackedConnection` closes itself.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.http.server_limits import ORDINARY_HEAD_BYTES, ServerLimits


class TrackedConnection(Protocol):
    """A connection, as the tracker sees it."""

    def abort(self, reason: str) -> None:
        """Close at once. It calls :meth:`ConnectionTracker.remove` before it returns."""

    def finish(self) -> None:
        """Finish the response in progress, then close."""


class ConnectionTracker:
    def __init__(self, limits: ServerLimits) -> None:
        self._limits: Final = limits
        self._connections: Final[dict[TrackedConnection, None]] = {}
        self._unserved: Final[dict[TrackedConnection, None]] = {}  # oldest first
        self._heads: Final[dict[TrackedConnection, int]] = {}
        self._heads_bytes = 0
        self._bodies: Final[dict[TrackedConnection, int]] = {}
        self._bodies_bytes = 0
        self._unsent: Final[dict[TrackedConnection, int]] = {}  # longest first
        self._unsent_bytes = 0
        self._in_flight: Final = {True: 0, False: 0}

    def __len__(self) -> int:
        return len(self._connections)

    def connections(self) -> list[TrackedConnection]:
        return list(self._connections)

    def add(self, holder: TrackedConnection) -> bool:
        """Whether there is room for one more."""
        if len(self._connections) >= self._limits.connections:
            if not self._unserved:
                return False
            next(iter(self._unserved)).abort("a newer connection needs its place")
        self._connections[holder] = None
        self._unserved[holder] = None
        return True

    def mark_served(self, holder: TrackedConnection) -> None:
        """It has asked for something that it may have."""
        self._unserved.pop(holder, None)

    def remove(self, holder: TrackedConnection) -> None:
        self._connections.pop(holder, None)
        self._unserved.pop(holder, None)
        self.set_head_bytes(holder, 0)
        self.set_body_bytes(holder, 0)
        self.clear_unsent_bytes(holder)

    def set_head_bytes(self, holder: TrackedConnection, count: int) -> bool:
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

    def set_body_bytes(self, holder: TrackedConnection, count: int) -> bool:
        """It holds ``count`` bytes of a body that is not complete; whether all of them together are not too many."""
        self._bodies_bytes += count - self._bodies.get(holder, 0)
        if count:
            self._bodies[holder] = count
        else:
            self._bodies.pop(holder, None)
        return self._bodies_bytes <= self._limits.bodies_in_all_bytes

    def set_unsent_bytes(self, holder: TrackedConnection, count: int) -> None:
        """``count`` bytes wait for its client to read."""
        self._unsent_bytes += count - self._unsent.get(holder, 0)
        self._unsent[holder] = count
        while self._unsent_bytes > self._limits.unsent_in_all_bytes:
            next(iter(self._unsent)).abort("too much waits for clients that do not read")

    def clear_unsent_bytes(self, holder: TrackedConnection) -> None:
        self._unsent_bytes -= self._unsent.pop(holder, 0)

    def is_at_request_limit(self, *, reading: bool) -> bool:
        """Whether as many requests as allowed are being worked on."""
        limit = self._limits.reads_in_flight if reading else self._limits.writes_in_flight
        return self._in_flight[reading] >= limit

    def begin_request(self, *, reading: bool) -> None:
        self._in_flight[reading] += 1

    def finish_request(self, *, reading: bool) -> None:
        self._in_flight[reading] -= 1
