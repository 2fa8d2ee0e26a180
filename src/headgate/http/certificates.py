"""Creates and checks certificates in memory: a CA, and the certificates that it signs.

The embedded server keeps them in files (``apiserver/io/certificate_files.py``), the webhooks in a Secret
(``runtime/webhooks/``). Each is renewed well before it expires; the caller provides ``now``.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER_DAYS: Final = 365
_AUTHORITY_DAYS: Final = 3650
_RENEW_BEFORE_DAYS: Final = 30
_CLOCK_SKEW: Final = datetime.timedelta(minutes=5)
"""Certificates are valid from this time before now, because a client's clock may be slow."""


class CertificateKeyPair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def make_authority(subject: str, now: datetime.datetime) -> CertificateKeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(subject, _name(subject), now + datetime.timedelta(days=_AUTHORITY_DAYS), now)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificateKeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_bytes(key))


def make_server_certificate(
    authority: CertificateKeyPair, subject: str, names: Sequence[str], now: datetime.datetime
) -> CertificateKeyPair:
    """A certificate for a server with these DNS names and addresses. It expires no later than the authority.

    Raises ``ValueError`` for a key that ``make_authority`` did not make.
    """
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the certificate authority is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    end = min(now + datetime.timedelta(days=SERVER_DAYS), issuer.not_valid_after_utc)
    certificate = (
        _builder(subject, issuer.subject, end, now)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return CertificateKeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_bytes(key))


def is_usable_authority(pair: CertificateKeyPair, now: datetime.datetime) -> bool:
    """Whether certificate and key belong together, and the certificate expires later than one that it signs now."""
    return is_key_pair(pair) and days_left(pair.certificate, now) >= SERVER_DAYS


def authority_problem(
    pair: CertificateKeyPair, now: datetime.datetime
) -> tuple[Literal["certificate", "key"], str] | None:
    """Why a server cannot use this authority, and which of the two files is wrong."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        public = certificate.public_key()
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "certificate", "is not a CA certificate"
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "certificate", "holds no certificate (PEM) that can be read"
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "key", "holds no private key (PEM) that can be read"
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return "key", "is not a key of an elliptic curve"
    if key.public_key() != public:
        return "key", "is not the key of the certificate beside it"
    if not constraints.ca:
        return "certificate", "is not a CA certificate"
    if certificate.not_valid_after_utc <= now:
        ended = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        return "certificate", f"expired at {ended} according to this machine's clock"
    return None


def is_usable_server_pair(
    pair: CertificateKeyPair,
    authority: bytes,
    name: str,
    now: datetime.datetime,
    renew_before_days: int = _RENEW_BEFORE_DAYS,
) -> bool:
    """Whether a server may use the pair: issued by this authority, valid for this name, and not due for renewal.

    A certificate that expires together with its authority is not due: a new one would expire at the same time.
    """
    if not is_key_pair(pair):
        return False
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        issuer = x509.load_pem_x509_certificate(authority)
        certificate.verify_directly_issued_by(issuer)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    renewal_due = min(now + datetime.timedelta(days=renew_before_days), issuer.not_valid_after_utc)
    end = certificate.not_valid_after_utc
    return general_name(name) in names and end >= renewal_due and end > now


def names_of(certificate: bytes) -> tuple[str, ...]:
    """The host names and addresses for which a certificate is valid; empty if it cannot be read."""
    try:
        extensions = x509.load_pem_x509_certificate(certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return ()
    return tuple(str(each.value) for each in names if isinstance(each, x509.DNSName | x509.IPAddress))


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    try:
        issuer = x509.load_pem_x509_certificate(authority)
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_key_pair(pair: CertificateKeyPair) -> bool:
    """Whether both can be read and belong together. They are two files: one may be older than the other."""
    try:
        public = x509.load_pem_x509_certificate(pair.certificate).public_key()
        return public == serialization.load_pem_private_key(pair.key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def days_left(certificate: bytes, now: datetime.datetime) -> int:
    return (x509.load_pem_x509_certificate(certificate).not_valid_after_utc - now).days


def general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(subject: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])


def _builder(
    subject: str, issuer: x509.Name, end: datetime.datetime, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end)
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
