"""What keeps a workload from waiting in a queue at all, and what could change that.

One order, one writer: a workload that is blocked twice says the first of it, and says it once (in Kueue two writers
take turns when a gated workload's queue is stopped, for ever). Whoever is not blocked waits in ``queueing.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.quota import names
from headgate.quota.activity import Activity
from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.local_queue import LocalQueue
from headgate.quota.queueing import Reason
from headgate.quota.workload import Workload
from headgate.waiting.waker import Topic


class Surroundings(msgspec.Struct, frozen=True):
    """What a workload finds around it. ``labels`` of its namespace; None if there is no such namespace."""

    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    activity: Activity | None = None
    labels: Mapping[str, str] | None = None
    honours_gates: bool = True


class Blocker(msgspec.Struct, frozen=True):
    reason: Reason
    topics: tuple[Topic, ...] = ()
    until_s: float | None = None


_SILENT = Reason("")
_CLAIMS = "Workload uses DRA resources (spec.resourceClaims of its pods), which are not counted"


def find_blocker(workload: Workload, around: Surroundings, now_s: float) -> Blocker | None:
    """A blocker that names no topic ends when the workload itself changes."""
    for find in (_itself, _its_queues, _its_namespace, _its_state):
        found = find(workload, around, now_s)
        if found is not None:
            return found
    return None


def _itself(workload: Workload, around: Surroundings, now_s: float) -> Blocker | None:
    if not workload.is_active:
        return Blocker(Reason(names.DEACTIVATED, "The workload is deactivated"))
    if workload.lacks(names.QUOTA_RESERVED, names.ON_HOLD):
        return Blocker(_SILENT)
    claiming = [each.name for each in workload.pod_sets if each.has_claims]
    if claiming:
        return Blocker(Reason(names.MISCONFIGURED, f"{_CLAIMS}: pod sets {', '.join(claiming)}"))
    return None


def _its_queues(workload: Workload, around: Surroundings, now_s: float) -> Blocker | None:
    local, queue, activity = around.local_queue, around.cluster_queue, around.activity
    here: Topic = ("local queue", workload.queue_key)
    if local is None:
        return Blocker(Reason(names.MISCONFIGURED, f"LocalQueue {workload.queue} doesn't exist"), (here,))
    if local.stop_policy != names.NONE or local.is_terminating:
        return Blocker(Reason(names.SUSPENDED, f"LocalQueue {workload.queue} is inactive"), (here,))
    there: Topic = ("cluster queue", local.cluster_queue)
    if queue is None:
        message = f"ClusterQueue {local.cluster_queue} doesn't exist"
        return Blocker(Reason(names.MISCONFIGURED, message), (here, there))
    if activity is None or not activity.is_active:
        return Blocker(Reason(names.SUSPENDED, f"ClusterQueue {queue.name} is inactive"), (here, there))
    return None


def _its_namespace(workload: Workload, around: Surroundings, now_s: float) -> Blocker | None:
    queue, labels = around.cluster_queue, around.labels
    if queue is None:
        return None
    if labels is not None and queue.namespaces.matches(labels):
        return None
    topics: tuple[Topic, ...] = (
        ("local queue", workload.queue_key),
        ("cluster queue", queue.name),
        ("namespace", workload.namespace),
    )
    said = (
        f'workload namespace "{workload.namespace}" does not exist'
        if labels is None
        else "workload namespace doesn't match ClusterQueue selector"
    )
    return Blocker(Reason(names.MISCONFIGURED, said), topics)


def _its_state(workload: Workload, around: Surroundings, now_s: float) -> Blocker | None:
    if around.honours_gates and workload.gates:
        return Blocker(Reason(names.ADMISSION_GATED, f"Admission is gated by: {workload.gates}"))
    if any(check.state in (names.CHECK_RETRY, names.CHECK_REJECTED) for check in workload.checks):
        return Blocker(Reason(names.PENDING_EVALUATION, "The workload has failed admission checks"))
    if workload.has(names.WAITING_FOR_REPLACEMENT_PODS) or workload.lacks(names.REQUEUED):
        return Blocker(_SILENT)
    if workload.requeue_at_s is not None and workload.requeue_at_s > now_s:
        return Blocker(_SILENT, (), workload.requeue_at_s)
    return None
