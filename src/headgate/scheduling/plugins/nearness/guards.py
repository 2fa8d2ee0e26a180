"""What may help a pod that InterPodAffinity turned away: pods that come, go or change labels, nodes that move.

These guards look at the pod's own terms as kube-scheduler's do, and also at what it overlooks and so leaves waiting for
five minutes: a pod that went and carried the anti-affinity that was in the way, one that matched a single anti-affinity
term of several, the last one of the pod's own kind (the next is then the first again), namespaces chosen by labels.
"""

from __future__ import annotations

import msgspec

from headgate.scheduling import events
from headgate.scheduling.carried import CarriedTerms
from headgate.scheduling.guards import new_node, old_node
from headgate.scheduling.namespaces import Namespaces
from headgate.scheduling.parts import PodTerm
from headgate.scheduling.plugins.nearness.terms import meant_namespaces
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker


def wakers(shape: Shape, namespaces: Namespaces, terms: CarriedTerms) -> tuple[Waker, ...]:
    came = events.on(events.ASSIGNED_POD, events.ADD, guard=PodCame(shape, namespaces))
    return (
        *(came if shape.affinity.required else ()),
        *events.on(events.ASSIGNED_POD, events.DELETE, guard=PodWent(shape, namespaces)),
        *events.on(events.ASSIGNED_POD, events.POD_LABEL, guard=PodChanged(shape, namespaces)),
        *events.on(events.UNSCHEDULABLE_POD, events.POD_LABEL),
        *events.on(events.NODE, events.ADD, guard=NodeCame(shape)),
        *events.on(events.NODE, events.NODE_LABEL, guard=NodeMoved(shape, terms)),
    )


def _pod(found: object) -> Pod | None:
    return found if isinstance(found, Pod) else None


class _OwnTerms(msgspec.Struct, frozen=True):
    shape: Shape
    namespaces: Namespaces

    def wants(self, pod: Pod) -> bool:
        """Whether a pod is one that the waiting one has to be near of."""
        terms = self.shape.affinity.required
        return bool(terms) and all(self._means(each, pod) for each in terms)

    def shuns(self, pod: Pod) -> bool:
        return any(self._means(each, pod) for each in self.shape.anti_affinity.required)

    def _means(self, term: PodTerm, pod: Pod) -> bool:
        if not term.selector.matches(pod.labels):
            return False
        meant = meant_namespaces(term, self.namespaces)
        return meant is None or pod.namespace in meant

    def is_shunned_by(self, pod: Pod) -> bool:
        """Whether a pod on a node keeps the waiting one away, as far as the shape can tell."""
        shape = self.shape
        repelling = pod.shape.anti_affinity.required
        if shape.labels is None:
            return bool(repelling)
        around = self.namespaces.labels(shape.namespace)
        return any(each.means(shape.namespace, shape.labels, around) for each in repelling)


class PodCame(_OwnTerms, frozen=True):
    def matches(self, event: events.Event, /) -> bool:
        pod = _pod(event.new)
        return pod is None or self.wants(pod)


class PodWent(_OwnTerms, frozen=True):
    def matches(self, event: events.Event, /) -> bool:
        pod = _pod(event.old)
        return pod is None or self.is_shunned_by(pod) or self.shuns(pod) or self.wants(pod)


class PodChanged(_OwnTerms, frozen=True):
    """Labels of a pod on a node changed, and so whether the waiting pod's own terms mean it."""

    def matches(self, event: events.Event, /) -> bool:
        old, new = _pod(event.old), _pod(event.new)
        if old is None or new is None:
            return True
        return self.wants(old) != self.wants(new) or (self.shuns(old) and not self.shuns(new))


class NodeCame(msgspec.Struct, frozen=True):
    shape: Shape

    def matches(self, event: events.Event, /) -> bool:
        node = new_node(event)
        terms = self.shape.affinity.required
        return node is not None and (not terms or any(each.topology_key in node.labels for each in terms))


class NodeMoved(msgspec.Struct, frozen=True):
    """A node came to, left or changed a domain that a term is about: the pod's own, or one that is carried."""

    shape: Shape
    terms: CarriedTerms

    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        if old is None or new is None:
            return new is not None
        own = (*self.shape.affinity.required, *self.shape.anti_affinity.required)
        keys = (*(each.topology_key for each in own), *self.terms.repelling_keys)
        return any(old.labels.get(key) != new.labels.get(key) for key in keys)
