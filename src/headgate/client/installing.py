"""Brings definitions of kinds, and first objects, to any API server; what is there already stays as it is.

A definition is applied on the server's side: it is created, or brought up to date whoever made it, and nothing is
written if it is so already. A new kind is served a moment after its definition was answered, and that moment is waited
for. Pure: requests and waits out, answers in; the caller sends and sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.client import listing
from headgate.client.outcome import message_of
from headgate.client.rights import refusal_text
from headgate.client.transport import Request, Response, encode_query
from headgate.client.writes import ACCEPT, create
from headgate.kube import wire_json
from headgate.kube.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource

Object = dict[str, Any]
What = Literal["created", "configured", "unchanged", "left as it is"]
Adapt = Callable[[Object, Object | None], Object | None]
"""What to bring, given what is there already; None leaves that as it is."""

MANAGER: Final = "headgate"
_APPLY: Final = {**ACCEPT, "content-type": "application/apply-patch+yaml"}
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_LOOKS: Final = 100
_PAUSE_S: Final = 0.1


class Installed(msgspec.Struct, frozen=True):
    name: str
    what: What


class Refused(msgspec.Struct, frozen=True):
    text: str


class Ask(msgspec.Struct, frozen=True):
    """A request, and how long to wait before it is sent."""

    request: Request
    wait_s: float = 0.0


def _as_written(definition: Object, found: Object | None) -> Object | None:
    return definition


def install(definition: Object, adapt: Adapt = _as_written) -> Generator[Ask, Response, Installed | Refused]:
    """Until its kind is served."""
    name = definition["metadata"]["name"]
    path = CUSTOM_RESOURCE_DEFINITIONS.object("", name)
    before = yield Ask(Request("GET", path, "", ACCEPT))
    if not before.ok and before.status != _NOT_FOUND:
        refused = listing.Refused(listing.what_it_said(before), before.status)
        why = refusal_text("get", CUSTOM_RESOURCE_DEFINITIONS, None, refused)
        return Refused(f"CustomResourceDefinition {name}: whether it is there already cannot be seen: {why}")
    wanted = adapt(definition, _read(before) if before.ok else None)
    if wanted is None:
        return Installed(name, "left as it is")
    query = encode_query({"fieldManager": MANAGER, "force": "true"})
    answer = yield Ask(Request("PATCH", path, query, _APPLY, msgspec.json.encode(wanted)))
    if not answer.ok:
        return Refused(f"CustomResourceDefinition {name}: {message_of(answer)}")
    what: What = "created" if not before.ok else "configured"
    if before.ok and _read(before)["metadata"]["generation"] == _read(answer)["metadata"]["generation"]:
        what = "unchanged"
    for _ in range(_LOOKS):
        if _is_served(answer):
            return Installed(name, what)
        answer = yield Ask(Request("GET", path, "", ACCEPT), _PAUSE_S)
    return Refused(f"CustomResourceDefinition {name}: its names are not accepted; see its conditions")


def create_missing(resource: Resource, objects: Iterable[Object]) -> Generator[Ask, Response, list[str] | Refused]:
    """The names of those that were not there. A kind that was just made may be unknown to its server for a moment."""
    made: list[str] = []
    for obj in objects:
        name = obj["metadata"]["name"]
        found = yield Ask(Request("GET", resource.object("", name), "", ACCEPT))
        if found.ok:
            continue
        answer = yield Ask(create(resource, "", obj))
        for _ in range(_LOOKS):
            if answer.status != _NOT_FOUND:
                break
            answer = yield Ask(create(resource, "", obj), _PAUSE_S)
        if answer.ok:
            made.append(name)
        elif answer.status != _CONFLICT:
            return Refused(f"{obj['kind']} {name}: {message_of(answer)}")
    return made


def _is_served(answer: Response) -> bool:
    conditions = (_read(answer).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def _read(answer: Response) -> Object:
    return wire_json.Decoder(Object).decode(answer.body)
