"""Every pod of a job is counted once, although pods end and are deleted at any time and the controller crashes at any
write.

The model has no controller. It performs the steps of one reconciliation (record, remove the finalizer, add to the
counts) with the functions under test, and may stop after any write. Memory is then lost; the state of the API is not.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.jobs.counting import FinalizerRemovalPolicy, TerminatedPodCounts, count
from headgate.controllers.jobs.indexes import NONE, CompletionIndexes
from headgate.controllers.jobs.job_pods import INDEX, TRACKING, JobPod, job_pod_of
from headgate.controllers.jobs.spec import JobSpec

PODS = 5
NEVER = 99


class Api:
    """Pods and a status, as the server has them."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.pods = {f"u{each}": _pod(each) for each in range(PODS)}
        self.ended: dict[str, str] = {}
        self.tally = TerminatedPodCounts()
        self.completed = NONE

    def end(self, number: int, phase: str) -> None:
        pod = self.pods.get(f"u{number}")
        if pod is not None and f"u{number}" not in self.ended and "deletionTimestamp" not in pod["metadata"]:
            pod["status"]["phase"] = phase
            self.ended[f"u{number}"] = phase

    def delete(self, number: int) -> None:
        uid = f"u{number}"
        pod = self.pods.get(uid)
        if pod is None:
            return
        pod["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
        self.ended.setdefault(uid, "Failed")
        self._reap(uid)

    def free(self, uid: str) -> None:
        self.pods[uid]["metadata"]["finalizers"] = []
        self._reap(uid)

    def _reap(self, uid: str) -> None:
        metadata = self.pods[uid]["metadata"]
        if "deletionTimestamp" in metadata and not metadata["finalizers"]:
            del self.pods[uid]

    def members(self) -> list[JobPod]:
        return [job_pod_of(each, is_being_deleted=False) for each in self.pods.values()]

    def work(self, most_writes: int) -> None:
        """Performs at most ``most_writes`` writes."""
        members = self.members()
        tracked = {each.uid for each in members if each.is_tracked}
        counted = count(self.spec, self.tally.after_removal(tracked), self.completed, members, FinalizerRemovalPolicy())
        if most_writes < 1:
            return
        self.tally, self.completed = counted.counts, self.completed | counted.succeeded_indexes
        released = counted.released[: most_writes - 1]
        for each in released:
            self.free(each.uid)
        if most_writes > len(counted.released) + 1:
            self.tally = counted.counts.after_removal(tracked - {each.uid for each in released})


def _pod(number: int) -> dict[str, Any]:
    metadata = {
        "name": f"p{number}",
        "uid": f"u{number}",
        "finalizers": [TRACKING],
        "annotations": {INDEX: str(number)},
    }
    return {"metadata": metadata, "status": {"phase": "Running"}}


number = st.integers(0, PODS - 1)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("end"), number, st.sampled_from(("Succeeded", "Failed"))),
        st.tuples(st.just("delete"), number),
        st.tuples(st.just("work"), st.integers(0, PODS + 2)),
    ),
    max_size=25,
)


def told(moves: list[tuple[Any, ...]], spec: JobSpec) -> Api:
    api = Api(spec)
    for name, *arguments in moves:
        getattr(api, name)(*arguments)
        check(api)
    for _ in range(3):
        api.work(NEVER)
        check(api)
    return api


def check(api: Api) -> None:
    """Only pods that have ended are counted, and each only once."""
    uncounted = (*api.tally.uncounted_succeeded, *api.tally.uncounted_failed)
    assert len(set(uncounted)) == len(uncounted)
    assert set(uncounted) <= set(api.ended)
    assert api.tally.failed + api.tally.succeeded + len(uncounted) <= len(api.ended)


@given(moves)
def test_every_pod_is_counted_in_the_final_status(moves: list[tuple[Any, ...]]) -> None:
    api = told(moves, JobSpec(parallelism=PODS, completions=PODS))
    outcomes = list(api.ended.values())
    expected = (outcomes.count("Succeeded"), outcomes.count("Failed"))
    assert (api.tally.succeeded, api.tally.failed, api.tally.uncounted) == (*expected, 0)


@given(moves)
def test_every_index_that_succeeded_is_in_the_final_status(moves: list[tuple[Any, ...]]) -> None:
    api = told(moves, JobSpec(parallelism=PODS, completions=PODS, is_indexed=True))
    done = {int(uid[1:]) for uid, phase in api.ended.items() if phase == "Succeeded"}
    assert api.completed == CompletionIndexes.of(done)
    assert api.tally.failed == len(api.ended) - len(done)
    assert api.tally.uncounted == 0
