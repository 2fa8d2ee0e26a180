"""One reconcile of one Job, from the cached state to the writes. ``controller.py`` calls it.

The steps: sum up the pods and decide whether the job has finished; delete or create pods; write the status with the
uids of finished pods; remove their finalizers; write the counts and, when all pods are counted, the final condition.
The process may stop between any two steps: the next reconcile starts from the API state, and counts no pod twice (see
``counting.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, Replace
from headgate.controllers.framework.reconcile import Done, ReconcileSteps, RequeueAfter, RequeueWithBackoff, Result
from headgate.controllers.jobs import backoff, completion, counting, orphan_pods, status
from headgate.controllers.jobs.completion import FinishedCondition
from headgate.controllers.jobs.counting import FinalizerRemovalPolicy, read_counts
from headgate.controllers.jobs.job_pods import JobPod
from headgate.controllers.jobs.pod_plan import JobPodPlan, plan_pods
from headgate.controllers.jobs.pod_summary import summarize_pods
from headgate.controllers.jobs.pod_template import KIND, pod_body
from headgate.controllers.jobs.spec import read
from headgate.controllers.jobs.status import LivePodCounts
from headgate.controllers.ownership import dependents, pods
from headgate.controllers.ownership.cache import OwnershipCache
from headgate.kube.api_resources import JOBS
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

COMPONENT: Final = "job-controller"
_IMMEDIATELY: Final = 0.0
_COUNT_REPLACED_PODS_S: Final = 0.02
"""How soon the failed pods are counted that have just been replaced."""


class JobReconciler:
    """The state of one reconcile. Only the back-off record is kept for the next one."""

    def __init__(
        self,
        cache: OwnershipCache,
        job: Object,
        members: list[JobPod],
        record: backoff.BackoffRecord,
        random_suffix: Callable[[], str],
        now_s: float,
        *,
        clears_start: bool = False,
    ) -> None:
        self._cache: Final = cache
        self._job = job
        self._random_suffix: Final = random_suffix
        self._clears_start: Final = clears_start
        self._now_s: Final = now_s
        self._now: Final = format_time(now_s)
        self._spec: Final = read(job)
        self._members: Final = members
        self._status: Object = dict(job.get("status") or {})
        self._terminated: Final = read_counts(self._status)
        self._summary: Final = summarize_pods(self._spec, self._status, self._terminated, self._members)
        self.record: Final = backoff.record_after(record, self._summary.new_succeeded, self._summary.new_failed)
        """The back-off record after the pods of this reconcile. The caller keeps it only if the status was written."""
        self._finished: FinishedCondition | None = None
        self._problem: str | None = None
        self._requeue_after_s: float | None = None
        self.is_written = False

    def run(self) -> ReconcileSteps:
        if not self._status.get("startTime") and not self._spec.is_suspended:
            self._status["startTime"] = self._now
        start_s = pods.seconds(self._status.get("startTime"))
        left_s = completion.deadline_left_s(self._spec, start_s, self._now_s)
        self._finished = completion.decide(self._spec, self._status, self._members, self._summary, left_s)
        is_terminating = "deletionTimestamp" in self._job["metadata"]
        live_counts = LivePodCounts(len(self._summary.active), self._summary.ready, self._summary.terminating)
        if self._finished is not None:
            live_counts = yield from self._delete_all_pods(live_counts)
        else:
            self._requeue_after(left_s)
            if not is_terminating:
                live_counts = yield from self._manage_pods(live_counts)
            if completion.is_complete(self._spec, self._summary, live_counts.active):
                self._finished = completion.COMPLETE
            elif not is_terminating:
                self._status = status.with_suspension(
                    self._status, self._spec, self._now, clears_start=self._clears_start
                )
        self._status = status.with_numbers(self._status, live_counts)
        result = yield from self._count(is_terminating, live_counts)
        return result or self._result()

    # -- pods ------------------------------------------------------------------------------------------------------

    def _delete_all_pods(self, live_counts: LivePodCounts) -> Generator[Effect, EffectResponse, LivePodCounts]:
        """Deletes all active pods. They keep their finalizers, because they must be counted."""
        live_counts = yield from self._delete_pods(live_counts, self._summary.active)
        if live_counts.active:
            self._finished = None  # the job has not finished while a pod runs
        return live_counts

    def _manage_pods(self, live_counts: LivePodCounts) -> Generator[Effect, EffectResponse, LivePodCounts]:
        planned = plan_pods(self._spec, self._summary, self._members, self.record, self._now_s)
        self._requeue_after(_IMMEDIATELY if planned.has_more else planned.wait_s)
        if planned.deletes:
            return (yield from self._delete_surplus_pods(live_counts, planned))
        if not planned.creates:
            return live_counts
        awaiting = self._summary.awaiting_replacement
        bodies = [
            pod_body(self._job, self._spec, each, awaiting.get(each), self._random_suffix()) for each in planned.creates
        ]
        created = yield from dependents.create_dependents(self._cache, self._job, bodies)
        if not created.stop:
            self._problem = self._problem or created.problem
        if any(index in awaiting for index in planned.creates):
            self._requeue_after(_COUNT_REPLACED_PODS_S)  # the failed pods that were replaced may be counted now
        return msgspec.structs.replace(live_counts, active=live_counts.active + created.count)

    def _delete_surplus_pods(
        self, live_counts: LivePodCounts, planned: JobPodPlan
    ) -> Generator[Effect, EffectResponse, LivePodCounts]:
        """Deletes surplus pods. They have not failed, so their finalizers are removed first."""
        tracked = [each.pod for each in planned.deletes if each.is_tracked]
        removed = yield from orphan_pods.remove_finalizers(self._cache, tracked, if_unchanged=True)
        self._problem = self._problem or removed.problem
        untracked = [each for each in planned.deletes if not each.is_tracked or each.uid in removed.uids]
        return (yield from self._delete_pods(live_counts, untracked))

    def _delete_pods(
        self, live_counts: LivePodCounts, members: Sequence[JobPod]
    ) -> Generator[Effect, EffectResponse, LivePodCounts]:
        problem = yield from dependents.delete_dependents(self._cache, self._job, [each.pod for each in members])
        self._problem = self._problem or problem
        gone = [each for each in members if self._cache.dependent(each.uid) is None]
        terminating = [each for each in members if self._cache.is_terminating(each.uid)]
        ended = gone + terminating
        return LivePodCounts(
            live_counts.active - len(ended),
            live_counts.ready - sum(each.is_ready for each in ended),
            live_counts.terminating + len(terminating),
        )

    # -- counting --------------------------------------------------------------------------------------------------

    def _count(
        self, is_terminating: bool, live_counts: LivePodCounts
    ) -> Generator[Effect, EffectResponse, Result | None]:
        tracked = {each.uid for each in self._members if each.is_tracked}
        removal_policy = FinalizerRemovalPolicy(
            all_pods=is_terminating or self._finished is not None,
            as_failed=self._finished is not None and self._finished.is_failure,
            awaiting_replacement=frozenset(each.uid for each in self._summary.awaiting_replacement.values()),
        )
        terminated = self._terminated.after_removal(tracked)
        count = counting.count(self._spec, terminated, self._summary.counted_indexes, self._members, removal_policy)
        completed = self._summary.completed | count.succeeded_indexes
        failed = self._summary.failed_indexes
        written = status.with_terminated(self._status, self._spec, count.counts, completed, failed)
        if self._finished is not None:
            written = status.with_target(written, self._finished, self._now)
        result = yield from self._write(written)
        if result is not None:
            return result
        removed = yield from orphan_pods.remove_finalizers(self._cache, [each.pod for each in count.released])
        self._problem = self._problem or removed.problem
        if removed.had_missing or count.has_more:
            self._requeue_after(_IMMEDIATELY)
        terminated = count.counts.after_removal(tracked - removed.uids)
        written = status.with_terminated(written, self._spec, terminated, completed, failed)
        all_counted = (
            not count.has_more
            and removed.problem is None
            and terminated.uncounted == 0
            and live_counts.terminating == 0
        )
        if self._finished is None or not all_counted:
            return (yield from self._write(written))
        result = yield from self._write(status.with_final_condition(written, self._finished, self._now))
        if result is None:
            yield from self._emit_finished(self._finished)
        return result

    def _write(self, new_status: Object) -> Generator[Effect, EffectResponse, Result | None]:
        """Writes the status if it changed. Returns a result if the reconcile ends here."""
        metadata = self._job["metadata"]
        before = self._job.get("status") or {}
        if new_status == before:
            return None
        response = yield Replace(
            JOBS, metadata["namespace"], metadata["name"], {**self._job, "status": new_status}, "status"
        )
        if response.missing:
            return Done()
        if not response.ok:
            return RequeueWithBackoff(response.message)
        self._job = response.body
        self._cache.owner_applied(response.body)
        self.is_written = True
        if before.get("conditions") != new_status.get("conditions"):
            yield from self._emit_suspension(before, new_status)
        return None

    # -- Events ----------------------------------------------------------------------------------------------------

    def _emit_suspension(self, before: Object, written: Object) -> Generator[Effect, EffectResponse, None]:
        if status.suspension(before) != status.suspension(written):
            reason = "Suspended" if self._spec.is_suspended else "Resumed"
            yield self._event("Normal", reason, f"Job {reason.lower()}")

    def _emit_finished(self, finished: FinishedCondition) -> Generator[Effect, EffectResponse, None]:
        if finished.is_failure:
            yield self._event("Warning", finished.reason, finished.message)
            return
        completions = self._spec.completions
        if completions is not None and (self._job["status"].get("succeeded") or 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            yield self._event("Warning", "TooManySucceededPods", text)
        yield self._event("Normal", "Completed", "Job completed")

    def _event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
        return EmitEvent(pods.object_reference(self._job, KIND), kind, reason, message, COMPONENT)

    # -- result ----------------------------------------------------------------------------------------------------

    def _requeue_after(self, after_s: float | None) -> None:
        if after_s is not None:
            self._requeue_after_s = after_s if self._requeue_after_s is None else min(self._requeue_after_s, after_s)

    def _result(self) -> Result:
        if self._problem is not None:
            return RequeueWithBackoff(self._problem)
        return Done() if self._requeue_after_s is None else RequeueAfter(self._requeue_after_s)
