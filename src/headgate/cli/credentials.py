"""Who may come in when a cluster starts: the admin of the kubeconfig, its own components, and whom a file names.

The admin's token and the key for service accounts' tokens are made at the first start and kept in the data folder,
readable by their owner only. The components' token is made anew at each start and never leaves the process.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from headgate.apiserver.access.jwt import Key
from headgate.apiserver.access.shell import signing_key
from headgate.apiserver.access.token_file import parse_token_file
from headgate.apiserver.access.user import MASTERS, User
from headgate.apiserver.messages import AuditLevel
from headgate.apiserver.tls.shell import make_folder, write_file

ISSUER: Final = "https://kubernetes.default.svc"
ADMIN: Final = User("kubernetes-admin", (MASTERS,))
SYSTEM: Final = User("system:apiserver", (MASTERS,))


class Access(msgspec.Struct, frozen=True):
    """What was said at the start about who may come in, and what is recorded of it."""

    token_file: Path | None = None
    client_ca: Path | None = None
    audit_log: Path | None = None
    audit_level: AuditLevel | None = None


class Credentials(msgspec.Struct, frozen=True):
    admin_token: str
    system_token: str
    users: Mapping[str, User]
    key: Key


def load_credentials(data: Path, token_file: Path | None) -> Credentials | str:
    """All of them, or one line about what is wrong."""
    given = {} if token_file is None else _given(token_file)
    if isinstance(given, str):
        return f"--token-auth-file {token_file}: {given}"
    try:
        key = signing_key(data / "pki")
    except ValueError as problem:
        return str(problem)
    admin, system = _admin_token(data), secrets.token_urlsafe(32)
    return Credentials(admin, system, {**given, admin: ADMIN, system: SYSTEM}, key)


def _given(token_file: Path) -> dict[str, User] | str:
    try:
        return parse_token_file(token_file.read_text())
    except (OSError, UnicodeDecodeError) as problem:
        return f"it cannot be read: {problem}"


def _admin_token(data: Path) -> str:
    path = data / "token"
    if path.exists():
        path.chmod(0o600)
        return path.read_text().strip()
    make_folder(data)
    token = secrets.token_urlsafe(32)
    write_file(path, f"{token}\n".encode(), 0o600)
    return token
