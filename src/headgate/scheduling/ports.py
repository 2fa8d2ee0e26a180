"""Host ports in use, found by port: which nodes have it, and on which addresses.

Counted, not just marked: two pods may both hold a port for a moment while one of them is being deleted, and the first
to go must not free it for the other. Whether a port clashes is a word of ``scheduling/parts.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.scheduling.parts import HostPort


class PortIndex:
    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def take(self, row: int, ports: Sequence[HostPort], sign: int) -> None:
        for port in ports:
            key = (port.protocol, port.port)
            rows = self._users.setdefault(key, {})
            addresses = rows.setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + sign
            if addresses[port.address] <= 0:
                del addresses[port.address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._users[key]

    def taken(self, port: HostPort) -> Iterator[int]:
        """The rows where the port would clash."""
        for row, addresses in self._users.get((port.protocol, port.port), {}).items():
            if port.clashes(addresses):
                yield row

    def is_taken(self, port: HostPort, row: int) -> bool:
        return port.clashes(self._users.get((port.protocol, port.port), {}).get(row, ()))
