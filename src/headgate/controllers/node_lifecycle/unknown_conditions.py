"""The conditions of a node whose kubelet sends no heartbeat. Pure functions of the node; ``controller.py`` finds these
nodes.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.node_lifecycle.node import READY, LifecycleNode
from headgate.kube import conditions
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

# Not NetworkUnavailable: the kubelet does not report it.
_KUBELET_CONDITIONS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


def unknown_conditions(node: LifecycleNode, now_s: float) -> list[Object]:
    """The conditions to write as a strategic merge patch; none if they are already Unknown."""
    if node.ready == "Unknown":
        return []
    return [each for kind in _KUBELET_CONDITIONS if (each := _unknown(node, kind, format_time(now_s)))]


def _unknown(node: LifecycleNode, kind: str, now: str) -> Object | None:
    found = conditions.find(node.conditions, kind)
    if found is None:
        return {
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.created,
            "lastTransitionTime": now,
        }
    if found.get("status") == "Unknown":
        return None
    return {
        "type": kind,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": now,
    }
