"""Applies the objects of an installation by server-side apply, one after the other.

Applying again changes nothing. An installation that Helm manages is not touched. ``client/installer.py`` applies the
definitions; ``checking.py`` compares without writing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import OPT_IN
from headgate.client.installer import DelayedRequest, InstallAction
from headgate.client.permissions import describe_permission, is_missing_right
from headgate.client.write_requests import ACCEPT, apply
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.install.kinds import display_name, path_of, place_of, resource_of
from headgate.install.names import FIELD_MANAGER, MANAGED_BY, NAME, PART_OF
from headgate.kube.api_resources import DEPLOYMENTS
from headgate.kube.serializer import wire_json

Object = dict[str, Any]
ApplySteps = Generator[DelayedRequest, HTTPResponse, Any]

HELM: Final = "Helm"
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_ATTEMPTS: Final = 100
_PAUSE_S: Final = 0.1
_USED: Final = {
    "Namespace": "a user created it; it is used and not changed",
    "Queue": "a user created it; it is not changed: use kubectl to change its limits, and the annotation "
    f"{OPT_IN}=true to gate its pods",
}
"""The kinds of which an object that a user created is kept, with what that means."""


class ApplyOutcome(msgspec.Struct, frozen=True):
    """``problem``: why the object could not be applied; empty if it was. ``detail``: why it was left as it is."""

    name: str
    action: InstallAction = "unchanged"
    problem: str = ""
    detail: str = ""


def helm_release(namespace: str) -> Generator[DelayedRequest, HTTPResponse, str]:
    """The release of Helm that manages the Deployment of this namespace; empty if there is none."""
    response = yield DelayedRequest(HTTPRequest("GET", DEPLOYMENTS.object_path(namespace, NAME), "", ACCEPT))
    if not response.ok:
        return ""
    return release_of(decode(response))


def release_of(obj: Object) -> str:
    """The release of Helm that manages the object; empty if Helm does not."""
    metadata = obj.get("metadata") or {}
    if (metadata.get("labels") or {}).get(MANAGED_BY) != HELM:
        return ""
    return str((metadata.get("annotations") or {}).get("meta.helm.sh/release-name") or NAME)


def apply_object(obj: Object, *, adopts: bool = False) -> Generator[DelayedRequest, HTTPResponse, ApplyOutcome]:
    """Applies one object. A custom kind may be unknown for a moment after its definition was created. ``adopts``: an
    existing object that no installation made is taken over."""
    name = display_name(obj)
    existing = yield DelayedRequest(HTTPRequest("GET", path_of(obj), "", ACCEPT))
    if not existing.ok and existing.status != _NOT_FOUND:
        return ApplyOutcome(name, problem=refusal(existing, "get", obj))
    if existing.ok:
        live = decode(existing)
        if live["metadata"].get("deletionTimestamp"):
            return ApplyOutcome(name, problem="it is being deleted; run the command again when it is gone")
        if foreign := of_a_user(obj, live):
            return ApplyOutcome(name, "left as it is", detail=foreign)
        if not adopts and (owner := other_owner(obj, live)):
            return ApplyOutcome(name, problem=owner)
        obj = adapted_to(obj, live)
    request = apply(resource_of(obj), *place_of(obj), obj, FIELD_MANAGER)
    response = yield DelayedRequest(request)
    for _ in range(_ATTEMPTS if obj["kind"] == "Queue" else 0):
        if response.status != _NOT_FOUND:
            break
        response = yield DelayedRequest(request, _PAUSE_S)
    if not response.ok:
        return ApplyOutcome(name, problem=refusal(response, "patch", obj))
    if not existing.ok:
        return ApplyOutcome(name, "created")
    return ApplyOutcome(name, "unchanged" if _revision(existing) == _revision(response) else "configured")


def of_a_user(obj: Object, live: Object) -> str:
    """Why the existing object stays as it is: a user created the namespace, whose Pod Security label is then the
    user's, or the queue. Empty if the installation created it."""
    if obj["kind"] not in _USED or is_of_headgate(live):
        return ""
    return _USED[obj["kind"]]


def other_owner(obj: Object, live: Object) -> str:
    """Why the existing object must not be taken over, and what to do: it would be changed, and deleted by an
    uninstallation. Empty if an installation made it, or if it is used as it is (:func:`of_a_user`)."""
    if obj["kind"] in _USED or (is_of_headgate(live) and not release_of(live)):
        return ""
    release = release_of(live)
    owner = f"the Helm release {release} manages it" if release else f"it does not have the label {PART_OF}={NAME}"
    return f"it exists and is not of this installation: {owner}; rename it or delete it, or take it over with --adopt"


def is_of_headgate(live: Object) -> bool:
    """Whether an installation, by whichever program, or a replica of Headgate made the object."""
    return (live["metadata"].get("labels") or {}).get(PART_OF) == NAME


def adapted_to(obj: Object, live: Object) -> Object:
    """The object to apply, given the existing one of the same installation. A Queue keeps its weight and the limits
    that were not named: users change them, and a limit that is not applied any more would be removed."""
    if obj["kind"] != "Queue":
        return obj
    kept = live.get("spec") or {}
    spec = {**obj["spec"], "weight": kept.get("weight", obj["spec"]["weight"])}
    if capability := {**(kept.get("capability") or {}), **(spec.get("capability") or {})}:
        spec["capability"] = capability
    return {**obj, "spec": spec}


def dry_run(obj: Object) -> HTTPRequest:
    """The same request; the server checks it and writes nothing."""
    request = apply(resource_of(obj), *place_of(obj), obj, FIELD_MANAGER)
    query = encode_query({"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"})
    return msgspec.structs.replace(request, query=query)


def refusal(response: HTTPResponse, verb: str, obj: Mapping[str, Any]) -> str:
    """Why a request for the object failed, and what to do."""
    resource, (namespace, _) = resource_of(obj), place_of(obj)
    message = message_of(response)
    if response.status == _FORBIDDEN and "attempting to grant RBAC permissions" in message:
        return f"you may not grant rights that you do not have: {message}; ask a cluster administrator to install it"
    if response.status == _FORBIDDEN and is_missing_right(message):
        return f"missing right: {describe_permission(verb, resource, namespace)} ({message})"
    if response.status == _FORBIDDEN and "because it is being terminated" in message:
        return f"the namespace {namespace} is being deleted: run the command again when it is gone ({message})"
    if response.status == _FORBIDDEN:
        return f"refused by the admission control of the server: {message}"
    if response.status == _NOT_FOUND and resource.group == "monitoring.coreos.com":
        return f"{obj['kind']} is not served here: install the Prometheus Operator, or switch this object off"
    if response.status == _NOT_FOUND:
        return f"the kind or the namespace {namespace} does not exist: {message}"
    return f"{response.status}: {message}"


def decode(response: HTTPResponse) -> Object:
    return wire_json.WireDecoder(Object).decode(response.body)


def _revision(response: HTTPResponse) -> str:
    return str(decode(response)["metadata"].get("resourceVersion"))
