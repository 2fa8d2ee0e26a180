"""Which methods a path of a built-in kind supports.

kube-apiserver has a route for each path and method; this is the same table, computed from the served kind. A path
without a route is 404, a route without the method is 405. ``apiserver/request/request_info.py`` has parsed the request
before. ``apiserver/request/custom_routes.py`` has the rules of custom kinds.
"""

from __future__ import annotations

from typing import Final, Literal

from headgate.apimachinery import api_errors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.request.request_info import PROXY, WATCH, RequestInfo

PathForm = Literal["collection", "object", "subresource"]

# Methods and their verbs, in the order of kube-apiserver's routes.
_COLLECTION: Final = (("GET", "list"), ("POST", "create"), ("DELETE", "deletecollection"))
_ALL_NAMESPACES: Final = _COLLECTION[:1]
_OBJECT: Final = (("GET", "get"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete"))
_SUBRESOURCE: Final = (*_OBJECT, ("POST", "create"))
# The methods of a proxy path.
_PROXIED: Final = frozenset({"GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS"})


def refusal(info: RequestInfo, kind: ServedKind) -> api_errors.StatusError | None:
    """The error if this request is not served."""
    scheme = path_form(info, kind)
    methods = frozenset[str]() if scheme is None else methods_of(info, kind, scheme)
    if not methods:
        return api_errors.unknown_path()
    if info.method not in methods:
        return api_errors.method_not_allowed()
    if scheme != "collection" and not info.name:
        return api_errors.bad_request("name must be provided")
    return None


def path_form(info: RequestInfo, kind: ServedKind) -> PathForm | None:
    """The form of the path; ``None`` if the kind has no such path."""
    segments = info.segments
    if kind.namespaced and segments[0] == "namespaces":
        segments = segments[2:]
    elif kind.namespaced and len(segments) > 1:
        return None
    match segments:
        case (kind.plural,):
            return "collection"
        case (kind.plural, _):
            return "object"
        case (kind.plural, _, subresource, *rest) if kind.subresource(subresource) is not None:
            return "subresource" if not rest or subresource == PROXY else None
    return None


def methods_of(info: RequestInfo, kind: ServedKind, form: PathForm) -> frozenset[str]:
    """The methods of a path; empty if there is no such path."""
    if info.verb_in_path:
        watched = info.verb == WATCH and WATCH in kind.verbs and form != "subresource"
        return frozenset({"GET"}) if watched else frozenset()
    if form == "subresource":
        subresource = kind.subresource(info.subresource)
        if info.subresource == PROXY:
            return _PROXIED
        return _methods(_SUBRESOURCE, () if subresource is None else subresource.verbs)
    if form == "object":
        return _methods(_OBJECT, kind.verbs)
    is_all_namespaces = kind.namespaced and info.segments[0] != "namespaces"
    return _methods(_ALL_NAMESPACES if is_all_namespaces else _COLLECTION, kind.verbs)


def _methods(rows: tuple[tuple[str, str], ...], verbs: tuple[str, ...]) -> frozenset[str]:
    return frozenset(method for method, verb in rows if verb in verbs)
