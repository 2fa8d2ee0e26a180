"""Selects the spread constraints of a pod: its own, otherwise the scheduler's defaults.

A pod with any constraint, hard or soft, gets no defaults. A default constraint counts the pods that the pod's Services
and its controller select (``scheduling/cluster/pod_selectors.py``); without such a selector the pod is not spread by
default. ``hard_constraints.py`` and ``soft_constraints.py`` apply the constraints to nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.kube.labels import Requirement, Selector
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import SpreadConstraint, read_spread
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cluster.pod_selectors import PodSelectors

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

Constraints = tuple[SpreadConstraint, ...]

SYSTEM_DEFAULTS: Final = read_spread(
    (
        {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
    )
)


class DefaultSelector(msgspec.Struct, frozen=True):
    """The pods that default constraints count. ``is_member``: whether the pod itself is one of them."""

    namespace: str
    selector: Selector
    is_member: bool


class SpreadConstraints(msgspec.Struct, frozen=True):
    """The hard or the soft constraints of one pod, and the other fields of the pod that they read."""

    constraints: Constraints
    namespace: str
    labels: Mapping[str, str]
    needs_all_keys: bool = True
    """Whether nodes that lack one of the topology keys do not count. It is false for kube-scheduler's built-in
    defaults, so that clusters without zones still spread over nodes."""


class ConstraintSource:
    """``defaults``: the constraints for pods without constraints. ``is_system``: they are kube-scheduler's built-in
    ones."""

    def __init__(self, defaults: Constraints, selectors: PodSelectors, *, is_system: bool) -> None:
        self.defaults = defaults
        self._selectors = selectors
        self._is_system = is_system

    def default_selector(self, pod: PodInfo) -> DefaultSelector | None:
        """The selector of the default constraints; ``None`` if they do not apply to the pod."""
        if pod.shape.spread or not self.defaults:
            return None
        selector = self._selectors.of(pod)
        if selector is None:
            return None
        return DefaultSelector(pod.namespace, selector, selector.matches(pod.labels))

    def find(self, pod: PodInfo, *, is_hard: bool) -> SpreadConstraints | None:
        """The hard or soft constraints of the pod; ``None`` if there are none."""
        if pod.shape.spread:
            constraints = own_constraints(pod.shape, is_hard=is_hard)
        else:
            constraints = self._default(pod, is_hard=is_hard)
        if not constraints:
            return None
        needs_all_keys = bool(pod.shape.spread) or not self._is_system
        return SpreadConstraints(constraints, pod.namespace, pod.labels, needs_all_keys)

    def _default(self, pod: PodInfo, *, is_hard: bool) -> Constraints:
        constraints = tuple(each for each in self.defaults if each.is_hard is is_hard)
        default = self.default_selector(pod) if constraints else None
        if default is None:
            return ()
        return tuple(msgspec.structs.replace(each, selector=default.selector) for each in constraints)


def own_constraints(shape: PodShape, *, is_hard: bool) -> Constraints:
    """The constraints in the pod's specification, with the labels of ``matchLabelKeys`` added to the selector."""
    labels = shape.labels or {}
    return tuple(_with_match_label_keys(each, labels) for each in shape.spread if each.is_hard is is_hard)


def _with_match_label_keys(constraint: SpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    selector = constraint.selector
    added = tuple(Requirement(key, "=", (labels[key],)) for key in constraint.match_label_keys if key in labels)
    if not added or selector.nothing:
        return constraint
    return msgspec.structs.replace(constraint, selector=Selector(selector.requirements + added))
