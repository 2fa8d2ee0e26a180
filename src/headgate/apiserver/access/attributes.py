"""What a request is about, in the terms of authorization: a verb on a resource, or on a path.

Read off the path alone, before anybody asks whether such a resource exists: an answer to somebody without rights must
not tell. ``apiserver/routes.py`` splits the same paths for those who may go on.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from headgate.apiserver import options
from headgate.apiserver.messages import Request
from headgate.kube.status import Attributes

_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SPECIAL_VERBS: Final = ("proxy", "watch")
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")


def attributes_of(request: Request, user: str) -> Attributes:
    path = unquote(request.path, errors="surrogateescape")
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            return _resource(request, user, "", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _resource(request, user, group, version, rest)
    return Attributes(user, request.method.lower(), path=path)


def _resource(request: Request, user: str, group: str, version: str, parts: list[str]) -> Attributes:
    verb = _VERBS.get(request.method, "")
    if parts[0] in _SPECIAL_VERBS and len(parts) > 1:
        verb, *parts = parts
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource, *_ = (*parts, "", "")
    if verb == "proxy":
        subresource = ""
    if not name and verb == "get":
        query = options.parse_query(request.query)
        verb = "watch" if options.wants_watch(query) else "list"
        name = options.one_name(query)
    if not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(user, verb, group, resource, subresource, namespace, name, version=version)
