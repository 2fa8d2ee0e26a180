"""Installs CustomResourceDefinitions and initial objects on any API server; existing objects are not changed.

A definition is installed by server-side apply: it is created, or updated regardless of its creator, and not written if
it is up to date. A new kind is served shortly after its definition was created, and the installer waits for that. Pure:
it yields requests and delays and is sent responses; the caller sends and sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.client import pager
from headgate.client.permissions import refusal_text
from headgate.client.write_requests import ACCEPT, apply, create
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.serializer import wire_json

Object = dict[str, Any]
InstallAction = Literal["created", "configured", "unchanged", "left as it is"]
Adapt = Callable[[Object, Object | None], Object | None]
"""The definition to apply, given the existing one; None keeps the existing one."""

MANAGER: Final = "headgate"
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_ATTEMPTS: Final = 100
_PAUSE_S: Final = 0.1
_DELETION_ATTEMPTS: Final = 120
_DELETION_PAUSE_S: Final = 0.5


class InstallResult(msgspec.Struct, frozen=True):
    name: str
    action: InstallAction


class InstallRefused(msgspec.Struct, frozen=True):
    text: str


class DelayedRequest(msgspec.Struct, frozen=True):
    """A request, and how long to wait before it is sent."""

    request: HTTPRequest
    wait_s: float = 0.0


def _unchanged(definition: Object, found: Object | None) -> Object | None:
    return definition


def install(
    definition: Object, adapt: Adapt = _unchanged
) -> Generator[DelayedRequest, HTTPResponse, InstallResult | InstallRefused]:
    """Installs the definition and waits until its kind is served. If an existing one is being deleted, it first waits
    for the end of the deletion, for at most a minute."""
    name = definition["metadata"]["name"]
    path = CUSTOM_RESOURCE_DEFINITIONS.object_path("", name)
    existing = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT))
    for _ in range(_DELETION_ATTEMPTS):
        if not _is_being_deleted(existing):
            break
        existing = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT), _DELETION_PAUSE_S)
    if _is_being_deleted(existing):
        return InstallRefused(_deletion_text(name))
    if not existing.ok and existing.status != _NOT_FOUND:
        refused = pager.ListRefused(pager.refusal_message(existing), existing.status)
        text = refusal_text("get", CUSTOM_RESOURCE_DEFINITIONS, None, refused)
        return InstallRefused(f"CustomResourceDefinition {name}: cannot check whether it exists: {text}")
    desired = adapt(definition, _read(existing) if existing.ok else None)
    if desired is None:
        return InstallResult(name, "left as it is")
    response = yield DelayedRequest(apply(CUSTOM_RESOURCE_DEFINITIONS, "", name, desired, MANAGER))
    if not response.ok:
        return InstallRefused(f"CustomResourceDefinition {name}: {message_of(response)}")
    if _is_being_deleted(response):
        return InstallRefused(_deletion_text(name))
    action: InstallAction = "created" if not existing.ok else "configured"
    if existing.ok and _read(existing)["metadata"]["generation"] == _read(response)["metadata"]["generation"]:
        action = "unchanged"
    for _ in range(_ATTEMPTS):
        if _is_established(response):
            return InstallResult(name, action)
        response = yield DelayedRequest(HTTPRequest("GET", path, "", ACCEPT), _PAUSE_S)
    return InstallRefused(f"CustomResourceDefinition {name}: its names are not accepted; see its conditions")


def create_missing(
    resource: APIResource, objects: Iterable[Object]
) -> Generator[DelayedRequest, HTTPResponse, list[str] | InstallRefused]:
    """Creates the objects that do not exist, and returns their names. A new kind may be unknown for a moment."""
    created: list[str] = []
    for obj in objects:
        name = obj["metadata"]["name"]
        found = yield DelayedRequest(HTTPRequest("GET", resource.object_path("", name), "", ACCEPT))
        if found.ok:
            continue
        response = yield DelayedRequest(create(resource, "", obj))
        for _ in range(_ATTEMPTS):
            if response.status != _NOT_FOUND:
                break
            response = yield DelayedRequest(create(resource, "", obj), _PAUSE_S)
        if response.ok:
            created.append(name)
        elif response.status != _CONFLICT:
            return InstallRefused(f"{obj['kind']} {name}: {message_of(response)}")
    return created


def _is_being_deleted(response: HTTPResponse) -> bool:
    return response.ok and bool(_read(response)["metadata"].get("deletionTimestamp"))


def _deletion_text(name: str) -> str:
    return (
        f"CustomResourceDefinition {name}: it is being deleted and exists still; its condition Terminating says why; "
        "run the command again when it is gone"
    )


def _is_established(response: HTTPResponse) -> bool:
    conditions = (_read(response).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def _read(response: HTTPResponse) -> Object:
    return wire_json.WireDecoder(Object).decode(response.body)
