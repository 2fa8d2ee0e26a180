"""How long a Job waits before it replaces a failed pod: 10 seconds, doubled each time, ten minutes at most.

Failures are counted since the last success, for the whole job or, with a limit per index, for each index by the
annotation of its last pod. The record of a job is in memory only: after a restart it starts again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from headgate.controllers.jobs.job_pods import JobPod
from headgate.kube.backoff import ExponentialBackoff

_BACKOFF: Final = ExponentialBackoff(10.0, 600.0)


class BackoffRecord(msgspec.Struct, frozen=True):
    failures: int = 0
    last_failure_s: float = 0.0


def record_after(record: BackoffRecord, succeeded: Collection[JobPod], failed: Collection[JobPod]) -> BackoffRecord:
    """The record after these pods have ended. A success clears the failures before it."""
    if not succeeded:
        if not failed:
            return record
        return BackoffRecord(record.failures + len(failed), max(each.finished_s for each in failed))
    last_success_s = max(each.finished_s for each in succeeded)
    later = [ended_s for each in failed if (ended_s := each.finished_s) > last_success_s]
    return BackoffRecord(len(later), max(later, default=0.0))


def wait_s(record: BackoffRecord, now_s: float) -> float:
    if record.failures == 0:
        return 0.0
    return max(0.0, record.last_failure_s + _BACKOFF.delay_s(record.failures) - now_s)


def index_wait_s(last_failed: JobPod | None, now_s: float) -> float:
    """The time before the index of a failed pod is tried again."""
    if last_failed is None:
        return 0.0
    failures = last_failed.failures_before + last_failed.ignored_before + 1
    return wait_s(BackoffRecord(failures, last_failed.finished_s), now_s)
