"""Backoff: how long, aligned to what, in which order."""

from __future__ import annotations

from math import inf

import pytest

from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.queue.backoff_queue import BackoffQueue, PodBackoff
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from unit.scheduling.pods import START_S, APod, a_pod


@pytest.mark.parametrize(
    ("initial", "limit", "count", "duration"),
    [
        (1, 32, 0, 0),
        (3, 1000, 5, 48),
        (1, 32, 16, 32),
        (1, 2**31 - 1, 32, 2**31 - 1),
        (1, 2**63 - 1, 64, 2**63 - 1),
        (1, 10, 10**6, 10),
    ],
)
def test_the_wait_doubles_up_to_its_limit(initial: int, limit: int, count: int, duration: int) -> None:
    assert PodBackoff(initial, limit).duration_s(count) == duration


def a_failed(
    name: str = "p", *, rejected: int = 0, errors: int = 0, at_s: float = START_S, priority: int = 0
) -> QueuedPodInfo[APod]:
    return QueuedPodInfo(
        a_pod(name, priority=priority), at_s, unschedulable_count=rejected, consecutive_errors=errors, attempts=1
    )


def test_a_pod_that_never_failed_does_not_wait() -> None:
    assert PodBackoff().until_s(a_failed()) == -inf
    assert not PodBackoff().waits(a_failed(), START_S)


def test_errors_count_before_rejections() -> None:
    assert PodBackoff(1, 32).until_s(a_failed(rejected=5, errors=1)) == START_S + 1
    assert PodBackoff(1, 32).until_s(a_failed(rejected=5)) == START_S + 16


def test_the_end_of_a_wait_is_remembered_until_the_next_failure() -> None:
    failed = a_failed(rejected=1)
    assert PodBackoff().until_s(failed) == START_S + 1
    failed.unschedulable_count = 4
    assert PodBackoff().until_s(failed) == START_S + 1


def test_a_limit_of_zero_switches_waiting_off() -> None:
    assert PodBackoff(0, 0).until_s(a_failed(rejected=16)) == -inf


def test_waits_end_with_whole_seconds_and_the_last_second_belongs_to_them() -> None:
    rule, failed = PodBackoff(), a_failed(rejected=1, at_s=START_S + 0.7)
    assert rule.until_s(failed) == START_S + 1
    assert rule.waits(failed, START_S + 1.9)
    assert not rule.waits(failed, START_S + 2)
    assert rule.over_s(rule.until_s(failed)) == START_S + 2


def test_without_windows_a_wait_ends_when_it_ends() -> None:
    rule, failed = PodBackoff(windows=False), a_failed(rejected=1, at_s=START_S + 0.5)
    assert rule.waits(failed, START_S + 1.5)
    assert not rule.waits(failed, START_S + 1.501)


@pytest.mark.parametrize(
    ("windows", "order"),
    [(True, ["pod5", "pod4", "pod2", "pod3"]), (False, ["pod5", "pod3", "pod4", "pod2"])],
)
def test_within_one_second_pods_come_back_in_the_order_of_the_active_queue(windows: bool, order: list[str]) -> None:
    queue = BackoffQueue(PodBackoff(windows=windows))
    ages = {
        "pod0": (1, 0.0),
        "pod1": (1, 1.0),
        "pod2": (2, 1.999),
        "pod3": (1, 2.0),
        "pod4": (2, 2.0),
        "pod5": (1, 3.0),
    }
    for name, (priority, age_s) in ages.items():
        failed = a_failed(name, rejected=1, at_s=START_S - age_s, priority=priority)
        queue.put(failed, PrioritySort().order_key(failed.pod, failed.since_s), by_error=False)
    over = []
    for uid in queue.over(START_S):
        over.append(uid.removeprefix("uid-"))
        queue.discard(uid)
    assert over == order


@pytest.mark.parametrize(
    ("waiting", "over"),
    [
        ([], []),
        (["pod0", "pod1"], ["pod0"]),
        (["pod2", "pod3"], ["pod2"]),
        (["pod0", "pod1", "pod2", "pod3"], ["pod0", "pod2"]),
        (["pod0", "pod2"], ["pod0", "pod2"]),
        (["pod1", "pod3"], []),
    ],
)
@pytest.mark.parametrize("windows", [True, False])
def test_both_queues_give_back_whose_wait_is_over(waiting: list[str], over: list[str], windows: bool) -> None:
    queue = BackoffQueue(PodBackoff(windows=windows))
    failed = {
        "pod0": a_failed("pod0", rejected=1, at_s=START_S - 2),
        "pod1": a_failed("pod1", rejected=1, at_s=START_S + 1),
        "pod2": a_failed("pod2", errors=1, at_s=START_S - 2),
        "pod3": a_failed("pod3", errors=1, at_s=START_S + 1),
    }
    for name in waiting:
        queue.put(failed[name], (), by_error=bool(failed[name].consecutive_errors))
    found = []
    for uid in queue.over(START_S):
        found.append(uid.removeprefix("uid-"))
        queue.discard(uid)
    assert found == over
    assert len(queue) == len(waiting) - len(over)


def test_only_the_rejected_may_be_tried_early() -> None:
    queue = BackoffQueue(PodBackoff())
    queue.put(a_failed("error", errors=1), (), by_error=True)
    assert queue.first_rejected() is None
    queue.put(a_failed("rejected", rejected=3), (), by_error=False)
    assert queue.first_rejected() == "uid-rejected"
    assert queue.next_deadline_s() == START_S + 2
