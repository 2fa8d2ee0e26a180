"""The pods that are tried together, and how many of them must get nodes."""

from __future__ import annotations

from typing import Any

from capacity_builders import Queues, a_group, a_queue, a_task, stamped
from headgate.capacity.engine import WaitReason


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


def test_a_member_whose_promise_is_being_revoked_is_not_tried_with_the_others() -> None:
    tasks = [stamped(a_task(f"g-{i}", group="g", created_s=i), "q", f"2026-01-01T00:00:0{i}.000000Z") for i in range(3)]
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", 2), *tasks)
    queues.apply(a_queue("q", cpu=2))
    queues.engine.admit(1.0, 10)
    assert queues.engine.promises_to_end() == ["u-g-2"]
    assert queues.engine.gang_attempt("u-g-0").uids == ("u-g-0", "u-g-1")
    assert queues.wait_reason("g-0") is None


def test_a_gang_does_not_start_while_too_few_members_keep_their_promises() -> None:
    roles = ("master", "worker", "worker")
    tasks = [stamped(a_task(f"g-{i}", group="g", created_s=i, role=role), "q") for i, role in enumerate(roles)]
    group = a_group("g", "q", 2, minTaskMember={"master": 1, "worker": 1})
    for revoked, is_held in (("u-g-0", True), ("u-g-1", False)):
        queues = Queues(a_queue("q", cpu=3), group, *tasks)
        queues.engine.pods_to_retry()
        queues.engine.set_revoking(revoked, revoking=True)
        assert (queues.wait_reason("g-2") is WaitReason.NOT_ENOUGH_PODS) is is_held
        assert ("u-g-2" in queues.engine.pods_to_retry()) is is_held
        queues.engine.set_revoking(revoked, revoking=False)
        assert queues.wait_reason("g-2") is None
