"""A pod of high priority gets past a promise that has no node: the promise is taken back, and no pod has to go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import STAMP
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.effects import Effect, RemoveStamp, WriteResult
from terminating_pods import HOW, TerminatingCluster, a_group, a_queue, a_queued_pod

NOWHERE = {"zone": "nowhere"}


def a_cluster(limit: int = 8, nodes: int = 1, **more: Any) -> TerminatingCluster:
    return TerminatingCluster({f"n{number}": 8 for number in range(nodes)}, [a_queue("q", str(limit))], **more)


def promised(cluster: TerminatingCluster, name: str, cpu: int = 8, **more: Any) -> None:
    """A pod that its queue let in, and that no node fits."""
    cluster.create(a_queued_pod(name, cpu, nodeSelector=NOWHERE, **more))
    assert cluster.reason(name) == "Unschedulable"
    assert STAMP in cluster.pods[name]["metadata"]["annotations"]


def has_stamp(cluster: TerminatingCluster, name: str) -> bool:
    return STAMP in cluster.pods[name]["metadata"]["annotations"]


@pytest.mark.parametrize("how", HOW)
def test_a_pod_of_high_priority_gets_the_share_that_was_promised_to_a_low_one_without_a_node(how: str) -> None:
    cluster = a_cluster()
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, how, priority=10))
    cluster.run(2.0)
    assert cluster.node_of("high") == "n0"
    assert (cluster.reason("low"), has_stamp(cluster, "low")) == ("WaitingForQueue", False)
    assert not cluster.evicted


def test_the_low_pod_waits_in_order_and_is_admitted_again_when_its_queue_has_capacity() -> None:
    cluster = a_cluster()
    promised(cluster, "low")
    cluster.run(1.0)
    cluster.create(a_queued_pod("high", 8, priority=10))
    cluster.delete("high", grace_s=0)
    cluster.run(30.0)
    assert (cluster.reason("low"), has_stamp(cluster, "low")) == ("Unschedulable", True)
    assert cluster.retracts == ["low"]


def test_a_pod_of_the_same_priority_waits_behind_it() -> None:
    cluster = a_cluster()
    promised(cluster, "first")
    cluster.create(a_queued_pod("second", 8))
    cluster.run(400.0)
    assert (cluster.reason("second"), cluster.retracts) == ("SchedulingGated", [])


def test_a_pod_that_would_not_fit_even_then_takes_nothing() -> None:
    cluster = a_cluster(8)
    promised(cluster, "low", 2)
    cluster.run_pod("keeps", 4, "n0", priority=100)
    cluster.create(a_queued_pod("high", 6, priority=10))
    assert (cluster.reason("high"), cluster.retracts) == ("SchedulingGated", [])


def test_promises_of_other_queues_are_left_alone() -> None:
    cluster = TerminatingCluster({"n0": 8}, [a_queue("q", "8"), a_queue("mine", "8"), a_queue("root", "8", parent="")])
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, queue="mine", priority=10))
    assert (cluster.reason("high"), cluster.retracts) == ("SchedulingGated", [])


def test_only_as_many_promises_are_taken_back_as_are_needed_the_least_important_and_newest_first() -> None:
    cluster = a_cluster(8)
    promised(cluster, "middle", 4, priority=5)
    promised(cluster, "old", 2)
    cluster.run(1.0)
    promised(cluster, "new", 2)
    cluster.create(a_queued_pod("high", 2, priority=10))
    assert cluster.retracts == ["new"]
    cluster.create(a_queued_pod("higher", 5, priority=20))
    assert sorted(cluster.retracts[1:]) == ["middle", "old"]


def test_a_promise_is_taken_back_before_a_running_pod_has_to_go() -> None:
    cluster = a_cluster(16)
    cluster.run_pod("runs", 8, "n0")
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, nodeSelector=NOWHERE, priority=10))
    assert (cluster.retracts, cluster.evicted) == (["low"], [])
    assert cluster.reason("high") == "Unschedulable", "a shortage, and a more important one"


def test_if_that_is_not_enough_no_more_pods_have_to_go_than_it_takes_and_smaller_pods_get_nothing_meanwhile() -> None:
    cluster = a_cluster(24, nodes=2)
    cluster.run_pod("one", 8, "n0")
    cluster.change_node("n1", cpu="16")
    cluster.run_pod("two", 8, "n1")
    promised(cluster, "low")
    cluster.create(a_queued_pod("small", 8, nodeSelector=NOWHERE))
    cluster.create(a_queued_pod("high", 16, priority=10))
    assert (cluster.retracts, cluster.evicted) == (["low"], ["two"])
    assert cluster.promise("high") == "n1"
    cluster.run(31.0)
    assert cluster.node_of("high") == "n1"
    assert [cluster.reason("small"), cluster.reason("low")] == ["SchedulingGated", "WaitingForQueue"]
    assert cluster.node_of("one") == "n0"


def test_a_pod_that_never_preempts_still_comes_before_a_promise_of_lower_priority() -> None:
    cluster = a_cluster()
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, priority=10, preemptionPolicy="Never"))
    assert (cluster.retracts, cluster.node_of("high")) == (["low"], "n0")


def test_a_pod_that_did_not_opt_in_takes_nothing_that_it_could_not_keep() -> None:
    cluster = a_cluster()
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, "plain", priority=10, nodeSelector=NOWHERE))
    cluster.run(700.0)
    assert cluster.retracts == []


def test_a_promise_with_a_nominated_node_is_kept() -> None:
    cluster = a_cluster(16)
    cluster.run_pod("old", 8, "n0", priority=100)
    cluster.delete("old")
    cluster.run_pod("keeps", 8, "n0", priority=100)
    cluster.create(a_queued_pod("low", 8))
    cluster.change_node("n0", cpu="16")
    assert (cluster.reason("low"), cluster.promise("low")) == (WAITING_FOR_TERMINATING_PODS, "n0")
    cluster.create(a_queued_pod("high", 8, priority=10))
    assert (cluster.retracts, cluster.reason("high")) == ([], "SchedulingGated")


def test_the_promises_of_a_gang_are_revoked_together() -> None:
    cluster = a_cluster(8, groups=[a_group("g", 2)])
    cluster.create(*(a_queued_pod(f"g-{number}", 4, group="g", nodeSelector=NOWHERE) for number in range(2)))
    assert [cluster.reason(f"g-{number}") for number in range(2)] == ["Unschedulable"] * 2
    cluster.create(a_queued_pod("high", 2, priority=10))
    assert sorted(cluster.retracts) == ["g-0", "g-1"]
    assert cluster.node_of("high") == "n0"
    assert [cluster.reason(f"g-{number}") for number in range(2)] == ["WaitingForQueue"] * 2


def test_no_promise_of_a_gang_with_a_pod_of_high_priority_is_revoked() -> None:
    cluster = a_cluster(8, groups=[a_group("g", 2)])
    for number in range(2):
        cluster.create(a_queued_pod(f"g-{number}", 4, group="g", nodeSelector=NOWHERE, priority=20 * number))
    cluster.create(a_queued_pod("high", 2, priority=10))
    assert cluster.retracts == []


def test_a_pod_beyond_a_minimum_that_is_on_nodes_is_taken_back_alone() -> None:
    cluster = a_cluster(8, groups=[a_group("g", 1)])
    cluster.run_pod("g-0", 4, "n0", group="g")
    cluster.create(a_queued_pod("g-1", 4, group="g", nodeSelector=NOWHERE))
    cluster.create(a_queued_pod("high", 2, priority=10))
    assert (cluster.retracts, cluster.evicted, cluster.node_of("high")) == (["g-1"], [], "n0")


def test_promises_are_revoked_for_a_gang_and_it_is_admitted_as_a_whole() -> None:
    cluster = a_cluster(8, groups=[a_group("g", 2)])
    promised(cluster, "low", 4)
    promised(cluster, "other", 4)
    cluster.create(*(a_queued_pod(f"g-{number}", 4, group="g", priority=10) for number in range(2)))
    assert sorted(cluster.retracts) == ["low", "other"]
    assert [cluster.node_of(f"g-{number}") for number in range(2)] == ["n0", "n0"]


def test_where_priority_has_no_say_promises_are_kept() -> None:
    plugins = tuple(tuple(each for each in tier if each.name != "priority") for tier in DEFAULTS.tiers)
    cluster = a_cluster(settings=msgspec.structs.replace(DEFAULTS, tiers=plugins))
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, priority=10))
    assert cluster.retracts == []


# -- One effect at a time ------------------------------------------------------------------------------------------


class Held(TerminatingCluster):
    """Answers to retractions are given by the test."""

    def _perform(self, effects: Any) -> None:
        self.kept = [*getattr(self, "kept", []), *(each for each in effects if isinstance(each, RemoveStamp))]
        super()._perform([each for each in effects if not isinstance(each, RemoveStamp)])

    def answer(self, result: WriteResult) -> list[Effect]:
        retract = self.kept.pop(0)
        if result is WriteResult.DONE:
            del self.pods[retract.pod.name]["metadata"]["annotations"][STAMP]
        said = self.scheduler.stamp_removed(retract.pod.uid, retract.stamp, result, self.now_s)
        self._perform(said)
        self.settle()
        return said


def a_held_cluster() -> Held:
    cluster = Held({"n0": 8}, [a_queue("q", "8")])
    promised(cluster, "low")
    cluster.create(a_queued_pod("high", 8, priority=10))
    assert [each.pod.name for each in cluster.kept] == ["low"]
    return cluster


def test_the_share_is_not_given_on_before_the_stamp_is_off_and_the_pod_is_not_tried_meanwhile() -> None:
    cluster = a_held_cluster()
    cluster.change_node("n0", cpu="8", labels=NOWHERE)
    cluster.run(400.0)
    assert (cluster.node_of("low"), cluster.reason("high"), cluster.reason("low")) == (
        "",
        "SchedulingGated",
        "WaitingForQueue",
    )
    cluster.answer(WriteResult.DONE)
    assert cluster.node_of("high") == "n0"


def test_what_may_have_happened_is_asked_for_again_until_it_is_known() -> None:
    cluster = a_held_cluster()
    for result in (WriteResult.UNKNOWN, WriteResult.LATER):
        cluster.answer(result)
        assert (cluster.kept, cluster.reason("high")) == ([], "SchedulingGated")
        cluster.run(2.0)
        assert [each.pod.name for each in cluster.kept] == ["low"]
    del cluster.pods["low"]["metadata"]["annotations"][STAMP]
    cluster.answer(WriteResult.TAKEN)
    assert cluster.node_of("high") == "n0"


def test_a_refusal_leaves_the_promise_and_is_not_repeated() -> None:
    cluster = a_held_cluster()
    cluster.answer(WriteResult.REFUSED)
    cluster.run(400.0)
    assert (cluster.reason("low"), cluster.reason("high"), cluster.kept) == ("Unschedulable", "SchedulingGated", [])
    assert has_stamp(cluster, "low")


def test_when_the_pod_for_which_it_is_taken_back_goes_the_promise_can_be_given_again() -> None:
    cluster = a_held_cluster()
    cluster.delete("high")
    cluster.answer(WriteResult.DONE)
    assert (cluster.reason("low"), has_stamp(cluster, "low")) == ("Unschedulable", True)


def test_when_the_pod_that_was_promised_something_goes_its_share_is_free() -> None:
    cluster = a_held_cluster()
    cluster.delete("low")
    assert cluster.node_of("high") == "n0"


def test_a_late_watch_event_with_the_old_stamp_restores_no_promise() -> None:
    cluster = a_held_cluster()
    late = msgspec.json.decode(msgspec.json.encode(cluster.pods["low"]))
    cluster.answer(WriteResult.DONE)
    cluster.scheduler.pod_applied(late, cluster.now_s)
    assert cluster.scheduler.queues.usage("q").reserved == {}
    assert cluster.scheduler.queues.usage("q").allocated == {"cpu": 8000}


def test_a_restarted_scheduler_gives_revoked_capacity_to_the_next_pod() -> None:
    for is_done in (False, True):
        cluster = a_held_cluster()
        if is_done:
            del cluster.pods["low"]["metadata"]["annotations"][STAMP]
        cluster.kept.clear()
        cluster.start()
        cluster.run(5.0)
        while cluster.kept:
            cluster.answer(WriteResult.DONE)
        assert cluster.node_of("high") == "n0", is_done
        assert cluster.reason("low") == "WaitingForQueue"
