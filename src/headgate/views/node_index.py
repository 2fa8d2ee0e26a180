"""What fills each node: allocatable amounts, and the requests of the pods on it.

A change of a pod costs its node. Pods that have ended request nothing any more; terminating pods still do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.kube import conditions
from headgate.kube.lenient_reader import find_object
from headgate.kube.resource_amounts import PODS, amount_text, read_amounts
from headgate.views.rows import NodeResource, NodeRow, ProblemRow
from headgate.views.viewed_pod import ViewedPod

Object = dict[str, Any]

_GROUP_LABELS: Final = (
    *("karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup"),
    *("topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"),
)
"""The first label that a node has names its group on the page."""


class _Node:
    def __init__(self) -> None:
        self.allocatable: Mapping[str, int] | None = None  # None until the API shows the node
        self.problem = ""
        self.group = ""
        self.ready = False
        self.schedulable = True
        self.pods = 0
        self.requested: dict[str, int] = {}


class NodeIndex:
    def __init__(self) -> None:
        self._nodes: Final[dict[str, _Node]] = {}
        self._dirty: Final[dict[str, None]] = {}

    def node_applied(self, obj: Object) -> None:
        metadata, status = obj["metadata"], find_object(obj, "status")
        node = self._nodes.setdefault(metadata["name"], _Node())
        found = read_amounts(status.get("allocatable"), "status.allocatable")
        node.allocatable, node.problem = ({}, found) if isinstance(found, str) else (found, "")
        labels = find_object(metadata, "labels")
        node.group = next((str(labels[each]) for each in _GROUP_LABELS if labels.get(each)), "")
        node.ready = conditions.is_true(status.get("conditions"), "Ready")
        node.schedulable = find_object(obj, "spec").get("unschedulable") is not True
        self._dirty[metadata["name"]] = None

    def node_removed(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        node.allocatable = None
        self._drop_if_unused(name, node)
        self._dirty[name] = None

    def pod_changed(self, before: ViewedPod | None, after: ViewedPod | None) -> None:
        for pod, sign in ((before, -1), (after, +1)):
            if pod is not None and pod.node and pod.state != "ended":
                self._count(pod, sign)

    def _count(self, pod: ViewedPod, sign: int) -> None:
        node = self._nodes.setdefault(pod.node, _Node())
        node.pods += sign
        for name, amount in pod.requests.items():
            left = node.requested.get(name, 0) + sign * amount
            if left:
                node.requested[name] = left
            else:
                node.requested.pop(name, None)
        self._drop_if_unused(pod.node, node)
        self._dirty[pod.node] = None

    def _drop_if_unused(self, name: str, node: _Node) -> None:
        if node.allocatable is None and not node.pods:
            self._nodes.pop(name, None)

    def flush(self) -> Iterator[tuple[str, NodeRow | None, ProblemRow | None]]:
        changed = list(self._dirty)
        self._dirty.clear()
        for name in changed:
            node = self._nodes.get(name)
            if node is None or node.allocatable is None:
                yield name, None, None
                continue
            problem = None
            if node.problem:
                problem = ProblemRow(
                    f"node/{name}", "error", "InvalidObject", f"node/{name}", node.problem, "", "", "nodes"
                )
            yield name, _row(name, node, node.allocatable), problem


def _row(name: str, node: _Node, allocatable: Mapping[str, int]) -> NodeRow:
    resources, share, dominant = [], 0.0, ""
    for resource in sorted({*allocatable, *node.requested}):
        total = allocatable.get(resource, 0)
        requested = node.pods if resource == PODS else node.requested.get(resource, 0)
        if not total and not requested:
            continue
        text = f"{amount_text(resource, requested)} of {amount_text(resource, total)} requested"
        resources.append(NodeResource(resource, total, requested, text))
        part = requested / total if total else 1.0
        if part > share:
            share, dominant = part, resource
    return NodeRow(
        name, node.group, node.ready, node.schedulable, node.pods, round(share, 4), dominant, tuple(resources)
    )
