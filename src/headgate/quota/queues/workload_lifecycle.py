"""The lifecycle of one workload, pending or admitted: the rules and deadlines that do not depend on free quota.

A review checks the steps in order and takes the first that applies. When the API shows its effects, the workload is
reviewed again. ``quota/cycle/admission_cycle.py`` decides which workloads get quota, ``blockers.py`` which may not be
queued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.quota import names
from headgate.quota.api.activation import pending_transition
from headgate.quota.api.admission_checks import (
    are_satisfied,
    describe,
    in_state,
    required_checks,
    retry_at_s,
    synced_checks,
)
from headgate.quota.api.eviction_stats import is_deactivation
from headgate.quota.api.pods_ready import (
    WaitForPodsReady,
    exceeds_backoff_limit,
    execution_deadline,
    ready_deadline,
)
from headgate.quota.api.workload import Workload
from headgate.quota.effects import (
    ConsumeActivationLabels,
    Deactivate,
    Effect,
    EmitWorkloadEvent,
    Evict,
    PutOff,
    Release,
    Requeue,
    SetChecks,
    SetCondition,
)
from headgate.quota.queues.blockers import WorkloadContext


class WorkloadReviewInput(msgspec.Struct, frozen=True):
    """``rules``: the settings of waitForPodsReady; None if it is off."""

    workload: Workload
    context: WorkloadContext
    rules: WaitForPodsReady | None
    now_s: float


class WorkloadReview(msgspec.Struct, frozen=True):
    """The result of a review. ``at_s``: when to review the workload again if no event happens before."""

    effects: tuple[Effect, ...] = ()
    at_s: float | None = None


Step = Callable[[WorkloadReviewInput], WorkloadReview | None]
_RESTARTED: Final = {
    names.BY_LOCAL_QUEUE_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    names.BY_CLUSTER_QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
}
_BACKOFF_OVER: Final = ("BackoffFinished", "The workload backoff was finished")


def review(case: WorkloadReviewInput) -> WorkloadReview:
    """Runs the steps until one returns a result. A finished workload has none."""
    if case.workload.is_finished:
        return WorkloadReview()
    for step in _STEPS:
        found = step(case)
        if found is not None:
            return found
    return WorkloadReview()


def _activation(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Consumes the labels ``activate`` and ``deactivate``, before all other steps: these depend on ``spec.active``."""
    workload, is_enabled = case.workload, case.context.honours_activation
    if pending_transition(workload, is_enabled) is None:
        return None
    return WorkloadReview((ConsumeActivationLabels(workload.key, workload.uid, is_enabled, workload.revision),))


def _delayed_retry(case: WorkloadReviewInput) -> WorkloadReview | None:
    """An admission check requested a retry after a delay."""
    until_s, known_s = retry_at_s(case.workload.checks), case.workload.requeue_at_s
    if until_s is None or until_s <= case.now_s or (known_s is not None and known_s >= until_s):
        return None
    return WorkloadReview((PutOff(case.workload.key, case.workload.uid, until_s),))


def _back_off(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Requeues the workload when its back-off is over, and deactivates it if that was requested."""
    workload = case.workload
    if not workload.is_active:
        return None
    if workload.has(names.DEACTIVATION_TARGET):
        return WorkloadReview((Deactivate(workload.key, workload.uid),))
    at_s, requeued = workload.requeue_at_s, workload.conditions.get(names.REQUEUED)
    if at_s is not None and at_s > case.now_s:
        # A workload that holds quota has not begun its back-off: in Kueue it would keep the quota until the end.
        return None if workload.holds_quota else WorkloadReview((), at_s)
    if at_s is not None and not workload.holds_quota:
        return WorkloadReview((Requeue(workload.key, workload.uid, *_BACKOFF_OVER),))
    if requeued is None or requeued.is_true:
        return None
    if is_deactivation(requeued.reason):
        return WorkloadReview((Requeue(workload.key, workload.uid, "Reactivated", "The workload was reactivated"),))
    if requeued.reason in (names.BY_PODS_READY_TIMEOUT, names.BY_ADMISSION_CHECK, names.BY_REFUSED_START):
        return WorkloadReview((Requeue(workload.key, workload.uid, *_BACKOFF_OVER),))
    return None


def _deactivated(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Evicts a workload that is deactivated (``spec.active`` is false)."""
    workload = case.workload
    if workload.is_active:
        return None
    if workload.is_evicted:
        return WorkloadReview()
    target = workload.conditions.get(names.DEACTIVATION_TARGET)
    cause, details = ("", "") if target is None else (target.reason, target.message)
    if workload.is_marked:
        cause, details = names.BY_DEACTIVATE_LABEL, f"the label {names.DEACTIVATE}"
    message = "The workload is deactivated" + (f" due to {details}" if details else "")
    return WorkloadReview((Evict(workload.key, workload.uid, names.DEACTIVATED, message, cause=cause),))


def _requeued(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Requeues a workload when its stopped queue is restarted."""
    requeued = case.workload.conditions.get(names.REQUEUED)
    if requeued is None or requeued.is_true or requeued.reason not in _RESTARTED:
        return None
    is_local = requeued.reason == names.BY_LOCAL_QUEUE_STOPPED
    queue = case.context.local_queue if is_local else case.context.cluster_queue
    if queue is None or queue.stop_policy != names.NONE:
        return None
    return WorkloadReview((Requeue(case.workload.key, case.workload.uid, *_RESTARTED[requeued.reason]),))


def _gates(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Updates the condition of a workload when its admission gates are removed. A workload with gates that has quota
    keeps it: it got the quota while the feature gate AdmissionGatedBy was off, and may run."""
    workload = case.workload
    if not case.context.honours_gates:
        return None
    if not workload.gates and workload.lacks(names.QUOTA_RESERVED, names.ADMISSION_GATED):
        pending_message = "AdmissionGatedBy cleared, waiting for quota reservation"
        cleared = "Admission gate cleared, workload is now admissible"
        return WorkloadReview(
            (
                SetCondition(
                    workload.key, workload.uid, names.QUOTA_RESERVED, False, names.PENDING_EVALUATION, pending_message
                ),
                EmitWorkloadEvent(workload.key, workload.uid, False, "AdmissionGateCleared", cleared),
            )
        )
    return None


def _checks(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Lists the required checks. A workload with quota is admitted when all of them are ready."""
    workload, queue = case.workload, case.context.cluster_queue
    if queue is None:
        return None
    required = required_checks(queue, workload.admission if workload.holds_quota else None)
    synced = synced_checks(workload, required, case.now_s)
    if synced is not None:
        return WorkloadReview((SetChecks(workload.key, workload.uid, synced),))
    if not workload.holds_quota or workload.is_evicted or workload.has(names.ADMITTED):
        return None
    if are_satisfied(workload, required):
        reserved = workload.conditions[names.QUOTA_RESERVED]
        message = f"Admitted by ClusterQueue {queue.name}, wait time since reservation was "
        return WorkloadReview(
            (
                SetCondition(workload.key, workload.uid, names.ADMITTED, True, "Admitted", "The workload is admitted"),
                EmitWorkloadEvent(
                    workload.key, workload.uid, False, "Admitted", f"{message}{case.now_s - reserved.since_s:.0f}s"
                ),
            )
        )
    failed = in_state(workload.checks, names.CHECK_RETRY) or in_state(workload.checks, names.CHECK_REJECTED)
    if failed or workload.lacks(names.ADMITTED, names.UNSATISFIED_CHECKS):
        return None
    message = "The workload has not all checks ready"
    return WorkloadReview(
        (SetCondition(workload.key, workload.uid, names.ADMITTED, False, names.UNSATISFIED_CHECKS, message),)
    )


def _failed_checks(case: WorkloadReviewInput) -> WorkloadReview | None:
    """A rejected check deactivates the workload; a check that requests a retry evicts it."""
    workload = case.workload
    if not workload.holds_quota or workload.is_evicted:
        return None
    rejected = in_state(workload.checks, names.CHECK_REJECTED)
    if rejected:
        message = describe(rejected, names.CHECK_REJECTED)
        return WorkloadReview(
            (
                SetCondition(
                    workload.key, workload.uid, names.DEACTIVATION_TARGET, True, names.BY_ADMISSION_CHECK, message
                ),
                EmitWorkloadEvent(
                    workload.key, workload.uid, True, "AdmissionCheckRejected", f"Deactivated due to {message}"
                ),
            )
        )
    retry = in_state(workload.checks, names.CHECK_RETRY)
    if not retry:
        return None
    message = f"Evicted due to {describe(retry, names.CHECK_RETRY)}"
    return WorkloadReview((Evict(workload.key, workload.uid, names.BY_ADMISSION_CHECK, message),))


def _stopped(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Hold keeps admitted workloads and releases quota that is only reserved; HoldAndDrain evicts. A deleted queue
    releases quota that is only reserved. The messages are those of ``blockers.py``, which reports next."""
    workload, context = case.workload, case.context
    if not workload.holds_quota or workload.admission is None:
        return None
    for kind, name, queue, reason in (
        ("LocalQueue", workload.queue, context.local_queue, names.BY_LOCAL_QUEUE_STOPPED),
        ("ClusterQueue", workload.admission.cluster_queue, context.cluster_queue, names.BY_CLUSTER_QUEUE_STOPPED),
    ):
        policy = names.NONE if queue is None else queue.stop_policy
        if workload.has(names.ADMITTED):
            if policy == names.HOLD_AND_DRAIN and not workload.is_evicted:
                return WorkloadReview((Evict(workload.key, workload.uid, reason, f"The {kind} is stopped"),))
        elif queue is None:
            message = f"{kind} {name} doesn't exist"
            return WorkloadReview((Release(workload.key, workload.uid, names.MISCONFIGURED, message),))
        elif policy != names.NONE or queue.is_terminating:
            return WorkloadReview((Release(workload.key, workload.uid, names.SUSPENDED, f"{kind} {name} is inactive"),))
    return None


def _deadlines(case: WorkloadReviewInput) -> WorkloadReview | None:
    """Evicts or deactivates a workload whose pods are not ready in time, or that runs for too long."""
    workload, rules = case.workload, case.rules
    if not workload.holds_quota or workload.is_evicted:
        return None
    ready, execution = ready_deadline(workload, rules), execution_deadline(workload)
    if ready is not None and ready.at_s <= case.now_s and rules is not None:
        return WorkloadReview((_time_out(workload, rules, ready.cause, case.now_s),))
    if execution is not None and execution.at_s <= case.now_s:
        message = f"The maximum execution time ({workload.max_execution_s}s) exceeded"
        target = SetCondition(
            workload.key,
            workload.uid,
            names.DEACTIVATION_TARGET,
            True,
            names.MAXIMUM_EXECUTION_TIME_EXCEEDED,
            "exceeding the maximum execution time",
        )
        return WorkloadReview((target, EmitWorkloadEvent(workload.key, workload.uid, True, execution.cause, message)))
    at_s = min((each.at_s for each in (ready, execution) if each is not None), default=None)
    return None if at_s is None else WorkloadReview((), at_s)


def _time_out(workload: Workload, rules: WaitForPodsReady, cause: str, now_s: float) -> Effect:
    if exceeds_backoff_limit(workload, rules):
        message = "exceeding the maximum number of re-queuing retries"
        return SetCondition(
            workload.key, workload.uid, names.DEACTIVATION_TARGET, True, names.REQUEUING_LIMIT_EXCEEDED, message
        )
    count = workload.requeue_count + 1
    return Evict(
        workload.key,
        workload.uid,
        names.BY_PODS_READY_TIMEOUT,
        f"Exceeded the PodsReady timeout {workload.key}",
        cause=cause,
        requeue_at_s=now_s + rules.backoff_s(count),
        requeue_count=count,
    )


_STEPS: Final[tuple[Step, ...]] = (
    _activation,
    _delayed_retry,
    _back_off,
    _deactivated,
    _requeued,
    _gates,
    _checks,
    _failed_checks,
    _stopped,
    _deadlines,
)
