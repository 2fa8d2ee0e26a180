"""Pod affinity terms, prepared for matching: the incoming pod's own terms, and the terms of existing pods.

The incoming pod's own terms match existing pods; their namespace selectors are resolved once, when a state is created.
Terms of existing pods (``scheduling/cache/existing_terms.py``) match the incoming pod with the current labels of its
namespace. ``scheduling/plugins/interpodaffinity/term_counts.py`` counts the matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.kube.labels import Selector
from headgate.scheduling.cache.existing_terms import ExistingTerm
from headgate.scheduling.cache.label_groups import LabelGroupIndex
from headgate.scheduling.cache.pod_fields import AffinityTerm
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cluster.namespace_labels import NamespaceLabels

Identity = tuple[str, Mapping[str, str], Mapping[str, str]]
"""What a term of an existing pod reads of the incoming pod: its namespace, its labels, the labels of its namespace."""


class IncomingTerm:
    """One of a pod's own terms."""

    __slots__ = ("namespaces", "selector", "topology_key", "weight")

    def __init__(self, term: AffinityTerm, namespaces: NamespaceLabels, sign: int = 1) -> None:
        self.topology_key = term.topology_key
        self.selector = term.selector
        self.weight = sign * term.weight
        self.namespaces = matched_namespaces(term, namespaces)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


def matched_namespaces(term: AffinityTerm, namespaces: NamespaceLabels) -> frozenset[str] | None:
    """The namespaces whose pods a pod's own term can match; ``None`` for all.

    kube-scheduler also matches the namespace selector against an empty set of labels, so a selector that only excludes
    (``DoesNotExist``, ``NotIn``) selects every namespace. Headgate does the same.
    """
    selector = term.namespace_selector
    if selector.nothing:
        return term.namespaces
    return None if selector.matches({}) else term.namespaces | namespaces.selected(selector)


def namespace_selectors(shape: PodShape) -> tuple[Selector, ...]:
    """The namespace selectors of the shape's own terms that depend on namespace labels."""
    affinities = (shape.affinity, shape.anti_affinity)
    found = (term.namespace_selector for each in affinities for term in (*each.required, *each.preferred))
    return tuple(dict.fromkeys(each for each in found if not each.nothing and not each.matches({})))


def matches_all(terms: Iterable[IncomingTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    return all(each.matches(namespace, labels) for each in terms)


def rows_matching(label_groups: LabelGroupIndex, terms: tuple[IncomingTerm, ...]) -> dict[int, int]:
    """The number of pods per row that match all of these terms."""
    found: dict[int, int] = {}
    first, *others = terms
    for group in label_groups.selected(first.selector, first.namespaces):
        if matches_all(others, group.namespace, group.labels):
            for row, count in group.rows.items():
                found[row] = found.get(row, 0) + count
    return found


class MatchingTerms:
    """The terms of existing pods that match the incoming pods for which a state was made.

    Incoming pods without terms of their own share a state if the same ``terms`` match them (their ``key``), so this set
    never changes for the state. Pods with terms have their namespace and labels (``identity``) in their shape, and
    terms that appear later are matched against these."""

    def __init__(self, terms: Iterable[ExistingTerm], identity: Identity | None) -> None:
        self._terms = frozenset(terms)
        self._identity = identity

    def __contains__(self, existing_term: ExistingTerm) -> bool:
        return existing_term in self._terms if self._identity is None else existing_term.term.matches(*self._identity)
