"""Pods behind the queue's gate: reserved, lifted and placed in one pass, and never called a shortage too early.

Statements of the design carry their ids (A1, R3 ...).
"""

from __future__ import annotations

import pytest

from clusters import a_node
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import DEQUEUE_STRATEGY, GATE, QUEUE_NAME, STAMP
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import WriteResult
from headgate.scheduling.gates.gate_removals import MAX_CONCURRENT
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated

FOREIGN = "example.com/hold"


def test_a1_a_pod_that_its_queue_has_capacity_for_is_ungated_and_gets_a_node_in_the_same_step() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    world.show(a_gated_pod("p"))
    world.step()
    assert list(world.lifts) == ["p"]
    assert not world.binds, "the binding waits for the removal"
    world.lifted("p")
    assert world.binds == {"p": "a"}


def test_a1_the_removal_is_asked_for_once() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    world.show(a_gated_pod("p"))
    world.step()
    assert world.lifts
    for _ in range(3):
        world.show(a_gated_pod("p"))
        world.step(60.0)
        assert not world.lifts


def test_the_stamp_names_pod_queue_and_amounts() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    world.show(a_gated_pod("p", "1500m"))
    world.step()
    stamp = read_stamp(world.lifts["p"], "uid-p")
    assert stamp is not None
    assert (stamp.queue, stamp.requests) == ("q", {"cpu": 1500})


def test_a2_a_full_queue_keeps_the_gate_and_nothing_is_called_unschedulable() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"), a_gated_pod("p2"))
    world.step()
    assert list(world.lifts) == ["p1"]
    assert world.where("p2") is PodState.GATED
    world.step(11.0)
    assert world.statuses["p2"].startswith("SchedulingGated: ")
    for word in ("q", "cpu", "1"):
        assert word in world.statuses["p2"]
    world.step(600.0)
    assert not world.statuses, "it is said once"


def test_a3_with_a_foreign_gate_nothing_is_reserved_and_nothing_lifted() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    held = a_gated_pod("held", gates=(GATE, FOREIGN))
    world.show(held, a_gated_pod("p"))
    world.step()
    assert list(world.lifts) == ["p"]
    world.remove("p")
    world.show(a_gated_pod("held", gates=(GATE,)))
    world.step()
    assert list(world.lifts) == ["held"], "the loss of the last foreign gate wakes it"


def test_a4_a_gate_without_the_annotation_stays_and_is_reported_once() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p", annotations={}))
    world.step()
    assert not world.lifts
    world.step(11.0)
    assert "annotation" in world.statuses["p"]
    world.step(600.0)
    assert not world.statuses
    assert not world.lifts


def test_a5_an_answer_that_leaves_it_open_is_asked_again_with_the_same_bytes() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    (first,) = world.lifts.values()
    world.lifted("p", WriteResult.UNKNOWN)
    assert world.step() == []
    world.step(2.0)
    assert list(world.lifts.values()) == [first]
    world.lifted("p")
    assert world.binds == {"p": "a"}


@pytest.mark.parametrize("result", [WriteResult.LATER, WriteResult.TAKEN, WriteResult.GATED])
def test_a5_a_removal_that_conflicts_or_fails_is_sent_again_and_the_binding_waits(result: WriteResult) -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p"))
    world.step()
    world.lifted("p", result)
    assert not world.binds
    assert not world.statuses
    world.step(2.0)
    assert list(world.lifts) == ["p"]
    assert not world.binds
    world.lifted("p")
    assert world.binds == {"p": "a"}


def test_a5_the_watch_may_confirm_what_no_answer_did() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p")
    world.show(pod)
    world.step()
    stamp = world.lifts["p"]
    world.lifted("p", WriteResult.UNKNOWN)
    world.show(ungated(pod, stamp))
    world.step()
    assert world.binds == {"p": "a"}
    assert not world.lifts


def test_a5_removals_above_the_limit_in_flight_wait() -> None:
    world = QueuedWorld(a_queue("q", "200"), nodes=(a_node("a", cpu="200"),))
    world.show(*(a_gated_pod(f"p{number:03}") for number in range(100)))
    world.step(most=1000)
    first = list(world.lifts)
    assert len(first) == MAX_CONCURRENT
    world.step(60.0, most=1000)
    assert not world.lifts, "nothing comes back, nothing more goes out, and nobody waits for it"
    for name in first[:10]:
        world.lifted(name)
    world.step(most=1000)
    assert len(world.lifts) == 10
    assert not world.lifts.keys() & set(first)


def test_a6_a_deleted_pod_frees_its_capacity() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"), a_gated_pod("p2"))
    world.step()
    world.lifted("p1", WriteResult.GONE)
    world.step()
    assert list(world.lifts) == ["p2"]


def test_a8_a_pod_without_a_node_is_called_unschedulable_when_its_gate_is_off_and_not_before() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    assert list(world.lifts) == ["p"]
    assert not world.statuses
    world.lifted("p")
    assert world.statuses["p"].startswith("Unschedulable: 0/1 nodes are available")
    world.scheduler.node_applied(a_node("fast", labels={"disk": "fast"}), world.now_s)
    world.step(20.0)
    assert world.binds == {"p": "fast"}


def test_a8_a_pod_that_is_tried_after_the_response_and_before_the_watch_shows_it_is_called_unschedulable() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    world.show(a_gated_pod("first"), a_gated_pod("p", nodeSelector={"disk": "fast"}))
    world.step(most=1)
    assert set(world.lifts) == {"first", "p"}
    world.lifted("p")
    assert not world.statuses, "it was not tried yet"
    world.step()
    assert world.statuses["p"].startswith("Unschedulable: 0/1 nodes are available")


def test_a9_a_pod_without_requests_is_admitted() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("full"), a_gated_pod("p", cpu=""))
    world.step()
    assert "p" in world.lifts


def test_a10_a_queue_admits_pods_without_any_node_and_with_resources_that_no_node_has() -> None:
    world = QueuedWorld(a_queue("q", capability={"example.com/gpu": "2"}))
    world.scheduler.node_removed("a", world.now_s)
    pod = a_gated_pod("p")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "2"}}
    world.show(pod)
    world.step()
    assert list(world.lifts) == ["p"]
    world.lifted("p")
    assert world.statuses["p"].startswith("Unschedulable: no nodes available")


def test_r1_a_promise_counts_until_the_pod_is_placed_or_gone() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1", nodeSelector={"disk": "fast"}), a_gated_pod("p2"))
    world.step()
    world.lifted("p1")
    world.step(600.0)
    assert not world.lifts
    world.remove("p1")
    world.step()
    assert list(world.lifts) == ["p2"]


def test_r3_a_bound_pod_counts_once() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    pod = a_gated_pod("p1")
    world.show(pod)
    world.step()
    stamp = world.lifts["p1"]
    world.lifted("p1")
    world.answer("p1", WriteResult.DONE)
    world.show_bound(ungated(pod, stamp), "a")
    world.show(a_gated_pod("p2"), a_gated_pod("p3"))
    world.step()
    assert list(world.lifts) == ["p2"]


def test_r5_a_restarted_scheduler_reads_the_promises_from_the_stamps() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p1", nodeSelector={"disk": "fast"})
    world.show(pod)
    world.step()
    stamp = world.lifts["p1"]
    another = QueuedWorld(a_queue("q", "1"))
    another.show(ungated(pod, stamp), a_gated_pod("p2"))
    another.step()
    assert not another.lifts
    assert another.statuses["p1"].startswith("Unschedulable: ")


def test_r10_a_stale_watch_does_not_let_two_in() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"))
    world.step()
    world.lifted("p1")
    world.show(a_gated_pod("p1"), a_gated_pod("p0"))
    world.step()
    assert not world.lifts


def test_r11_an_annotation_without_a_stamp_is_no_admission() -> None:
    world = QueuedWorld(a_queue("q", "1"), nodes=(a_node("a", cpu="8"),))
    world.show(a_gated_pod("p1"))
    world.step()
    world.show(a_gated_pod("p2", gates=()))
    world.step()
    assert not world.binds
    world.step(2.0)
    assert world.statuses["p2"].startswith("WaitingForQueue: ")
    world.remove("p1")
    world.step()
    assert list(world.lifts) == ["p2"], "its promise is written down too"
    world.lifted("p2")
    assert world.binds == {"p2": "a"}


def test_u19_an_admitted_pod_whose_promise_no_longer_counts_is_not_unschedulable() -> None:
    world = QueuedWorld(a_queue("q", "2"))
    older, other = (a_gated_pod(name, nodeSelector={"disk": "fast"}) for name in ("older", "other"))
    for pod in (older, other):
        world.show(pod)
        world.step(1.0)
        stamp = world.lifts[pod["metadata"]["name"]]
        world.lifted(pod["metadata"]["name"])
        world.show(ungated(pod, stamp))
    world.show_queues(a_queue("q", "1"))
    said: dict[str, str] = {}
    for seconds in (0.0, 1.0, 10.0):
        world.step(seconds)
        said |= world.statuses
    assert list(said) == ["other"]
    assert said["other"].startswith("WaitingForQueue: ")
    world.scheduler.node_applied(a_node("fast", labels={"disk": "fast"}), world.now_s)
    world.step(20.0)
    assert world.binds == {"older": "fast"}


def test_a_forged_stamp_of_another_pod_is_no_admission() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"))
    world.step()
    forged = a_gated_pod("p2", gates=())
    forged["metadata"]["annotations"][STAMP] = world.lifts["p1"]
    world.show(forged)
    world.step()
    assert not world.binds


def test_a_refused_removal_returns_the_share_and_is_tried_again_later() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"), a_gated_pod("p2"))
    world.step()
    assert list(world.lifts) == ["p1"]
    world.lifted("p1", WriteResult.REFUSED, "admission webhook says no")
    assert "admission webhook says no" in world.statuses["p1"]
    assert world.statuses["p1"].startswith("SchedulingGated: ")
    world.step()
    assert list(world.lifts) == ["p2"]
    world.remove("p2")
    world.step(6.0)
    assert list(world.lifts) == ["p1"]


def test_a_pod_that_did_not_opt_in_waits_visibly_and_holds_nothing_that_it_does_not_use() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    plain = {"scheduling.volcano.sh/queue-name": "q"}
    world.show(a_gated_pod("nowhere", gates=(), annotations=plain, nodeSelector={"disk": "fast"}))
    world.step()
    assert world.statuses["nowhere"].startswith("Unschedulable: 0/1 nodes")
    world.show(a_gated_pod("p1", gates=(), annotations=plain))
    world.step()
    assert world.binds == {"p1": "a"}
    world.show(a_gated_pod("p2", gates=(), annotations=plain))
    world.step()
    world.step(2.0)
    assert world.statuses["p2"].startswith("Unschedulable: ")
    assert "q" in world.statuses["p2"]


def test_switched_off_the_feature_lifts_its_gates_and_promises_nothing() -> None:
    world = QueuedWorld(a_queue("q", "1"), enabled=False)
    world.show(a_gated_pod("p1"), a_gated_pod("p2"), a_gated_pod("held", gates=(GATE, FOREIGN)))
    world.step()
    assert world.lifts == {"p1": "", "p2": ""}
    world.lifted("p1")
    world.lifted("p2")
    world.step()
    assert list(world.binds) == ["p1"], "limits hold as they do for all others"


def test_switched_off_the_feature_holds_no_capacity_for_a_pod_that_keeps_its_gate() -> None:
    world = QueuedWorld(a_queue("q", "2"), enabled=False)
    world.show(a_gated_pod("p", annotations={QUEUE_NAME: "q"}))
    world.step()
    assert not world.lifts, "it did not opt in"
    assert world.scheduler.queues.usage("q").reserved.get("cpu", 0) == 0


def test_switched_off_the_feature_asks_for_a_removal_once_though_the_watch_is_late() -> None:
    world = QueuedWorld(a_queue("q", "1"), enabled=False)
    world.show(a_gated_pod("p"))
    world.step()
    assert world.lifts == {"p": ""}
    world.lifted("p")
    for _ in range(3):
        world.show(a_gated_pod("p", labels={"late": "yes"}))
        world.step(60.0)
        assert not world.lifts


def test_switched_off_the_feature_lifts_so_many_gates_a_second_in_order() -> None:
    world = QueuedWorld(a_queue("q", "1"), enabled=False)
    world.show(*(a_gated_pod(f"p{number:03}", priority=number % 2) for number in range(300)))
    lifted: list[str] = []
    for _ in range(200):
        world.step(0.01)
        for name in list(world.lifts):
            lifted.append(name)
            world.lifted(name)
    assert lifted[:3] == ["p001", "p003", "p005"]
    assert 200 <= len(lifted) <= 320
    assert len(set(lifted)) == len(lifted)


def test_a_gate_that_a_human_removed_leaves_no_condition_that_names_it() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p2")
    world.show(a_gated_pod("p1"), pod)
    world.step()
    world.step(11.0)
    assert world.statuses["p2"].startswith("SchedulingGated: ")
    world.show(ungated(pod))
    world.step()
    assert world.statuses["p2"].startswith("WaitingForQueue: queue q has no capacity for 1 cpu")
    world.step(600.0)
    assert not world.statuses, "it is said once"


def test_a_gate_that_a_human_removed_from_a_pod_that_did_not_opt_in_leaves_no_condition_that_names_it() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    pod = a_gated_pod("p2", annotations={QUEUE_NAME: "q"})
    world.show(a_gated_pod("p1"))
    world.step()
    world.show(pod)
    world.step(11.0)
    world.show(ungated(pod))
    world.step()
    assert world.statuses["p2"].startswith("Unschedulable: queue q has no capacity for 1 cpu")


def test_a_foreign_gate_that_goes_while_the_queue_is_full_is_not_named_any_more() -> None:
    world = QueuedWorld(a_queue("q", "1"))
    world.show(a_gated_pod("p1"))
    world.step()
    world.show(a_gated_pod("p2", gates=(GATE, FOREIGN)))
    world.step(11.0)
    world.show(a_gated_pod("p2"))
    world.step()
    assert world.statuses["p2"].startswith("SchedulingGated: queue q has no capacity for 1 cpu")


def test_a_pod_that_would_delay_the_first_in_line_keeps_its_gate_and_says_so() -> None:
    queue = a_queue("q", "4")
    queue["metadata"]["annotations"] = {DEQUEUE_STRATEGY: "backfill"}
    world = QueuedWorld(queue)
    running = a_gated_pod("running", "3", gates=(), activeDeadlineSeconds=100, terminationGracePeriodSeconds=0)
    running["status"] = {"phase": "Running", "startTime": format_time(world.now_s)}
    world.show_bound(running, "a")
    world.show(a_gated_pod("large", "4", priority=5))
    world.show(a_gated_pod("endless"), a_gated_pod("short", activeDeadlineSeconds=60))
    world.step()
    assert list(world.lifts) == ["short"]
    world.remove("short")
    said: dict[str, str] = {}
    for _ in range(2):
        world.step(11.0)
        assert not world.lifts
        said |= world.statuses
    text = "SchedulingGated: queue q has capacity for it; it would delay pod default/large, "
    assert said["endless"].startswith(text)
    world.step(600.0)
    assert not world.statuses, "it is said once"
