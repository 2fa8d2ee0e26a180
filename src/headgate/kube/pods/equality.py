"""When two pod specs are the same although their JSON differs: empty against absent, ``1000m`` against ``1``.

The API server compares decoded objects, where an empty list equals an absent one and amounts are numbers. Wire objects
keep more than that, and less: whether a zero is as good as absent depends on the field, so the fields for which it is
are listed here. An absent field that is *not* listed differs from any value but ``""``, ``[]`` and ``null``.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import quantity

# Plain numbers and booleans. Others are pointers in Go: an explicit 0 or false there is a choice of the user's.
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
# Maps, and structs that are not pointers; other empty objects ({} as an emptyDir, say) mean something.
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
_AMOUNTS: Final = frozenset({"limits", "requests", "overhead", "allocatedResources"})
_AMOUNT: Final = frozenset({"sizeLimit", "divisor"})


def same_spec(new: dict[str, Any] | None, old: dict[str, Any] | None) -> bool:
    """Also for any part of a pod's spec."""
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
    if field in _AMOUNT:
        return quantity.amount(new) == quantity.amount(old)
    if isinstance(new, dict) and isinstance(old, dict):
        if field in _AMOUNTS:
            return new.keys() == old.keys() and all(_same_amount(new[name], old[name]) for name in new)
        return _same_object(new, old, is_container=False)
    if isinstance(new, list) and isinstance(old, list):
        inside = field in ("containers", "initContainers", "ephemeralContainers")
        return len(new) == len(old) and all(_same_item(*pair, inside) for pair in zip(new, old, strict=True))
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
            # A container's resources are a plain struct, the pod's own are a pointer.
            return not value and (field in _EMPTY_IS_ABSENT or (is_container and field == "resources"))
        case 0 | False:
            return field in _ZERO_IS_ABSENT or (field == "divisor")
        case "0":
            return field == "divisor"
        case _:
            return False
