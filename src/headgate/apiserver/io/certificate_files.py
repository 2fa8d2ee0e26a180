"""Keeps the CA and the certificate of the server in the data folder, and renews the certificate while the server runs.

The CA's certificate goes into the kubeconfig, so that clients trust this server and no other. Only the owner can read
the keys. ``http/certificates.py`` builds the certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.apimachinery.strategy.service import KUBERNETES_ADDRESS
from headgate.http.certificates import (
    SERVER_DAYS,
    CertificateKeyPair,
    authority_problem,
    days_left,
    is_issued_by,
    is_key_pair,
    is_usable_server_pair,
    make_authority,
    make_server_certificate,
)

_log: Final = logging.getLogger(__name__)
_CHECK_EVERY_S: Final = 6 * 3600.0
_NAMES: Final = (
    *("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *("127.0.0.1", "::1", KUBERNETES_ADDRESS),
)


_CA_DEPENDENTS: Final = "kubeconfigs and client certificates"


class FileProblem(ValueError):
    """A file that the server needs cannot be used. The text is one line with the file and the fix."""


class Certificates(msgspec.Struct, frozen=True):
    ca: Path
    server: Path
    server_key: Path


def ensure_certificates(folder: Path, host: str, now: datetime.datetime | None = None) -> Certificates:
    """The certificates for serving on ``host``, created or renewed if necessary.

    An existing CA is never replaced, because clients trust it. Raises ``FileProblem`` if it cannot be used.
    """
    now = now or _now()
    make_folder(folder)
    files, ca_key_file = _files(folder), folder / "ca.key"
    if not os.path.lexists(files.ca) and not os.path.lexists(ca_key_file):
        _write(make_authority("headgate-ca", now), files.ca, ca_key_file)
    days = days_left(read_authority(folder, now).certificate, now)
    if days < SERVER_DAYS:
        _log.warning("the CA certificate %s expires in %d days; before that, %s", files.ca, days, _renewal(folder))
    renew_if_due(folder, host, now)
    for key in (ca_key_file, files.server_key):
        make_private(key)
    return files


def read_authority(folder: Path, now: datetime.datetime | None = None) -> CertificateKeyPair:
    """The existing CA. Raises ``FileProblem`` if it cannot be used."""
    certificate, key = folder / "ca.crt", folder / "ca.key"
    pair = CertificateKeyPair(read_required(certificate, _CA_DEPENDENTS), read_required(key, _CA_DEPENDENTS))
    problem = authority_problem(pair, now or _now())
    if problem is not None:
        raise unusable_file(certificate if problem[0] == "certificate" else key, problem[1], _CA_DEPENDENTS)
    return pair


def renew_if_due(folder: Path, host: str, now: datetime.datetime) -> bool:
    """Renews the server's certificate with the existing CA if it expires soon.

    Raises ``FileProblem`` if that is not possible and there is no valid certificate.
    """
    files, authority = _files(folder), read_authority(folder, now)
    found = _read_server(files)
    if isinstance(found, CertificateKeyPair) and is_usable_server_pair(found, authority.certificate, host, now):
        return False
    # The host first, then the names that local clients may use.
    names = [host, *(name for name in _NAMES if name != host)]
    try:
        _write(make_server_certificate(authority, "headgate-apiserver", names, now), files.server, files.server_key)
    except OSError as problem:
        why = f"{problem.filename} cannot be written: {problem.strerror}"
        if isinstance(found, CertificateKeyPair) and is_usable_server_pair(
            found, authority.certificate, host, now, renew_before_days=0
        ):
            _log.warning("the server's certificate expires soon and cannot be renewed: %s", why)
            return False
        raise FileProblem(f"{why}; free disk space, or remove the file or folder with this name") from problem
    pair_problem = found if not isinstance(found, CertificateKeyPair) else _pair_problem(files, found, authority)
    if pair_problem:
        _log.warning("%s; a new server certificate was created", pair_problem)
    return True


async def keep_valid(folder: Path, host: str, reload: Callable[[], None], every_s: float = _CHECK_EVERY_S) -> None:
    """Renews the certificate when it is due, and makes the server read its files again, until the task is cancelled.

    The files are read even if nothing was renewed, because the trusted client CAs may have changed.
    """
    while True:
        await asyncio.sleep(every_s)
        try:
            renew_if_due(folder, host, _now())
            reload()
        except (OSError, ValueError) as problem:
            _log.warning("the server's certificate in %s cannot be renewed: %s", folder, problem)


def _files(folder: Path) -> Certificates:
    return Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")


def _read_server(files: Certificates) -> CertificateKeyPair | str:
    """The server's certificate and key; a ``str`` is a problem with their files, empty if both files are missing."""
    try:
        certificate, key = read_file(files.server), read_file(files.server_key)
    except FileProblem as problem:
        return str(problem)
    if certificate is None and key is None:
        return ""
    if certificate is None or key is None:
        return f"{files.server if certificate is None else files.server_key} is missing"
    return CertificateKeyPair(certificate, key)


def _pair_problem(files: Certificates, found: CertificateKeyPair, authority: CertificateKeyPair) -> str:
    """The problem with a pair, apart from its age and its names."""
    if not is_key_pair(found):
        return f"{files.server} and {files.server_key} are not a certificate and its key"
    if not is_issued_by(found.certificate, authority.certificate):
        return f"{files.server} is not signed by {files.ca}"
    return ""


def _write(pair: CertificateKeyPair, certificate: Path, key: Path) -> None:
    write_files((key, pair.key, 0o600), (certificate, pair.certificate, 0o644))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def make_folder(path: Path) -> None:
    """Creates the folder, or restricts its permissions to the owner. Raises ``FileProblem``."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(path.stat().st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as problem:
        what = "is not a folder" if isinstance(problem, FileExistsError) else f"cannot be used: {problem.strerror}"
        raise FileProblem(f"{path} {what}; move it away, or check its permissions") from problem


def make_private(path: Path) -> None:
    """Restricts the permissions of the file to its owner. Raises ``FileProblem``."""
    try:
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            path.chmod(0o600)
    except OSError as problem:
        raise FileProblem(f"{path} cannot be made private: {problem.strerror}; check its owner") from problem


def read_file(path: Path) -> bytes | None:
    """The content; ``None`` if there is no file. Raises ``FileProblem`` if it is not a file or cannot be read."""
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):  # reading a pipe would wait without end
            what = "is a directory" if stat.S_ISDIR(kind) else "is not a regular file"
            raise FileProblem(f"{path} {what}")
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise FileProblem(f"{path} is a link to {path.readlink()}, which does not exist") from None
        return None
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read: {problem.strerror}") from problem


def read_required(path: Path, dependents: str) -> bytes:
    """The content of a file that cannot be recreated. ``dependents``: what stops working without it. Raises
    ``FileProblem``."""
    try:
        data = read_file(path)
    except FileProblem as problem:
        raise unusable_file(path, str(problem).removeprefix(f"{path} "), dependents) from problem
    if not data or not data.strip():
        raise unusable_file(path, "is missing" if data is None else "is empty", dependents)
    return data


def unusable_file(path: Path, what: str, dependents: str) -> FileProblem:
    fix = f"restore it from a copy, or {_renewal(path.parent)}"
    return FileProblem(f"{path} {what}; {dependents} rely on it: {fix}")


def _renewal(folder: Path) -> str:
    return (
        f"move the folder {folder} away: the next start creates a new CA and a new service account key "
        "(earlier kubeconfigs, client certificates and service account tokens then stop working)"
    )


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Writes the file atomically, because a half-written key would make all clients fail. Raises ``OSError`` with the
    name of the file."""
    write_files((path, data, mode))


def write_files(*files: tuple[Path, bytes, int]) -> None:
    """Writes several files, each atomically, and none if the disk has no space for all of them."""
    written: list[tuple[Path, Path]] = []
    try:
        for path, data, mode in files:
            written.append((path.with_name(path.name + ".new"), path))
            descriptor = os.open(written[-1][0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    except OSError as problem:
        _remove(written)
        raise OSError(problem.errno, problem.strerror, str(written[-1][1])) from problem
    for partial, path in written:
        try:
            os.replace(partial, path)
        except OSError as problem:
            _remove(written)
            raise OSError(problem.errno, problem.strerror, str(path)) from problem


def _remove(written: Sequence[tuple[Path, Path]]) -> None:
    for partial, _ in written:
        with contextlib.suppress(OSError):
            partial.unlink()
