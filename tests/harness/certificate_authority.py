"""A certificate authority for client certificates that both servers trust, made once per test process.

`issue` returns a file with certificate and key, as TLS clients read it. The servers do not trust other authorities.
"""

from __future__ import annotations

import datetime
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = (
            self._builder(self._name, self._key.public_key(), now, datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, end: datetime.datetime, more: datetime.timedelta
    ) -> x509.CertificateBuilder:
        start = min(end, datetime.datetime.now(datetime.UTC)) - datetime.timedelta(days=2)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .serial_number(x509.random_serial_number())
            .public_key(key)
            .not_valid_before(start)
            .not_valid_after(end + more)
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(PEM)

    def issue(
        self,
        path: Path,
        name: str,
        *organizations: str,
        hours: float = 1,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> Path:
        """A certificate for `name`, good for so many hours; a negative number of them are past."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject = x509.Name([*names, *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            self._builder(subject, key.public_key(), now, datetime.timedelta(hours=hours))
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(certificate.public_bytes(PEM) + secret)
        return path


@cache
def trusted() -> Authority:
    """The one that both servers are started with."""
    return Authority("comparison-suite-clients")
