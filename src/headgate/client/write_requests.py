"""Builds the HTTP requests of all writes: method, path, headers and body. Pure.

``client/io/writer.py`` sends the writes of the scheduler and of the autoscaler models; ``runtime/effect_requests.py``
and ``nodes/effect_requests.py`` translate the effects of controllers and hollow kubelets with these functions. A write
has the uid of its object as a precondition, so that a later object of the same name is not changed. With an empty
``uid`` there is no precondition.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from headgate.http.transport import HTTPRequest, encode_query
from headgate.kube.api_resources import PODS, APIResource

Object = dict[str, Any]
PatchType = Literal["merge", "strategic", "json"]

ACCEPT: Final = {"accept": "application/json"}
JSON: Final = {**ACCEPT, "content-type": "application/json"}
PATCH_HEADERS: Final[dict[PatchType, dict[str, str]]] = {
    "merge": {**ACCEPT, "content-type": "application/merge-patch+json"},
    "strategic": {**ACCEPT, "content-type": "application/strategic-merge-patch+json"},
    "json": {**ACCEPT, "content-type": "application/json-patch+json"},
}
_APPLY: Final = {**ACCEPT, "content-type": "application/apply-patch+yaml"}
_encode: Final = msgspec.json.Encoder().encode


def create(resource: APIResource, namespace: str, obj: Object) -> HTTPRequest:
    return HTTPRequest("POST", resource.collection_path(namespace), "", JSON, _encode(obj))


def update(resource: APIResource, namespace: str, name: str, obj: Object, subresource: str = "") -> HTTPRequest:
    """Replaces the object; its ``resourceVersion`` decides whether it may."""
    return HTTPRequest("PUT", resource.object_path(namespace, name, subresource), "", JSON, _encode(obj))


def patch(
    resource: APIResource,
    namespace: str,
    name: str,
    uid: str,
    body: Object,
    patch_type: PatchType = "merge",
    subresource: str = "",
) -> HTTPRequest:
    """A merge or strategic patch of the object with this uid; ``subresource`` is ``status`` for its status."""
    if uid:
        body = {**body, "metadata": {**(body.get("metadata") or {}), "uid": uid}}
    path = resource.object_path(namespace, name, subresource)
    return HTTPRequest("PATCH", path, "", PATCH_HEADERS[patch_type], _encode(body))


def apply(resource: APIResource, namespace: str, name: str, obj: Object, manager: str) -> HTTPRequest:
    """A forced server-side apply: sets these fields for ``manager``, also if other managers own them."""
    query = encode_query({"fieldManager": manager, "force": "true"})
    return HTTPRequest("PATCH", resource.object_path(namespace, name), query, _APPLY, _encode(obj))


def json_patch(
    resource: APIResource, namespace: str, name: str, uid: str, operations: list[Object], subresource: str = ""
) -> HTTPRequest:
    """A JSON patch, whose first step tests the uid."""
    test = {"op": "test", "path": "/metadata/uid", "value": uid}
    path = resource.object_path(namespace, name, subresource)
    return HTTPRequest("PATCH", path, "", PATCH_HEADERS["json"], _encode([test, *operations]))


def bind(namespace: str, name: str, uid: str, node: str) -> HTTPRequest:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node},
    }
    return HTTPRequest("POST", PODS.object_path(namespace, name, "binding"), "", JSON, _encode(body))


def evict(namespace: str, name: str, uid: str, grace_s: int | None = None) -> HTTPRequest:
    options: Object = {"preconditions": {"uid": uid}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    }
    return HTTPRequest("POST", PODS.object_path(namespace, name, "eviction"), "", JSON, _encode(body))


def delete(resource: APIResource, namespace: str, name: str, uid: str, options: Object | None = None) -> HTTPRequest:
    body = {**(options or {}), "preconditions": {"uid": uid}} if uid else options or {}
    return HTTPRequest("DELETE", resource.object_path(namespace, name), "", JSON, _encode(body))


def delete_collection(resource: APIResource, namespace: str, options: Object) -> HTTPRequest:
    return HTTPRequest("DELETE", resource.collection_path(namespace), "", JSON, _encode(options))
