"""What is written about a node that is silent. Pure functions of the node; ``controller.py`` knows who is silent."""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import conditions
from headgate.kube.timestamps import format_time
from headgate.owners.nodes.node import READY, Node

Object = dict[str, Any]

# Whether the network is there is not for a kubelet to say, so its silence says nothing about that.
_TOLD_BY_KUBELETS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


def unknown_conditions(node: Node, now_s: float) -> list[Object]:
    """The conditions to write, as a strategic merge; none if the node is known to be silent already."""
    if node.ready == "Unknown":
        return []
    return [each for kind in _TOLD_BY_KUBELETS if (each := _unknown(node, kind, format_time(now_s)))]


def _unknown(node: Node, kind: str, now: str) -> Object | None:
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
