"""Decides what users may read: a TokenReview for the token, then a SubjectAccessReview for the user.

``secured_server.py`` asks about ``/metrics``, ``dashboard/io/`` about resources.

The API server decides, and this module remembers its answers for a while: a good token for a minute, a bad one for five
seconds, a permission for five minutes, a refusal for thirty seconds. The reviews of unknown tokens are limited for each
client address, because each costs the API server a request. An API server that cannot be reached gives 500, and is
asked again by the next request.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec

from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer.wire_json import WireDecoder

T = TypeVar("T")

_HEADERS: Final = {"accept": "application/json", "content-type": "application/json"}
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_REVIEW_TIMEOUT_S: Final = 10.0
_KNOWN_S: Final = 60.0
_UNKNOWN_S: Final = 5.0
_ALLOWED_S: Final = 300.0
_DENIED_S: Final = 30.0
_MAX_ENTRIES: Final = 1024
_REVIEWS_PER_SECOND: Final = 2.0
_BURST: Final = 10.0


class Verdict(msgspec.Struct, frozen=True):
    """``status``: 200, 401, 403, 429 or 500."""

    status: int
    text: str = ""


_ALLOWED: Final = Verdict(200)
_NO_TOKEN: Final = Verdict(401, "a bearer token is required")
_BAD_TOKEN: Final = Verdict(401, "the bearer token is not valid")
_TOO_MANY: Final = Verdict(429, "too many unknown tokens from this address")


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user of a token, as the API server names it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenReviewStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenReviewStatus = _TokenReviewStatus()


class _AccessReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessReviewStatus = _AccessReviewStatus()


_decode_token_review: Final = WireDecoder(_TokenReview).decode
_decode_access_review: Final = WireDecoder(_AccessReview).decode


class AccessReviews:
    """``allowed_s``: how long a permission is remembered; ``max_permissions``: how many are."""

    def __init__(
        self,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
        *,
        allowed_s: float = _ALLOWED_S,
        max_permissions: int = _MAX_ENTRIES,
    ) -> None:
        self._transport: Final = transport
        self._clock: Final = clock
        self._allowed_s: Final = allowed_s
        self._users: Final[_ExpiringCache[ReviewedUser | None]] = _ExpiringCache(clock)
        self._permissions: Final[_ExpiringCache[bool]] = _ExpiringCache(clock, max_permissions)
        self._limits: Final[_ExpiringCache[_TokenBucket]] = _ExpiringCache(clock)

    async def check(self, authorization: str, method: str, path: str, source: str) -> Verdict:
        """``authorization``: the value of that header. ``source``: the address of the client."""
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return _NO_TOKEN
        user = await self.find_user(token, source)
        if isinstance(user, Verdict):
            return user
        verb = method.lower()
        try:
            if await self._may(user, (("path", path), ("verb", verb)), "nonResourceAttributes"):
                return _ALLOWED
        except (Unreachable, msgspec.DecodeError, _ReviewFailed) as problem:
            return _not_asked(problem)
        return Verdict(403, f'user "{user.username}" may not {verb} path "{path}"')

    async def find_user(self, token: str, source: str) -> ReviewedUser | Verdict:
        """The user of a bearer token, or why there is none. ``source``: the address of the client."""
        try:
            return await self._user_of(token, source)
        except (Unreachable, msgspec.DecodeError, _ReviewFailed) as problem:
            return _not_asked(problem)

    async def may(self, user: ReviewedUser, verb: str, resource: APIResource, namespace: str = "") -> bool:
        """Whether the user may do this in the namespace; without a namespace, in all. False if it is not known."""
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
        try:
            return await self._may(user, tuple(attributes.items()), "resourceAttributes")
        except (Unreachable, msgspec.DecodeError, _ReviewFailed):
            return False

    async def _user_of(self, token: str, source: str) -> ReviewedUser | Verdict:
        key = hashlib.sha256(token.encode()).digest()
        if key not in self._users:
            if not self._limits.setdefault(source, _TokenBucket(self._clock()), _ALLOWED_S).take(self._clock()):
                return _TOO_MANY
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
            status = _decode_token_review(await self._create(_TOKEN_REVIEWS, review)).status
            user = status.user if status.authenticated and status.user.username else None
            self._users.put(key, user, _UNKNOWN_S if user is None else _KNOWN_S)
        return self._users.get(key) or _BAD_TOKEN

    async def _may(self, user: ReviewedUser, attributes: tuple[tuple[str, str], ...], kind: str) -> bool:
        key = (user.username, user.groups, attributes)
        if key not in self._permissions:
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                kind: dict(attributes),
            }
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            answer = _decode_access_review(await self._create(_ACCESS_REVIEWS, review))
            is_allowed = answer.status.allowed
            self._permissions.put(key, is_allowed, self._allowed_s if is_allowed else _DENIED_S)
            return is_allowed
        return bool(self._permissions.get(key))

    async def _create(self, path: str, review: dict[str, Any]) -> bytes:
        request = HTTPRequest("POST", path, "", _HEADERS, msgspec.json.encode(review), timeout_s=_REVIEW_TIMEOUT_S)
        response = await self._transport.request(request)
        if not response.ok:
            raise _ReviewFailed(f"{path} answers {response.status}: {response.body[:200].decode(errors='replace')}")
        return response.body


def _not_asked(problem: Exception) -> Verdict:
    return Verdict(500, f"the API server could not be asked: {problem}")


class _ReviewFailed(Exception):
    """Raised and caught in this module."""


class _TokenBucket:
    """Allows a burst, and then a rate."""

    def __init__(self, now_s: float) -> None:
        self._left = _BURST
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        self._left = min(self._left + (now_s - self._at_s) * _REVIEWS_PER_SECOND, _BURST)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _ExpiringCache(Generic[T]):
    """At most ``max_entries`` values; the one that was put first goes first."""

    def __init__(self, clock: Callable[[], float], max_entries: int = _MAX_ENTRIES) -> None:
        self._clock: Final = clock
        self._max_entries: Final = max_entries
        self._entries: Final[OrderedDict[Hashable, tuple[T, float]]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry[1] > self._clock()

    def get(self, key: Hashable) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: Hashable, value: T, for_s: float) -> None:
        self._entries.pop(key, None)
        while len(self._entries) >= self._max_entries:
            self._entries.popitem(last=False)
        self._entries[key] = value, self._clock() + for_s

    def setdefault(self, key: Hashable, value: T, for_s: float) -> T:
        """The value, which is kept for another ``for_s`` seconds."""
        kept = self._entries[key][0] if key in self else value
        self.put(key, kept, for_s)
        return kept
