"""The index of gated jobs against a recount of all jobs: any order of reports leaves the same numbers and oldest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.gated_jobs import GatedJobs, GatedUnit, QueueRef, local_queue, volcano_queue

KEYS = tuple("abcdef")
QUEUES: tuple[QueueRef, ...] = (local_queue("ns", "one"), local_queue("ns", "two"), volcano_queue("v"))
Reported = tuple[GatedUnit, tuple[QueueRef, ...]]


def a_report(key: str, gate: str, since_s: int, queues: list[QueueRef]) -> Reported:
    return GatedUnit("Job", "ns", key, gate, float(since_s)), tuple(queues)


STEPS = st.lists(
    st.one_of(
        st.builds(lambda key: (key, None), st.sampled_from(KEYS)),
        st.builds(
            lambda key, gate, since_s, queues: (key, a_report(key, gate, since_s, queues)),
            st.sampled_from(KEYS),
            st.sampled_from(("x.io/a", "x.io/b")),
            st.integers(0, 5),
            st.lists(st.sampled_from(QUEUES), unique=True),
        ),
    ),
    max_size=40,
)


def recount(jobs: dict[str, Reported], queue: QueueRef) -> tuple[int, GatedUnit] | None:
    found = [unit for unit, queues in jobs.values() if queue in queues]
    return (len(found), min(found, key=lambda unit: (unit.since_s, unit.name))) if found else None


@given(STEPS)
def test_the_number_and_the_oldest_of_each_queue_equal_a_recount(steps: list[tuple[str, Reported | None]]) -> None:
    gated = GatedJobs()
    jobs: dict[str, Reported] = {}
    for key, report in steps:
        before = {queue: recount(jobs, queue) for queue in QUEUES}
        jobs.pop(key, None)
        if report is None:
            gated.remove(key)
        else:
            jobs[key] = report
            gated.put(key, *report)
        after = {queue: recount(jobs, queue) for queue in QUEUES}
        for queue in QUEUES:
            found = gated.of_queue(queue)
            assert (None if found is None else (found.count, found.oldest)) == after[queue]
        changed = gated.take_changed()
        assert {queue for queue in QUEUES if before[queue] != after[queue]} <= set(changed)
        assert len(changed) == len(set(changed))
