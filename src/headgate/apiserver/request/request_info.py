"""What a request is: its verb, resource, subresource, name and namespace, by the rules of kube-apiserver.

Only this module derives them from the method and the path. Authorization, audit, the request deadline, the
limits on requests in flight, routing (``apiserver/request/routes.py``) and execution (``apiserver/handler.py``) all use
the same :class:`RequestInfo`, so that no request is authorized as one thing and executed as another.

This module does not check whether the resource exists: a caller without permissions must not learn that.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import msgspec

from headgate.apiserver.request import options

_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
WATCH: Final = "watch"
PROXY: Final = "proxy"
_PATH_VERBS: Final = frozenset({PROXY, WATCH})
# The last two are verbs of non-resource requests.
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection", "post", "put"})
_LONG_RUNNING_VERBS: Final = frozenset({PROXY, WATCH})
_LONG_RUNNING_SUBRESOURCES: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True):
    """One request in the terms of the API.

    ``path`` is decoded. ``verb`` is the API's verb for a resource request, else the method in lower case. ``name`` is
    the one in the path, or for a list and a watch the one that the field selector requires. ``namespace`` is the one
    in the path; the namespace of a Namespace is its own name. ``segments`` is the path below the group version, without
    the verb at the start of a deprecated path (``verb_in_path``). With a ``problem``, the other fields are not set.
    """

    method: str
    path: str
    verb: str
    is_resource_request: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    segments: tuple[str, ...] = ()
    verb_in_path: bool = False
    problem: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb in _WRITES

    @property
    def has_route(self) -> bool:
        """Whether the path is served at all. ``//api/v1`` and ``/apis//v1`` are authorized like ``/api/v1``, but
        kube-apiserver has no route for them."""
        return not self.path.startswith(("//", "/apis//"))

    @property
    def is_long_running(self) -> bool:
        """Whether the response may be a stream, which has no request deadline."""
        return self.verb in _LONG_RUNNING_VERBS or self.subresource in _LONG_RUNNING_SUBRESOURCES


def request_info(method: str, raw_path: str, query: str = "") -> RequestInfo:
    path = unquote(raw_path, errors="surrogateescape")
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return RequestInfo(method, path, method.lower())
    verb_in_path = rest[0] in _PATH_VERBS
    if verb_in_path and len(rest) == 1:
        url = f"{raw_path}?{query}" if query else raw_path
        return RequestInfo(method, path, "", problem=f"unable to determine kind and namespace from url, {url}")
    verb = rest[0] if verb_in_path else _VERBS.get(method, "")
    segments = parts = rest[1:] if verb_in_path else rest
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource, *_ = (*parts, "", "")
    if not name and verb == "get":
        parsed_query = options.parse_query(query)
        verb = WATCH if options.wants_watch(parsed_query) else "list"
        name = options.selected_name(parsed_query)
    if not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(
        method=method,
        path=path,
        verb=verb,
        is_resource_request=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource="" if verb == PROXY else subresource,
        name=name,
        segments=tuple(segments),
        verb_in_path=verb_in_path,
    )
