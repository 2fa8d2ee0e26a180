"""A ResourceFlavor: node labels and taints, and whether the pods of a pod set may use it.

A pod's node selector and affinity count only for the label keys that the flavor has; other keys do not affect this
flavor. A node affinity term without such keys matches every flavor. ``cohort.py`` has the quotas of flavors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.kube.labels import Selector
from headgate.kube.node_affinity import NodeSelector, NodeSelectorTerm, RequiredNodeAffinity
from headgate.kube.taints import Taint, Toleration, describe, first_untolerated
from headgate.quota.api.wire_reader import InvalidObject, JSONObject, read_object, read_objects, read_text, read_texts


class ResourceFlavor(msgspec.Struct, frozen=True):
    name: str
    node_labels: Mapping[str, str] = {}
    node_taints: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    is_terminating: bool = False


def read_flavor(obj: JSONObject) -> ResourceFlavor | str:
    """The flavor, or a text that says why it is invalid."""
    try:
        metadata, spec = read_object(obj, "metadata"), read_object(obj, "spec")
        if spec.get("topologyName"):
            raise InvalidObject("spec.topologyName: topology-aware scheduling is not supported")
        return ResourceFlavor(
            read_text(metadata, "name"),
            read_texts(spec, "nodeLabels", "spec."),
            tuple(each for _, each in read_objects(spec, "nodeTaints", "spec.")),
            tuple(each for _, each in read_objects(spec, "tolerations", "spec.")),
            bool(metadata.get("deletionTimestamp")),
        )
    except InvalidObject as problem:
        return str(problem)


def find_flavor_mismatch(
    flavor: ResourceFlavor, tolerations: tuple[Toleration, ...], nodes: RequiredNodeAffinity
) -> str:
    """Why pods with these tolerations and this node affinity cannot use the flavor; empty if they can."""
    taint: Taint | None = first_untolerated(flavor.node_taints, (*tolerations, *flavor.tolerations))
    if taint is not None:
        return f"untolerated taint {describe(taint)} in flavor {flavor.name}"
    if not _about(nodes, flavor.node_labels).matches(flavor.node_labels, ""):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _about(nodes: RequiredNodeAffinity, labels: Mapping[str, str]) -> RequiredNodeAffinity:
    """The part of the node affinity that concerns these labels."""
    selector = Selector(tuple(each for each in nodes.labels.requirements if each.key in labels))
    if nodes.affinity is None:
        return RequiredNodeAffinity(selector, None)
    terms = []
    for term in nodes.affinity.terms:
        kept = tuple(each for each in term.labels.requirements if each.key in labels)
        if not kept:
            return RequiredNodeAffinity(selector, None)
        terms.append(NodeSelectorTerm(Selector(kept)))
    return RequiredNodeAffinity(selector, NodeSelector(tuple(terms)) if terms else None)
