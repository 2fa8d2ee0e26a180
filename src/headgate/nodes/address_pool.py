"""Addresses for simulated pods and nodes. No two of them have the same address at the same time.

The pods of a node get addresses from its pod CIDR. If the node has none, or all are in use, a shared pool is used.
Pure.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Final

POD_POOL: Final = IPv4Network("100.64.0.0/10")
NODE_POOL: Final = IPv4Network("172.16.0.0/12")


class AddressPool:
    """Addresses of one network, without the first and the last. A released address is the last one to be reused."""

    def __init__(self, network: IPv4Network) -> None:
        self._first = int(network.network_address) + 1
        self._size = max(network.num_addresses - 2, 0)
        self._used: set[int] = set()
        self._next = 0

    def take(self) -> str | None:
        """A free address, or ``None``."""
        if len(self._used) >= self._size:
            return None
        while self._next in self._used:
            self._next = (self._next + 1) % self._size
        offset = self._next
        self._used.add(offset)
        self._next = (offset + 1) % self._size
        return str(IPv4Address(self._first + offset))

    def claim(self, address: str) -> None:
        """Marks an address as used; an address outside this network is ignored."""
        offset = self._offset(address)
        if offset is not None:
            self._used.add(offset)

    def release(self, address: str) -> None:
        offset = self._offset(address)
        if offset is not None:
            self._used.discard(offset)

    def _offset(self, address: str) -> int | None:
        try:
            offset = int(IPv4Address(address)) - self._first
        except AddressValueError:
            return None
        return offset if 0 <= offset < self._size else None


def network_of(cidr: str) -> IPv4Network | None:
    """``None`` if the text is not an IPv4 network; the pods of such a node use the shared pool."""
    try:
        return IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError):
        return None
