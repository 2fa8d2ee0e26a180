"""Queues, PodGroups and namespaces, told to the queues' engine as the API shows them.

A part of the cluster (``cluster.py``) that gives no events: who may go on by a change of a queue is the engine's to
say, in its next admission step. The queue ``default`` counts as there, and without limits, until the API shows another:
on a server without these kinds, pods that name no queue are scheduled as anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.definitions import DEFAULT_QUEUE
from headgate.capacity.names import DEFAULT, POD_GROUPS, QUEUES
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
        queues.queue_applied(DEFAULT_QUEUE)

    def applied(self, resource: Resource, wire: Object, /) -> Iterable[Event]:
        if resource == QUEUES:
            self._queues.queue_applied(wire)
        elif resource == POD_GROUPS:
            self._queues.group_applied(wire)
        else:
            self._queues.namespace_applied(wire)
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, /) -> Iterable[Event]:
        if resource == QUEUES and name == DEFAULT:
            self._queues.queue_applied(DEFAULT_QUEUE)
        elif resource == QUEUES:
            self._queues.queue_removed(name)
        elif resource == POD_GROUPS:
            self._queues.group_removed(namespace, name)
        else:
            self._queues.namespace_removed(name)
        return ()
