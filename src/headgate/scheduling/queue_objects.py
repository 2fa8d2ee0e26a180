"""Queues, PodGroups and namespaces, told to the queues' engine as the API shows them.

A part of the cluster (``cluster.py``) that gives no events: who may go on by a change of a queue is the engine's to
say, in its next admission step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.capacity.queues import Queues
from headgate.kube.resource import NAMESPACES, Resource
from headgate.scheduling.events import Event

Object = Mapping[str, Any]

_FIELDS: Final = ("metadata.annotations", "metadata.creationTimestamp", "metadata.deletionTimestamp", "spec", "status")


class QueueObjects:
    watched: Final[Mapping[Resource, tuple[str, ...]]] = {
        QUEUES: _FIELDS,
        POD_GROUPS: _FIELDS,
        NAMESPACES: ("metadata.annotations",),
    }

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def applied(self, resource: Resource, wire: Object, /) -> Iterable[Event]:
        if resource == QUEUES:
            self._queues.queue_applied(wire)
        elif resource == POD_GROUPS:
            self._queues.group_applied(wire)
        else:
            self._queues.namespace_applied(wire)
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, /) -> Iterable[Event]:
        if resource == QUEUES:
            self._queues.queue_removed(name)
        elif resource == POD_GROUPS:
            self._queues.group_removed(namespace, name)
        else:
            self._queues.namespace_removed(name)
        return ()
