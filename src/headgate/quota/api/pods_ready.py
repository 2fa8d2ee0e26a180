"""``waitForPodsReady``: a workload whose pods are not ready in time is evicted, backs off, and is finally deactivated.

The running time against ``maximumExecutionTimeSeconds`` is counted here as well: both are deadlines of an admitted
workload. ``quota/queues/workload_lifecycle.py`` evicts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.kube.backoff import ExponentialBackoff
from headgate.quota import names
from headgate.quota.api.workload import Workload, WorkloadCondition

WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"


class WaitForPodsReady(msgspec.Struct, frozen=True):
    """The time-outs of pods, the back-off after them, and its limit. ``by_eviction_time``: a workload that is requeued
    after a time-out is ordered by its eviction time."""

    timeout_s: float = 300.0
    recovery_timeout_s: float | None = None
    backoff_limit: int | None = None
    backoff_base_s: int = 60
    backoff_max_s: int = 3600
    by_eviction_time: bool = True

    def backoff_s(self, count: int) -> float:
        """The delay after this many time-outs."""
        return ExponentialBackoff(self.backoff_base_s, self.backoff_max_s).delay_s(count)


class WorkloadDeadline(msgspec.Struct, frozen=True):
    """A deadline of a workload, and its reason."""

    cause: str
    at_s: float


def ready_deadline(workload: Workload, rules: WaitForPodsReady | None) -> WorkloadDeadline | None:
    """The time by which the pods must be ready; None if there is no such limit."""
    admitted, ready = workload.conditions.get(names.ADMITTED), workload.conditions.get(names.PODS_READY)
    if rules is None or admitted is None or not admitted.is_true or (ready is not None and ready.is_true):
        return None
    if workload.has(names.WAITING_FOR_TERMINATING_PODS):
        return None  # its pods may not start yet
    if ready is None or ready.reason in (WAIT_FOR_START, names.PODS_READY):
        return WorkloadDeadline(WAIT_FOR_START, _started_s(workload, admitted) + rules.timeout_s)
    if ready.reason == WAIT_FOR_RECOVERY and rules.recovery_timeout_s is not None:
        return WorkloadDeadline(WAIT_FOR_RECOVERY, ready.since_s + rules.recovery_timeout_s)
    return None


def exceeds_backoff_limit(workload: Workload, rules: WaitForPodsReady) -> bool:
    """Whether one more time-out would exceed the back-off limit."""
    return rules.backoff_limit is not None and workload.requeue_count + 1 > rules.backoff_limit


def execution_deadline(workload: Workload) -> WorkloadDeadline | None:
    admitted = workload.conditions.get(names.ADMITTED)
    if admitted is None or not admitted.is_true or workload.max_execution_s is None:
        return None
    if workload.has(names.WAITING_FOR_TERMINATING_PODS):
        return None
    left_s = workload.max_execution_s - workload.past_execution_s
    return WorkloadDeadline(names.MAXIMUM_EXECUTION_TIME_EXCEEDED, _started_s(workload, admitted) + left_s)


def started_s(workload: Workload) -> float | None:
    """The time since when the pods of an admitted workload may run; None if they may not run yet."""
    admitted = workload.conditions.get(names.ADMITTED)
    if admitted is None or not admitted.is_true or workload.has(names.WAITING_FOR_TERMINATING_PODS):
        return None
    return _started_s(workload, admitted)


def _started_s(workload: Workload, admitted: WorkloadCondition) -> float:
    """The time of the admission, or the end of the wait for terminating pods if that is later."""
    waited = workload.conditions.get(names.WAITING_FOR_TERMINATING_PODS)
    return admitted.since_s if waited is None else max(admitted.since_s, waited.since_s)


def queue_order_s(workload: Workload, rules: WaitForPodsReady | None) -> float:
    """The time that orders the workload in its queue: its creation, or its eviction if its pods were not ready in time
    or an admission check asked for a retry."""
    evicted = workload.conditions.get(names.EVICTED)
    if evicted is None or not evicted.is_true:
        return workload.created_s
    is_timeout = evicted.reason == names.BY_PODS_READY_TIMEOUT
    if evicted.reason == names.BY_ADMISSION_CHECK or (is_timeout and rules is not None and rules.by_eviction_time):
        return evicted.since_s
    return workload.created_s
