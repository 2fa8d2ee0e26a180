"""Authentication, impersonation and authorization of a request. The result is an :class:`AccessResult`.

``apiserver/handler.py`` calls this module first. A member of ``system:masters`` is authorized without RBAC rules; the
components of an embedded cluster are members.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.authn.authenticator import authenticate, has_extra_space_before_token
from headgate.apiserver.authn.user import ANONYMOUS_USER, UserInfo
from headgate.apiserver.authz import impersonation
from headgate.apiserver.authz.attributes import attributes_of
from headgate.apiserver.authz.rbac import AuthorizationDecision
from headgate.apiserver.registry import responses
from headgate.apiserver.request import negotiation
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.state import ServerState

_NO_USER: Final = UserInfo("")
_EXTRA_SPACE_WARNING: Final = (
    "the provided Authorization header contains extra space before the bearer token, and is ignored"
)
_NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")


class AccessResult(msgspec.Struct, frozen=True):
    """``login`` is the user of the credentials. ``user`` is the user for whom the request is executed; it differs only
    with impersonation.

    ``refusal``: the response to a request that is not allowed. ``decision``: that of the authorizer, if it was called.
    """

    user: UserInfo
    login: UserInfo
    refusal: ServerResponse | None = None
    decision: AuthorizationDecision | None = None
    warning: str = ""


def authenticate_and_authorize(api: ServerState, request: ServerRequest, now_s: float) -> AccessResult:
    access = _check_access(api, request, now_s)
    if access.login in (ANONYMOUS_USER, _NO_USER) and has_extra_space_before_token(request.header("authorization")):
        return msgspec.structs.replace(access, warning=_EXTRA_SPACE_WARNING)
    return access


def unauthenticated(request: ServerRequest, error: api_errors.StatusError) -> AccessResult:
    """The result for a request that is refused before its credentials are checked."""
    return AccessResult(_NO_USER, _NO_USER, _refuse(request, error))


def _check_access(api: ServerState, request: ServerRequest, now_s: float) -> AccessResult:
    login = authenticate(api.tokens, request, now_s)
    if login is None:
        return unauthenticated(request, api_errors.unauthorized())
    user = login
    if impersonation.is_requested(request):
        impersonated = impersonation.impersonate(api.authorizer, request, login)
        if isinstance(impersonated, api_errors.StatusError):
            return AccessResult(login, login, _refuse(request, impersonated, _NO_SNIFF))
        user = impersonated
    if user.is_in_system_masters:
        return AccessResult(user, login)
    attributes = attributes_of(request.info, user.name)
    decision = api.authorizer.decide(user, attributes)
    if decision.allowed:
        return AccessResult(user, login, None, decision)
    refusal = _refuse(request, api_errors.access_denied(attributes, decision.reason), _NO_SNIFF)
    return AccessResult(user, login, refusal, decision)


def _refuse(request: ServerRequest, error: api_errors.StatusError, *headers: tuple[str, str]) -> ServerResponse:
    output = negotiation.output(request.header("accept"))
    refusal = responses.refuse(error, None if isinstance(output, api_errors.StatusError) else output)
    return msgspec.structs.replace(refusal, headers=(*refusal.headers, *headers))
