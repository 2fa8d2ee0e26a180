"""Promises above a limit are taken back in order and do not block other pods."""

from __future__ import annotations

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_stamp, a_task, amounts, stamped
from headgate.capacity.engine import Grant, WaitReason


def at(number: int) -> str:
    return f"2026-01-01T00:00:0{number}.000000Z"


def under_a_parent() -> Queues:
    """Queues ``t1`` of 5 CPU and ``t2`` under ``team``, and a pod of 5 CPU that was promised its share of ``t1``."""
    queues = Queues(a_queue("team", cpu=5), a_queue("t1", cpu=5, parent="team"), a_queue("t2", parent="team"))
    queues.apply(stamped(a_task("large", "5", queue="t1"), "t1", at(1)))
    return queues


def test_a_promise_above_a_lowered_limit_is_taken_back_and_no_longer_counts() -> None:
    queues = under_a_parent()
    queues.apply(a_queue("t1", cpu=4, parent="team"), a_task("own", "4", queue="t1", created_s=1))
    queues.apply(a_task("sibling", "1", queue="t2", created_s=2))
    assert queues.admit() == ["own", "sibling"]
    assert (queues.usage("t1"), queues.usage("team")) == ((0, 4000), (0, 5000))
    assert queues.engine.revoked_pods() == ["u-large"]
    assert queues.wait_reason("large") is WaitReason.LOST_TURN
    assert queues.wait_message("large") == (
        "queue t1 has no capacity for 5 cpu: 4 of 4 are in use or promised to others; "
        "its promise was revoked: queue t1 had 5 cpu in use or promised, and its limit is 4"
    )


def test_a_promise_equal_to_the_limit_is_kept() -> None:
    queues = under_a_parent()
    queues.apply(a_queue("t1", cpu=5, parent="team", weight=7))
    assert (queues.admit(), queues.wait_reason("large"), queues.usage("team")) == ([], None, (0, 5000))


@pytest.mark.parametrize(
    "change",
    [
        a_queue("team", cpu=4),
        a_queue("root", cpu=4),
        a_queue("t1", cpu=5, parent="small"),
        a_queue("t1", capability=amounts(cpu=9, memory=0), parent="team"),
    ],
    ids=["the parent's limit", "the root's limit", "another parent", "one resource of several"],
)
def test_a_limit_anywhere_on_the_path_counts(change: dict[str, object]) -> None:
    queues = Queues(a_queue("team", cpu=5), a_queue("t1", cpu=5, parent="team"), a_queue("small", cpu=4))
    queues.apply(stamped(a_task("large", "5", queue="t1", requests={"memory": 1}), "t1", at(1)))
    queues.apply(change)
    queues.admit()
    assert queues.engine.revoked_pods() == ["u-large"]
    assert (queues.usage("t1"), queues.usage("root")) == ((0, 0), (0, 0))


def test_promises_that_exceed_only_the_limit_of_their_parent_together_are_taken_back() -> None:
    queues = Queues(a_queue("team", cpu=6), a_queue("t1", parent="team"), a_queue("t2", parent="team"))
    queues.apply(stamped(a_task("older", "3", queue="t1"), "t1", at(1)))
    queues.apply(stamped(a_task("younger", "3", queue="t2"), "t2", at(2)))
    queues.apply(a_queue("team", cpu=5))
    queues.admit()
    assert queues.engine.revoked_pods() == ["u-younger"]
    assert [queues.usage(each) for each in ("t1", "t2", "team")] == [(0, 3000), (0, 0), (0, 3000)]


def test_the_youngest_promises_are_taken_back_first_and_smaller_ones_that_fit_stay() -> None:
    queues = Queues(a_queue("q", cpu=6), a_queue("free"))
    for number, cpu in enumerate(("2", "3", "1"), 1):
        queues.apply(stamped(a_task(f"p{number}", cpu, queue="q"), "q", at(number)))
    queues.apply(a_queue("q", cpu=4))
    queues.admit()
    assert queues.engine.revoked_pods() == ["u-p2"]
    assert queues.usage("q") == (0, 3000)


def test_the_promises_of_a_gangs_minimum_are_kept_or_taken_back_as_one() -> None:
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", minimum=2), a_group("h", "q", minimum=2))
    for number, group in enumerate("ghgh"):
        queues.apply(stamped(a_task(f"{number}-{group}", group=group), "q", at(1 if group == "g" else 2)))
    queues.apply(a_queue("q", cpu=3))
    queues.admit()
    assert sorted(queues.engine.revoked_pods()) == ["u-1-h", "u-3-h"]
    queues.apply(a_queue("q", cpu=4))
    assert queues.admit() == ["1-h", "3-h"]


def test_a_resized_member_belongs_to_the_minimum_of_its_gang_when_a_limit_is_lowered() -> None:
    members = [a_task(f"g{number}", group="g") for number in range(3)]
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", 3), *(stamped(each, "q", at(1)) for each in members))
    queues.apply(msgspec.structs.replace(stamped(members[2], "q", at(1)), requests={"cpu": 2000}))
    queues.apply(a_queue("q", cpu=2))
    assert [queues.wait_reason(f"g{number}") for number in range(3)] == [WaitReason.LOST_TURN] * 3


def test_pods_on_nodes_keep_their_shares_and_promises_beside_them_are_taken_back() -> None:
    queues = Queues(a_queue("q", cpu=4), a_task("running", "3", queue="q", node_name="n1", gates=()))
    queues.apply(stamped(a_task("promised", "1", queue="q"), "q", at(1)))
    queues.apply(a_queue("q", cpu=2))
    queues.admit()
    assert (queues.engine.revoked_pods(), queues.usage("q")) == (["u-promised"], (3000, 0))


def test_the_stamp_of_a_withdrawn_promise_does_not_count_and_a_new_stamp_does() -> None:
    queues = under_a_parent()
    queues.apply(a_queue("t1", cpu=4, parent="team"))
    queues.admit()
    old = stamped(a_task("large", "5", queue="t1"), "t1", at(1))
    queues.apply(msgspec.structs.replace(old, priority=1))
    assert queues.usage("t1") == (0, 0)
    assert old.stamp is not None
    assert queues.engine.is_revoked_stamp("u-large", old.stamp)
    queues.apply(a_queue("t1", cpu=5, parent="team"))
    assert queues.admit() == ["large"]
    queues.apply(stamped(a_task("large", "5", queue="t1"), "t1", at(2)))
    assert queues.usage("t1") == (0, 5000)


def test_a_restarted_engine_takes_back_the_same_promises() -> None:
    for order in ((0, 1), (1, 0)):
        pods = [stamped(a_task(f"p{number}", "3", queue="q"), "q", at(number)) for number in (1, 2)]
        queues = Queues(*(pods[each] for each in order), a_queue("q", cpu=5), a_task("small", "2", queue="q"))
        assert queues.admit() == ["small"]
        assert queues.engine.revoked_pods() == ["u-p2"]


def test_a_recreated_pod_does_not_inherit_a_promise() -> None:
    task = a_task("p", "3", queue="q")
    other = msgspec.structs.replace(task, uid="u-other", gates=(), stamp=None)
    queues = Queues(a_queue("q", cpu=3), stamped(task, "q", at(1)))
    queues.engine.task_removed("u-p")
    queues.apply(other)
    assert queues.usage("q") == (0, 0)
    assert queues.engine.peek_wait_reason("u-other") is not None


def test_a_promise_can_be_taken_back_by_the_caller() -> None:
    """As for a pod of higher priority."""
    queues = Queues(a_queue("q", cpu=1), stamped(a_task("low", queue="q"), "q", at(1)))
    queues.apply(a_task("high", queue="q", priority=10))
    assert queues.engine.revoke("u-low", "what it was promised is for a pod of higher priority")
    assert queues.admit() == ["high"]
    assert not queues.engine.revoke("u-low", "again")
    assert queues.wait_message("low").endswith("; what it was promised is for a pod of higher priority")


def test_a_promise_is_the_amount_in_the_stamp_and_more_must_be_granted() -> None:
    queues = Queues(a_queue("team", cpu=10), a_queue("t1", parent="team"), a_queue("t2", parent="team"))
    promised = stamped(a_task("grows", queue="t1"), "t1", at(1))
    queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": 100_000}))
    assert queues.usage("team") == (0, 1000)
    assert queues.wait_reason("grows") is WaitReason.FULL
    assert queues.wait_message("grows") == (
        "it was promised 1 cpu and asks for 100 cpu now: "
        "queue t1 has no capacity for 99 cpu: 1 of 10 are in use or promised"
    )
    queues.apply(a_task("sibling", "9", queue="t2"))
    assert queues.admit() == ["sibling"]
    queues.apply(msgspec.structs.replace(promised, requests={"cpu": 1000}))
    assert (queues.wait_reason("grows"), queues.usage("team")) == (None, (0, 10_000))


def test_an_increase_over_the_promise_is_granted_in_turn() -> None:
    queues = Queues(a_queue("q", cpu=4))
    promised = stamped(a_task("grows", queue="q"), "q", at(1))
    queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": 3000}))
    queues.engine.pods_to_retry()
    assert queues.engine.position("u-grows") == 0
    assert queues.admit() == ["grows"]
    assert (queues.usage("q"), queues.wait_reason("grows")) == ((0, 3000), None)
    assert queues.engine.pods_to_retry() == ["u-grows"]


def test_two_promised_pods_that_were_both_resized_do_not_wait_for_each_other() -> None:
    queues = Queues(a_queue("q", cpu=4))
    for number in (1, 2):
        promised = stamped(a_task(f"p{number}", "2", queue="q"), "q", at(number))
        queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": 3000}))
    assert queues.admit() == ["p1"]
    assert (queues.engine.revoked_pods(), queues.usage("q")) == (["u-p2"], (0, 3000))
    assert queues.wait_message("p2").endswith("it asks for more, and so does p1, promised before it")
    queues.placed("p1")
    queues.engine.task_removed("u-p1")
    assert queues.admit() == ["p2"]


def test_a_resized_pod_that_fits_no_limit_takes_nothing_from_others_that_were_resized() -> None:
    queues = Queues(a_queue("q", cpu=5))
    for number, cpu in enumerate((100, 2, 2), 1):
        promised = stamped(a_task(f"p{number}", "1", queue="q"), "q", at(number))
        queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": cpu * 1000}))
    assert sorted(queues.admit()) == ["p2", "p3"]
    assert (queues.engine.revoked_pods(), queues.usage("q")) == ([], (0, 5000))


def test_a_promise_that_was_resized_down_is_kept_until_the_pod_has_a_node() -> None:
    queues = Queues(a_queue("q", cpu=4))
    promised = stamped(a_task("shrinks", "3", queue="q"), "q", at(1))
    queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": 1000}))
    assert (queues.usage("q"), queues.wait_reason("shrinks")) == ((0, 3000), None)
    queues.placed("shrinks")
    assert queues.usage("q") == (1000, 0)


def test_a_gang_waits_until_its_resized_member_is_granted_the_increase() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=2))
    first, second = (stamped(a_task(name, group="g"), "q", at(1)) for name in ("m1", "m2"))
    queues.apply(first, second, msgspec.structs.replace(second, requests={"cpu": 2000}))
    attempt = queues.engine.gang_attempt("u-m1")
    assert (attempt.uids, attempt.min_member) == (("u-m1",), 2)
    assert queues.admit() == ["m2"]
    assert queues.engine.gang_attempt("u-m1").uids == ("u-m1", "u-m2")
    assert queues.usage("q") == (0, 3000)


def test_a_resized_waiting_pod_requests_its_new_amount() -> None:
    queues = Queues(a_queue("q", cpu=2), a_task("p", "1", queue="q"))
    queues.apply(a_task("p", "3", queue="q"))
    assert (queues.admit(), queues.wait_reason("p")) == ([], WaitReason.FULL)
    queues.apply(a_task("p", "2", queue="q"))
    assert queues.admit() == ["p"]


def test_a_tentative_grant_is_requested_again_after_a_resize() -> None:
    queues = Queues(a_queue("q", cpu=2), a_task("plain", "1", queue="q", opted_in=False))
    assert queues.admit() == ["plain"]
    queues.apply(a_task("plain", "2", queue="q", opted_in=False))
    assert queues.usage("q") == (0, 0)
    assert queues.admit() == ["plain"]
    assert queues.usage("q") == (0, 2000)


def test_a_promise_that_ends_counts_until_its_stamp_is_removed() -> None:
    queues = under_a_parent()
    queues.apply(a_queue("t1", cpu=4, parent="team"), a_task("own", "4", queue="t1"))
    assert queues.engine.admit(1.0, 10) == []
    assert queues.engine.has_promises_to_end
    assert queues.engine.promises_to_end() == ["u-large"]
    assert queues.engine.is_being_revoked("u-large")
    assert (queues.usage("t1"), queues.engine.revoked_pods()) == ((0, 5000), [])
    assert queues.wait_reason("large") is WaitReason.REVOKED
    assert queues.engine.admit(2.0, 10) == []
    assert queues.engine.promises_to_end() == [], "its stamp is being removed"
    queues.engine.revocation_confirmed("u-large")
    assert (queues.admit(), queues.usage("t1")) == (["own"], (0, 4000))


def test_a_promise_that_could_not_be_revoked_for_a_preemptor_ends_when_the_limit_is_lowered() -> None:
    queues = under_a_parent()
    queues.engine.set_unplaceable("u-large", unplaceable=True)
    queues.engine.set_revoking("u-large", revoking=True)
    queues.engine.revocation_refused("u-large")
    queues.apply(a_task("high", "5", queue="t1", priority=10))
    assert (queues.engine.admit(1.0, 10), queues.engine.has_promises_to_end) == ([], False)
    assert queues.engine.plan_preemption("u-high") is None
    queues.apply(a_queue("t1", cpu=4, parent="team"), a_task("own", "4", queue="t1"))
    assert (queues.admit(), queues.usage("t1")) == (["own"], (0, 4000))


def test_a_new_promise_can_be_revoked_for_a_preemptor_after_a_refusal() -> None:
    queues = under_a_parent()
    queues.engine.revocation_refused("u-large")
    queues.apply(a_queue("t1", cpu=4, parent="team"))
    queues.admit()
    queues.apply(a_queue("t1", cpu=5, parent="team"))
    assert queues.admit() == ["large"]
    queues.apply(stamped(a_task("large", "5", queue="t1"), "t1", at(2)))
    queues.engine.set_unplaceable("u-large", unplaceable=True)
    queues.apply(a_task("high", "5", queue="t1", priority=10))
    plan = queues.engine.plan_preemption("u-high")
    assert plan is not None
    assert plan.promises == ("u-large",)


def test_a_promise_that_was_never_sent_ends_at_once() -> None:
    queues = Queues(a_queue("q", cpu=5), a_task("large", "5", queue="q"))
    assert queues.admit() == ["large"]
    queues.engine.stamped("u-large", a_stamp(a_task("large", "5"), "q", at(1)), is_sent=False)
    queues.apply(a_queue("q", cpu=4), a_task("own", "4", queue="q"))
    assert queues.engine.admit(queues.now_s + 1, 10) == [Grant("q", ("u-own",))]
    assert not queues.engine.has_promises_to_end


def test_a_deleted_pod_has_no_promise_to_end() -> None:
    queues = under_a_parent()
    queues.apply(a_queue("t1", cpu=4, parent="team"))
    queues.engine.admit(1.0, 10)
    queues.engine.task_removed("u-large")
    assert not queues.engine.has_promises_to_end
    queues.engine.revocation_confirmed("u-large")
    assert queues.usage("t1") == (0, 0)


def test_promises_that_are_being_revoked_are_counted_as_freed_by_the_next_resize_conflict() -> None:
    queues = Queues(a_queue("q", cpu=6))
    for number in (1, 2, 3):
        promised = stamped(a_task(f"p{number}", "2", queue="q"), "q", at(number))
        queues.apply(promised, msgspec.structs.replace(promised, requests={"cpu": 3000}))
    for _ in range(2):
        assert queues.engine.admit(1.0, 10) == []
    assert queues.engine.promises_to_end() == ["u-p3"]
    queues.engine.revocation_confirmed("u-p3")
    assert queues.admit() == ["p1", "p2"]


def test_nothing_is_preempted_for_capacity_that_is_being_revoked() -> None:
    queues = Queues(a_queue("q", cpu=8), stamped(a_task("large", "5", queue="q"), "q", at(1)))
    queues.apply(a_task("low", "3", queue="q", gates=(), node_name="n"), a_task("high", "3", queue="q", priority=10))
    plan = queues.engine.plan_preemption("u-high")
    assert plan is not None
    assert plan.victims == ("u-low",)
    queues.engine.revoke("u-large", "its gang is incomplete")
    assert queues.engine.is_being_revoked("u-large")
    assert queues.engine.plan_preemption("u-high") is None


def test_a_dry_run_ends_the_promises_that_would_end() -> None:
    group, members = a_group("g", "q", 2), [a_task(f"g-{number}", "2", queue="q", group="g") for number in (0, 1)]
    queues = Queues(a_queue("q", cpu=4), group, *(stamped(each, "q", at(1)) for each in members))
    queues.apply(a_task("waits", "4", queue="q"))
    assert queues.admit() == []
    remedy = queues.engine.remedy("u-waits")
    assert remedy is not None
    assert remedy.growth[0].needed == 8000
