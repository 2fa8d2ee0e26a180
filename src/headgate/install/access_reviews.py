"""Which rights of a list the user lacks, by SelfSubjectAccessReviews: asked before the first write, so that a command
does not stop in the middle.

A right for all namespaces, or for all names, is asked for first; the narrower ones only if it is refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.permissions import resource_name
from headgate.client.write_requests import JSON
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json

REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class AccessRight(msgspec.Struct, frozen=True):
    """The right to one request. ``namespace``: empty for a cluster-scoped resource, or for all namespaces; ``name``:
    empty for all objects."""

    verb: str
    resource: APIResource
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource_name(self.resource)}{named}{where}"


class UnknownRights(msgspec.Struct, frozen=True):
    """The server did not answer the reviews. ``text``: why."""

    text: str


def right_of(request: HTTPRequest) -> AccessRight:
    """The right that a request for one object, or for a collection, needs."""
    root, *rest = request.path.strip("/").split("/")
    group = rest.pop(0) if root == "apis" else ""
    version = rest.pop(0)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace = unquote(rest[1])
        rest = rest[2:]
    resource = APIResource(group, version, rest[0], namespaced=bool(namespace))
    name = unquote(rest[1]) if len(rest) > 1 else ""
    verb = "list" if request.method == "GET" and not name else _VERBS[request.method]
    return AccessRight(verb, resource, namespace, name)


def missing_rights(
    rights: Iterable[AccessRight],
) -> Generator[DelayedRequest, HTTPResponse, list[AccessRight] | UnknownRights]:
    """Those that the user lacks, without the names of objects."""
    by_place: dict[tuple[str, str, str, str, bool], dict[str, dict[str, AccessRight]]] = {}
    for right in rights:
        resource = right.resource
        kind = right.verb, resource.group, resource.version, resource.plural, resource.namespaced
        by_place.setdefault(kind, {}).setdefault(right.namespace, {})[right.name] = right
    missing: list[AccessRight] = []
    for (verb, *_), namespaces in by_place.items():
        resource = next(iter(next(iter(namespaces.values())).values())).resource
        everywhere = yield from _allows(AccessRight(verb, resource))
        if isinstance(everywhere, UnknownRights):
            return everywhere
        for namespace, names in () if everywhere else namespaces.items():
            lacking = yield from _lacking_in_namespace(AccessRight(verb, resource, namespace), names)
            if isinstance(lacking, UnknownRights):
                return lacking
            missing += lacking
    return missing


def _lacking_in_namespace(
    general: AccessRight, names: dict[str, AccessRight]
) -> Generator[DelayedRequest, HTTPResponse, list[AccessRight] | UnknownRights]:
    # Without a namespace the question has been asked already.
    allowed = (yield from _allows(general)) if general.namespace else False
    if isinstance(allowed, UnknownRights):
        return allowed
    for name, right in () if allowed else names.items():
        by_name = (yield from _allows(right)) if name else False
        if isinstance(by_name, UnknownRights):
            return by_name
        if not by_name:
            return [general]
    return []


def _allows(right: AccessRight) -> Generator[DelayedRequest, HTTPResponse, bool | UnknownRights]:
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "version": right.resource.version,
        "resource": right.resource.plural,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    response = yield DelayedRequest(HTTPRequest("POST", REVIEWS, "", JSON, msgspec.json.encode(body)))
    if not response.ok:
        return UnknownRights(f"the rights of this user are not known: {response.status}: {message_of(response)}")
    review = wire_json.WireDecoder(dict[str, Any]).decode(response.body)
    return bool(review["status"].get("allowed"))
