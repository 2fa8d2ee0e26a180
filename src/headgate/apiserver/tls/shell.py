"""Makes the CA and the server's certificate in the data folder, and renews the latter in good time, also while it runs.

The CA's certificate goes into the kubeconfig, so that clients trust this server and no other. Keys are readable by
their owner only.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headgate.kube.strategy.service import KUBERNETES_ADDRESS

_log: Final = logging.getLogger(__name__)
_CA_DAYS: Final = 3650
_SERVER_DAYS: Final = 365
_RENEW_BEFORE_DAYS: Final = 30
_LOOK_EVERY_S: Final = 6 * 3600.0
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Certificates(msgspec.Struct, frozen=True):
    ca: Path
    server: Path
    server_key: Path


def ensure(folder: Path, host: str, now: datetime.datetime | None = None) -> Certificates:
    """The certificates for serving on ``host``, made or renewed if need be.

    An authority that could end before a certificate of its own is made anew, too: clients learn of it from the
    kubeconfig, which is written at each start.
    """
    now = now or _now()
    make_folder(folder)
    files, ca_key_file = _files(folder), folder / "ca.key"
    if not _belong(files.ca, ca_key_file) or _days_left(files.ca, now) < _SERVER_DAYS:
        _make_ca(files.ca, ca_key_file, now)
    for key in (ca_key_file, files.server_key):
        if key.exists():
            key.chmod(0o600)
    renew_if_due(folder, host, now)
    return files


def renew_if_due(folder: Path, host: str, now: datetime.datetime) -> bool:
    """Make the server's certificate anew, by the authority that is there, if it does not serve much longer."""
    files, ca_key_file = _files(folder), folder / "ca.key"
    ca = x509.load_pem_x509_certificate(files.ca.read_bytes())
    due = not _serves(files, host, ca, now)
    if due:
        ca_key = serialization.load_pem_private_key(ca_key_file.read_bytes(), password=None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{ca_key_file} is not a key of ours; move the folder {folder} away to have it made anew")
        _make_server(files, host, ca, ca_key, now)
    return due


async def keep_valid(folder: Path, host: str, read_again: Callable[[], None], every_s: float = _LOOK_EVERY_S) -> None:
    """For ever: renew the certificate when it is due, and let the server read its files again now and then.

    It reads them also if nothing is due: whose client certificates are believed may have changed.
    """
    while True:
        await asyncio.sleep(every_s)
        try:
            renew_if_due(folder, host, _now())
            read_again()
        except (OSError, ValueError) as problem:
            _log.warning("the server's certificate in %s cannot be renewed: %s", folder, problem)


def _files(folder: Path) -> Certificates:
    return Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")


def _belong(certificate: Path, key: Path) -> bool:
    """Whether both are there and of one pair: they are written one after the other."""
    if not (certificate.exists() and key.exists()):
        return False
    public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    return public == serialization.load_pem_private_key(key.read_bytes(), password=None).public_key()


def _days_left(path: Path, now: datetime.datetime) -> int:
    return (x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc - now).days


def _serves(files: Certificates, host: str, ca: x509.Certificate, now: datetime.datetime) -> bool:
    if not _belong(files.server, files.server_key):
        return False
    certificate = x509.load_pem_x509_certificate(files.server.read_bytes())
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    if _days_left(files.server, now) < _RENEW_BEFORE_DAYS:
        return False
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return any(name in names for name in _alternative_names(host)[:1])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _alternative_names(host: str) -> list[x509.GeneralName]:
    """The host first, then what clients on this machine may call it."""
    names: list[x509.GeneralName] = []
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    except ValueError:
        names.append(x509.DNSName(host))
    names.extend(x509.DNSName(name) for name in _NAMES if name != host)
    names.extend(
        x509.IPAddress(ipaddress.ip_address(address))
        for address in ("127.0.0.1", "::1", KUBERNETES_ADDRESS)
        if address != host
    )
    return names


def make_folder(path: Path) -> None:
    """A folder for its owner only, also if it was there before with wider rights."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Whole or not at all: a half-written key would lock the user out."""
    partial = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(subject: str, issuer: x509.Name, days: int, now: datetime.datetime) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _make_ca(path: Path, key_path: Path, now: datetime.datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headgate-ca")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder("headgate-ca", name, _CA_DAYS, now)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    write_file(key_path, _key_bytes(key), 0o600)
    write_file(path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _make_server(
    files: Certificates,
    host: str,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder("headgate-apiserver", ca.subject, _SERVER_DAYS, now)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(_alternative_names(host)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    write_file(files.server_key, _key_bytes(key), 0o600)
    write_file(files.server, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
