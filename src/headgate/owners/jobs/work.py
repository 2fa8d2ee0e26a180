"""One work on one Job, from what is known to what is written. ``controller.py`` says when.

Add up, decide whether it is over; end or make pods; write the status with who has ended; let go of those; write the
numbers and, when all pods are through, the last word. It may die between any two of these: the next work starts from
what the API says, and counts nobody twice (``counting.py`` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.kube.resource import JOBS
from headgate.kube.timestamps import format_time
from headgate.owners.contract import Again, Done, Later, Steps, Verdict
from headgate.owners.effects import Answer, Effect, Emit, Replace
from headgate.owners.families import making, pods
from headgate.owners.families.family import Family
from headgate.owners.jobs import backoff, counting, ending, loose, status
from headgate.owners.jobs.bodies import KIND, pod_body
from headgate.owners.jobs.counting import Letting, read_tally
from headgate.owners.jobs.ending import Ending
from headgate.owners.jobs.members import Member
from headgate.owners.jobs.plan import Plan, plan
from headgate.owners.jobs.spec import read
from headgate.owners.jobs.status import Standing
from headgate.owners.jobs.sums import add_up

Object = dict[str, Any]

COMPONENT: Final = "job-controller"
_AT_ONCE: Final = 0.0
_REPLACED_S: Final = 0.02


class Work:
    """It keeps what the steps of one work find out; nothing of it outlives the work but the back-off record."""

    def __init__(
        self,
        family: Family,
        job: Object,
        members: list[Member],
        record: backoff.Record,
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
        self._tally: Final = read_tally(self._status)
        self._sums: Final = add_up(self._spec, self._status, self._tally, self._members)
        self.record: Final = backoff.after(record, self._sums.new_succeeded, self._sums.new_failed)
        """What is to be remembered, once the status that it follows from is written."""
        self._ending: Ending | None = None
        self._problem: str | None = None
        self._again_s: float | None = None
        self.is_written = False

    def run(self) -> Steps:
        if not self._status.get("startTime") and not self._spec.is_suspended:
            self._status["startTime"] = self._now
        start_s = pods.seconds(self._status.get("startTime"))
        left_s = ending.deadline_left_s(self._spec, start_s, self._now_s)
        self._ending = ending.decide(self._spec, self._status, self._members, self._sums, left_s)
        is_going = "deletionTimestamp" in self._job["metadata"]
        standing = Standing(len(self._sums.active), self._sums.ready, self._sums.terminating)
        if self._ending is not None:
            standing = yield from self._end_all(standing)
        else:
            self._look_again(left_s)
            if not is_going:
                standing = yield from self._manage(standing)
            if ending.is_complete(self._spec, self._sums, standing.active):
                self._ending = ending.COMPLETE
            elif not is_going:
                self._status = status.with_suspension(
                    self._status, self._spec, self._now, clears_start=self._clears_start
                )
        self._status = status.with_numbers(self._status, standing)
        verdict = yield from self._count(is_going, standing)
        return verdict or self._verdict()

    # -- pods ------------------------------------------------------------------------------------------------------

    def _end_all(self, standing: Standing) -> Generator[Effect, Answer, Standing]:
        """They keep their finalizers: what did not end by itself is still to be counted."""
        standing = yield from self._end(standing, self._sums.active)
        if standing.active:
            self._ending = None  # not over as long as somebody runs
        return standing

    def _manage(self, standing: Standing) -> Generator[Effect, Answer, Standing]:
        planned = plan(self._spec, self._sums, self._members, self.record, self._now_s)
        self._look_again(_AT_ONCE if planned.is_cut else planned.wait_s)
        if planned.ends:
            return (yield from self._end_uncounted(standing, planned))
        if not planned.makes:
            return standing
        held = self._sums.held
        bodies = [pod_body(self._job, self._spec, each, held.get(each), self._draw()) for each in planned.makes]
        made = yield from making.make(self._family, self._job, bodies)
        if not made.stop:
            self._problem = self._problem or made.problem
        if any(index in held for index in planned.makes):
            self._look_again(_REPLACED_S)  # the failed pods that were replaced may be counted now
        return msgspec.structs.replace(standing, active=standing.active + made.count)

    def _end_uncounted(self, standing: Standing, planned: Plan) -> Generator[Effect, Answer, Standing]:
        """Pods that the job does not want any more have not failed: they are let go of before they are ended."""
        tracked = [each.pod for each in planned.ends if each.is_tracked]
        freed = yield from loose.free(self._family, tracked, as_known=True)
        self._problem = self._problem or freed.problem
        free = [each for each in planned.ends if not each.is_tracked or each.uid in freed.uids]
        return (yield from self._end(standing, free))

    def _end(self, standing: Standing, members: Sequence[Member]) -> Generator[Effect, Answer, Standing]:
        problem = yield from making.end(self._family, self._job, [each.pod for each in members])
        self._problem = self._problem or problem
        gone = [each for each in members if self._family.dependent(each.uid) is None]
        leaving = [each for each in members if self._family.is_leaving(each.uid)]
        ended = gone + leaving
        return Standing(
            standing.active - len(ended),
            standing.ready - sum(each.is_ready for each in ended),
            standing.terminating + len(leaving),
        )

    # -- counting --------------------------------------------------------------------------------------------------

    def _count(self, is_going: bool, standing: Standing) -> Generator[Effect, Answer, Verdict | None]:
        tracked = {each.uid for each in self._members if each.is_tracked}
        letting = Letting(
            all_of_them=is_going or self._ending is not None,
            as_failed=self._ending is not None and self._ending.is_failure,
            held=frozenset(each.uid for each in self._sums.held.values()),
        )
        settled = self._tally.settled(tracked)
        count = counting.count(self._spec, settled, self._sums.counted_indexes, self._members, letting)
        completed = self._sums.completed | count.succeeded_indexes
        failed = self._sums.failed_indexes
        written = status.with_tally(self._status, self._spec, count.tally, completed, failed)
        if self._ending is not None:
            written = status.with_target(written, self._ending, self._now)
        verdict = yield from self._write(written)
        if verdict is not None:
            return verdict
        freed = yield from loose.free(self._family, [each.pod for each in count.released])
        self._problem = self._problem or freed.problem
        if freed.were_gone or count.is_cut:
            self._look_again(_AT_ONCE)
        settled = count.tally.settled(tracked - freed.uids)
        written = status.with_tally(written, self._spec, settled, completed, failed)
        is_over = not count.is_cut and freed.problem is None and settled.uncounted == 0 and standing.terminating == 0
        if self._ending is None or not is_over:
            return (yield from self._write(written))
        verdict = yield from self._write(status.with_last_word(written, self._ending, self._now))
        if verdict is None:
            yield from self._tell_the_end(self._ending)
        return verdict

    def _write(self, wanted: Object) -> Generator[Effect, Answer, Verdict | None]:
        """Unless the API has it already. A verdict: the work is over for now."""
        metadata = self._job["metadata"]
        before = self._job.get("status") or {}
        if wanted == before:
            return None
        answer = yield Replace(JOBS, metadata["namespace"], metadata["name"], {**self._job, "status": wanted}, "status")
        if answer.missing:
            return Done()
        if not answer.ok:
            return Again(answer.message)
        self._job = answer.body
        self._family.owner_applied(answer.body)
        self.is_written = True
        if before.get("conditions") != wanted.get("conditions"):
            yield from self._tell_suspension(before, wanted)
        return None

    # -- telling ---------------------------------------------------------------------------------------------------

    def _tell_suspension(self, before: Object, written: Object) -> Generator[Effect, Answer, None]:
        if status.suspension(before) != status.suspension(written):
            word = "Suspended" if self._spec.is_suspended else "Resumed"
            yield self._event("Normal", word, f"Job {word.lower()}")

    def _tell_the_end(self, over: Ending) -> Generator[Effect, Answer, None]:
        if over.is_failure:
            yield self._event("Warning", over.reason, over.message)
            return
        completions = self._spec.completions
        if completions is not None and (self._job["status"].get("succeeded") or 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            yield self._event("Warning", "TooManySucceededPods", text)
        yield self._event("Normal", "Completed", "Job completed")

    def _event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> Emit:
        return Emit(pods.about(self._job, KIND), kind, reason, message, COMPONENT)

    # -- when to look again ----------------------------------------------------------------------------------------

    def _look_again(self, after_s: float | None) -> None:
        if after_s is not None:
            self._again_s = after_s if self._again_s is None else min(self._again_s, after_s)

    def _verdict(self) -> Verdict:
        if self._problem is not None:
            return Again(self._problem)
        return Done() if self._again_s is None else Later(self._again_s)
