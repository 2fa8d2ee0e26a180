"""A pod as an autoscaler sees it: its node, its scheduling conditions, and its requirements on a node.

Scheduling gates are not read: neither autoscaler does (CA-7, KP-2). A gated pod is hidden only by the reason of its
condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.node_affinity import RequiredNodeAffinity, required_node_affinity
from headgate.kube.timestamps import parse_time
from headgate.nodes.behaviour import seconds
from headgate.nodes.pod_admission import requests_of

Object = dict[str, Any]

SCALE_UP_DELAY: Final = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
PROVISIONING_REQUESTS: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
_MIRROR: Final = "kubernetes.io/config.mirror"
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class AutoscalerPod(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    created_s: float
    requests: Mapping[str, int]
    """CPU in thousandths, all else in units."""
    required: RequiredNodeAffinity
    tolerations: Sequence[Mapping[str, Any]]
    node: str
    """The node that it is bound to; empty: not bound."""
    nominated_node: str
    status: str
    """The status of its PodScheduled condition; empty: it has none."""
    reason: str
    since_s: float
    """The condition's transition time."""
    scheduler: str
    priority: int | None
    owner: str
    """The kind of its controller; empty: it has none."""
    terminal: bool
    deleting: bool
    mirror: bool
    delay_s: float
    """The scale-up delay that the pod asks of Cluster Autoscaler."""
    consumes_provisioning_request: bool
    """It waits for a ProvisioningRequest."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def stays_with_its_node(self) -> bool:
        """True for pods of DaemonSets and mirror pods. A node that has only such pods is empty."""
        return self.mirror or self.owner in ("DaemonSet", "Node")


def read_pod(wire: Object) -> AutoscalerPod:
    metadata, spec, status = wire["metadata"], wire["spec"], wire.get("status") or {}
    annotations = metadata.get("annotations") or {}
    scheduled = conditions.find(status.get("conditions"), conditions.POD_SCHEDULED) or {}
    owner = next((each["kind"] for each in metadata.get("ownerReferences") or () if each.get("controller")), "")
    return AutoscalerPod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        created_s=_time(metadata.get("creationTimestamp")),
        requests=requests_of(wire),
        required=required_node_affinity(wire),
        tolerations=tuple(spec.get("tolerations") or ()),
        node=spec.get("nodeName") or "",
        nominated_node=status.get("nominatedNodeName") or "",
        status=scheduled.get("status") or "",
        reason=scheduled.get("reason") or "",
        since_s=_time(scheduled.get("lastTransitionTime")),
        scheduler=spec.get("schedulerName") or "default-scheduler",
        priority=spec.get("priority"),
        owner=owner,
        terminal=status.get("phase") in _TERMINAL,
        deleting="deletionTimestamp" in metadata,
        mirror=_MIRROR in annotations,
        delay_s=seconds(annotations.get(SCALE_UP_DELAY)) or 0.0,
        consumes_provisioning_request=any(each in annotations for each in PROVISIONING_REQUESTS),
    )


def _time(text: str | None) -> float:
    read = parse_time(text) if text else 0
    return 0.0 if isinstance(read, str) else float(read)
