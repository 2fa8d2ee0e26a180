"""Compares pod specs whose JSON may differ: an empty field equals an absent one, ``1000m`` equals ``1``.

The API server compares decoded objects, in which an empty list equals an absent one and quantities are numbers. In
JSON, a zero equals an absent value only for some fields. ``_ZERO_IS_ABSENT`` and ``_EMPTY_IS_ABSENT`` list them. For
all other fields, only ``""``, ``[]`` and ``null`` equal an absent field.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import quantity

# Plain numbers and booleans. Others are pointers in Go, where an explicit 0 or false differs from an absent value.
_ZERO_IS_ABSENT: Final = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "stdin",
        "stdinOnce",
        "tty",
        "readOnly",
        "hostPort",
        "containerPort",
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
        "weight",
        "maxSkew",
        "partition",
        "chapAuthDiscovery",
        "chapAuthSession",
    }
)
# Maps, and structs that are not pointers. Other empty objects have a meaning, for example {} as an emptyDir.
_EMPTY_IS_ABSENT: Final = frozenset(
    {
        "nodeSelector",
        "overhead",
        "limits",
        "requests",
        "matchLabels",
        "labels",
        "annotations",
        "options",
        "volumeAttributes",
        "metadata",
        "preference",
        "podAffinityTerm",
    }
)
_RESOURCE_LIST_FIELDS: Final = frozenset({"limits", "requests", "overhead", "allocatedResources"})
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "divisor"})


def semantically_equal(new: dict[str, Any] | None, old: dict[str, Any] | None) -> bool:
    """Compares two pod specs, or the same part of two pod specs."""
    return new == old or _same_object(new or {}, old or {}, is_container=False)


def same_container(new: dict[str, Any], old: dict[str, Any]) -> bool:
    return new == old or _same_object(new, old, is_container=True)


def _same_object(new: dict[str, Any], old: dict[str, Any], is_container: bool) -> bool:
    return all(_same_field(field, new.get(field), old.get(field), is_container) for field in {**new, **old})


def _same_field(field: str, new: Any, old: Any, is_container: bool) -> bool:
    if new == old:
        return True
    if _is_absent(field, new, is_container) or _is_absent(field, old, is_container):
        return _is_absent(field, new, is_container) and _is_absent(field, old, is_container)
    if field in _QUANTITY_FIELDS:
        return quantity.amount(new) == quantity.amount(old)
    if isinstance(new, dict) and isinstance(old, dict):
        if field in _RESOURCE_LIST_FIELDS:
            return new.keys() == old.keys() and all(_same_amount(new[name], old[name]) for name in new)
        return _same_object(new, old, is_container=False)
    if isinstance(new, list) and isinstance(old, list):
        holds_containers = field in ("containers", "initContainers", "ephemeralContainers")
        return len(new) == len(old) and all(_same_item(*pair, holds_containers) for pair in zip(new, old, strict=True))
    return False


def _same_item(new: Any, old: Any, is_container: bool) -> bool:
    if isinstance(new, dict) and isinstance(old, dict):
        return _same_object(new, old, is_container)
    return bool(new == old)


def _same_amount(new: Any, old: Any) -> bool:
    return quantity.amount(new) == quantity.amount(old)


def _is_absent(field: str, value: Any, is_container: bool) -> bool:
    match value:
        case None | "" | []:
            return True
        case {}:
            # A container's resources are a plain struct, pod-level resources are a pointer.
            return not value and (field in _EMPTY_IS_ABSENT or (is_container and field == "resources"))
        case 0 | False:
            return field in _ZERO_IS_ABSENT or (field == "divisor")
        case "0":
            return field == "divisor"
        case _:
            return False
