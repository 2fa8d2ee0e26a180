"""Writes as requests. Each names its object by uid, so that a successor of the same name is left alone. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from headgate.client.transport import Request
from headgate.kube.resource import PODS, Resource

Object = dict[str, Any]
How = Literal["merge", "strategic", "json"]

ACCEPT: Final = {"accept": "application/json"}
JSON: Final = {**ACCEPT, "content-type": "application/json"}
PATCHES: Final[dict[How, dict[str, str]]] = {
    "merge": {**ACCEPT, "content-type": "application/merge-patch+json"},
    "strategic": {**ACCEPT, "content-type": "application/strategic-merge-patch+json"},
    "json": {**ACCEPT, "content-type": "application/json-patch+json"},
}
_encode: Final = msgspec.json.Encoder().encode


def create(resource: Resource, namespace: str, obj: Object) -> Request:
    return Request("POST", resource.collection(namespace), "", JSON, _encode(obj))


def patch(
    resource: Resource, namespace: str, name: str, uid: str, body: Object, how: How = "merge", subresource: str = ""
) -> Request:
    """A merge or strategic patch of the object with this uid; ``subresource`` is ``status`` for its status."""
    metadata = {**(body.get("metadata") or {}), "uid": uid}
    path = resource.object(namespace, name, subresource)
    return Request("PATCH", path, "", PATCHES[how], _encode({**body, "metadata": metadata}))


def patch_steps(
    resource: Resource, namespace: str, name: str, uid: str, steps: list[Object], subresource: str = ""
) -> Request:
    """A JSON patch, whose first step tests the uid."""
    test = {"op": "test", "path": "/metadata/uid", "value": uid}
    path = resource.object(namespace, name, subresource)
    return Request("PATCH", path, "", PATCHES["json"], _encode([test, *steps]))


def bind(namespace: str, name: str, uid: str, node: str) -> Request:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node},
    }
    return Request("POST", PODS.object(namespace, name, "binding"), "", JSON, _encode(body))


def evict(namespace: str, name: str, uid: str, grace_s: int | None = None) -> Request:
    options: Object = {"preconditions": {"uid": uid}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    }
    return Request("POST", PODS.object(namespace, name, "eviction"), "", JSON, _encode(body))


def delete(resource: Resource, namespace: str, name: str, uid: str, options: Object | None = None) -> Request:
    body = {**(options or {}), "preconditions": {"uid": uid}}
    return Request("DELETE", resource.object(namespace, name), "", JSON, _encode(body))
