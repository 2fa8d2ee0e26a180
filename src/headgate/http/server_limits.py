"""Limits for one client and for all clients in total: connections, bytes, seconds.

The defaults are kube-apiserver's where it has such a limit. Other modules enforce them: ``request_reader.py`` limits
the input, ``server_connection.py`` the duration and the unsent output, ``connection_tracker.py`` the number of
connections, ``apiserver/io/http_handler.py`` the requests in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MIB: Final = 1024 * 1024
ORDINARY_HEAD_BYTES: Final = 16 * 1024


class ServerLimits(msgspec.Struct, frozen=True):
    head_bytes: int = MIB + 4096
    requires_host: bool = True
    """Whether a request of HTTP/1.1 without ``Host`` is refused, as by a Go server. Probes from a shell have none."""
    body_bytes: int = 3 * MIB
    body_bytes_of_path: Mapping[str, int] = {}
    """Paths with another limit."""
    total_head_bytes: int = 64 * MIB
    """For all incomplete heads in total, without the first :data:`ORDINARY_HEAD_BYTES` of each."""
    total_body_bytes: int = 256 * MIB
    """For all incomplete request bodies in total."""
    unsent_bytes: int = 256 * 1024
    """A response is sent in pieces of this size; the next piece is made when the client has read the one before."""
    total_unsent_bytes: int = 256 * MIB
    """For the rest of all responses whose clients do not read, in total."""
    connections: int = 10_000
    evicts_unserved: bool = True
    """At the limit a new connection takes the place of the oldest unserved one. If false, the new one is refused."""
    handshake_s: float = 10.0
    head_s: float = 32.0
    body_s: float = 60.0
    body_silent_s: float = 30.0
    """How long a client may be silent within a body."""
    stalled_s: float = 30.0
    """How long a client may take to read one piece."""
    idle_s: float = 180.0
    stop_s: float = 3.0
    reads_in_flight: int = 400
    """Only the API server counts requests."""
    writes_in_flight: int = 200

    def body_bytes_at(self, path: str) -> int:
        return self.body_bytes_of_path.get(path, self.body_bytes)
