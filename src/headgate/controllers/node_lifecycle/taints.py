"""The taints that follow from a node's conditions, and the labels that must agree. Pure functions of the node.

``NoSchedule`` taints follow the conditions at once. A ``NoExecute`` taint, which evicts pods, is added only if the
caller passes ``evicts``, and is removed as soon as the node is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headgate.controllers.node_lifecycle.node import LifecycleNode
from headgate.kube.taints import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE
from headgate.kube.timestamps import format_time

Taint = Mapping[str, Any]

_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_KEYS: Final = frozenset({*_KEYS.values(), UNSCHEDULABLE})
_OUTAGES: Final = frozenset({NOT_READY, UNREACHABLE})
_LABEL_ALIASES: Final = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


def outage_of(node: LifecycleNode) -> str:
    """The key of the taint for an unready node; empty if the node is ready, or has never reported its readiness."""
    return _KEYS.get(("Ready", node.ready), "")


def no_execute_taints(node: LifecycleNode) -> frozenset[str]:
    """The keys of its present NoExecute taints for outages."""
    return frozenset(str(each.get("key")) for each in node.taints if _is_outage(each))


def wanted_taints(node: LifecycleNode, now_s: float, *, evicts: bool) -> Sequence[Taint] | None:
    """The taints that the node should have; ``None`` if it has them.

    ``evicts``: whether the pods of an unready node are evicted.
    """
    desired = [(key, NO_SCHEDULE) for key in _no_schedule_keys(node)]
    if evicts and (outage := outage_of(node)):
        desired.append((outage, NO_EXECUTE))
    kept = [each for each in node.taints if not _is_managed(each) or _identity(each) in desired]
    present = set(map(_identity, kept))
    added = [
        {"key": key, "effect": effect, "timeAdded": format_time(now_s)}
        for key, effect in desired
        if (key, effect) not in present
    ]
    return [*kept, *added] if added or len(kept) < len(node.taints) else None


def wanted_labels(node: LifecycleNode) -> dict[str, str]:
    """The labels to write: the deprecated names get the values of the present ones."""
    return {
        old: node.labels[new]
        for new, old in _LABEL_ALIASES.items()
        if new in node.labels and node.labels.get(old) != node.labels[new]
    }


def _no_schedule_keys(node: LifecycleNode) -> Iterable[str]:
    for each in node.conditions:
        key = _KEYS.get((each.get("type", ""), each.get("status", "")))
        if key is not None:
            yield key
    if node.is_unschedulable:
        yield UNSCHEDULABLE


def _is_managed(taint: Taint) -> bool:
    return _is_outage(taint) or (taint.get("effect") == NO_SCHEDULE and taint.get("key") in _MANAGED_KEYS)


def _is_outage(taint: Taint) -> bool:
    return taint.get("effect") == NO_EXECUTE and taint.get("key") in _OUTAGES


def _identity(taint: Taint) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")
