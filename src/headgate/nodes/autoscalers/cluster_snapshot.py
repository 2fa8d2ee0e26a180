"""Pods and nodes of the API, indexed so that an autoscaler model finds pending pods and a node's pods without a scan.

The models of Cluster Autoscaler and Karpenter read it; neither writes it. Pods are identified by uid, nodes by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.kube.integers import read_natural
from headgate.nodes.autoscalers.instance_types import AutoscalerNode, read_node
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod, read_pod

Object = dict[str, Any]


class ClusterSnapshot:
    def __init__(self) -> None:
        self._pods: dict[str, AutoscalerPod] = {}
        self._pending: dict[str, AutoscalerPod] = {}
        self._on_node: dict[str, dict[str, AutoscalerPod]] = {}
        self._nodes: dict[str, AutoscalerNode] = {}
        self._highest: dict[str, int] = {}  # per prefix of names, the highest number that was seen

    @property
    def nodes(self) -> Mapping[str, AutoscalerNode]:
        return self._nodes

    @property
    def pending(self) -> Mapping[str, AutoscalerPod]:
        """Pods that have no node and are not terminal."""
        return self._pending

    def pod_applied(self, obj: Object) -> tuple[AutoscalerPod | None, AutoscalerPod]:
        """Returns the previous state of the pod, if there is one, and the present state."""
        pod = read_pod(obj)
        old = self.pod_removed(pod.uid)
        self._pods[pod.uid] = pod
        if pod.node:
            self._on_node.setdefault(pod.node, {})[pod.uid] = pod
        elif not pod.terminal:
            self._pending[pod.uid] = pod
        return old, pod

    def pod_removed(self, uid: str) -> AutoscalerPod | None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._pending.pop(uid, None)
        if pod.node:
            on_node = self._on_node[pod.node]
            del on_node[uid]
            if not on_node:
                del self._on_node[pod.node]
        return pod

    def node_applied(self, obj: Object) -> tuple[AutoscalerNode | None, AutoscalerNode]:
        node = read_node(obj)
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        prefix, _, number = node.name.rpartition("-")
        if (last := read_natural(number)) is not None:
            self._highest[prefix] = max(self._highest.get(prefix, 0), last)
        return old, node

    def node_removed(self, name: str) -> AutoscalerNode | None:
        return self._nodes.pop(name, None)

    def running_on(self, node: str) -> Iterator[AutoscalerPod]:
        """Pods bound to the node that are not terminal."""
        return (pod for pod in self._on_node.get(node, {}).values() if not pod.terminal)

    def is_empty(self, node: str) -> bool:
        """Whether only DaemonSet pods and mirror pods run there (Cluster Autoscaler calls such a node empty)."""
        return all(pod.stays_with_its_node for pod in self.running_on(node))

    def new_name(self, group: str) -> str:
        """A name that no known node of the node group (Cluster Autoscaler) or node pool (Karpenter) has or had."""
        self._highest[group] = self._highest.get(group, 0) + 1
        return f"{group}-{self._highest[group]:04}"
