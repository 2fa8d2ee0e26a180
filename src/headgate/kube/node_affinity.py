"""Required and preferred nodes of a pod: ``nodeSelector`` and node affinity.

Selectors are parsed once and then matched with the labels and names of many nodes. The terms of a node selector are
alternatives; within a term all requirements must hold. An empty term selects nothing, and so does an invalid term: the
others still count. Scheduler plugins handle affinity between pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.labels import Operator, Requirement, Selector, check_requirement, from_set

_OPERATORS: Final[dict[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}
NAME_FIELD: Final = "metadata.name"


class NodeSelectorTerm(msgspec.Struct, frozen=True):
    """Requirements on a node's labels and on its fields, all of which must hold."""

    labels: Selector = Selector()
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        if not self.labels.matches(labels):
            return False
        # The name is the only field; any other field is empty.
        return all(
            ((name if field.key == NAME_FIELD else "") == field.values[0]) is (field.operator == "in")
            for field in self.fields
        )


class NodeSelector(msgspec.Struct, frozen=True):
    """Alternatives. Without any, nothing is selected."""

    terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


class RequiredNodeAffinity(msgspec.Struct, frozen=True):
    """``spec.nodeSelector`` and required node affinity."""

    labels: Selector = Selector()
    affinity: NodeSelector | None = None

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        return self.labels.matches(labels) and (self.affinity is None or self.affinity.matches(labels, name))

    @property
    def is_everything(self) -> bool:
        return self.affinity is None and self.labels.is_everything


class PreferredSchedulingTerms(msgspec.Struct, frozen=True):
    """Weighted preferences."""

    terms: tuple[tuple[int, NodeSelectorTerm], ...] = ()

    def score(self, labels: Mapping[str, str] | None, name: str) -> int:
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def required_node_affinity(pod: Mapping[str, Any]) -> RequiredNodeAffinity:
    spec = pod.get("spec") or {}
    required = _node_affinity(spec).get("requiredDuringSchedulingIgnoredDuringExecution")
    return RequiredNodeAffinity(
        from_set(spec.get("nodeSelector") or {}), None if required is None else read_node_selector(required)
    )


def preferred_scheduling_terms(pod: Mapping[str, Any]) -> PreferredSchedulingTerms:
    preferences = _node_affinity(pod.get("spec") or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    weighted = (
        (each.get("weight") or 0, read_node_selector_term(each.get("preference") or {})) for each in preferences
    )
    return PreferredSchedulingTerms(tuple((weight, term) for weight, term in weighted if weight and term is not None))


def read_node_selector(selector: Mapping[str, Any]) -> NodeSelector:
    terms = (read_node_selector_term(term) for term in selector.get("nodeSelectorTerms") or ())
    return NodeSelector(tuple(term for term in terms if term is not None))


def read_node_selector_term(term: Mapping[str, Any]) -> NodeSelectorTerm | None:
    """``None`` for a term that selects nothing because it is empty or invalid."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return None
    labels = _read_requirements(expressions)
    names = _read_requirements(fields)
    if labels is None or names is None:
        return None
    if any(each.operator not in ("in", "notin") or len(each.values) != 1 for each in names):
        return None
    if any(check_requirement(each.key, each.operator, each.values) for each in labels):
        return None
    return NodeSelectorTerm(Selector(labels), names)


def _read_requirements(expressions: Sequence[Mapping[str, Any]]) -> tuple[Requirement, ...] | None:
    read = []
    for expression in expressions:
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            return None
        read.append(Requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ())))
    return tuple(read)


def _node_affinity(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}
