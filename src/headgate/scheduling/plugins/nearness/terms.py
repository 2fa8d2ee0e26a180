"""Terms of affinity between pods, ready to be held against pods: the own ones of a shape, and those that others carry.

Own terms look at pods that are already there; which namespaces their selectors mean is looked up once, when a state is
made. Carried terms (``scheduling/carried.py``) look at the pod that comes, with the labels its namespace has now.
Counting what they find is ``plugins/nearness/counts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.kube.labels import Selector
from headgate.scheduling.carried import Carried
from headgate.scheduling.cohorts import Cohorts
from headgate.scheduling.namespaces import Namespaces
from headgate.scheduling.parts import PodTerm
from headgate.scheduling.shape import Shape

Identity = tuple[str, Mapping[str, str], Mapping[str, str]]
"""What a carried term reads of a pod: its namespace, its labels, the labels of its namespace."""


class Sought:
    """One of a pod's own terms."""

    __slots__ = ("namespaces", "selector", "topology_key", "weight")

    def __init__(self, term: PodTerm, namespaces: Namespaces, sign: int = 1) -> None:
        self.topology_key = term.topology_key
        self.selector = term.selector
        self.weight = sign * term.weight
        self.namespaces = meant_namespaces(term, namespaces)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


def meant_namespaces(term: PodTerm, namespaces: Namespaces) -> frozenset[str] | None:
    """The namespaces whose pods a pod's own term means; ``None`` for all.

    kube-scheduler holds the selector against no labels at all after it has listed the namespaces that it selects, so a
    selector that only excludes (``DoesNotExist``, ``NotIn``) means every namespace. We place pods as it does.
    """
    selector = term.namespace_selector
    if selector.nothing:
        return term.namespaces
    return None if selector.matches({}) else term.namespaces | namespaces.selected(selector)


def namespace_selectors(shape: Shape) -> tuple[Selector, ...]:
    """Those of the shape's own terms for which the labels of namespaces have to be looked up."""
    both = (shape.affinity, shape.anti_affinity)
    found = (term.namespace_selector for each in both for term in (*each.required, *each.preferred))
    return tuple(dict.fromkeys(each for each in found if not each.nothing and not each.matches({})))


def matches_all(terms: Iterable[Sought], namespace: str, labels: Mapping[str, str]) -> bool:
    return all(each.matches(namespace, labels) for each in terms)


def rows_matching(cohorts: Cohorts, terms: tuple[Sought, ...]) -> dict[int, int]:
    """How many pods that match all of these terms are on which row."""
    found: dict[int, int] = {}
    first, *others = terms
    for cohort in cohorts.selected(first.selector, first.namespaces):
        if matches_all(others, cohort.namespace, cohort.labels):
            for row, count in cohort.rows.items():
                found[row] = found.get(row, 0) + count
    return found


class Meant:
    """Which carried terms mean the pods that share a state.

    Pods without terms of their own share it if the same terms mean them (their ``key``), so for them the answer is
    fixed. Others bring their identity in their shape, and terms that come later are held against that.
    """

    def __init__(self, known: Iterable[Carried], identity: Identity | None) -> None:
        self._known = frozenset(known)
        self._identity = identity

    def __contains__(self, carried: Carried) -> bool:
        return carried in self._known if self._identity is None else carried.term.means(*self._identity)
