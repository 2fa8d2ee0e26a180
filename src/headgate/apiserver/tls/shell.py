"""Keeps the CA and the server's certificate in the data folder, and renews the latter in good time, also while it runs.

The CA's certificate goes into the kubeconfig, so that clients trust this server and no other. Keys are readable by
their owner only. How certificates are made is ``issuing.py``'s.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from headgate.apiserver.tls.issuing import Pair, is_authority, make_authority, make_server, serves
from headgate.kube.strategy.service import KUBERNETES_ADDRESS

_log: Final = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 6 * 3600.0
_NAMES: Final = (
    *("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *("127.0.0.1", "::1", KUBERNETES_ADDRESS),
)


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
    authority = _read(files.ca, ca_key_file)
    if authority is None or not is_authority(authority, now):
        _write(make_authority("headgate-ca", now), files.ca, ca_key_file)
    for key in (ca_key_file, files.server_key):
        if key.exists():
            key.chmod(0o600)
    renew_if_due(folder, host, now)
    return files


def renew_if_due(folder: Path, host: str, now: datetime.datetime) -> bool:
    """Make the server's certificate anew, by the authority that is there, if it does not serve much longer."""
    files, ca_key_file = _files(folder), folder / "ca.key"
    authority = Pair(files.ca.read_bytes(), ca_key_file.read_bytes())
    found = _read(files.server, files.server_key)
    if found is not None and serves(found, authority.certificate, host, now):
        return False
    # The host first, then what clients on this machine may call it.
    names = [host, *(name for name in _NAMES if name != host)]
    try:
        made = make_server(authority, "headgate-apiserver", names, now)
    except ValueError as problem:
        raise ValueError(f"{ca_key_file}: {problem}; move the folder {folder} away to have it made anew") from problem
    _write(made, files.server, files.server_key)
    return True


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


def _read(certificate: Path, key: Path) -> Pair | None:
    return Pair(certificate.read_bytes(), key.read_bytes()) if certificate.exists() and key.exists() else None


def _write(pair: Pair, certificate: Path, key: Path) -> None:
    write_file(key, pair.key, 0o600)
    write_file(certificate, pair.certificate, 0o644)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


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
