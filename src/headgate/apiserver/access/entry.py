"""The door: authenticate, impersonate, authorize. Whoever comes through is a :class:`Caller`; the others get an answer.

``apiserver/handle.py`` asks here before it looks at anything else. A member of ``system:masters`` passes without the
question being put into words: that is every request of the cluster's own components.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apiserver import negotiation, views
from headgate.apiserver.access import impersonation
from headgate.apiserver.access.attributes import attributes_of
from headgate.apiserver.access.authentication import authenticate
from headgate.apiserver.access.user import User
from headgate.apiserver.api import Api
from headgate.apiserver.messages import Request, Response
from headgate.kube import status

_NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")


class Caller(msgspec.Struct, frozen=True):
    """``login`` is who showed the credential, ``user`` who acts: the same unless somebody is impersonated."""

    user: User
    login: User


def enter(api: Api, request: Request, now_s: float) -> Caller | Response:
    login = authenticate(api.tokens, request, now_s)
    if login is None:
        return _refuse(request, status.unauthorized())
    user = login
    if impersonation.wanted(request):
        acting = impersonation.impersonate(api.policy, request, login)
        if isinstance(acting, status.ApiError):
            return _refuse(request, acting, _NO_SNIFF)
        user = acting
    if not user.is_master:
        asked = attributes_of(request, user.name)
        decision = api.policy.decide(user, asked)
        if not decision.allowed:
            return _refuse(request, status.access_denied(asked, decision.reason), _NO_SNIFF)
    return Caller(user, login)


def _refuse(request: Request, error: status.ApiError, *headers: tuple[str, str]) -> Response:
    output = negotiation.output(request.header("accept"))
    refusal = views.refuse(error, None if isinstance(output, status.ApiError) else output)
    return msgspec.structs.replace(refusal, headers=(*refusal.headers, *headers))
