"""What an action will do to a cluster, in sentences: which units move where in their lines, and who is affected.

The engines answer on copies, as for explanations; nothing is changed. Whether the user may do it is asked by the
caller. ``needs_queues`` marks sentences that follow from objects of others, for viewers who may list queues only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import QueueRow, QuotaRow
from headgate.views.viewed_pod import QUEUE_GATES, ViewedPod

_SCHEDULES: Final = "no gate is left: its scheduler tries to place it at once"


class Effect(msgspec.Struct, frozen=True):
    text: str
    needs_queues: bool = False


def lift_effects(views: ClusterViews, pod: ViewedPod, gate: str) -> Iterator[Effect]:
    left = [each for each in pod.gates if each != gate]
    yield Effect(f"the gate {gate} is removed from pod {pod.key}")
    if gate in QUEUE_GATES:
        yield Effect(
            "this is the gate of a queue: a queue removes it when it admits the pod; without it the pod may start "
            "although its queue has no capacity for it"
        )
    if others := [each for each in left if each not in QUEUE_GATES]:
        yield Effect(f"it stays held by {', '.join(others)}")
        return
    found = views.queues.engine.after_lift(pod.uid, gate)
    if found is not None and (left or found.wait is not None):
        yield from _queue_decides(found.queue, found.position, "" if found.wait is None else found.wait.message)
    elif not left:
        yield Effect(_SCHEDULES)


def _queue_decides(queue: str, position: int | None, refusal: str) -> Iterator[Effect]:
    if not refusal:
        yield Effect(f"queue {queue} has capacity for it, and admits it", needs_queues=True)
        return
    if position is not None:
        yield Effect(f"it waits in queue {queue} then, at place {position + 1}", needs_queues=True)
    yield Effect(f"its queue does not admit it yet: {refusal}", needs_queues=True)


def queue_effects(row: QueueRow | QuotaRow, *, is_held: bool) -> Iterator[Effect]:
    """``row``: of the queue; who sees the row may know its numbers."""
    if isinstance(row, QueueRow):
        name, waiting = f"Queue {row.key}", _counted(row.waiting, "waiting pod")
        running = "pods that have capacity keep it, and keep running"
    else:
        shown = f"{row.namespace}/{row.name}" if row.namespace else row.name
        name, waiting = f"{row.kind} {shown}", _counted(row.pending, "waiting Workload")
        running = f"{_counted(row.admitted + row.reserving, 'Workload')} with quota: not changed"
    if is_held:
        yield Effect(f"{name} admits nothing until it is resumed; {waiting} in line: not changed")
        yield Effect(running)
    else:
        yield Effect(f"{name} admits again in the order of its line, as far as it has capacity; {waiting} in line")
    if isinstance(row, QueueRow):
        yield Effect("this also holds for the queues below it" if is_held else "so do the queues below it")


def workload_effects(views: ClusterViews, key: str, *, is_held: bool) -> Iterator[Effect]:
    """``key``: namespace/name of the Workload."""
    pending = views.quota.engine.queue_manager.get(key)
    if not is_held:
        yield Effect("its Workload waits for quota again, at the place of its priority and creation time")
        return
    yield Effect("its Workload is not admitted until the job is resumed; the job and its place by age are kept")
    if pending is not None:
        keys = [each.key for each in views.quota.engine.queue_manager.pending(pending.queue)]
        behind = len(keys) - 1 - keys.index(key)
        text = f"one place up in ClusterQueue {pending.queue}: {_counted(behind, 'Workload')} behind it"
        yield Effect(text, needs_queues=True)


def priority_effects(views: ClusterViews, key: str, priority: int) -> Iterator[Effect]:
    workload = views.quota.engine.workloads.get(key)
    if workload is None:
        return
    yield Effect(f"the priority of Workload {key} changes from {workload.priority} to {priority}")
    pending = views.quota.engine.queue_manager.get(key)
    if pending is None:
        yield Effect("it does not wait for quota: the priority counts when others want to preempt it")
        return
    line = views.quota.engine.queue_manager.pending(pending.queue)
    before = [each.key for each in line].index(key)
    moved = msgspec.structs.replace(pending, workload=msgspec.structs.replace(workload, priority=priority))
    after = sum(each.order < moved.order for each in line if each.key != key)
    passed = f"passes {_counted(before - after, 'Workload')}" if after < before else f"falls behind {after - before}"
    moved_text = f"it moves from place {before + 1} to {after + 1} of {len(line)}: it {passed}"
    text = "its place stays" if after == before else moved_text
    yield Effect(f"in ClusterQueue {pending.queue} {text}", needs_queues=True)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
