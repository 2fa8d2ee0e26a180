"""A pod as its queue sees it (``capacity/task.py``), from the pod that the scheduler reads."""

from __future__ import annotations

from headgate.capacity.names import GATE
from headgate.capacity.task import Task, read_annotations
from headgate.scheduling.pod import Pod


def task_of(pod: Pod, *, enabled: bool = True) -> Task:
    """``enabled``: the feature gate QueueAllocationGate. Without it nobody has opted in, and a gate of ours that is
    left over does not hold its pod."""
    fields = read_annotations(pod.annotations, pod.uid)
    return Task(
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
