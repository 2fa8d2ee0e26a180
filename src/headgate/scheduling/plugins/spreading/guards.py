"""Which events may help a pod that was turned away because its domains would become too uneven.

A pod that counts came, went, or counts otherwise by its labels; a node joined or left the domains, moved between them
or changed its taints; the pod itself changed. What is told here of defaults is too much rather than too little: shapes
do not say whose siblings a pod is spread among.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.kube.labels import Selector
from headgate.scheduling import events
from headgate.scheduling.guards import new_node, old_node, own_pod
from headgate.scheduling.plugins.spreading.rules import Constraints, stated
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker


def wakers(shape: Shape, defaults: Constraints) -> tuple[Waker, ...]:
    """``defaults`` are the hard ones, which hold for shapes that state no constraint."""
    constraints = stated(shape, is_hard=True) if shape.spread else defaults
    keys = tuple(sorted({each.topology_key for each in constraints}))
    selectors: tuple[Selector, ...] | None = None
    if shape.spread:
        selectors = tuple(dict.fromkeys(each.selector for each in constraints))
    names = tuple(sorted({name for each in constraints for name in each.match_label_keys}))
    own = [*events.on(events.UNSCHEDULABLE_POD, events.POD_LABEL, guard=CountsOtherwise(selectors, names))]
    if any(each.honours_node_taints for each in constraints):
        own += events.on(events.UNSCHEDULABLE_POD, events.POD_TOLERATION)
    return (
        *events.on(
            events.ASSIGNED_POD,
            events.ADD,
            events.POD_LABEL,
            events.DELETE,
            guard=Counted(shape.namespace if shape.spread else None, selectors),
        ),
        *own,
        *events.on(
            events.NODE, events.ADD, events.DELETE, events.NODE_LABEL, events.NODE_TAINT, guard=DomainsMoved(keys)
        ),
    )


class Counted(msgspec.Struct, frozen=True):
    """A pod that has a node, or was promised one, and counts for one of the selectors only before, or only after."""

    namespace: str | None
    selectors: tuple[Selector, ...] | None

    def matches(self, event: events.Event, /) -> bool:
        found = [each for each in (event.old, event.new) if isinstance(each, Pod)]
        if any(not (each.node_name or each.nominated_node) for each in found):
            return False
        if any(self.namespace not in (None, each.namespace) for each in found):
            return False
        if self.selectors is None:
            return True
        return any(_counts(each, event.old) is not _counts(each, event.new) for each in self.selectors)


def _counts(selector: Selector, pod: Pod | None) -> bool:
    return pod is not None and selector.matches(pod.labels)


class CountsOtherwise(msgspec.Struct, frozen=True):
    """The waiting pod itself counts, or did before, or is now compared with others."""

    selectors: tuple[Selector, ...] | None
    keys: tuple[str, ...]

    def matches(self, event: events.Event, /) -> bool:
        old, new = event.old, own_pod(event)
        if new is None or not isinstance(old, Pod):
            return False
        if self.selectors is None or any(old.labels.get(key) != new.labels.get(key) for key in self.keys):
            return True
        return any(each.matches(old.labels) is not each.matches(new.labels) for each in self.selectors)


class DomainsMoved(msgspec.Struct, frozen=True):
    """A node has all topology keys only before, only after, or has other domains or taints than before."""

    keys: tuple[str, ...]

    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        before = old is not None and self._has_all(old.labels)
        after = new is not None and self._has_all(new.labels)
        if old is None or new is None or before is not after:
            return before or after
        is_moved = any(old.labels[key] != new.labels[key] for key in self.keys) if after else False
        return is_moved or (after and old.taints != new.taints)

    def _has_all(self, labels: Mapping[str, str]) -> bool:
        return all(key in labels for key in self.keys)
