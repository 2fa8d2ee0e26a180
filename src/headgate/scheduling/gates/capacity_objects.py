"""Passes Queues, PodGroups and namespaces to the queue engine (``capacity/engine.py``), and converts pods to its tasks.

:func:`task_of` makes a task (``capacity/api/task.py``) from a pod. :class:`CapacityObjectHandler` is an event handler
of ``scheduling/cluster/cluster.py``. It returns no events, because the queue engine decides in the next admission step
which pods may be tried after a change of a queue. Until the API server shows a queue ``default``, the engine has one
without limits, so that on a server without these kinds pods without a queue are scheduled as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.api.lease import LAPSED_TEXT
from headgate.capacity.api.task import TaskInfo, read_annotations
from headgate.capacity.api.times import RunTime
from headgate.capacity.engine import QueueEngine
from headgate.capacity.kinds.definitions import DEFAULT_QUEUE
from headgate.capacity.names import DEFAULT, GATE, OPT_IN, POD_GROUPS, QUEUES, STAMP
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.conditions import WAITING_FOR_QUEUE
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ClusterEvent


def task_of(pod: PodInfo, *, enabled: bool = True) -> TaskInfo:
    """``enabled``: the feature gate QueueAllocationGate. If it is off, no pod counts as opted in, and the queue gate of
    a pod that opted in does not hold the pod, because it is removed. Other pods keep their gate, and wait behind it."""
    fields = read_annotations(pod.annotations, pod.uid)
    is_gate_removed = not enabled and fields.opted_in
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
        gates=tuple(each for each in pod.gates if each != GATE) if is_gate_removed else pod.gates,
        stamp=fields.stamp,
        node_name=pod.node_name,
        is_terminal_or_terminating=pod.deleting or pod.terminal,
        succeeded=pod.succeeded,
        is_terminal=pod.terminal,
        priority_class=pod.priority_class,
        lease_s=fields.lease_s,
        lapse=fields.lapse,
        run_time=None if (limit_s := pod.run_time_limit_s) is None else RunTime(limit_s, pod.grace_s, pod.started_s),
        sla_s=fields.sla_s,
    )


def asks_in_spite_of_lapse(pod: PodInfo) -> bool:
    """Whether the condition of the pod gives another reason to wait for its queue than a lapse: its scheduler runs
    without the feature gate ReservationLease, or the back-off is over. After a lapse the reason is Unschedulable until
    the scheduler has written the new condition."""
    shown = pod.scheduled
    return shown is not None and shown.reason == WAITING_FOR_QUEUE and LAPSED_TEXT not in shown.message


def counts_in_queue(pod: PodInfo, *, enabled: bool = True) -> bool:
    """Whether a pod that another scheduler binds counts in its queue. A pod without a node counts only if it takes part
    in the queue gate: it opted in, or has the gate or a stamp. Any other pod counts from its binding on, because the
    other scheduler does not ask its queue. ``enabled``: the feature gate QueueAllocationGate."""
    takes_part = GATE in pod.gates or pod.annotations.get(OPT_IN) == "true" or bool(pod.annotations.get(STAMP))
    return bool(pod.node_name) or (enabled and takes_part)


def leaves_capacity(pod: PodInfo) -> bool:
    """Whether the pod terminates on a node and leaves its capacity to other pods. The capacity of a DaemonSet's pod is
    for its replacement."""
    return bool(pod.node_name) and pod.gone_by_s is not None and not pod.terminal and not pod.is_daemon


Object = Mapping[str, Any]

_FIELDS: Final = ("metadata.annotations", "metadata.creationTimestamp", "metadata.deletionTimestamp", "spec", "status")


class CapacityObjectHandler:
    """Passes Queues, PodGroups and namespaces to the queue engine."""

    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {
        QUEUES: _FIELDS,
        POD_GROUPS: _FIELDS,
        NAMESPACES: ("metadata.annotations",),
    }

    def __init__(self, queues: QueueEngine) -> None:
        self._queues = queues
        queues.queue_applied(DEFAULT_QUEUE)

    def applied(self, resource: APIResource, obj: Object, /) -> Iterable[ClusterEvent]:
        if resource == QUEUES:
            self._queues.queue_applied(obj)
        elif resource == POD_GROUPS:
            self._queues.group_applied(obj)
        else:
            self._queues.namespace_applied(obj)
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
