"""Blockers: what keeps a workload out of its queue, and which events may change that.

A workload with two blockers reports the first one in a fixed order. (In Kueue two controllers overwrite each other's
reason when the queue of a gated workload is stopped.) A workload without a blocker is pending in ``queue_manager.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.quota import names
from headgate.quota.api.activation import pending_transition
from headgate.quota.api.cluster_queue import ActiveCondition, ClusterQueue
from headgate.quota.api.local_queue import LocalQueue
from headgate.quota.api.workload import Workload
from headgate.quota.queues.queue_manager import PendingReason
from headgate.waiting.queueing_hints import Topic


class WorkloadContext(msgspec.Struct, frozen=True):
    """The objects that a workload refers to; None for one that does not exist. ``activity``: the condition Active of
    the ClusterQueue; ``labels``: the labels of the namespace. ``honours_gates``: the feature gate AdmissionGatedBy;
    ``honours_activation``: the feature gate ActivationLabels."""

    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    activity: ActiveCondition | None = None
    labels: Mapping[str, str] | None = None
    honours_gates: bool = True
    honours_activation: bool = False


class Blocker(msgspec.Struct, frozen=True):
    """``reason``: what is written to the workload's condition. ``topics``: the events after which the workload is
    examined again (``waiting/queueing_hints.py``); ``until_s``: when it is examined at the latest."""

    reason: PendingReason
    topics: tuple[Topic, ...] = ()
    until_s: float | None = None


_NO_REASON = PendingReason("")
_USES_CLAIMS = "Workload uses DRA resources (spec.resourceClaims of its pods), which are not counted"


def find_blocker(workload: Workload, context: WorkloadContext, now_s: float) -> Blocker | None:
    """The first blocker of the workload; None if it may be queued. A blocker without topics ends only when the workload
    itself changes."""
    for find in (_own_blocker, _queue_blocker, _namespace_blocker, _state_blocker):
        found = find(workload, context, now_s)
        if found is not None:
            return found
    return None


def _own_blocker(workload: Workload, context: WorkloadContext, now_s: float) -> Blocker | None:
    if not workload.is_active:
        cause = f" by the label {names.DEACTIVATE}" if workload.is_marked else ""
        return Blocker(PendingReason(names.DEACTIVATED, f"The workload is deactivated{cause}"))
    if pending_transition(workload, context.honours_activation) is not None:
        return Blocker(_NO_REASON)  # until its labels are consumed: they may deactivate it
    if workload.lacks(names.QUOTA_RESERVED, names.ON_HOLD):
        return Blocker(_NO_REASON)
    claiming = [each.name for each in workload.pod_sets if each.has_claims]
    if claiming:
        return Blocker(PendingReason(names.MISCONFIGURED, f"{_USES_CLAIMS}: pod sets {', '.join(claiming)}"))
    return None


def _queue_blocker(workload: Workload, context: WorkloadContext, now_s: float) -> Blocker | None:
    local, queue, activity = context.local_queue, context.cluster_queue, context.activity
    local_queue_topic: Topic = ("local queue", workload.queue_key)
    if local is None:
        return Blocker(
            PendingReason(names.MISCONFIGURED, f"LocalQueue {workload.queue} doesn't exist"), (local_queue_topic,)
        )
    if local.stop_policy != names.NONE or local.is_terminating:
        return Blocker(PendingReason(names.SUSPENDED, f"LocalQueue {workload.queue} is inactive"), (local_queue_topic,))
    cluster_queue_topic: Topic = ("cluster queue", local.cluster_queue)
    if queue is None:
        message = f"ClusterQueue {local.cluster_queue} doesn't exist"
        return Blocker(PendingReason(names.MISCONFIGURED, message), (local_queue_topic, cluster_queue_topic))
    if activity is None or not activity.is_active:
        return Blocker(
            PendingReason(names.SUSPENDED, f"ClusterQueue {queue.name} is inactive"),
            (local_queue_topic, cluster_queue_topic),
        )
    return None


def _namespace_blocker(workload: Workload, context: WorkloadContext, now_s: float) -> Blocker | None:
    queue, labels = context.cluster_queue, context.labels
    if queue is None:
        return None
    if labels is not None and queue.namespaces.matches(labels):
        return None
    topics: tuple[Topic, ...] = (
        ("local queue", workload.queue_key),
        ("cluster queue", queue.name),
        ("namespace", workload.namespace),
    )
    message = (
        f'workload namespace "{workload.namespace}" does not exist'
        if labels is None
        else "workload namespace doesn't match ClusterQueue selector"
    )
    return Blocker(PendingReason(names.MISCONFIGURED, message), topics)


def _state_blocker(workload: Workload, context: WorkloadContext, now_s: float) -> Blocker | None:
    if context.honours_gates and workload.gates:
        return Blocker(PendingReason(names.ADMISSION_GATED, f"Admission is gated by: {workload.gates}"))
    if any(check.state in (names.CHECK_RETRY, names.CHECK_REJECTED) for check in workload.checks):
        return Blocker(PendingReason(names.PENDING_EVALUATION, "The workload has failed admission checks"))
    if workload.has(names.WAITING_FOR_REPLACEMENT_PODS) or workload.lacks(names.REQUEUED):
        return Blocker(_NO_REASON)
    if workload.requeue_at_s is not None and workload.requeue_at_s > now_s:
        return Blocker(_NO_REASON, (), workload.requeue_at_s)
    return None
