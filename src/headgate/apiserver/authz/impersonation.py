"""Impersonation: the ``Impersonate-*`` headers.

Each impersonated attribute (user, group, uid, extra) needs the verb ``impersonate`` on it. The resulting user has the
requested groups and no others, except the group that every authenticated user is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import msgspec

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.authn.user import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    UserInfo,
    account_groups,
    split_account,
)
from headgate.apiserver.authz.rbac import RBACAuthorizer
from headgate.apiserver.request.messages import ServerRequest

_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"


class _ImpersonatedAttribute(msgspec.Struct, frozen=True):
    """One impersonated attribute."""

    kind: str
    name: str
    namespace: str = ""
    key: str = ""

    @property
    def group(self) -> str:
        return _AUTHENTICATION if self.kind in ("UserExtra", "UID") else ""

    def attributes(self, user: UserInfo) -> AuthorizationAttributes:
        resource = _RESOURCES[self.kind]
        return AuthorizationAttributes(
            user.name, "impersonate", self.group, resource, self.key, self.namespace, self.name
        )

    def __str__(self) -> str:
        """The text in a refusal: an object reference, field by field."""
        version = f"{self.group}/v1" if self.group else ""
        return f"{{{self.kind} {self.namespace} {self.name}  {version}  {self.key}}}"


_RESOURCES: Final = {
    "User": "users",
    "ServiceAccount": "serviceaccounts",
    "Group": "groups",
    "UserExtra": "userextras",
    "UID": "uids",
}


def is_requested(request: ServerRequest) -> bool:
    return any(name.startswith("impersonate-") for name in request.headers)


def impersonate(
    authorizer: RBACAuthorizer, request: ServerRequest, user: UserInfo
) -> UserInfo | api_errors.StatusError:
    """The impersonated user; ``user`` itself if there is no such header."""
    attributes = list(_impersonated_attributes(request))
    if not attributes:
        return user
    name = request.header("impersonate-user")
    if not name:
        return api_errors.bad_request(f"requested [{' '.join(map(str, attributes))}] without impersonating a user")
    for attribute in attributes:
        authorization = attribute.attributes(user)
        decision = authorizer.decide(user, authorization)
        if not decision.allowed:
            return api_errors.access_denied(authorization, decision.reason)
    return UserInfo(
        name,
        _groups(name, tuple(attribute.name for attribute in attributes if attribute.kind == "Group")),
        request.header("impersonate-uid"),
        _extra(attributes),
    )


def _impersonated_attributes(request: ServerRequest) -> Iterator[_ImpersonatedAttribute]:
    name = request.header("impersonate-user")
    account = split_account(name)
    if account is not None:
        yield _ImpersonatedAttribute("ServiceAccount", account[1], account[0])
    elif name:
        yield _ImpersonatedAttribute("User", name)
    for group in request.header_values("impersonate-group"):
        yield _ImpersonatedAttribute("Group", group)
    for header in request.headers:
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            for value in request.header_values(header):
                yield _ImpersonatedAttribute("UserExtra", value, key=key)
    if uid := request.header("impersonate-uid"):
        yield _ImpersonatedAttribute("UID", uid)


def _groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    account = split_account(name)
    if not groups and account is not None:
        groups = account_groups(account[0])
    if name == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _extra(attributes: list[_ImpersonatedAttribute]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for attribute in attributes:
        if attribute.kind == "UserExtra":
            extra[attribute.key] = (*extra.get(attribute.key, ()), attribute.name)
    return extra
