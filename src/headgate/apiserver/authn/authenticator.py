"""Authentication by client certificate or bearer token; a request without either is anonymous.

Static tokens are looked up by their hash, so that the time of a comparison reveals nothing;
``service_account_tokens.py`` checks the tokens of service accounts. An anonymous request may read a few paths only.
``apiserver/authz/rbac.py`` decides what a user may do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.apiserver.authn.service_account_tokens import ServiceAccountTokens, TokenOwner
from headgate.apiserver.authn.user import ANONYMOUS_USER, UserInfo, authenticated
from headgate.apiserver.request.messages import ServerRequest

# Paths for anonymous requests, if the roles of the anonymous user allow them.
PUBLIC: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_INVALID_TOKEN: Final = "invalid bearer token"


class TokenAuthenticator:
    """All valid tokens. The tokens in ``users`` do not change while the server runs."""

    def __init__(self, users: Mapping[str, UserInfo], accounts: ServiceAccountTokens | None) -> None:
        self._accounts: Final = accounts
        self._issuer: Final = accounts.issuer if accounts is not None else ""
        self._by_digest: Final = {
            _digest(token): TokenOwner(authenticated(user), (self._issuer,)) for token, user in users.items()
        }

    def find(self, token: str, now_s: float, audiences: Sequence[str] = ()) -> TokenOwner | str:
        """The owner of the token, or why it is invalid. Without ``audiences`` it must be for this server."""
        static = self._by_digest.get(_digest(token))
        if static is not None:
            return static if not audiences or self._issuer in audiences else _INVALID_TOKEN
        found = None if self._accounts is None else self._accounts.find(token, now_s, audiences)
        if isinstance(found, TokenOwner):
            return msgspec.structs.replace(found, user=authenticated(found.user))
        return _INVALID_TOKEN if found is None else f"[{_INVALID_TOKEN}, {found}]"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def bearer_token(header: str) -> str | None:
    """The token in an ``Authorization`` header; ``None`` if it has none."""
    parts = header.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    return parts[1] or None


def has_extra_space_before_token(header: str) -> bool:
    """Whether there is an extra space before the token. Such a token is ignored, and the client gets a warning."""
    scheme, _, rest = header.strip().partition(" ")
    return rest[:1] == " " and scheme.lower() == "bearer"


def authenticate(tokens: TokenAuthenticator, request: ServerRequest, now_s: float) -> UserInfo | None:
    """The user, or ``None`` for a 401. A certificate takes precedence over a token."""
    peer = request.peer
    if peer is not None and peer.common_name:
        extra = {_CREDENTIAL: (f"X509SHA256={peer.fingerprint}",)} if peer.fingerprint else {}
        return authenticated(UserInfo(peer.common_name, peer.organizations, extra=extra))
    token = bearer_token(request.header("authorization"))
    if token is not None:
        found = tokens.find(token, now_s)
        return None if isinstance(found, str) else found.user
    if request.bad_certificate:
        return None
    return ANONYMOUS_USER if request.info.path in PUBLIC else None
