"""Queueing hints of InterPodAffinity: pods that are added, deleted or relabelled, and nodes that change domain.

The hints check the pod's own terms as kube-scheduler's do. They also check four cases that kube-scheduler misses, so
that it retries the pod only after five minutes:

- a pod is deleted whose anti-affinity rejected the waiting pod;
- a pod is deleted or relabelled that matched one of several anti-affinity terms of the waiting pod;
- the last pod is deleted that matched the affinity of the waiting pod, which may then be scheduled as the first one;
- a term has a namespace selector.
"""

from __future__ import annotations

import msgspec

from headgate.scheduling.cache.existing_terms import ExistingTermIndex
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import AffinityTerm
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cluster.namespace_labels import NamespaceLabels
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import new_node, old_node
from headgate.scheduling.plugins.interpodaffinity.terms import matched_namespaces
from headgate.waiting.queueing_hints import ClusterEventWithHint


def events_to_register(
    shape: PodShape, namespaces: NamespaceLabels, terms: ExistingTermIndex
) -> tuple[ClusterEventWithHint, ...]:
    pod_added = cluster_events.on(
        cluster_events.ASSIGNED_POD, cluster_events.ADD, guard=AffinityPodAdded(shape, namespaces)
    )
    return (
        *(pod_added if shape.affinity.required else ()),
        *cluster_events.on(
            cluster_events.ASSIGNED_POD, cluster_events.DELETE, guard=AffinityPodDeleted(shape, namespaces)
        ),
        *cluster_events.on(
            cluster_events.ASSIGNED_POD, cluster_events.POD_LABEL, guard=AffinityPodRelabeled(shape, namespaces)
        ),
        *cluster_events.on(cluster_events.UNSCHEDULABLE_POD, cluster_events.POD_LABEL),
        *cluster_events.on(cluster_events.NODE, cluster_events.ADD, guard=AffinityNodeAdded(shape)),
        *cluster_events.on(cluster_events.NODE, cluster_events.NODE_LABEL, guard=AffinityNodeMoved(shape, terms)),
    )


def _pod(found: object) -> PodInfo | None:
    return found if isinstance(found, PodInfo) else None


class _OwnTerms(msgspec.Struct, frozen=True):
    shape: PodShape
    namespaces: NamespaceLabels

    def matches_affinity(self, pod: PodInfo) -> bool:
        """Whether a pod matches all required affinity terms of the waiting pod."""
        terms = self.shape.affinity.required
        return bool(terms) and all(self._matches(each, pod) for each in terms)

    def matches_anti_affinity(self, pod: PodInfo) -> bool:
        return any(self._matches(each, pod) for each in self.shape.anti_affinity.required)

    def _matches(self, term: AffinityTerm, pod: PodInfo) -> bool:
        if not term.selector.matches(pod.labels):
            return False
        namespaces = matched_namespaces(term, self.namespaces)
        return namespaces is None or pod.namespace in namespaces

    def matches_anti_affinity_of(self, pod: PodInfo) -> bool:
        """Whether required anti-affinity of a pod on a node may reject the waiting pod. If the labels of the waiting
        pod are not part of its shape, any required anti-affinity may."""
        shape = self.shape
        anti_affinity = pod.shape.anti_affinity.required
        if shape.labels is None:
            return bool(anti_affinity)
        namespace_labels = self.namespaces.labels(shape.namespace)
        return any(each.matches(shape.namespace, shape.labels, namespace_labels) for each in anti_affinity)


class AffinityPodAdded(_OwnTerms, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        pod = _pod(event.new)
        return pod is None or self.matches_affinity(pod)


class AffinityPodDeleted(_OwnTerms, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        pod = _pod(event.old)
        return (
            pod is None
            or self.matches_anti_affinity_of(pod)
            or self.matches_anti_affinity(pod)
            or self.matches_affinity(pod)
        )


class AffinityPodRelabeled(_OwnTerms, frozen=True):
    """Labels of a pod on a node changed, and so whether the waiting pod's own terms match it."""

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = _pod(event.old), _pod(event.new)
        if old is None or new is None:
            return True
        return self.matches_affinity(old) != self.matches_affinity(new) or (
            self.matches_anti_affinity(old) and not self.matches_anti_affinity(new)
        )


class AffinityNodeAdded(msgspec.Struct, frozen=True):
    shape: PodShape

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        node = new_node(event)
        terms = self.shape.affinity.required
        return node is not None and (not terms or any(each.topology_key in node.labels for each in terms))


class AffinityNodeMoved(msgspec.Struct, frozen=True):
    """A node joined, left or changed a domain of a term: of the pod's own, or of an existing pod's."""

    shape: PodShape
    terms: ExistingTermIndex

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        if old is None or new is None:
            return new is not None
        own_terms = (*self.shape.affinity.required, *self.shape.anti_affinity.required)
        keys = (*(each.topology_key for each in own_terms), *self.terms.required_anti_affinity_keys)
        return any(old.labels.get(key) != new.labels.get(key) for key in keys)
