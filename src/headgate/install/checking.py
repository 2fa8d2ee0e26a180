"""Compares an installation with the cluster, without writing: what is there, what differs, what is missing, and which
rights the user lacks to install it.

An object differs if applying it would change it: the server computes the result of a dry run, defaults included.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.install.access_reviews import AccessRight, UnknownRights, missing_rights
from headgate.install.applying import adapted_to, decode, dry_run, of_a_user, other_owner, refusal
from headgate.install.kinds import display_name, path_of, place_of, resource_of
from headgate.kube.crd_builder import is_installed_by_headgate

Object = dict[str, Any]

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_INVALID: Final = 422
_NOT_TRIED: Final = ("CustomResourceDefinition", "ClusterRoleBinding", "RoleBinding")
"""A definition may belong to another program; a binding is checked against its role, which may not exist yet."""
_SERVER_FIELDS: Final = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})
_SHOWN: Final = 5


class CheckResult(msgspec.Struct, frozen=True):
    """``state``: ``present``, ``differs``, ``missing``, ``not ours`` (it is used), ``conflict`` (it has the name of an
    object of the installation), ``being deleted`` or ``unknown``. ``detail``: the differing fields, or why the state is
    this one."""

    name: str
    state: str
    detail: str = ""


def check_object(obj: Object) -> Generator[DelayedRequest, HTTPResponse, CheckResult]:
    name = display_name(obj)
    found = yield DelayedRequest(HTTPRequest("GET", path_of(obj), "", ACCEPT))
    if found.status == _NOT_FOUND:
        return CheckResult(name, "missing")
    if not found.ok:
        return CheckResult(name, "unknown", refusal(found, "get", obj))
    live = decode(found)
    if since := live["metadata"].get("deletionTimestamp"):
        return CheckResult(name, "being deleted", f"since {since}; install when it is gone")
    if obj["kind"] == "CustomResourceDefinition":
        return _check_definition(name, obj, live)
    if foreign := of_a_user(obj, live):
        return CheckResult(name, "not ours", foreign)
    if owner := other_owner(obj, live):
        return CheckResult(name, "conflict", owner)
    response = yield DelayedRequest(dry_run(adapted_to(obj, live)))
    if not response.ok:
        return CheckResult(name, "unknown", refusal(response, "patch", obj))
    differing = list(differences(live, decode(response)))
    if not differing:
        return CheckResult(name, "present")
    more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    return CheckResult(name, "differs", ", ".join(differing[:_SHOWN]) + more)


def _check_definition(name: str, wanted: Object, live: Object) -> CheckResult:
    """Replicas switch v1beta1 on and set a conversion webhook, which is no difference."""
    if not is_installed_by_headgate(live):
        return CheckResult(name, "not ours", "another program installed it; it is used and not changed")
    schemas = ({each["name"]: each.get("schema") for each in part["spec"]["versions"]} for part in (wanted, live))
    return CheckResult(name, "present") if next(schemas) == next(schemas) else CheckResult(name, "differs", "schema")


def differences(live: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """The paths of the fields in which two objects differ."""
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*live, *wanted}):
            if path != "metadata" or key not in _SERVER_FIELDS:
                yield from differences(live.get(key), wanted.get(key), f"{path}.{key}" if path else key)
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif live != wanted:
        yield path


def lacking_rights(objects: Sequence[Object]) -> Generator[DelayedRequest, HTTPResponse, list[str]]:
    """The rights to apply these objects that the user lacks, each as a text."""
    found = yield from missing_rights((yield from _planned(objects)).rights)
    return [found.text] if isinstance(found, UnknownRights) else list(map(str, found))


def refusals(objects: Sequence[Object], *, adopts: bool = False) -> Generator[DelayedRequest, HTTPResponse, list[str]]:
    """Why these objects cannot be applied: existing objects that no installation made (unless ``adopts``), and the
    rights that the user lacks, else what the server refuses in a dry run (roles with rights that the user lacks,
    invalid fields). Empty if nothing is known to be refused: where the server
    answers no reviews, or the namespace or kind of an object does not exist yet, it is tried."""
    planned = yield from _planned(objects)
    found = yield from missing_rights(planned.rights)
    problems = [] if isinstance(found, UnknownRights) else [f"missing right: {each}" for each in found]
    problems += [] if adopts else planned.conflicts
    for obj in () if problems else planned.objects:
        if obj["kind"] in _NOT_TRIED:
            continue
        response = yield DelayedRequest(dry_run(obj))
        if response.status in (_FORBIDDEN, _INVALID):
            problems.append(f"{display_name(obj)}: {refusal(response, 'patch', obj)}")
    return problems


class _Planned(msgspec.Struct, frozen=True):
    """``objects``: those that are applied, as they are applied. ``rights``: what that needs. ``conflicts``: existing
    objects that no installation made."""

    objects: list[Object]
    rights: list[AccessRight]
    conflicts: list[str]


def _planned(objects: Iterable[Object]) -> Generator[DelayedRequest, HTTPResponse, _Planned]:
    """An object of a user or of another program is only read. An object that exists is not created, unless it is being
    deleted."""
    planned = _Planned([], [], [])
    for obj in objects:
        response = yield DelayedRequest(HTTPRequest("GET", path_of(obj), "", ACCEPT))
        live = decode(response) if response.ok else None
        if live is not None and live["metadata"].get("deletionTimestamp"):
            live = None
        if live is None:
            verbs = ["get", "create", "patch"]
        else:
            verbs = ["get"] if _stays(obj, live) else ["get", "patch"]
            if "patch" in verbs and obj["kind"] != "CustomResourceDefinition" and (owner := other_owner(obj, live)):
                planned.conflicts.append(f"{display_name(obj)}: {owner}")
        planned.rights.extend(AccessRight(verb, resource_of(obj), *place_of(obj)) for verb in verbs)
        if "patch" in verbs:
            planned.objects.append(obj if live is None else adapted_to(obj, live))
    return planned


def _stays(obj: Object, live: Object) -> bool:
    """Whether the existing object is not changed."""
    if obj["kind"] == "CustomResourceDefinition":
        return not is_installed_by_headgate(live)
    return bool(of_a_user(obj, live))
