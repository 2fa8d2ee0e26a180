"""One reconcile of one Job, from the cached state to the writes. ``controller.py`` says when.

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
_AT_ONCE: Final = 0.0
_REPLACED_S: Final = 0.02


class JobReconciler:
    """Keeps the findings of one reconcile; only the back-off record outlives it."""

    def __init__(
        self,
        family: OwnershipCache,
        job: Object,
        members: list[JobPod],
        record: backoff.BackoffRecord,
        draw: Callable[[], str],
        now_s: float,
        *,
        clears_start: bool = False,
    ) -> None:
        self._family: Final = family
        self._job = job
        self._draw: Final = draw
        self._clears_start: Final = clears_start
        self._now_s: Final = now_s
        self._now: Final = format_time(now_s)
        self._spec: Final = read(job)
        self._members: Final = members
        self._status: Object = dict(job.get("status") or {})
        self._tally: Final = read_counts(self._status)
        self._sums: Final = summarize_pods(self._spec, self._status, self._tally, self._members)
        self.record: Final = backoff.record_after(record, self._sums.new_succeeded, self._sums.new_failed)
        """What is to be remembered, once the status that it follows from is written."""
        self._ending: FinishedCondition | None = None
        self._problem: str | None = None
        self._requeue_after_s: float | None = None
        self.is_written = False

    def run(self) -> ReconcileSteps:
        if not self._status.get("startTime") and not self._spec.is_suspended:
            self._status["startTime"] = self._now
        start_s = pods.seconds(self._status.get("startTime"))
        left_s = completion.deadline_left_s(self._spec, start_s, self._now_s)
        self._ending = completion.decide(self._spec, self._status, self._members, self._sums, left_s)
        is_going = "deletionTimestamp" in self._job["metadata"]
        standing = LivePodCounts(len(self._sums.active), self._sums.ready, self._sums.terminating)
        if self._ending is not None:
            standing = yield from self._end_all(standing)
        else:
            self._requeue_after(left_s)
            if not is_going:
                standing = yield from self._manage(standing)
            if completion.is_complete(self._spec, self._sums, standing.active):
                self._ending = completion.COMPLETE
            elif not is_going:
                self._status = status.with_suspension(
                    self._status, self._spec, self._now, clears_start=self._clears_start
                )
        self._status = status.with_numbers(self._status, standing)
        verdict = yield from self._count(is_going, standing)
        return verdict or self._result()

    # -- pods ------------------------------------------------------------------------------------------------------

    def _end_all(self, standing: LivePodCounts) -> Generator[Effect, EffectResponse, LivePodCounts]:
        """They keep their finalizers: what did not end by itself is still to be counted."""
        standing = yield from self._end(standing, self._sums.active)
        if standing.active:
            self._ending = None  # not over while a pod runs
        return standing

    def _manage(self, standing: LivePodCounts) -> Generator[Effect, EffectResponse, LivePodCounts]:
        planned = plan_pods(self._spec, self._sums, self._members, self.record, self._now_s)
        self._requeue_after(_AT_ONCE if planned.is_cut else planned.wait_s)
        if planned.deletes:
            return (yield from self._end_uncounted(standing, planned))
        if not planned.creates:
            return standing
        held = self._sums.held
        bodies = [pod_body(self._job, self._spec, each, held.get(each), self._draw()) for each in planned.creates]
        made = yield from dependents.create_dependents(self._family, self._job, bodies)
        if not made.stop:
            self._problem = self._problem or made.problem
        if any(index in held for index in planned.creates):
            self._requeue_after(_REPLACED_S)  # the failed pods that were replaced may be counted now
        return msgspec.structs.replace(standing, active=standing.active + made.count)

    def _end_uncounted(
        self, standing: LivePodCounts, planned: JobPodPlan
    ) -> Generator[Effect, EffectResponse, LivePodCounts]:
        """Pods that the job does not want any more have not failed: they are let go of before they are ended."""
        tracked = [each.pod for each in planned.deletes if each.is_tracked]
        freed = yield from orphan_pods.remove_finalizers(self._family, tracked, as_known=True)
        self._problem = self._problem or freed.problem
        free = [each for each in planned.deletes if not each.is_tracked or each.uid in freed.uids]
        return (yield from self._end(standing, free))

    def _end(
        self, standing: LivePodCounts, members: Sequence[JobPod]
    ) -> Generator[Effect, EffectResponse, LivePodCounts]:
        problem = yield from dependents.delete_dependents(self._family, self._job, [each.pod for each in members])
        self._problem = self._problem or problem
        gone = [each for each in members if self._family.dependent(each.uid) is None]
        leaving = [each for each in members if self._family.is_terminating(each.uid)]
        ended = gone + leaving
        return LivePodCounts(
            standing.active - len(ended),
            standing.ready - sum(each.is_ready for each in ended),
            standing.terminating + len(leaving),
        )

    # -- counting --------------------------------------------------------------------------------------------------

    def _count(self, is_going: bool, standing: LivePodCounts) -> Generator[Effect, EffectResponse, Result | None]:
        tracked = {each.uid for each in self._members if each.is_tracked}
        letting = FinalizerRemovalPolicy(
            all_of_them=is_going or self._ending is not None,
            as_failed=self._ending is not None and self._ending.is_failure,
            held=frozenset(each.uid for each in self._sums.held.values()),
        )
        settled = self._tally.settled(tracked)
        count = counting.count(self._spec, settled, self._sums.counted_indexes, self._members, letting)
        completed = self._sums.completed | count.succeeded_indexes
        failed = self._sums.failed_indexes
        written = status.with_terminated(self._status, self._spec, count.counts, completed, failed)
        if self._ending is not None:
            written = status.with_target(written, self._ending, self._now)
        verdict = yield from self._write(written)
        if verdict is not None:
            return verdict
        freed = yield from orphan_pods.remove_finalizers(self._family, [each.pod for each in count.released])
        self._problem = self._problem or freed.problem
        if freed.were_gone or count.is_cut:
            self._requeue_after(_AT_ONCE)
        settled = count.counts.settled(tracked - freed.uids)
        written = status.with_terminated(written, self._spec, settled, completed, failed)
        is_over = not count.is_cut and freed.problem is None and settled.uncounted == 0 and standing.terminating == 0
        if self._ending is None or not is_over:
            return (yield from self._write(written))
        verdict = yield from self._write(status.with_final_condition(written, self._ending, self._now))
        if verdict is None:
            yield from self._emit_finished(self._ending)
        return verdict

    def _write(self, wanted: Object) -> Generator[Effect, EffectResponse, Result | None]:
        """Unless the API has it already. A verdict: the work is over for now."""
        metadata = self._job["metadata"]
        before = self._job.get("status") or {}
        if wanted == before:
            return None
        answer = yield Replace(JOBS, metadata["namespace"], metadata["name"], {**self._job, "status": wanted}, "status")
        if answer.missing:
            return Done()
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        self._job = answer.body
        self._family.owner_applied(answer.body)
        self.is_written = True
        if before.get("conditions") != wanted.get("conditions"):
            yield from self._emit_suspension(before, wanted)
        return None

    # -- telling ---------------------------------------------------------------------------------------------------

    def _emit_suspension(self, before: Object, written: Object) -> Generator[Effect, EffectResponse, None]:
        if status.suspension(before) != status.suspension(written):
            word = "Suspended" if self._spec.is_suspended else "Resumed"
            yield self._event("Normal", word, f"Job {word.lower()}")

    def _emit_finished(self, over: FinishedCondition) -> Generator[Effect, EffectResponse, None]:
        if over.is_failure:
            yield self._event("Warning", over.reason, over.message)
            return
        completions = self._spec.completions
        if completions is not None and (self._job["status"].get("succeeded") or 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            yield self._event("Warning", "TooManySucceededPods", text)
        yield self._event("Normal", "Completed", "Job completed")

    def _event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
        return EmitEvent(pods.object_reference(self._job, KIND), kind, reason, message, COMPONENT)

    # -- when to look again ----------------------------------------------------------------------------------------

    def _requeue_after(self, after_s: float | None) -> None:
        if after_s is not None:
            self._requeue_after_s = after_s if self._requeue_after_s is None else min(self._requeue_after_s, after_s)

    def _result(self) -> Result:
        if self._problem is not None:
            return RequeueWithBackoff(self._problem)
        return Done() if self._requeue_after_s is None else RequeueAfter(self._requeue_after_s)
