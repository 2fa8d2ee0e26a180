"""Writes whose outcome stays unknown are repeated for as long as an outage lasts, and within two seconds of its end."""

from __future__ import annotations

from headgate.scheduling.framework.effects import Bind, RemoveSchedulingGate, RemoveStamp, WriteResult
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated
from unit.scheduling.world import World, a_node, a_pod

RETRIES = 1100  # 2.0 ** 1024 is no float


def test_a_binding_is_repeated_through_an_outage_of_hours() -> None:
    world = World(nodes=[a_node("a")])
    world.show(a_pod("p"))
    world.step()
    for _ in range(RETRIES):
        world.answer("p", WriteResult.UNKNOWN)
        assert world.where("p") is PodState.BIND_RETRY
        assert [type(each) for each in world.step(after_s=2.0)] == [Bind]
    world.answer("p", WriteResult.DONE)
    assert world.where("p") is None


def test_a_gate_removal_is_repeated_through_an_outage_of_hours() -> None:
    world = QueuedWorld(a_queue("q", cpu="1"), nodes=[a_node("small", cpu="0")])
    world.show(a_gated_pod("p"))
    effects = world.step()
    for _ in range(RETRIES):
        assert [type(each) for each in effects if isinstance(each, RemoveSchedulingGate)] == [RemoveSchedulingGate]
        world.scheduler.gate_removed("uid-p", WriteResult.UNKNOWN, "", world.now_s)
        effects = world.step(after_s=30.0)


def test_a_gate_removal_that_was_not_performed_is_sent_again_after_two_seconds_at_the_latest() -> None:
    world = QueuedWorld(a_queue("q", cpu="1"), nodes=[a_node("small", cpu="0")])
    world.show(a_gated_pod("p"))
    effects = world.step()
    for result in (*[WriteResult.LATER] * 20, WriteResult.UNKNOWN, WriteResult.LATER):
        assert [type(each) for each in effects if isinstance(each, RemoveSchedulingGate)] == [RemoveSchedulingGate]
        world.scheduler.gate_removed("uid-p", result, "", world.now_s)
        effects = world.step(after_s=4.0 if result is WriteResult.UNKNOWN else 2.0)
    assert [type(each) for each in effects if isinstance(each, RemoveSchedulingGate)] == [RemoveSchedulingGate]


def test_the_removal_of_a_stamp_is_repeated_through_an_outage_of_hours() -> None:
    world = QueuedWorld(a_queue("q", cpu="1"), nodes=[a_node("small", cpu="0")])
    low = a_gated_pod("low")
    world.show(low)
    (removal,) = [each for each in world.step() if isinstance(each, RemoveSchedulingGate)]
    world.scheduler.gate_removed("uid-low", WriteResult.DONE, "", world.now_s)
    world.show(ungated(low, removal.stamp))
    world.show(a_gated_pod("high", priority=100))
    effects = world.step()
    for _ in range(RETRIES):
        (revoked,) = [each for each in effects if isinstance(each, RemoveStamp)]
        world.scheduler.stamp_removed("uid-low", revoked.stamp, WriteResult.UNKNOWN, world.now_s)
        effects = world.step(after_s=2.0)


def test_a_refused_removal_is_tried_again_however_often_it_was_refused() -> None:
    world = QueuedWorld(a_queue("q", cpu="1"), nodes=[a_node("a")])
    world.show(a_gated_pod("p"))
    effects = world.step()
    for _ in range(RETRIES):
        assert [each.pod.name for each in effects if isinstance(each, RemoveSchedulingGate)] == ["p"]
        world.scheduler.gate_removed("uid-p", WriteResult.REFUSED, "no", world.now_s)
        effects = world.step(after_s=300.0)
