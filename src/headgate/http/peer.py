"""Who is at the other end of a connection: the subject of a client certificate, and whether an address is local."""

from __future__ import annotations

import ipaddress

import msgspec


class CertificateSubject(msgspec.Struct, frozen=True):
    """The subject of a connection's client certificate, which the transport has verified."""

    common_name: str
    organizations: tuple[str, ...] = ()
    fingerprint: str = ""  # SHA-256 of the certificate, in hex


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
