"""The pods that are tried together, and how many of them must get nodes."""

from __future__ import annotations

from typing import Any

from capacity_builders import Queues, a_group, a_queue, a_task


def granted_gang(minimum: int, size: int, **spec: Any) -> Queues:
    roles = ("master", "worker")
    tasks = [a_task(f"g-{i}", group="g", created_s=i, role=roles[min(i, 1)]) for i in range(size)]
    queues = Queues(a_queue("q", cpu=100), a_group("g", "q", minimum, **spec), *tasks)
    queues.admit()
    return queues


def test_all_granted_pods_are_tried_together_until_the_minimum_is_on_nodes() -> None:
    queues = granted_gang(2, 4)
    attempt = queues.engine.gang_attempt("u-g-3")
    assert attempt.uids == ("u-g-0", "u-g-1", "u-g-2", "u-g-3")
    assert (attempt.min_member, attempt.needs_several_pods) == (2, True)
    assert not attempt.is_enough(["u-g-3"])
    assert attempt.is_enough(["u-g-2", "u-g-3"])
    queues.placed("g-1")
    attempt = queues.engine.gang_attempt("u-g-3")
    assert (attempt.uids, attempt.min_member, attempt.needs_several_pods) == (("u-g-0", "u-g-2", "u-g-3"), 1, False)
    queues.placed("g-0")
    assert queues.engine.gang_attempt("u-g-3").uids == ("u-g-3",)


def test_minimum_members_per_role_must_be_met() -> None:
    queues = granted_gang(2, 3, minTaskMember={"master": 1, "worker": 1})
    attempt = queues.engine.gang_attempt("u-g-1")
    assert not attempt.is_enough(["u-g-1", "u-g-2"])
    assert attempt.is_enough(["u-g-0", "u-g-2"])
    queues.placed("g-1")
    attempt = queues.engine.gang_attempt("u-g-2")
    assert (attempt.min_member, attempt.needs_several_pods) == (1, True)
    assert not attempt.is_enough(["u-g-2"])


def test_a_pod_without_a_group_or_a_grant_is_tried_alone() -> None:
    queues = Queues(a_queue("q", cpu=1), a_group("g", "q", 2), a_task("p", queue="q"), a_task("g-0", group="g"))
    assert queues.engine.gang_attempt("u-p").uids == ("u-p",)
    assert queues.engine.gang_attempt("u-g-0").uids == ("u-g-0",)
    assert queues.engine.gang_attempt("u-nobody").uids == ("u-nobody",)
