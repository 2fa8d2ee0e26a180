"""Which nodes are eligible for a DaemonSet, and the pod that it creates for a node.

Selectors and tolerations are parsed once per template and then matched with many nodes. A pod for a node requires that
node by name in its node affinity; the scheduler binds it there and counts its usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec

from headgate.controllers.ownership.controller_revisions import REVISION_LABEL
from headgate.controllers.ownership.pods import pod_from_template, prefix_of
from headgate.kube import node_affinity, taints
from headgate.kube.node_affinity import NAME_FIELD, RequiredNodeAffinity
from headgate.kube.object_meta import TEMPLATE_GENERATION
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

KIND: Final = GroupVersionKind("apps", "v1", "DaemonSet")
GENERATION_LABEL: Final = "pod-template-generation"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE: Final = "node.kubernetes.io/"
_TOLERATED: Final = (
    (taints.NOT_READY, taints.NO_EXECUTE),
    (taints.UNREACHABLE, taints.NO_EXECUTE),
    (f"{_NODE}disk-pressure", taints.NO_SCHEDULE),
    (f"{_NODE}memory-pressure", taints.NO_SCHEDULE),
    (f"{_NODE}pid-pressure", taints.NO_SCHEDULE),
    (taints.UNSCHEDULABLE, taints.NO_SCHEDULE),
)
"""Taints for node conditions, which every daemon pod tolerates."""
_NO_NETWORK: Final = (f"{_NODE}network-unavailable", taints.NO_SCHEDULE)
_SAME: Final = ("key", "effect", "operator", "value")


class NodeFit(IntEnum):
    """Whether a node is eligible."""

    GONE = 0
    """There is no such node."""
    NO = 1
    """No pod is wanted there; an existing one is deleted."""
    STAYS = 2
    """No pod is created there; an existing one stays."""
    WANTED = 3


class PlacementNode(msgspec.Struct, frozen=True):
    """The fields of a node that matter for placement."""

    name: str
    labels: dict[str, str]
    taints: tuple[Object, ...]


class DaemonPodPlacement(msgspec.Struct, frozen=True):
    node_name: str
    required: RequiredNodeAffinity
    tolerations: tuple[Object, ...]

    def fit(self, node: PlacementNode | None) -> NodeFit:
        if node is None:
            return NodeFit.GONE
        if self.node_name not in ("", node.name) or not self.required.matches(node.labels, node.name):
            return NodeFit.NO
        if taints.first_untolerated(node.taints, self.tolerations) is None:
            return NodeFit.WANTED
        if taints.first_untolerated(node.taints, self.tolerations, {taints.NO_EXECUTE}) is None:
            return NodeFit.STAYS
        return NodeFit.NO


def read_node(obj: Object) -> PlacementNode:
    found = (obj.get("spec") or {}).get("taints") or ()
    return PlacementNode(obj["metadata"]["name"], obj["metadata"].get("labels") or {}, tuple(found))


def placement_of(template: Object) -> DaemonPodPlacement:
    spec = template.get("spec") or {}
    return DaemonPodPlacement(
        spec.get("nodeName") or "", node_affinity.required_node_affinity(template), tuple(_tolerations(spec))
    )


def target_of(pod: Mapping[str, Any]) -> str | None:
    """The node of the pod: where it is bound, or the one that its node affinity requires."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == NAME_FIELD and field.get("operator") == "In":
                values: list[str] = field.get("values") or []
                return values[0] if len(values) == 1 else None
    return None


def template_generation(daemon_set: Object) -> str | None:
    """The template generation, which preceded revisions; pods still have its label."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    return text if text is not None and text.removeprefix("-").isdecimal() else None


def pod_for(daemon_set: Object, node: str, name: str, revision_hash: str) -> Object:
    template: Object = daemon_set["spec"]["template"]
    pod = pod_from_template(template, daemon_set, KIND, name, prefix=prefix_of(daemon_set["metadata"]["name"]))
    labels = dict(pod["metadata"].get("labels") or {})
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    labels[REVISION_LABEL] = revision_hash
    pod["metadata"]["labels"] = labels
    spec: Object = pod["spec"]
    spec["tolerations"] = _tolerations(spec)
    spec["affinity"] = _bound_to(node, spec.get("affinity") or {})
    return pod


def _bound_to(node: str, affinity: Object) -> Object:
    """Replaces the required node affinity by the node's name: it was checked when the node was chosen."""
    by_name = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    nodes = {**(affinity.get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [by_name]}}
    return {**affinity, "nodeAffinity": nodes}


def _tolerations(spec: Object) -> list[Object]:
    found: list[Object] = list(spec.get("tolerations") or ())
    for key, effect in [*_TOLERATED, _NO_NETWORK] if spec.get("hostNetwork") else _TOLERATED:
        new: Object = {"key": key, "operator": "Exists", "effect": effect}
        # A toleration for the same taint, perhaps for a limited time, is replaced in its place.
        replaced = [
            new if all((each.get(part) or "") == new.get(part, "") for part in _SAME) else each for each in found
        ]
        found = replaced if any(each is new for each in replaced) else [*found, new]
    return found
