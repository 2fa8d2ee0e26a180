"""The state of one hollow node, read from the API object alone."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube.timestamps import parse_time
from headgate.nodes.address_pool import AddressPool, network_of
from headgate.nodes.behaviour import NodeBehaviour, is_hollow, node_behaviour
from headgate.nodes.pod_admission import counts_of

Object = dict[str, Any]

NOT_READY: Final = "node.kubernetes.io/not-ready"


class HollowNode(msgspec.Struct):
    """Mutable. Only ``nodes/hollow_nodes.py`` changes it."""

    name: str
    uid: str
    created_s: float
    hollow: bool
    """Whether Headgate simulates it."""
    behaviour: NodeBehaviour
    allocatable: dict[str, int]
    ip: str
    pool: AddressPool | None
    has_node_info: bool
    """Whether its status has ``nodeInfo``."""
    has_capacity: bool
    """Whether its status has ``allocatable`` or ``capacity``."""
    observed: str
    """The status of its Ready condition, as the API has it; empty if there is none."""
    observed_since_s: float
    tainted: bool
    """Whether it carries the not-ready taint."""
    booted_s: float | None = None
    clock_offset_s: float = 0.0
    """By how much the clock was set since the boot."""
    ready: bool = False
    """The Ready condition that its kubelet reports."""
    changed_s: float = 0.0
    """When ``ready`` last changed."""
    silent: bool = False
    failures: int = 0

    @property
    def alive(self) -> bool:
        """Whether its kubelet runs."""
        return self.hollow and self.booted_s is not None and not self.silent

    @property
    def up(self) -> bool:
        """Whether it admits new pods."""
        return self.alive and self.ready


def read(node: Object) -> HollowNode:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions: list[Object] = status.get("conditions") or []
    ready: Object = next((c for c in conditions if c.get("type") == "Ready"), {})
    network = network_of(spec.get("podCIDR", ""))
    listed = status.get("allocatable") or status.get("capacity")
    addresses = status.get("addresses") or ()
    return HollowNode(
        name=metadata["name"],
        uid=metadata["uid"],
        created_s=_time(metadata.get("creationTimestamp")),
        hollow=is_hollow(node),
        behaviour=node_behaviour(metadata),
        allocatable=counts_of(listed),
        ip=next((a["address"] for a in addresses if a.get("type") == "InternalIP"), ""),
        pool=AddressPool(network) if network is not None else None,
        has_node_info=bool((status.get("nodeInfo") or {}).get("kubeletVersion")),
        has_capacity=bool(listed),
        observed=ready.get("status", ""),
        observed_since_s=_time(ready.get("lastTransitionTime")),
        tainted=any(taint.get("key") == NOT_READY for taint in spec.get("taints") or ()),
    )


def _time(text: str | None) -> float:
    value = parse_time(text) if text else 0
    return 0.0 if isinstance(value, str) else float(value)
