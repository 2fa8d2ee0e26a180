"""Which requests a custom kind does not serve, and the error for them.

kube-apiserver registers no routes for custom kinds: a path that is not served is 404, and a verb that is not supported
is refused by the handler of the verb. Therefore the responses differ from those of built-in kinds (``routes.py``).
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.request_info import RequestInfo

_ACROSS_NAMESPACES: Final = frozenset({"list", "watch"})
_VERBS: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})


def is_wrong_scope(info: RequestInfo, kind: ServedKind) -> bool:
    """Whether the path has another scope than the kind."""
    if kind.namespaced == bool(info.namespace):
        return False
    return not kind.namespaced or info.verb not in _ACROSS_NAMESPACES


def refusal(info: RequestInfo, kind: ServedKind) -> api_errors.StatusError | None:
    resource = api_errors.GroupResource(kind.group, kind.plural)
    verbs = _VERBS
    if info.subresource:
        subresource = kind.subresource(info.subresource)
        if subresource is None:
            return api_errors.not_found(resource, info.name)
        verbs = frozenset(subresource.verbs)
    if info.verb not in verbs:
        return api_errors.method_not_supported(resource, info.verb)
    if not info.name and info.verb in ("update", "patch"):
        return api_errors.bad_request("name must be provided")
    return None
