"""The phase and the conditions of a PodGroup: Volcano's cases of phases, terminating members and messages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.capacity.api.pod_group_phase import (
    TaskCounts,
    TaskFit,
    TaskStatus,
    conditions_of,
    gang_text,
    is_only_releasing,
    member_text,
    phase_of,
)
from headgate.capacity.kinds.unsupported import group_condition, queue_condition

PENDING, BOUND, RUNNING = TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING
RELEASING, WITHDRAWN, SUCCEEDED, FAILED = (
    TaskStatus.RELEASING,
    TaskStatus.WITHDRAWN,
    TaskStatus.SUCCEEDED,
    TaskStatus.FAILED,
)


def counted(*statuses: TaskStatus, unschedulable: int = 0) -> TaskCounts:
    return TaskCounts({each: statuses.count(each) for each in dict.fromkeys(statuses)}, unschedulable)


@pytest.mark.parametrize(
    ("minimum", "before", "counts", "expected"),
    [
        (1, "Running", counted(RELEASING), "Running"),
        (2, "Running", counted(RUNNING, RELEASING), "Running"),
        (2, "Running", counted(RELEASING, RELEASING), "Running"),
        (2, "Pending", counted(WITHDRAWN, PENDING), "Pending"),
        (2, "Running", counted(SUCCEEDED, SUCCEEDED), "Completed"),
        (2, "Running", counted(RELEASING), "Pending"),
        (2, "Running", counted(RUNNING, PENDING, unschedulable=1), "Unknown"),
    ],
    ids=[
        "single pod terminating keeps Running",
        "partial terminating keeps Running",
        "all terminating keeps Running",
        "never scheduled and deleted stays Pending",
        "all completed",
        "terminating below the minimum falls to Pending",
        "running and unschedulable is Unknown",
    ],
)
def test_the_phase_of_a_group_as_volcano_has_it(minimum: int, before: str, counts: TaskCounts, expected: str) -> None:
    assert phase_of(before, minimum, counts) == expected


@pytest.mark.parametrize(
    ("minimum", "before", "counts", "is_enqueued", "expected"),
    [
        (2, "", counted(), False, "Pending"),
        (2, "", counted(), True, "Inqueue"),
        (2, "Inqueue", counted(PENDING), False, "Inqueue"),
        (2, "Inqueue", counted(BOUND, BOUND), False, "Running"),
        (2, "Inqueue", counted(BOUND, PENDING, PENDING), True, "Inqueue"),
        (1, "Running", counted(SUCCEEDED, FAILED), True, "Completed"),
        (1, "Running", counted(SUCCEEDED, RUNNING), True, "Running"),
        (1, "Running", counted(SUCCEEDED, PENDING), True, "Completed"),
        (0, "", counted(), False, "Pending"),
        (0, "", counted(RUNNING), False, "Running"),
        (2, "what", counted(PENDING), False, "Pending"),
    ],
)
def test_the_phase_of_a_group_between_its_queue_and_its_end(
    minimum: int, before: str, counts: TaskCounts, is_enqueued: bool, expected: str
) -> None:
    assert phase_of(before, minimum, counts, is_enqueued=is_enqueued) == expected


@pytest.mark.parametrize(
    ("minimum", "counts", "expected"),
    [
        (2, counted(RUNNING, RELEASING), True),
        (2, counted(RUNNING, RELEASING, PENDING), False),
        (2, counted(RUNNING, RELEASING, BOUND, PENDING), False),
        (1, counted(WITHDRAWN), False),
        (3, counted(RUNNING, RELEASING), False),
    ],
    ids=["partial termination", "replacement waits", "replacement half-way", "never scheduled", "below the minimum"],
)
def test_a_group_with_only_terminating_members_gets_no_unschedulable_condition(
    minimum: int, counts: TaskCounts, expected: bool
) -> None:
    assert is_only_releasing(minimum, counts) is expected


def test_six_members_of_which_three_fit_all_get_a_message() -> None:
    counts = counted(*[PENDING] * 6, unschedulable=3)
    group = gang_text(6, counts)
    assert group == (
        "3/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable; "
        "Pending: 3 Unschedulable, 3 Schedulable"
    )
    no_node = "0/3 nodes are available: 3 Insufficient cpu."
    messages = [
        *(member_text(f"ns1/task-{each}", f"node{each}", TaskFit.FITS, "", group) for each in (1, 2, 3)),
        member_text("ns1/task-4", "", TaskFit.NOWHERE, no_node, group),
        *(member_text(f"ns1/task-{each}", "", TaskFit.NOT_TRIED, "", group) for each in (5, 6)),
    ]
    assert messages == [
        "Pod ns1/task-1 can possibly be assigned to node1, once minAvailable is satisfied",
        "Pod ns1/task-2 can possibly be assigned to node2, once minAvailable is satisfied",
        "Pod ns1/task-3 can possibly be assigned to node3, once minAvailable is satisfied",
        no_node,
        group,
        group,
    ]


def test_the_message_of_a_member_that_waits_for_victims_names_the_release() -> None:
    text = member_text("ns1/task-1", "node1", TaskFit.AFTER_RELEASE, "", "")
    assert text == (
        "Pod ns1/task-1 can possibly be assigned to node1, once resource is released and minAvailable is satisfied"
    )


def conditions(
    minimum: int,
    counts: TaskCounts,
    roles: Mapping[str, int] | None = None,
    existing: Mapping[str, int] | None = None,
    problem: str = "",
    waits_for: str = "",
) -> list[tuple[str, str, str, str]]:
    found = conditions_of(minimum, roles or {}, counts, existing or {}, problem=problem, waits_for=waits_for)
    return [(each["type"], each["status"], each["reason"], each["message"]) for each in found]


def test_the_condition_of_a_gang_with_too_few_members_has_their_number() -> None:
    text = "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    counts = counted(PENDING, PENDING, FAILED, WITHDRAWN)
    assert conditions(3, counts) == [("Unschedulable", "True", "NotEnoughTasks", text)]


def test_the_condition_of_a_gang_without_enough_of_a_role_names_the_role() -> None:
    text = "Not enough valid pods of each task for gang-scheduling, driver: 0 of 1"
    found = conditions(2, counted(PENDING, PENDING), roles={"driver": 1, "executor": 1}, existing={"executor": 2})
    assert found == [("Unschedulable", "True", "NotEnoughPodsOfTask", text)]


def test_u21_a_group_that_waits_for_its_queue_is_not_unschedulable() -> None:
    text = "its pods wait for capacity in the queue blue"
    found = conditions(1, counted(PENDING), waits_for="blue")
    assert found == [("Scheduled", "False", "WaitingForQueue", text)]


def test_the_condition_of_an_unschedulable_gang_has_counts() -> None:
    (found,) = conditions(2, counted(RUNNING, PENDING, unschedulable=1))
    assert found[:3] == ("Unschedulable", "True", "NotEnoughResources")
    assert found[3].startswith("1/2 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 Running, 2 min")


def test_a_gang_that_has_its_minimum_is_scheduled_whatever_its_other_members_do() -> None:
    ready = ("Scheduled", "True", "tasks in gang are ready to be scheduled", "")
    assert conditions(2, counted(RUNNING, BOUND, PENDING, unschedulable=1)) == [ready]


def test_the_condition_of_an_invalid_group_has_the_problem() -> None:
    text = "spec.minResources.cpu: -1 is negative"
    assert conditions(1, counted(PENDING), problem=text) == [("Unschedulable", "True", "Invalid", text)]


def test_a_pending_group_may_have_no_conditions() -> None:
    assert conditions(1, counted(PENDING)) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"networkTopology": {"mode": "hard"}}, "spec.networkTopology: hard network topology is not supported"),
        ({"networkTopology": {"highestTierAllowed": 1}}, "hard network topology is not supported"),
        ({"networkTopology": {"mode": "soft"}}, "spec.networkTopology: network topology is not supported"),
        ({"subGroupPolicy": [{"name": "a"}]}, "spec.subGroupPolicy: subgroups are not supported"),
    ],
)
def test_an_unsupported_field_of_a_group_sets_a_condition(spec: dict[str, object], words: str) -> None:
    found = group_condition(spec)
    assert found is not None
    assert (found["type"], found["status"], found["reason"]) == ("Supported", "False", "NotSupported")
    assert words in found["message"]


def test_all_unsupported_fields_of_a_queue_are_in_one_condition() -> None:
    spec = {"affinity": {"nodeGroupAffinity": {}}, "extendClusters": [{"name": "far"}], "dra": {"capability": {}}}
    found = queue_condition(spec)
    assert found is not None
    assert [each.split(":")[0] for each in found["message"].split("; ")] == [
        "spec.affinity",
        "spec.extendClusters",
        "spec.dra",
    ]


@pytest.mark.parametrize("spec", [None, [], {}, {"minMember": 2}, {"dequeueStrategy": "fifo"}, {"networkTopology": 3}])
def test_an_object_without_unsupported_fields_gets_no_condition(spec: object) -> None:
    assert group_condition(spec) is None
    assert queue_condition(spec) is None
