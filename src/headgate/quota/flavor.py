"""A ResourceFlavor: a kind of node by labels and taints; and whether pods may go there.

A pod's wishes count only as far as they speak of the labels that the flavor has: a selector for another key says
nothing about this flavor. What is left of a term of node affinity may be nothing, and then it fits every flavor.
How much of a flavor there is, is told by quotas (``cohort.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.kube.affinity import NodeSelector, NodeTerm, RequiredNodes
from headgate.kube.labels import Selector
from headgate.kube.taints import Taint, Toleration, describe, first_untolerated
from headgate.quota.reading import Unreadable, Wire, part, parts, text, texts


class ResourceFlavor(msgspec.Struct, frozen=True):
    name: str
    node_labels: Mapping[str, str] = {}
    node_taints: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    is_terminating: bool = False


def read_flavor(wire: Wire) -> ResourceFlavor | str:
    """The flavor, or why it cannot be counted with."""
    try:
        metadata, spec = part(wire, "metadata"), part(wire, "spec")
        if spec.get("topologyName"):
            raise Unreadable("spec.topologyName: topology-aware scheduling is not supported")
        return ResourceFlavor(
            text(metadata, "name"),
            texts(spec, "nodeLabels", "spec."),
            tuple(each for _, each in parts(spec, "nodeTaints", "spec.")),
            tuple(each for _, each in parts(spec, "tolerations", "spec.")),
            bool(metadata.get("deletionTimestamp")),
        )
    except Unreadable as problem:
        return str(problem)


def find_mismatch(flavor: ResourceFlavor, tolerations: tuple[Toleration, ...], nodes: RequiredNodes) -> str:
    """Why pods with these tolerations and wishes cannot use the flavor; empty if they can."""
    taint: Taint | None = first_untolerated(flavor.node_taints, (*tolerations, *flavor.tolerations))
    if taint is not None:
        return f"untolerated taint {describe(taint)} in flavor {flavor.name}"
    if not _about(nodes, flavor.node_labels).matches(flavor.node_labels, ""):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _about(nodes: RequiredNodes, labels: Mapping[str, str]) -> RequiredNodes:
    """What the wishes say about these labels."""
    wanted = Selector(tuple(each for each in nodes.labels.requirements if each.key in labels))
    if nodes.affinity is None:
        return RequiredNodes(wanted, None)
    terms = []
    for term in nodes.affinity.terms:
        kept = tuple(each for each in term.labels.requirements if each.key in labels)
        if not kept:
            return RequiredNodes(wanted, None)
        terms.append(NodeTerm(Selector(kept)))
    return RequiredNodes(wanted, NodeSelector(tuple(terms)) if terms else None)
