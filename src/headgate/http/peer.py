"""The subject of a verified client certificate."""

from __future__ import annotations

import msgspec


class CertificateSubject(msgspec.Struct, frozen=True):
    """The subject of a connection's client certificate, which the transport has verified."""

    common_name: str
    organizations: tuple[str, ...] = ()
    fingerprint: str = ""  # SHA-256 of the certificate, in hex
