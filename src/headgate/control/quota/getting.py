"""One object by name; what is refused is said with the right that is missing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.client.listing import ACCEPT, Refused, what_it_said
from headgate.client.rights import NOT_FOUND, refusal_text, resource_name
from headgate.client.transport import Request, Response
from headgate.kube import wire_json
from headgate.kube.resource import Resource

Wire = dict[str, Any]

NOT_SERVED: Final = 0
"""The status of a :class:`Refused` for a kind that the server does not serve: nothing is said about the object."""

_decode: Final = wire_json.Decoder(dict[str, Any]).decode


def get(resource: Resource, what: str, namespace: str, name: str) -> Generator[Request, Response, Wire | Refused]:
    """``what``: how people call it."""
    answer = yield Request("GET", resource.object(namespace, name), "", ACCEPT)
    if answer.status == NOT_FOUND:
        if not _names_object(answer.body):
            return Refused(f"this cluster has no {resource_name(resource)}", NOT_SERVED)
        where = f" in namespace {namespace}" if resource.namespaced else ""
        return Refused(f"there is no {what} {name}{where}", answer.status)
    if not answer.ok:
        refused = Refused(what_it_said(answer), answer.status)
        return Refused(refusal_text("get", resource, namespace, refused), answer.status)
    try:
        return _decode(answer.body)
    except msgspec.DecodeError as error:
        return Refused(f"the server sent what is not a {what}: {error}")


def _names_object(body: bytes) -> bool:
    """Whether a 404 is about the object: its Status names it. One about a path that is not served does not."""
    try:
        details = _decode(body).get("details")
    except msgspec.DecodeError:
        return False
    return isinstance(details, dict) and bool(details.get("name"))
