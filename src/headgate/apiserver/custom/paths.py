"""Which requests a custom kind does not answer, and how that is said.

Custom kinds are not on the list of paths that the real server makes for built-in ones: what is not served is not
there at all, and what cannot be done is refused by the verb. Clients see it in the answers.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.request_info import RequestInfo
from headgate.kube import status

_ACROSS_NAMESPACES: Final = frozenset({"list", "watch"})
_VERBS: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})


def is_elsewhere(info: RequestInfo, kind: Kind) -> bool:
    """Whether the path is none of this kind's: another scope than its own."""
    if kind.namespaced == bool(info.namespace):
        return False
    return not kind.namespaced or info.verb not in _ACROSS_NAMESPACES


def refusal(info: RequestInfo, kind: Kind) -> status.ApiError | None:
    resource = status.GroupResource(kind.group, kind.plural)
    verbs = _VERBS
    if info.subresource:
        row = kind.subresource(info.subresource)
        if row is None:
            return status.not_found(resource, info.name)
        verbs = frozenset(row.verbs)
    if info.verb not in verbs:
        return status.method_not_supported(resource, info.verb)
    if not info.name and info.verb in ("update", "patch"):
        return status.bad_request("name must be provided")
    return None
