"""Reads one object by name; a refusal is reported with the missing permission."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.client.pager import ACCEPT, ListRefused, refusal_message
from headgate.client.permissions import NOT_FOUND, refusal_text, resource_name
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json

Wire = dict[str, Any]

NOT_SERVED: Final = 0
"""The status of a :class:`ListRefused` for a kind that is not served: whether the object exists is unknown."""

_decode: Final = wire_json.WireDecoder(dict[str, Any]).decode


def get_object(
    resource: APIResource, kind: str, namespace: str, name: str
) -> Generator[HTTPRequest, HTTPResponse, Wire | ListRefused]:
    """``kind``: its name in messages."""
    response = yield HTTPRequest("GET", resource.object_path(namespace, name), "", ACCEPT)
    if response.status == NOT_FOUND:
        if not _names_object(response.body):
            return ListRefused(f"this cluster has no {resource_name(resource)}", NOT_SERVED)
        where = f" in namespace {namespace}" if resource.namespaced else ""
        return ListRefused(f"there is no {kind} {name}{where}", response.status)
    if not response.ok:
        refused = ListRefused(refusal_message(response), response.status)
        return ListRefused(refusal_text("get", resource, namespace, refused), response.status)
    try:
        return _decode(response.body)
    except msgspec.DecodeError as error:
        return ListRefused(f"the server sent an invalid {kind}: {error}")


def _names_object(body: bytes) -> bool:
    """Whether a 404 is about the object: then its Status names the object. A path that is not served has no name."""
    try:
        details = _decode(body).get("details")
    except msgspec.DecodeError:
        return False
    return isinstance(details, dict) and bool(details.get("name"))
