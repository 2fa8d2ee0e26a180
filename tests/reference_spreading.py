"""Topology spreading as a slow, obvious reference: everything is recounted for every pod and node, on wire objects."""

from __future__ import annotations

import math
from typing import Any

from headgate.kube import node_affinity, taints
from headgate.kube.labels import from_label_selector

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
UNEVEN = "node(s) didn't match pod topology spread constraints"
SYSTEM = [
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
]


class Spreading:
    """``pods`` by node name; ``selecting``: services and owners, each with a ``kind``."""

    def __init__(
        self,
        nodes: list[Object],
        pods: dict[str, list[Object]],
        selecting: list[Object],
        defaults: list[Object] | None = None,
    ) -> None:
        self.nodes = nodes
        self.pods = pods
        self.selecting = selecting
        self.defaults = defaults

    # -- which constraints ------------------------------------------------------------------------------------------

    def constraints(self, pod: Object, action: str) -> list[Object]:
        own = pod["spec"].get("topologySpreadConstraints")
        if own:
            return [narrowed(each, labels_of(pod)) for each in own if each["whenUnsatisfiable"] == action]
        defaults = SYSTEM if self.defaults is None else self.defaults
        expressions = self.siblings(pod)
        selector = {"matchExpressions": expressions}
        return [
            {**each, "labelSelector": selector}
            for each in defaults
            if expressions and each["whenUnsatisfiable"] == action
        ]

    def siblings(self, pod: Object) -> list[Object]:
        found: list[Object] = []
        near = [each for each in self.selecting if each["metadata"]["namespace"] == pod["metadata"]["namespace"]]
        for each in near:
            chosen = each["spec"].get("selector") or {}
            if each["kind"] == "Service" and chosen.items() <= labels_of(pod).items():
                found += [is_one(key, value) for key, value in chosen.items()]
        for owner in pod["metadata"].get("ownerReferences") or ():
            for each in near:
                if (each["kind"], each["metadata"]["name"]) != (owner["kind"], owner["name"]):
                    continue
                chosen = each["spec"]["selector"]
                if each["kind"] == "ReplicationController":
                    found = [other for other in found if other["key"] not in chosen]
                    found += [is_one(key, value) for key, value in chosen.items()]
                else:
                    found += [is_one(key, value) for key, value in (chosen.get("matchLabels") or {}).items()]
                    found += chosen.get("matchExpressions") or []
        return found

    # -- counting -----------------------------------------------------------------------------------------------------

    def count(self, node: Object, constraint: Object, namespace: str) -> int:
        selector = from_label_selector(constraint.get("labelSelector"))
        if selector.is_everything:
            return 0
        return sum(
            selector.matches(labels_of(each))
            for each in self.pods.get(node["metadata"]["name"], [])
            if each["metadata"]["namespace"] == namespace and "deletionTimestamp" not in each["metadata"]
        )

    def is_counted(self, node: Object, constraint: Object, pod: Object) -> bool:
        metadata = node["metadata"]
        if constraint.get("nodeAffinityPolicy") != "Ignore" and not node_affinity.required_node_affinity(pod).matches(
            metadata["labels"], metadata["name"]
        ):
            return False
        tolerations = pod["spec"].get("tolerations")
        honours = constraint.get("nodeTaintsPolicy") == "Honor"
        return not honours or taints.first_untolerated(node["spec"].get("taints"), tolerations) is None

    # -- filter ------------------------------------------------------------------------------------------------------

    def reason(self, pod: Object, node: Object) -> str:
        constraints = self.constraints(pod, "DoNotSchedule")
        for constraint in constraints:
            key = constraint["topologyKey"]
            if key not in labels_of(node):
                return f"{UNEVEN} (missing required label)"
            counts: dict[str, int] = {}
            for other in self.nodes:
                if has_all(other, constraints) and self.is_counted(other, constraint, pod):
                    value = labels_of(other)[key]
                    found = self.count(other, constraint, pod["metadata"]["namespace"])
                    counts[value] = counts.get(value, 0) + found
            least = min(counts.values(), default=0)
            if len(counts) < (constraint.get("minDomains") or 1):
                least = 0
            is_member = from_label_selector(constraint.get("labelSelector")).matches(labels_of(pod))
            if counts.get(labels_of(node)[key], 0) + is_member - least > constraint["maxSkew"]:
                return UNEVEN
        return ""

    # -- score -------------------------------------------------------------------------------------------------------

    def scores(self, pod: Object, feasible: list[Object]) -> dict[str, int]:
        constraints = self.constraints(pod, "ScheduleAnyway")
        if not constraints:
            return {}
        is_strict = bool(pod["spec"].get("topologySpreadConstraints")) or self.defaults is not None
        scored = [node for node in feasible if not is_strict or has_all(node, constraints)]
        raw = {
            node["metadata"]["name"]: self._raw(pod, node, constraints, scored, is_strict=is_strict) for node in scored
        }
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        return {
            name: (100 * (most + least - raw[name]) // most if most else 100) if name in raw else 0
            for name in (str(node["metadata"]["name"]) for node in feasible)
        }

    def _raw(
        self, pod: Object, node: Object, constraints: list[Object], scored: list[Object], *, is_strict: bool
    ) -> int:
        total, namespace = 0.0, pod["metadata"]["namespace"]
        for constraint in constraints:
            key = constraint["topologyKey"]
            if key not in labels_of(node):
                continue
            value = labels_of(node)[key]
            if key == HOSTNAME:
                domains, count = len(scored), self.count(node, constraint, namespace)
            else:
                domains = len({labels_of(other).get(key, "") for other in scored})
                count = sum(
                    self.count(other, constraint, namespace)
                    for other in self.nodes
                    if labels_of(other).get(key, "") == value
                    and (not is_strict or has_all(other, constraints))
                    and self.is_counted(other, constraint, pod)
                )
            total += count * math.log(domains + 2) + (constraint["maxSkew"] - 1)
        return math.floor(total + 0.5)


def labels_of(wire: Object) -> dict[str, str]:
    return wire["metadata"].get("labels") or {}


def has_all(node: Object, constraints: list[Object]) -> bool:
    return all(each["topologyKey"] in labels_of(node) for each in constraints)


def is_one(key: str, value: str) -> Object:
    return {"key": key, "operator": "In", "values": [value]}


def narrowed(constraint: Object, labels: dict[str, str]) -> Object:
    selector = constraint.get("labelSelector")
    added = [is_one(key, labels[key]) for key in constraint.get("matchLabelKeys") or () if key in labels]
    if selector is None or not added:
        return constraint
    return {
        **constraint,
        "labelSelector": {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]},
    }
