"""Tokens of service accounts: their claims, and whether they are still valid.

A token is valid while it is signed by this server's key, unexpired, for one of the requested audiences, and while its
service account (and the pod, secret or node that it is bound to) is still the same object. ``issue`` builds the claims;
``apiserver/subresources/token.py`` is the endpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.apiserver.authn.jwt import ALGORITHM, Claims, SigningKey, unverified
from headgate.apiserver.authn.user import UserInfo, account_groups, account_name
from headgate.kube import timestamps
from headgate.kube.field_errors import quote, quoted_list
from headgate.store import Item, Store

Object = dict[str, Any]

_LEEWAY_S: Final = 60
_MAX_CACHED_TOKENS: Final = 4096
_EXTRA: Final = "authentication.kubernetes.io/"
_PRIVATE: Final = "kubernetes.io"
_NOT_SIGNED: Final = "go-jose/go-jose: error in cryptographic primitive"
_INVALIDATED: Final = "service account token has been invalidated"


class TokenOwner(msgspec.Struct, frozen=True):
    """The owner of a token, and the requested audiences that it is for."""

    user: UserInfo
    audiences: tuple[str, ...]


class BoundObject(msgspec.Struct, frozen=True):
    """An object that a token is bound to: ``pod``, ``secret`` or ``node``."""

    kind: str
    name: str
    uid: str = ""


class ServiceAccountTokens:
    """``issuer`` is the ``iss`` claim of the tokens, and their default audience."""

    def __init__(self, issuer: str, key: SigningKey, store: Store) -> None:
        self.issuer: Final = issuer
        self.key: Final = key
        self._store: Final = store
        self._verified: Final[dict[bytes, Claims]] = {}

    def issue(
        self,
        account: Item,
        bound: Sequence[BoundObject],
        *,
        token_id: str,
        now_s: int,
        lifetime_s: int,
        warn_after_s: int | None,
        audiences: Sequence[str],
    ) -> str:
        private: Object = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        for each in bound:
            private[each.kind] = {"name": each.name, **({"uid": each.uid} if each.uid else {})}
        if warn_after_s is not None:
            private["warnafter"] = now_s + warn_after_s
        return self.key.sign(
            {
                "aud": list(audiences),
                "exp": now_s + lifetime_s,
                "iat": now_s,
                "iss": self.issuer,
                "jti": token_id,
                "nbf": now_s,
                "sub": account_name(account.namespace, account.name),
                _PRIVATE: private,
            }
        )

    def find(self, token: str, now_s: float, audiences: Sequence[str] = ()) -> TokenOwner | str | None:
        """The owner of the token, or why it is invalid; ``None`` if its issuer is not this server."""
        claims = self._claims(token)
        if claims is None or isinstance(claims, str):
            return claims
        requested = list(audiences) or [self.issuer]
        offered = _strings(claims.get("aud"))
        matching = tuple(each for each in offered if each in requested)
        if not matching:
            targets = quoted_list(requested)
            return f"token audiences {quoted_list(offered)} is invalid for the target audiences {targets}"
        problem = _time_problem(claims, now_s) or self._missing_object(claims, now_s)
        return problem or TokenOwner(_user(claims), matching)

    def _claims(self, token: str) -> Claims | str | None:
        """The claims of a signed token. Valid ones are cached, because a signature check is expensive."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        cached = self._verified.get(digest)
        if cached is not None:
            return cached
        read = unverified(token)
        if read is None or read[1].get("iss") != self.issuer:
            return None
        header, claims = read
        if header.get("kid", self.key.key_id) != self.key.key_id:
            return "invalid signature, no keys found"
        if header.get("alg") != ALGORITHM or not self.key.has_signed(token):
            return _NOT_SIGNED
        if len(self._verified) >= _MAX_CACHED_TOKENS:
            self._verified.clear()
        self._verified[digest] = claims
        return claims

    def _missing_object(self, claims: Claims, now_s: float) -> str | None:
        """The problem, if an object that the token depends on is gone."""
        private = claims.get(_PRIVATE) or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name = account.get("name", "")
        item = self._store.read("serviceaccounts", namespace, name)
        if item is None:
            return f"serviceaccounts {quote(name)} not found"
        if item.uid != account.get("uid"):
            return f"service account UID ({item.uid}) does not match claim ({account.get('uid', '')})"
        if _is_deleted(item, now_s):
            return f"service account {namespace}/{name} has been deleted"
        for kind, resource, shown in (
            ("secret", "secrets", "secret"),
            ("pod", "pods", "pod"),
            ("node", "nodes", "node"),
        ):
            ref = private.get(kind)
            if ref is None or (kind == "node" and "pod" in private):
                continue  # the node of a pod is only information; the token does not depend on it
            found = self._store.read(resource, "" if kind == "node" else namespace, ref.get("name", ""))
            if found is None or (found.uid == ref.get("uid") and _is_deleted(found, now_s)):
                return _INVALIDATED
            if found.uid != ref.get("uid"):
                claim = f"service account {shown} ref claim ({ref.get('uid', '')})"
                return f"{shown} UID ({found.uid}) does not match {claim}"
        return None


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _time_problem(claims: Claims, now_s: float) -> str | None:
    not_before, expires, issued = (claims.get(field) for field in ("nbf", "exp", "iat"))
    if isinstance(not_before, (int, float)) and now_s + _LEEWAY_S < not_before:
        return "service account token is not valid yet"
    if not isinstance(expires, (int, float)) or now_s - _LEEWAY_S > expires:
        return "service account token has expired"
    if isinstance(issued, (int, float)) and now_s + _LEEWAY_S < issued:
        return "service account token is issued in the future"
    return None


def _is_deleted(item: Item, now_s: float) -> bool:
    """Whether the object was deleted longer ago than the leeway."""
    if b'"deletionTimestamp"' not in item.data:
        return False
    deleted = msgspec.json.decode(item.data)["metadata"].get("deletionTimestamp")
    deleted_s = timestamps.parse_time(deleted) if isinstance(deleted, str) else ""
    return not isinstance(deleted_s, str) and deleted_s < now_s - _LEEWAY_S


def _user(claims: Claims) -> UserInfo:
    private = claims[_PRIVATE]
    namespace, account = private["namespace"], private["serviceaccount"]
    pod, node = private.get("pod") or {}, private.get("node") or {}
    values = {
        "credential-id": f"JTI={claims['jti']}" if claims.get("jti") else "",
        "node-name": node.get("name", ""),
        "node-uid": node.get("uid", ""),
        "pod-name": pod.get("name", ""),
        "pod-uid": pod.get("uid", ""),
    }
    extra = {f"{_EXTRA}{key}": (value,) for key, value in values.items() if value}
    return UserInfo(account_name(namespace, account["name"]), account_groups(namespace), account["uid"], extra)
