"""The index of gated jobs by queue, and the message of the condition."""

from __future__ import annotations

import pytest

from headgate.jobs.gated_jobs import (
    GatedJobs,
    GatedJobsOfQueue,
    GatedUnit,
    condition_message,
    describe_gated_jobs,
    local_queue,
    named_queues,
    volcano_queue,
)

LQ, VOLCANO = local_queue("ns", "lq"), volcano_queue("research")
QUEUE_NAME = "scheduling.volcano.sh/queue-name"


def a_unit(name: str = "a", since_s: float = 0.0, gate: str = "example.com/data") -> GatedUnit:
    return GatedUnit("Job", "ns", name, gate, since_s)


def test_the_message_of_a_local_queue_has_the_number_the_oldest_and_its_gate() -> None:
    one, three = (GatedJobsOfQueue(count, a_unit("needs-data", 1_700_000_000.0)) for count in (1, 3))
    oldest = "since 2023-11-14T22:13:20Z (Job needs-data, gate example.com/data)"
    assert describe_gated_jobs(one, names_job=True) == f"1 job has no Workload because of a gate, {oldest}"
    assert (
        describe_gated_jobs(three, names_job=True) == f"3 jobs have no Workload because of a gate, the oldest {oldest}"
    )


def test_the_message_of_a_queue_without_a_namespace_does_not_name_the_job() -> None:
    message = describe_gated_jobs(GatedJobsOfQueue(1, a_unit("secret")), names_job=False)
    assert message == "1 job has no Workload because of a gate, since 1970-01-01T00:00:00Z (gate example.com/data)"


def test_a_queue_counts_its_jobs_and_knows_the_oldest() -> None:
    gated = GatedJobs()
    gated.put("k1", a_unit("young", 20), [LQ])
    gated.put("k2", a_unit("old", 10), [LQ, VOLCANO])
    assert gated.of_queue(LQ) == GatedJobsOfQueue(2, a_unit("old", 10))
    assert gated.of_queue(VOLCANO) == GatedJobsOfQueue(1, a_unit("old", 10))
    gated.remove("k2")
    assert gated.of_queue(LQ) == GatedJobsOfQueue(1, a_unit("young", 20))
    assert gated.of_queue(VOLCANO) is None


def test_of_two_jobs_of_the_same_second_the_first_by_name_is_the_oldest() -> None:
    gated = GatedJobs()
    gated.put("k1", a_unit("b"), [LQ])
    gated.put("k2", a_unit("a"), [LQ])
    found = gated.of_queue(LQ)
    assert found is not None
    assert found.oldest.name == "a"


def test_a_job_that_moves_changes_both_queues_and_an_unchanged_report_changes_none() -> None:
    gated, other = GatedJobs(), local_queue("ns", "other")
    gated.put("k", a_unit(), [LQ])
    assert gated.take_changed() == [LQ]
    gated.put("k", a_unit(), [LQ])
    gated.remove("unknown")
    assert gated.take_changed() == []
    gated.put("k", a_unit(), [other])
    assert set(gated.take_changed()) == {LQ, other}
    assert gated.of_queue(LQ) is None


def test_the_index_is_complete_when_every_key_of_the_first_lists_was_reconciled() -> None:
    gated = GatedJobs()
    gated.expect(["a", "b"])
    gated.reconciled("a")
    states = [gated.is_complete]
    gated.reconciled("b")
    states.append(gated.is_complete)
    gated.expect(["later"])
    states.append(gated.is_complete)
    assert states == [False, True, True], "only the first lists are waited for"


def test_a_job_names_its_local_queue_and_the_volcano_queues_of_its_pods() -> None:
    templates = [{"metadata": {"annotations": {QUEUE_NAME: "research"}}}, {"metadata": {}}, None, {"metadata": "odd"}]
    assert named_queues("ns", "lq", templates) == (LQ, VOLCANO)
    assert named_queues("ns", "", [templates[0], templates[0]]) == (VOLCANO,)


@pytest.mark.parametrize("status", [{}, {"conditions": []}, {"conditions": [{"type": "Active", "status": "True"}]}])
def test_a_queue_without_the_condition_has_no_message(status: object) -> None:
    assert condition_message({"status": status}) == ""
    assert (
        condition_message({"status": {"conditions": [{"type": "GatedJobs", "status": "True", "message": "x"}]}}) == "x"
    )
