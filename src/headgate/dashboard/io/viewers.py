"""Who sends a request, and what that viewer may see.

The token that the process made and printed stands for its operator, who sees what the process sees. Any other token is
reviewed by the API server, and the rights of its user are asked there, for all namespaces first, then for each
namespace that has rows. Answers are remembered for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.dashboard.rights import CLUSTER_SCOPED, EVERYTHING, NAMESPACED, ViewerRights
from headgate.dashboard.sessions import is_same
from headgate.http.transport import Transport
from headgate.kube.api_resources import APIResource
from headgate.runtime.health.access_reviews import AccessReviews, ReviewedUser, Verdict

_ALLOWED_S: Final = 60.0
_MAX_PERMISSIONS: Final = 20_000
_PARALLEL: Final = 32
_NO_TOKEN: Final = Verdict(401, "log in with a token")


class Viewer(msgspec.Struct, frozen=True):
    """``user``: None for the operator of this process."""

    user: ReviewedUser | None

    @property
    def name(self) -> str:
        return "the operator of this process" if self.user is None else self.user.username


class Viewers:
    """``operator_token``: empty if no token stands for the operator."""

    def __init__(self, transport: Transport, operator_token: str) -> None:
        self._reviews: Final = AccessReviews(transport, allowed_s=_ALLOWED_S, max_permissions=_MAX_PERMISSIONS)
        self._operator_token: Final = operator_token
        self._limit: Final = asyncio.Semaphore(_PARALLEL)

    async def find(self, token: str, source: str) -> Viewer | Verdict:
        if not token:
            return _NO_TOKEN
        if self._operator_token and is_same(token, self._operator_token):
            return Viewer(None)
        user = await self._reviews.find_user(token, source)
        return user if isinstance(user, Verdict) else Viewer(user)

    async def rights_of(self, viewer: Viewer, namespaces: Iterable[str]) -> ViewerRights:
        """``namespaces``: those that have rows."""
        if viewer.user is None:
            return EVERYTHING
        resources = (*CLUSTER_SCOPED, *NAMESPACED)
        answers = await asyncio.gather(*(self._may(viewer.user, "list", each) for each in resources))
        everywhere = frozenset(each for each, may in zip(resources, answers, strict=True) if may)
        asked = [(each, name) for each in NAMESPACED if each not in everywhere for name in sorted(set(namespaces))]
        found: dict[APIResource, set[str]] = {}
        for (resource, namespace), may in zip(
            asked, await asyncio.gather(*(self._may(viewer.user, "list", *each) for each in asked)), strict=True
        ):
            if may:
                found.setdefault(resource, set()).add(namespace)
        return ViewerRights(everywhere=everywhere, namespaces={key: frozenset(each) for key, each in found.items()})

    async def may_get(self, viewer: Viewer, resource: APIResource, namespace: str) -> bool:
        return viewer.user is None or await self._may(viewer.user, "get", resource, namespace)

    async def may_list(self, viewer: Viewer, resource: APIResource, namespace: str) -> bool:
        return viewer.user is None or await self._may(viewer.user, "list", resource, namespace)

    async def _may(self, user: ReviewedUser, verb: str, resource: APIResource, namespace: str = "") -> bool:
        async with self._limit:
            return await self._reviews.may(user, verb, resource, namespace)
