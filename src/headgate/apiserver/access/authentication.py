"""Who is asking: a client certificate, a bearer token, or nobody.

Tokens that were given out beforehand are looked up here by their hash, so that no comparison tells how much of a guess
was right. Nobody may come in for a few paths only. What a user may then do is ``policy.py``'s matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from headgate.apiserver.access.user import NOBODY, User, authenticated
from headgate.apiserver.messages import Request

# What anybody may ask for without a credential, if the roles of nobody allow it.
PUBLIC: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class StaticTokens:
    """Tokens that do not change while the server runs."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self._by_digest: Final = {_digest(token): authenticated(user) for token, user in users.items()}

    def find(self, token: str) -> User | None:
        return self._by_digest.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def bearer_token(header: str) -> str | None:
    """The token in an ``Authorization`` header; ``None`` if it holds none, which is no offence."""
    parts = header.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    return parts[1] or None


def authenticate(tokens: StaticTokens, request: Request) -> User | None:
    """The user, or ``None`` for the 401. A certificate goes before a token."""
    peer = request.peer
    if peer is not None and peer.common_name:
        return authenticated(User(peer.common_name, peer.organizations))
    token = bearer_token(request.header("authorization"))
    if token is not None:
        return tokens.find(token)
    if request.bad_certificate:
        return None
    return NOBODY if unquote(request.path) in PUBLIC else None
