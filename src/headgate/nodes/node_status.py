"""The status of a node as a kubelet writes it, as a strategic merge patch: conditions and addresses merge by type.

Capacity and node info are written only where they are missing, so that a node made from an autoscaler's template keeps
the template's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube.timestamps import format_time
from headgate.nodes.node_record import HollowNode
from headgate.nodes.options import HollowOptions

Object = dict[str, Any]

_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "RouteCreated", "RouteController created a route"),
)
_READY: Final = ("KubeletReady", "kubelet is posting ready status")
_NOT_READY: Final = ("KubeletNotReady", "container runtime is down")


def node_status(node: HollowNode, options: HollowOptions, now_s: float) -> Object:
    booted_s = node.booted_s if node.booted_s is not None else now_s
    conditions = [_condition(kind, "False", why, now_s, booted_s) for kind, *why in _PRESSURES]
    conditions.append(
        _condition(
            "Ready", "True" if node.ready else "False", _READY if node.ready else _NOT_READY, now_s, node.changed_s
        )
    )
    status: Object = {
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": node.ip}, {"type": "Hostname", "address": node.name}],
    }
    if not node.has_node_info:
        status["nodeInfo"] = _info(node, options)
    if not node.has_capacity:
        status |= {"capacity": dict(options.resources), "allocatable": dict(options.resources)}
    return status


def more_resources(resources: Mapping[str, str]) -> Object:
    """Resources that a device plugin registers after the node is up."""
    return {"capacity": dict(resources), "allocatable": dict(resources)}


def _condition(kind: str, status: str, why: tuple[str, str] | list[str], now_s: float, since_s: float) -> Object:
    reason, message = why
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": format_time(now_s),
        "lastTransitionTime": format_time(since_s),
    }


def _info(node: HollowNode, options: HollowOptions) -> Object:
    return {
        "machineID": node.uid,
        "systemUUID": node.uid,
        "bootID": node.uid,
        "kernelVersion": "hollow",
        "osImage": "Headgate hollow node",
        "containerRuntimeVersion": "hollow://1",
        "kubeletVersion": options.kubelet_version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
