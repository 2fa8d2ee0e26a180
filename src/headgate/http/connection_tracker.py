"""Counts the bytes that all connections buffer in total, and selects the connections to close when there are too many.

A connection is *unserved* until its first request has been served. If there are too many unserved connections, the
oldest of them is closed, never a served one. If clients do not read their responses, the connection that has waited
longest is closed first. This module does no I/O: a :class:`TrackedConnection` closes itself.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.http.server_limits import ORDINARY_HEAD_BYTES, ServerLimits


class TrackedConnection(Protocol):
    """The methods of a connection that the tracker calls."""

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

    def __len__(self) -> int:
        return len(self._connections)

    def connections(self) -> list[TrackedConnection]:
        return list(self._connections)

    def add(self, connection: TrackedConnection) -> bool:
        """Adds a connection; returns whether the limit allows it."""
        if len(self._connections) >= self._limits.connections:
            if not self._unserved or not self._limits.evicts_unserved:
                return False
            next(iter(self._unserved)).abort("the connection limit is reached, and this one has sent no request")
        self._connections[connection] = None
        self._unserved[connection] = None
        return True

    def mark_served(self, connection: TrackedConnection) -> None:
        """Records that the connection has sent a request that was allowed."""
        self._unserved.pop(connection, None)

    def remove(self, connection: TrackedConnection) -> None:
        self._connections.pop(connection, None)
        self._unserved.pop(connection, None)
        self.set_head_bytes(connection, 0)
        self.set_body_bytes(connection, 0)
        self.clear_unsent_bytes(connection)

    def set_head_bytes(self, connection: TrackedConnection, count: int) -> bool:
        """Records how many bytes of an incomplete head are buffered; returns whether the total is within the limit.

        A head of ordinary length is not counted, so clients that send long heads do not affect the others.
        """
        excess = max(count - ORDINARY_HEAD_BYTES, 0)
        before = self._heads.get(connection, 0)
        if not excess and not before:
            return True
        self._heads_bytes += excess - before
        if excess:
            self._heads[connection] = excess
        else:
            del self._heads[connection]
        return not excess or self._heads_bytes <= self._limits.total_head_bytes

    def set_body_bytes(self, connection: TrackedConnection, count: int) -> bool:
        """Records how many bytes of an incomplete body are buffered; returns whether the total is within the limit."""
        self._bodies_bytes += count - self._bodies.get(connection, 0)
        if count:
            self._bodies[connection] = count
        else:
            self._bodies.pop(connection, None)
        return self._bodies_bytes <= self._limits.total_body_bytes

    def set_unsent_bytes(self, connection: TrackedConnection, count: int) -> None:
        """Records that ``count`` bytes wait until the client reads. If the total of all connections exceeds the limit,
        those that have waited longest are closed."""
        self._unsent_bytes += count - self._unsent.get(connection, 0)
        self._unsent[connection] = count
        while self._unsent_bytes > self._limits.total_unsent_bytes:
            next(iter(self._unsent)).abort("too many bytes wait for clients that do not read")

    def clear_unsent_bytes(self, connection: TrackedConnection) -> None:
        self._unsent_bytes -= self._unsent.pop(connection, 0)
