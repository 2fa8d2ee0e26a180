"""Which requests a custom kind does not answer, and how that is said.

Custom kinds are not on the list of paths that the real server makes for built-in ones: what is not served is not
there at all, and what cannot be done is refused by the verb. Clients see it in the answers.
"""

from __future__ import annotations

from headgate.apiserver.kinds.kind import Kind
from headgate.apiserver.routes import Route
from headgate.kube import status


def is_elsewhere(route: Route, kind: Kind, method: str) -> bool:
    """Whether the path is none of this kind's: another scope than its own."""
    if kind.namespaced == bool(route.namespace):
        return False
    return not kind.namespaced or bool(route.name) or method != "GET"


def refusal(route: Route, kind: Kind, verb: str) -> status.ApiError | None:
    resource = status.GroupResource(kind.group, kind.plural)
    if route.subresource:
        row = kind.subresource(route.subresource)
        if row is None:
            return status.not_found(resource, route.name)
        return None if verb in row.verbs else status.method_not_supported(resource, verb)
    if not route.name and verb in ("update", "patch"):
        return status.internal_error("name must be provided")
    return None
