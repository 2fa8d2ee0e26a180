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
"""The status of a :class:`ListRefused` for a kind that the server does not serve: nothing is said about the object."""

_decode: Final = wire_json.WireDecoder(dict[str, Any]).decode


def get_object(
    resource: APIResource, what: str, namespace: str, name: str
) -> Generator[HTTPRequest, HTTPResponse, Wire | ListRefused]:
    """``what``: how people call it."""
    answer = yield HTTPRequest("GET", resource.object_path(namespace, name), "", ACCEPT)
    if answer.status == NOT_FOUND:
        if not _names_object(answer.body):
            return ListRefused(f"this cluster has no {resource_name(resource)}", NOT_SERVED)
        where = f" in namespace {namespace}" if resource.namespaced else ""
        return ListRefused(f"there is no {what} {name}{where}", answer.status)
    if not answer.ok:
        refused = ListRefused(refusal_message(answer), answer.status)
        return ListRefused(refusal_text("get", resource, namespace, refused), answer.status)
    try:
        return _decode(answer.body)
    except msgspec.DecodeError as error:
        return ListRefused(f"the server sent what is not a {what}: {error}")


def _names_object(body: bytes) -> bool:
    """Whether a 404 is about the object: its Status names it. One about a path that is not served does not."""
    try:
        details = _decode(body).get("details")
    except msgspec.DecodeError:
        return False
    return isinstance(details, dict) and bool(details.get("name"))
