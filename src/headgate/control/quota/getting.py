"""One object by name; what is refused is said with the right that is missing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.client.listing import ACCEPT, Refused, what_it_said
from headgate.client.transport import Request, Response
from headgate.kube import wire_json
from headgate.kube.resource import Resource

Wire = dict[str, Any]

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_decode: Final = wire_json.Decoder(dict[str, Any]).decode


def get(resource: Resource, what: str, namespace: str, name: str) -> Generator[Request, Response, Wire | Refused]:
    """``what``: how people call it."""
    answer = yield Request("GET", resource.object(namespace, name), "", ACCEPT)
    if answer.status == _NOT_FOUND:
        return Refused(f"there is no {what} {name} in namespace {namespace}", answer.status)
    if answer.status == _FORBIDDEN:
        named = resource.plural + (f".{resource.group}" if resource.group else "")
        return Refused(f"missing right: get {named} in namespace {namespace}: {what_it_said(answer)}", answer.status)
    if not answer.ok:
        return Refused(what_it_said(answer), answer.status)
    try:
        return _decode(answer.body)
    except msgspec.DecodeError as error:
        return Refused(f"the server sent what is not a {what}: {error}")
