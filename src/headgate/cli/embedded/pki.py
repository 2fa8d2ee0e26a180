"""The ``pki`` folder of the data folder: the keys of the certificate authority and of service account tokens.

All keys are generated together at the first start. An existing key is never replaced, because kubeconfigs, client
certificates and service account tokens depend on it. If the store has objects and some of the keys exist, a missing or
damaged one is an error. To get new keys, move the whole ``pki`` folder away.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Final

from headgate.apiserver.authn.jwt import SigningKey
from headgate.apiserver.io.certificate_files import (
    Certificates,
    FileProblem,
    ensure_certificates,
    make_folder,
    read_authority,
)
from headgate.apiserver.io.signing_key_file import ensure_signing_key, read_signing_key
from headgate.store.io.high_water_mark_file import sync_folder

PKI: Final = "pki"
_REQUIRED: Final = ("ca.crt", "ca.key", "sa.key")
_DERIVED: Final = ("server.crt", "server.key")

_log: Final = logging.getLogger(__name__)


def open_pki(data: Path, host: str, *, store_has_objects: bool) -> tuple[SigningKey, Certificates]:
    """The key of service accounts and the certificates for ``host``. Raises ``FileProblem``."""
    folder = data / PKI
    try:
        if not _has_any(folder):
            made = _make(folder, host)
            if store_has_objects:
                _log.warning(
                    "%s was missing: a new certificate authority and a new service account key were generated; earlier "
                    "kubeconfigs, client certificates and service account tokens do not work any more",
                    folder,
                )
            return made
        if store_has_objects:
            _check(folder)
        return ensure_signing_key(folder), ensure_certificates(folder, host)
    except OSError as problem:
        why = f"{problem.filename or folder} cannot be written: {problem.strerror}"
        raise FileProblem(f"{why}; free some space on the disk, or check the permissions of the folder") from problem


def pki_problem(data: Path) -> str | None:
    """Why a server whose store has objects would not start with this folder; None if it would. Changes nothing."""
    try:
        if _has_any(data / PKI):
            _check(data / PKI)
    except FileProblem as problem:
        return str(problem)
    return None


def _has_any(folder: Path) -> bool:
    """Whether the folder has any key or certificate, from an earlier start or from the user."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise FileProblem(f"{folder} is not a folder; restore it from a copy, or move it away")
    return any(os.path.lexists(folder / name) for name in (*_REQUIRED, *_DERIVED))


def _check(folder: Path) -> None:
    read_authority(folder)
    read_signing_key(folder)


def _make(folder: Path, host: str) -> tuple[SigningKey, Certificates]:
    """Creates all files at once, so that a killed start does not leave some of them."""
    if folder.is_dir():  # empty; it may be a mount or a link, which cannot be replaced
        return ensure_signing_key(folder), ensure_certificates(folder, host)
    make_folder(folder.parent)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        ensure_signing_key(partial)
        ensure_certificates(partial, host)
        os.rename(partial, folder)
    except (OSError, FileProblem):
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return ensure_signing_key(folder), ensure_certificates(folder, host)
