"""Invalid values that are not plain texts or numbers, as the error messages of the API server show them.

Error messages show the Go value of the *internal* API type: a named string as JSON, a struct with the names of its Go
fields, and with empty fields. This module describes only the few structs that occur in messages. The functions of
``kube/field_errors.py`` take the results as values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

Object = dict[str, Any]

# Go field, wire field, and what to print: a zero value, or the name of a struct ("[]" in front for a list of them).
_Row = tuple[str, str, Any]

_TEXT: Final = ""
_NIL: Final = None

_STRUCTS: Final[dict[str, tuple[_Row, ...]]] = {
    "NodeTerm": (
        ("MatchExpressions", "matchExpressions", "[]NodeSelectorRequirement"),
        ("MatchFields", "matchFields", "[]NodeSelectorRequirement"),
    ),
    "NodeSelectorRequirement": (("Key", "key", _TEXT), ("Operator", "operator", _TEXT), ("Values", "values", _NIL)),
    "PodResourceClaim": (
        ("Name", "name", _TEXT),
        ("ResourceClaimName", "resourceClaimName", _NIL),
        ("ResourceClaimTemplateName", "resourceClaimTemplateName", _NIL),
    ),
    "SeccompProfile": (("Type", "type", _TEXT), ("LocalhostProfile", "localhostProfile", _NIL)),
    "AppArmorProfile": (("Type", "type", _TEXT), ("LocalhostProfile", "localhostProfile", _NIL)),
    "Capabilities": (("Add", "add", _NIL), ("Drop", "drop", _NIL)),
    "SELinuxOptions": (
        ("User", "user", _TEXT),
        ("Role", "role", _TEXT),
        ("Type", "type", _TEXT),
        ("Level", "level", _TEXT),
    ),
    "WindowsSecurityContextOptions": (
        ("GMSACredentialSpecName", "gmsaCredentialSpecName", _NIL),
        ("GMSACredentialSpec", "gmsaCredentialSpec", _NIL),
        ("RunAsUserName", "runAsUserName", _NIL),
        ("HostProcess", "hostProcess", _NIL),
    ),
    "SecurityContext": (
        ("Capabilities", "capabilities", "Capabilities"),
        ("Privileged", "privileged", _NIL),
        ("SELinuxOptions", "seLinuxOptions", "SELinuxOptions"),
        ("WindowsOptions", "windowsOptions", "WindowsSecurityContextOptions"),
        ("RunAsUser", "runAsUser", _NIL),
        ("RunAsGroup", "runAsGroup", _NIL),
        ("RunAsNonRoot", "runAsNonRoot", _NIL),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", _NIL),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", _NIL),
        ("ProcMount", "procMount", _NIL),
        ("SeccompProfile", "seccompProfile", "SeccompProfile"),
        ("AppArmorProfile", "appArmorProfile", "AppArmorProfile"),
    ),
    "PodIP": (("IP", "ip", _TEXT),),
}

_OWNER_REFERENCE: Final = ("apiVersion", "kind", "name", "uid")
_OWNER_REFERENCE_OPTIONAL: Final = ("controller", "blockOwnerDeletion")


def go_named_string(text: str | None) -> Any:
    """A value of a named string type, or a pointer to a string: printed as JSON, not in Go's quotes."""
    return msgspec.Raw(msgspec.json.encode(text))


def struct(name: str, value: Object | None) -> Any:
    return msgspec.Raw(msgspec.json.encode(_internal(name, value)))


def structs(name: str, values: Sequence[Object] | None) -> Any:
    return msgspec.Raw(msgspec.json.encode(_internal(f"[]{name}", values)))


def owner_reference(reference: Object) -> Any:
    return msgspec.Raw(msgspec.json.encode(_owner_reference(reference)))


def owner_references(references: Sequence[Object]) -> Any:
    return msgspec.Raw(msgspec.json.encode([_owner_reference(each) for each in references]))


def _owner_reference(reference: Object) -> Object:
    printed: Object = {field: reference.get(field, "") for field in _OWNER_REFERENCE}
    for field in _OWNER_REFERENCE_OPTIONAL:
        if reference.get(field) is not None:
            printed[field] = reference[field]
    return printed


def _internal(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name.startswith("[]"):
        return [_internal(name[2:], each) for each in value]
    printed: Object = {}
    for go_field, field, kind in _STRUCTS[name]:
        given = value.get(field)
        if kind:
            printed[go_field] = _internal(kind, given)
        else:
            printed[go_field] = kind if given is None else given
    return printed
