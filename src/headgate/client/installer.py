"""Installs CustomResourceDefinitions and initial objects on any API server; existing objects stay as they are.

A definition is installed by server-side apply: it is created, or updated regardless of its creator, and not written if
it is up to date. A new kind is served shortly after its definition was created, and the installer waits for that: the
condition Established comes first, and until its storage is initialized kube-apiserver still answers 429. Pure: it
yields requests and delays and is sent responses; the caller sends and sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.client import pager
from headgate.client.permissions import refusal_text
from headgate.client.write_requests import ACCEPT, create
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.serializer import wire_json

Object = dict[str, Any]
What = Literal["created", "configured", "unchanged", "left as it is"]
Adapt = Callable[[Object, Object | None], Object | None]
"""What to bring, given what is there already; None leaves that as it is."""

MANAGER: Final = "headgate"
_APPLY: Final = {**ACCEPT, "content-type": "application/apply-patch+yaml"}
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_NOT_SERVED_YET: Final = frozenset({_NOT_FOUND, 429, 503})
_LOOKS: Final = 100
_PAUSE_S: Final = 0.1


class InstallResult(msgspec.Struct, frozen=True):
    name: str
    what: What


class InstallRefused(msgspec.Struct, frozen=True):
    text: str


class DelayedRequest(msgspec.Struct, frozen=True):
    """A request, and how long to wait before it is sent."""

    request: HTTPRequest
    wait_s: float = 0.0


def _as_written(definition: Object, found: Object | None) -> Object | None:
    return definition


def install(
    definition: Object, adapt: Adapt = _as_written
) -> Generator[DelayedRequest, HTTPResponse, InstallResult | InstallRefused]:
    """Until its kind is served."""
    name = definition["metadata"]["name"]
    path = CUSTOM_RESOURCE_DEFINITIONS.object_path("", name)
    before = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT))
    if not before.ok and before.status != _NOT_FOUND:
        refused = pager.ListRefused(pager.refusal_message(before), before.status)
        why = refusal_text("get", CUSTOM_RESOURCE_DEFINITIONS, None, refused)
        return InstallRefused(f"CustomResourceDefinition {name}: whether it is there already cannot be seen: {why}")
    wanted = adapt(definition, _read(before) if before.ok else None)
    if wanted is None:
        return InstallResult(name, "left as it is")
    query = encode_query({"fieldManager": MANAGER, "force": "true"})
    answer = yield DelayedRequest(HTTPRequest("PATCH", path, query, _APPLY, msgspec.json.encode(wanted)))
    if not answer.ok:
        return InstallRefused(f"CustomResourceDefinition {name}: {message_of(answer)}")
    what: What = "created" if not before.ok else "configured"
    if before.ok and _read(before)["metadata"]["generation"] == _read(answer)["metadata"]["generation"]:
        what = "unchanged"
    for _ in range(_LOOKS):
        if _is_established(answer):
            break
        answer = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT), _PAUSE_S)
    else:
        return InstallRefused(f"CustomResourceDefinition {name}: its names are not accepted; see its conditions")
    if what == "unchanged":
        return InstallResult(name, what)
    for collection in _collections(wanted):
        pause_s = 0.0
        for _ in range(_LOOKS):
            listed = yield DelayedRequest(HTTPRequest("GET", collection, "limit=1", ACCEPT), pause_s)
            if listed.status not in _NOT_SERVED_YET:
                break  # 403 included: an account without rights on the objects may install their kind
            pause_s = _PAUSE_S
        else:
            return InstallRefused(f"CustomResourceDefinition {name}: {collection}: {pager.refusal_message(listed)}")
    return InstallResult(name, what)


def create_missing(
    resource: APIResource, objects: Iterable[Object]
) -> Generator[DelayedRequest, HTTPResponse, list[str] | InstallRefused]:
    """The names of those that were not there. A kind that was just made may be unknown to its server for a moment."""
    made: list[str] = []
    for obj in objects:
        name = obj["metadata"]["name"]
        found = yield DelayedRequest(HTTPRequest("GET", resource.object_path("", name), "", ACCEPT))
        if found.ok:
            continue
        answer = yield DelayedRequest(create(resource, "", obj))
        for _ in range(_LOOKS):
            if answer.status != _NOT_FOUND:
                break
            answer = yield DelayedRequest(create(resource, "", obj), _PAUSE_S)
        if answer.ok:
            made.append(name)
        elif answer.status != _CONFLICT:
            return InstallRefused(f"{obj['kind']} {name}: {message_of(answer)}")
    return made


def _collections(definition: Object) -> list[str]:
    spec = definition["spec"]
    root = f"/apis/{spec['group']}"
    return [f"{root}/{each['name']}/{spec['names']['plural']}" for each in spec["versions"] if each.get("served")]


def _is_established(answer: HTTPResponse) -> bool:
    conditions = (_read(answer).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def _read(answer: HTTPResponse) -> Object:
    return wire_json.WireDecoder(Object).decode(answer.body)
