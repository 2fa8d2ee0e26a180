"""A user: a name, groups, and the extra fields of the credential.

Names and groups that begin with ``system:`` belong to Kubernetes. Users are not stored: there are no user objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import names

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"

_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"


class UserInfo(msgspec.Struct, frozen=True):
    """``extra``: further fields for authorizers and webhooks, such as the pod of a token."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_in_system_masters(self) -> bool:
        """Whether the user is in ``system:masters``, whose members may do everything."""
        return MASTERS in self.groups

    def info(self) -> dict[str, Any]:
        """The ``UserInfo`` in reviews, webhooks and audit events."""
        out: dict[str, Any] = {}
        if self.name:
            out["username"] = self.name
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return out


ANONYMOUS_USER: Final = UserInfo(ANONYMOUS, (UNAUTHENTICATED,))


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    return _ACCOUNTS, f"{_ACCOUNTS}:{namespace}"


def split_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account with this user name; None for other users."""
    if not user_name.startswith(_ACCOUNT_PREFIX):
        return None
    parts = user_name.removeprefix(_ACCOUNT_PREFIX).split(":")
    if len(parts) != 2 or names.name_is_dns_label(parts[0], False) or names.name_is_dns_subdomain(parts[1], False):
        return None
    return parts[0], parts[1]


def authenticated(user: UserInfo) -> UserInfo:
    """``user`` with the group of all authenticated users."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
