"""Which spread constraints hold for a pod: those it states itself, else the defaults of the scheduler.

A pod that states any, hard or soft, gets no defaults. The pods that a default constraint counts are the siblings of
the pod: those that the services it belongs to and its controller select (``scheduling/selectors.py``); a pod without
siblings is not spread by default. What the constraints mean for nodes is ``hard.py``'s and ``soft.py``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.kube.labels import Requirement, Selector
from headgate.scheduling.parts import SpreadConstraint, read_spread
from headgate.scheduling.pod import Pod
from headgate.scheduling.selectors import Selectors
from headgate.scheduling.shape import Shape

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

Constraints = tuple[SpreadConstraint, ...]

SYSTEM_DEFAULTS: Final = read_spread(
    (
        {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
    )
)


class Siblings(msgspec.Struct, frozen=True):
    """The pods among which a pod is spread by default. ``is_member``: whether it is one of them itself."""

    namespace: str
    selector: Selector
    is_member: bool


class Rules(msgspec.Struct, frozen=True):
    """The constraints of one kind for one pod, and what else of the pod they look at."""

    constraints: Constraints
    namespace: str
    labels: Mapping[str, str]
    needs_all_keys: bool = True
    """Nodes that lack one of the topology keys do not count. Kubernetes' own defaults are not that strict, so that
    clusters without zones still spread over nodes."""


class Rulebook:
    def __init__(self, defaults: Constraints, selectors: Selectors, *, is_system: bool) -> None:
        self.defaults = defaults
        self._selectors = selectors
        self._is_system = is_system

    def siblings(self, pod: Pod) -> Siblings | None:
        """``None``: the defaults do not concern the pod."""
        if pod.shape.spread or not self.defaults:
            return None
        selector = self._selectors.of(pod)
        if selector is None:
            return None
        return Siblings(pod.namespace, selector, selector.matches(pod.labels))

    def find(self, pod: Pod, *, is_hard: bool) -> Rules | None:
        """``None``: no constraint of this kind holds for the pod."""
        if pod.shape.spread:
            constraints = stated(pod.shape, is_hard=is_hard)
        else:
            constraints = self._default(pod, is_hard=is_hard)
        if not constraints:
            return None
        needs_all_keys = bool(pod.shape.spread) or not self._is_system
        return Rules(constraints, pod.namespace, pod.labels, needs_all_keys)

    def _default(self, pod: Pod, *, is_hard: bool) -> Constraints:
        constraints = tuple(each for each in self.defaults if each.is_hard is is_hard)
        siblings = self.siblings(pod) if constraints else None
        if siblings is None:
            return ()
        return tuple(msgspec.structs.replace(each, selector=siblings.selector) for each in constraints)


def stated(shape: Shape, *, is_hard: bool) -> Constraints:
    """What pods of this shape ask for themselves, with the labels that ``matchLabelKeys`` name in the selector."""
    labels = shape.labels or {}
    return tuple(_narrowed(each, labels) for each in shape.spread if each.is_hard is is_hard)


def _narrowed(constraint: SpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    selector = constraint.selector
    added = tuple(Requirement(key, "=", (labels[key],)) for key in constraint.match_label_keys if key in labels)
    if not added or selector.nothing:
        return constraint
    return msgspec.structs.replace(constraint, selector=Selector(selector.requirements + added))
