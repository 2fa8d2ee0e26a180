"""The users of the embedded API server: the admin of the kubeconfig, its own components, and those of a token file.

The admin's token and the signing key of service account tokens are generated at the first start and kept in the data
folder, readable by their owner only. If the admin's token is missing or damaged, a new one is generated and written to
the kubeconfig. The keys are never generated again (``cli/embedded/pki.py``). The token of the components is generated
at each start and never leaves the process.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from headgate.apiserver.authn.jwt import SigningKey
from headgate.apiserver.authn.token_file import parse_token_file
from headgate.apiserver.authn.user import MASTERS, UserInfo
from headgate.apiserver.io.certificate_files import FileProblem, make_folder, make_private, read_file, write_file
from headgate.apiserver.request.messages import AuditLevel

ISSUER: Final = "https://kubernetes.default.svc"
ADMIN: Final = UserInfo("kubernetes-admin", (MASTERS,))
SYSTEM: Final = UserInfo("system:apiserver", (MASTERS,))

_log: Final = logging.getLogger(__name__)


class AccessOptions(msgspec.Struct, frozen=True):
    """The options for authentication and audit."""

    token_file: Path | None = None
    client_ca: Path | None = None
    audit_log: Path | None = None
    audit_level: AuditLevel | None = None


class ServerCredentials(msgspec.Struct, frozen=True):
    admin_token: str
    system_token: str
    users: Mapping[str, UserInfo]
    key: SigningKey


def load_credentials(
    data: Path, token_file: Path | None, key: SigningKey, *, store_has_objects: bool
) -> ServerCredentials | str:
    """All credentials, or one line about the problem."""
    file_users = {} if token_file is None else _read_token_file(token_file)
    if isinstance(file_users, str):
        return f"--token-auth-file {token_file}: {file_users}"
    try:
        admin, system = _admin_token(data, store_has_objects), secrets.token_urlsafe(32)
    except FileProblem as problem:
        return str(problem)
    return ServerCredentials(admin, system, {**file_users, admin: ADMIN, system: SYSTEM}, key)


def _read_token_file(token_file: Path) -> dict[str, UserInfo] | str:
    try:
        return parse_token_file(token_file.read_text())
    except (OSError, UnicodeDecodeError) as problem:
        return f"it cannot be read: {problem}"


def _admin_token(data: Path, store_has_objects: bool) -> str:
    path = data / "token"
    try:
        found = read_file(path)
    except FileProblem as problem:
        raise FileProblem(f"{problem}; restore it from a copy, or remove it: a start creates a new token") from problem
    if found is not None and (existing := found.decode("latin-1").strip()) and _is_token(existing):
        make_private(path)
        return existing
    make_folder(data)
    token = secrets.token_urlsafe(32)
    try:
        write_file(path, f"{token}\n".encode(), 0o600)
    except OSError as problem:
        raise FileProblem(f"{path} cannot be written: {problem.strerror}; free disk space") from problem
    if found is not None or store_has_objects:
        defect = "was missing" if found is None else "was empty" if not found.strip() else "did not hold one token"
        _log.warning(
            "%s %s: a new administrator token was generated; earlier copies of the kubeconfig do not work any more",
            *(path, defect),
        )
    return token


def _is_token(text: str) -> bool:
    """Whether the text may be in a request header: one word of visible ASCII."""
    return text.isascii() and text.isprintable() and " " not in text
