"""Delayed starts: which promised pods start beside terminating pods, in which order, and when they wait no longer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task
from cost_growth import cpu_s, too_steep
from headgate.capacity.engine import WaitReason

LATER_S = 600.0


class DelayedQueues(Queues):
    """As the gate controller uses the engine: every grant is delayed, and starts when it may."""

    def leaves(self, name: str, cpu: str = "1", **fields: Any) -> None:
        """A pod on a node that terminates."""
        task = a_task(name, cpu, node_name="n", gates=(), is_terminal_or_terminating=True, **fields)
        self.apply(task)
        self.engine.set_leaving(task.uid, leaving=True)

    def promise(self) -> list[str]:
        """Grants capacity, and delays the start of every unit."""
        self.now_s += 1
        granted = []
        for grant in self.engine.admit(self.now_s, 1_000):
            self.engine.delay_start(grant.uids, self.now_s + LATER_S)
            granted += [uid.removeprefix("u-") for uid in grant.uids]
        return granted

    def starts(self, max_pods: int = 1_000) -> list[list[str]]:
        started = self.engine.pods_to_start(self.now_s, max_pods)
        return [[uid.removeprefix("u-") for uid in uids] for uids in started]

    def gone(self, *names: str) -> None:
        for name in names:
            self.engine.task_removed(f"u-{name}")


def test_a_unit_starts_when_it_fits_beside_the_terminating_pods() -> None:
    queues = DelayedQueues(a_queue("q", cpu=2))
    queues.leaves("old-0", queue="q")
    queues.leaves("old-1", queue="q")
    queues.apply(a_task("new", "1", queue="q"))
    assert queues.promise() == ["new"]
    assert queues.starts() == []
    assert queues.wait_reason("new") is WaitReason.TERMINATING_PODS
    queues.gone("old-0")
    assert queues.starts() == [["new"]]
    assert queues.wait_reason("new") is None


def test_terminating_pods_of_a_sibling_queue_count_in_the_limit_of_the_parent() -> None:
    queues = DelayedQueues(a_queue("p", cpu=1), a_queue("a", parent="p"), a_queue("b", parent="p"))
    queues.leaves("old", queue="a")
    queues.apply(a_task("new", queue="b"))
    assert queues.promise() == ["new"]
    assert queues.starts() == []
    queues.gone("old")
    assert queues.starts() == [["new"]]


def test_a_unit_that_waits_is_not_overtaken_on_the_resource_that_it_waits_for() -> None:
    queues = DelayedQueues(a_queue("q", cpu=3))
    for name in ("old-0", "old-1", "old-2"):
        queues.leaves(name, queue="q")
    queues.apply(a_task("large", "2", queue="q", priority=10), a_task("small", "1", queue="q"))
    assert queues.promise() == ["large", "small"]
    queues.gone("old-0")
    assert queues.starts() == []  # the small one would fit, and takes nothing from the large one
    queues.gone("old-1")
    assert queues.starts() == [["large"]]
    queues.gone("old-2")
    assert queues.starts() == [["small"]]


def test_a_unit_that_asks_for_another_resource_does_not_wait() -> None:
    queues = DelayedQueues(a_queue("q", capability={"cpu": 1, "example.com/gpu": 1}))
    queues.leaves("old", queue="q")
    queues.apply(
        a_task("cpu", "1", queue="q", priority=10), a_task("gpu", None, requests={"example.com/gpu": 1}, queue="q")
    )
    assert queues.promise() == ["cpu", "gpu"]
    assert queues.starts() == [["gpu"]]


def test_a_unit_starts_at_its_deadline_at_the_latest() -> None:
    queues = DelayedQueues(a_queue("q", cpu=1))
    queues.leaves("old", queue="q")
    queues.apply(a_task("new", queue="q"))
    queues.promise()
    assert queues.engine.next_deadline_s() == queues.now_s + LATER_S
    queues.now_s += LATER_S - 1
    assert queues.starts() == []
    queues.now_s += 1
    assert queues.starts() == [["new"]]
    assert queues.engine.next_deadline_s() is None


def test_a_gang_whose_member_was_replaced_starts_whole() -> None:
    queues = DelayedQueues(a_queue("q", cpu=2), a_group("g", queue="q", minimum=2))
    queues.leaves("old-0", queue="q")
    queues.leaves("old-1", queue="q")
    queues.apply(a_task("m-0", group="g"), a_task("m-1", group="g"))
    assert sorted(queues.promise()) == ["m-0", "m-1"]
    queues.gone("m-1")
    queues.apply(a_task("m-2", group="g"))
    assert queues.promise() == ["m-2"]
    queues.gone("old-0")
    assert queues.starts() == []  # there is capacity for one of the two
    queues.gone("old-1")
    assert [sorted(each) for each in queues.starts()] == [["m-0", "m-2"]]


def test_a_member_beyond_the_minimum_does_not_delay_its_gang() -> None:
    queues = DelayedQueues(a_queue("q", cpu=3), a_group("g", queue="q", minimum=1))
    queues.leaves("old-0", queue="q")
    queues.apply(a_task("m-0", "2", group="g", created_s=1.0), a_task("m-1", "1", group="g", created_s=2.0))
    assert queues.promise() == ["m-0", "m-1"]
    assert queues.starts() == [["m-0"]]
    queues.gone("old-0")
    assert queues.starts() == [["m-1"]]


def test_a_pod_that_was_resized_meanwhile_starts_when_the_rest_is_granted() -> None:
    queues = DelayedQueues(a_queue("q", cpu=2))
    queues.leaves("old", "2", queue="q")
    task = a_task("new", "1", queue="q")
    other = a_task("other", "1", queue="q", node_name="n", gates=())
    queues.apply(other, task)
    queues.promise()
    larger = msgspec.structs.replace(task, requests={"cpu": 2000})
    queues.apply(larger)
    queues.gone("old")
    assert queues.promise() == []
    assert queues.starts() == []
    queues.gone("other")
    assert queues.promise() == ["new"]
    assert queues.starts() == [["new"]]


def test_a_committed_promise_is_kept_when_the_limit_is_lowered_and_one_that_is_delayed_is_revoked() -> None:
    queues = DelayedQueues(a_queue("q", cpu=3))
    queues.leaves("old", "2", queue="q")
    queues.apply(a_task("started", "1", queue="q", created_s=1.0), a_task("delayed", "2", queue="q", created_s=2.0))
    assert queues.promise() == ["started", "delayed"]
    assert queues.starts() == [["started"]]
    queues.engine.commit("u-started")
    queues.apply(a_queue("q", cpu=0))
    queues.promise()
    assert queues.engine.revoked_pods() == ["u-delayed"]
    assert queues.engine.usage("q").reserved == {"cpu": 1000}
    assert queues.starts() == []


def test_at_most_as_many_pods_start_as_asked_for_and_the_others_later() -> None:
    queues = DelayedQueues(a_queue("q", cpu=10))
    queues.apply(*(a_task(f"p-{number}", queue="q") for number in range(5)))
    assert len(queues.promise()) == 5
    assert len(queues.starts(max_pods=2)) == 2
    assert len(queues.starts()) == 3


@pytest.mark.measured
def test_the_work_for_many_pods_that_wait_grows_with_their_number() -> None:
    def work(number: int) -> float:
        queues = DelayedQueues(a_queue("q", cpu=number))
        for each in range(number):
            queues.leaves(f"old-{each}", queue="q")
        queues.apply(*(a_task(f"new-{each}", queue="q") for each in range(number)))
        assert len(queues.promise()) == number

        def leave_one_by_one() -> None:
            for each in range(number):
                queues.gone(f"old-{each}")
                assert len(queues.starts()) == 1

        return cpu_s(leave_one_by_one)

    assert not too_steep(lambda: work(100), lambda: work(800))
