"""Instance types (sizes of machines), the Node object of a new machine, and a Node as an autoscaler reads it.

A new node has the annotation by which hollow kubelets (``nodes/hollow_kubelets.py``) and KWOK adopt it, a label with
the name of its group, and its size. It has no conditions until its kubelet reports them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.taints import NOT_READY, UNREACHABLE
from headgate.kube.timestamps import parse_time
from headgate.nodes.annotations import KWOK_NODE, NODE_GROUP
from headgate.nodes.pod_admission import counts_of

Object = dict[str, Any]

GROUP: Final = NODE_GROUP
"""The label with the node group or node pool of a machine."""
_PRESSURE_CONDITIONS: Final = ("DiskPressure", "NetworkUnavailable")
UNREADY_TAINTS: Final = frozenset(
    {NOT_READY, "node.kubernetes.io/disk-pressure", "node.kubernetes.io/network-unavailable"}
)
EPHEMERAL_TAINTS: Final = frozenset(
    {NOT_READY, UNREACHABLE, "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered"}
)
"""They are removed once the node has started, so a plan for a starting node ignores them (KP-9)."""


class InstanceType(msgspec.Struct, frozen=True):
    """A kind of machine."""

    name: str
    resources: Mapping[str, str]
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: Sequence[Mapping[str, Any]] = ()
    price: float = 1.0

    @property
    def counts(self) -> dict[str, int]:
        return counts_of(self.resources)


class AutoscalerNode(msgspec.Struct, frozen=True):
    name: str
    uid: str
    created_s: float
    group: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    ready: str
    """The status of its Ready condition; empty: it has none."""
    under_pressure: bool
    cordoned: bool
    deleting: bool

    @property
    def counts_as_ready(self) -> bool:
        """CA-22."""
        return (
            self.ready == "True"
            and not self.under_pressure
            and not any(t["key"] in UNREADY_TAINTS for t in self.taints)
        )

    @property
    def is_initialized(self) -> bool:
        """KP-9."""
        return self.ready == "True" and not any(t["key"] in EPHEMERAL_TAINTS for t in self.taints)


def read_node(wire: Object) -> AutoscalerNode:
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    listed = status.get("conditions")
    created = parse_time(metadata.get("creationTimestamp") or "")
    labels = metadata.get("labels") or {}
    return AutoscalerNode(
        name=metadata["name"],
        uid=metadata["uid"],
        created_s=0.0 if isinstance(created, str) else float(created),
        group=labels.get(GROUP, ""),
        labels=labels,
        annotations=metadata.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        allocatable=counts_of(status.get("allocatable") or status.get("capacity")),
        capacity=counts_of(status.get("capacity")),
        ready=(conditions.find(listed, "Ready") or {}).get("status", ""),
        under_pressure=any(conditions.is_true(listed, each) for each in _PRESSURE_CONDITIONS),
        cordoned=bool(spec.get("unschedulable")),
        deleting="deletionTimestamp" in metadata,
    )


def new_machine(name: str, group: str, instance_type: InstanceType) -> Object:
    """The Node object of a new machine."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels_of(name, group, instance_type),
            "annotations": {KWOK_NODE: "fake", **instance_type.annotations},
        },
        "spec": {"providerID": f"hollow://{name}"}
        | ({"taints": [dict(t) for t in instance_type.taints]} if instance_type.taints else {}),
        "status": {"capacity": dict(instance_type.resources), "allocatable": dict(instance_type.resources)},
    }


def labels_of(name: str, group: str, instance_type: InstanceType) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type.name,
        GROUP: group,
        **instance_type.labels,
    }
