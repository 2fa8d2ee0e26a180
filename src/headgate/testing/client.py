"""A small client for tests: synchronous, with the kinds that the cluster serves.

A kind is named by its kind alone (``Pod``), or with its version (``batch/v1/Job``) if several groups have it. A request
that is refused raises :class:`RequestRefused`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.write_status import message_of
from headgate.controllers.framework.discovery import DiscoveredKind, DiscoveredKinds
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query

Object = dict[str, Any]

_AGGREGATED: Final = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
_PATCH_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_MANAGER: Final = "headgate-testing"
_NOT_FOUND: Final = 404


class RequestRefused(Exception):
    """The server refused a request. ``status`` is the HTTP status, ``reason`` that of the Status object."""

    def __init__(self, request: HTTPRequest, response: HTTPResponse) -> None:
        self.status: Final = response.status
        self.reason: Final = _reason_of(response.body)
        super().__init__(f"{request.method} {request.path}: {response.status}: {message_of(response)}")


class UnknownKind(LookupError):
    """No kind of the cluster has this name, or several have it."""


class ClusterClient:
    def __init__(self, send: Callable[[HTTPRequest], HTTPResponse]) -> None:
        """``send`` waits for the response."""
        self._send: Final = send
        self._kinds = DiscoveredKinds()

    # -- objects ---------------------------------------------------------------------------------------------------

    def create(self, obj: Mapping[str, Any], namespace: str = "default") -> Object:
        """``namespace`` is for objects without ``metadata.namespace``."""
        found = self._kind_of(obj)
        path = found.resource.collection_path(_namespace_of(obj, namespace))
        return self._object(self.request("POST", path, obj))

    def apply(self, obj: Mapping[str, Any], namespace: str = "default", manager: str = _MANAGER) -> Object:
        """A forced server-side apply: it creates the object, or sets its fields."""
        found = self._kind_of(obj)
        path = found.resource.object_path(_namespace_of(obj, namespace), obj["metadata"]["name"])
        query = {"fieldManager": manager, "force": "true"}
        return self._object(self.request("PATCH", path, obj, query, "application/apply-patch+yaml"))

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        return self._object(self.request("GET", self.find_kind(kind).resource.object_path(namespace, name)))

    def find(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """None if there is no such object."""
        try:
            return self.get(kind, name, namespace)
        except RequestRefused as refused:
            if refused.status != _NOT_FOUND:
                raise
            return None

    def list(
        self, kind: str, namespace: str | None = "default", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Object]:
        """``namespace``: None for all namespaces."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: text for name, text in selectors.items() if text}
        path = self.find_kind(kind).resource.collection_path(namespace)
        items: list[Object] = self._object(self.request("GET", path, query=query)).get("items") or []
        return items

    def patch(
        self,
        kind: str,
        name: str,
        changes: Any,
        namespace: str = "default",
        *,
        patch_type: str = "merge",
        subresource: str = "",
    ) -> Object:
        """``patch_type``: merge, strategic or json."""
        path = self.find_kind(kind).resource.object_path(namespace, name, subresource)
        return self._object(self.request("PATCH", path, changes, content_type=_PATCH_TYPES[patch_type]))

    def delete(self, kind: str, name: str, namespace: str = "default", *, grace_period_s: int | None = None) -> None:
        options = {} if grace_period_s is None else {"gracePeriodSeconds": grace_period_s}
        self.request("DELETE", self.find_kind(kind).resource.object_path(namespace, name), options)

    # -- requests --------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Any request; the body is sent as JSON. Returns the body of the response."""
        headers = {"accept": "application/json"} | ({"content-type": content_type} if body is not None else {})
        encoded = b"" if body is None else msgspec.json.encode(body)
        request = HTTPRequest(method, path, encode_query(query or {}), headers, encoded)
        response = self._send(request)
        if not response.ok:
            raise RequestRefused(request, response)
        return response.body

    def find_kind(self, name: str) -> DiscoveredKind:
        """Raises :class:`UnknownKind`."""
        for is_last in (False, True):
            with contextlib.suppress(LookupError):
                return self._look_up(name)
            if not is_last:
                self._discover()
        return self._look_up(name)

    def _look_up(self, name: str) -> DiscoveredKind:
        api_version, _, kind = name.rpartition("/")
        if api_version:
            found = self._kinds.find(api_version, kind)
            if found is None:
                raise UnknownKind(f"the cluster does not serve {name}; write it as batch/v1/Job")
            return found
        same = [each for each in self._kinds.preferred if each.kind == kind and "create" in each.verbs]
        same = [each for each in same if each.resource.group != "events.k8s.io"] or same
        if len(same) != 1:
            choices = ", ".join(f"{each.api_version}/{each.kind}" for each in same)
            raise UnknownKind(
                f"several groups have the kind {name}: {choices}" if same else f"no kind {name} is served"
            )
        return same[0]

    def _kind_of(self, obj: Mapping[str, Any]) -> DiscoveredKind:
        return self.find_kind(f"{obj['apiVersion']}/{obj['kind']}")

    def _discover(self) -> None:
        documents = []
        for path in ("/api", "/apis"):
            request = HTTPRequest("GET", path, "", _AGGREGATED)
            response = self._send(request)
            if not response.ok:
                raise RequestRefused(request, response)
            documents.append(self._object(response.body))
        self._kinds = DiscoveredKinds.read(documents)

    def _object(self, body: bytes) -> Object:
        return msgspec.json.decode(body, type=dict[str, Any])


def _namespace_of(obj: Mapping[str, Any], default: str) -> str:
    namespace: str = obj["metadata"].get("namespace") or default
    return namespace


def _reason_of(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    return found.get("reason", "") if isinstance(found, dict) else ""
