"""The door: authenticate, impersonate, authorize. Whoever comes through is a :class:`Caller` without a refusal.

``apiserver/handle.py`` asks here before it looks at anything else. A member of ``system:masters`` passes without the
question being put into words: that is every request of the cluster's own components.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apiserver import negotiation, views
from headgate.apiserver.access import impersonation
from headgate.apiserver.access.attributes import attributes_of
from headgate.apiserver.access.authentication import authenticate, hides_its_token
from headgate.apiserver.access.policy import Decision
from headgate.apiserver.access.user import NOBODY, User
from headgate.apiserver.api import Api
from headgate.apiserver.messages import Request, Response
from headgate.kube import status

_UNKNOWN: Final = User("")
_HIDDEN_TOKEN: Final = "the provided Authorization header contains extra space before the bearer token, and is ignored"
_NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")


class Caller(msgspec.Struct, frozen=True):
    """``login`` is who showed the credential, ``user`` who acts: the same unless somebody is impersonated.

    Who is not let in has a ``refusal``; ``decision`` is what the roles say, either way, if they were asked.
    """

    user: User
    login: User
    refusal: Response | None = None
    decision: Decision | None = None
    warning: str = ""


def enter(api: Api, request: Request, now_s: float) -> Caller:
    caller = _enter(api, request, now_s)
    if caller.login in (NOBODY, _UNKNOWN) and hides_its_token(request.header("authorization")):
        return msgspec.structs.replace(caller, warning=_HIDDEN_TOKEN)
    return caller


def unknown(request: Request, error: status.ApiError) -> Caller:
    """The caller of a request that is refused before its credentials are looked at."""
    return Caller(_UNKNOWN, _UNKNOWN, _refuse(request, error))


def _enter(api: Api, request: Request, now_s: float) -> Caller:
    login = authenticate(api.tokens, request, now_s)
    if login is None:
        return unknown(request, status.unauthorized())
    user = login
    if impersonation.wanted(request):
        acting = impersonation.impersonate(api.policy, request, login)
        if isinstance(acting, status.ApiError):
            return Caller(login, login, _refuse(request, acting, _NO_SNIFF))
        user = acting
    if user.is_master:
        return Caller(user, login)
    asked = attributes_of(request.info, user.name)
    decision = api.policy.decide(user, asked)
    if decision.allowed:
        return Caller(user, login, None, decision)
    refusal = _refuse(request, status.access_denied(asked, decision.reason), _NO_SNIFF)
    return Caller(user, login, refusal, decision)


def _refuse(request: Request, error: status.ApiError, *headers: tuple[str, str]) -> Response:
    output = negotiation.output(request.header("accept"))
    refusal = views.refuse(error, None if isinstance(output, status.ApiError) else output)
    return msgspec.structs.replace(refusal, headers=(*refusal.headers, *headers))
