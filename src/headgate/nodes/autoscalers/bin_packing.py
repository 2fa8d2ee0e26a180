"""Bin packing: nodes and planned nodes with their free resources, and pods that are placed on them one after another.

It covers a deliberately small part of scheduling: requests, the number of pods, ``nodeSelector`` and required node
affinity, taints and cordons. The real autoscalers use kube-scheduler's own filters, so they also see volumes, ports,
and rules between pods; pods with those are planned here as if they had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.kube.taints import UNSCHEDULABLE, first_untolerated
from headgate.nodes.autoscalers.instance_types import AutoscalerNode, InstanceType, labels_of
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod

_CORDON_TAINT = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}


class PackingNode(msgspec.Struct):
    """Mutable: ``free`` shrinks as pods are placed. It exists for one plan."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    free: dict[str, int]
    disruptable_pods: int = 0
    """Pods that keep the node from being empty."""

    def add_pod(self, pod: AutoscalerPod) -> None:
        for name, amount in pod.requests.items():
            self.free[name] = self.free.get(name, 0) - amount
        self.free["pods"] = self.free.get("pods", 0) - 1
        if not pod.stays_with_its_node:
            self.disruptable_pods += 1

    def fits(self, pod: AutoscalerPod) -> bool:
        return (
            self.free.get("pods", 0) >= 1
            and all(self.free.get(name, 0) >= amount for name, amount in pod.requests.items())
            and pod.required.matches(self.labels, self.name)
            and first_untolerated(self.taints, pod.tolerations) is None
        )


def existing_node(node: AutoscalerNode, *, ignored_taints: frozenset[str] = frozenset()) -> PackingNode:
    """A node as the API shows it, without the pods on it."""
    taints = [taint for taint in node.taints if taint["key"] not in ignored_taints]
    return PackingNode(
        node.name, node.labels, [*taints, _CORDON_TAINT] if node.cordoned else taints, dict(node.allocatable)
    )


def planned_node(name: str, group: str, instance_type: InstanceType) -> PackingNode:
    """A machine that does not exist yet."""
    return PackingNode(name, labels_of(name, group, instance_type), instance_type.taints, instance_type.counts)


def place_pod(pod: AutoscalerPod, candidates: Iterable[PackingNode]) -> PackingNode | None:
    """Places the pod on the first node that has capacity for it."""
    for candidate in candidates:
        if candidate.fits(pod):
            candidate.add_pod(pod)
            return candidate
    return None
