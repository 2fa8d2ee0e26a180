"""Passes Queues, PodGroups and namespaces to the engine of ``capacity/``, and converts pods to its tasks.

:func:`task_of` makes a task (``capacity/api/task.py``) from a pod. :class:`CapacityObjectHandler` is an event handler
of ``scheduling/cluster/cluster.py`` that returns no events: the engine decides in the next admission step which pods a
change of a queue admits. The queue ``default`` exists without limits until the API server shows one, so that on a
server without these kinds pods without a queue are scheduled as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.api.task import TaskInfo, read_annotations
from headgate.capacity.engine import QueueEngine
from headgate.capacity.kinds.definitions import DEFAULT_QUEUE
from headgate.capacity.names import DEFAULT, GATE, POD_GROUPS, QUEUES
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ClusterEvent


def task_of(pod: PodInfo, *, enabled: bool = True) -> TaskInfo:
    """``enabled``: the feature gate QueueAllocationGate. Without it nobody has opted in, and a gate of ours that is
    left over does not hold its pod."""
    fields = read_annotations(pod.annotations, pod.uid)
    return TaskInfo(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        requests=pod.shape.requests,
        priority=pod.priority,
        created_s=pod.created_s,
        group=fields.group,
        queue=fields.queue,
        role=fields.role,
        opted_in=fields.opted_in and enabled,
        preemptable=fields.preemptable,
        gates=pod.gates if enabled else tuple(each for each in pod.gates if each != GATE),
        stamp=fields.stamp,
        node_name=pod.node_name,
        leaving=pod.deleting or pod.terminal,
        succeeded=pod.succeeded,
        ended=pod.terminal,
    )


Object = Mapping[str, Any]

_FIELDS: Final = ("metadata.annotations", "metadata.creationTimestamp", "metadata.deletionTimestamp", "spec", "status")


class CapacityObjectHandler:
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {
        QUEUES: _FIELDS,
        POD_GROUPS: _FIELDS,
        NAMESPACES: ("metadata.annotations",),
    }

    def __init__(self, queues: QueueEngine) -> None:
        self._queues = queues
        queues.queue_applied(DEFAULT_QUEUE)

    def applied(self, resource: APIResource, wire: Object, /) -> Iterable[ClusterEvent]:
        if resource == QUEUES:
            self._queues.queue_applied(wire)
        elif resource == POD_GROUPS:
            self._queues.group_applied(wire)
        else:
            self._queues.namespace_applied(wire)
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        if resource == QUEUES and name == DEFAULT:
            self._queues.queue_applied(DEFAULT_QUEUE)
        elif resource == QUEUES:
            self._queues.queue_removed(name)
        elif resource == POD_GROUPS:
            self._queues.group_removed(namespace, name)
        else:
            self._queues.namespace_removed(name)
        return ()
