"""Queueing hints of PodTopologySpread: events that may make a pod schedulable that a hard constraint rejected.

A matching pod is added, deleted or relabelled; a node joins, leaves or changes a domain, or changes its taints; the pod
itself changes. For default constraints the hints match too many events rather than too few, because a shape does not
include the default selector.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.kube.labels import Selector
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import new_node, old_node, own_pod
from headgate.scheduling.plugins.podtopologyspread.constraints import Constraints, own_constraints
from headgate.waiting.queueing_hints import ClusterEventWithHint


def events_to_register(shape: PodShape, defaults: Constraints) -> tuple[ClusterEventWithHint, ...]:
    """``defaults``: the hard default constraints, for shapes without constraints of their own."""
    constraints = own_constraints(shape, is_hard=True) if shape.spread else defaults
    keys = tuple(sorted({each.topology_key for each in constraints}))
    selectors: tuple[Selector, ...] | None = None
    if shape.spread:
        selectors = tuple(dict.fromkeys(each.selector for each in constraints))
    names = tuple(sorted({name for each in constraints for name in each.match_label_keys}))
    events_of_pod_itself = [
        *cluster_events.on(
            cluster_events.UNSCHEDULABLE_POD, cluster_events.POD_LABEL, guard=IncomingPodRelabeled(selectors, names)
        )
    ]
    if any(each.honours_node_taints for each in constraints):
        events_of_pod_itself += cluster_events.on(cluster_events.UNSCHEDULABLE_POD, cluster_events.POD_TOLERATION)
    return (
        *cluster_events.on(
            cluster_events.ASSIGNED_POD,
            cluster_events.ADD,
            cluster_events.POD_LABEL,
            cluster_events.DELETE,
            guard=SpreadPodChanged(shape.namespace if shape.spread else None, selectors),
        ),
        *events_of_pod_itself,
        *cluster_events.on(
            cluster_events.NODE,
            cluster_events.ADD,
            cluster_events.DELETE,
            cluster_events.NODE_LABEL,
            cluster_events.NODE_TAINT,
            guard=SpreadDomainsChanged(keys),
        ),
    )


class SpreadPodChanged(msgspec.Struct, frozen=True):
    """A pod with a node or a nominated node that matches one of the selectors only before or only after the event."""

    namespace: str | None
    selectors: tuple[Selector, ...] | None

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        found = [each for each in (event.old, event.new) if isinstance(each, PodInfo)]
        if any(not (each.node_name or each.nominated_node) for each in found):
            return False
        if any(self.namespace not in (None, each.namespace) for each in found):
            return False
        if self.selectors is None:
            return True
        return any(_counts(each, event.old) is not _counts(each, event.new) for each in self.selectors)


def _counts(selector: Selector, pod: PodInfo | None) -> bool:
    return pod is not None and selector.matches(pod.labels)


class IncomingPodRelabeled(msgspec.Struct, frozen=True):
    """The waiting pod's own match changed, or the labels by which other pods are matched."""

    selectors: tuple[Selector, ...] | None
    keys: tuple[str, ...]

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = event.old, own_pod(event)
        if new is None or not isinstance(old, PodInfo):
            return False
        if self.selectors is None or any(old.labels.get(key) != new.labels.get(key) for key in self.keys):
            return True
        return any(each.matches(old.labels) is not each.matches(new.labels) for each in self.selectors)


class SpreadDomainsChanged(msgspec.Struct, frozen=True):
    """A node has all topology keys only before or only after the event, or its domains or taints changed."""

    keys: tuple[str, ...]

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        before = old is not None and self._has_all(old.labels)
        after = new is not None and self._has_all(new.labels)
        if old is None or new is None or before is not after:
            return before or after
        domain_changed = any(old.labels[key] != new.labels[key] for key in self.keys) if after else False
        return domain_changed or (after and old.taints != new.taints)

    def _has_all(self, labels: Mapping[str, str]) -> bool:
        return all(key in labels for key in self.keys)
