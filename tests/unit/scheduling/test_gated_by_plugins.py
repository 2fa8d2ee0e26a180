"""Pods that a PreEnqueue plugin holds: the plugin and its reason reach the condition, an Event and the log."""

from __future__ import annotations

from typing import Any

from headgate.scheduling.framework.cluster_events import own_update
from headgate.scheduling.framework.effects import Effect, EmitPodEvent, SetStatus, WriteResult
from headgate.scheduling.framework.interface import Rejection
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue
from unit.scheduling.world import World, a_node, a_pod, with_status

REJECTED = 'PreEnqueueRejected: PreEnqueue plugin "Holds": '
GATES = [{"name": "example.com/a"}]


class Holds:
    """Holds pods by their label ``hold``, which is the reason; ``raise`` raises it."""

    name = "Holds"

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        reason = pod.labels.get("hold")
        if reason == "raise":
            raise ValueError("no such calendar")
        return None if reason is None else Rejection(self.name, reason, own_update(), expires=False)


def told(world: World, after_s: float = 2.0) -> list[Effect]:
    """What is written when the first moment for it is over."""
    world.step()
    return world.step(after_s)


def notes(world: World) -> list[tuple[str, str, str]]:
    return [(each.type, each.reason, each.message) for each in world.effects if isinstance(each, EmitPodEvent)]


def test_the_reason_of_a_rejection_is_in_the_condition_and_in_an_event() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "maintenance"}))
    told(world)
    assert world.statuses == {"p": REJECTED + "maintenance"}
    assert notes(world) == [("Normal", "PreEnqueueRejected", 'PreEnqueue plugin "Holds": maintenance')]
    assert world.problems == []
    assert told(world) == []


def test_an_exception_is_in_the_condition_in_an_event_and_in_the_log() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "raise"}), a_pod("free"))
    world.step()
    assert world.binds.keys() == {"free"}
    world.step(2.0)
    why = 'PreEnqueue plugin "Holds": ValueError: no such calendar'
    assert world.statuses == {"p": f"SchedulerError: {why}"}
    assert notes(world) == [("Warning", "FailedScheduling", why)]
    (problem,) = world.problems
    assert problem.startswith("plugin Holds failed in pre_enqueue on pod default/p: ValueError: no such calendar at ")


def test_a_pod_that_is_held_for_a_moment_only_gets_no_event() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "maintenance"}))
    assert world.step() == []
    world.show(a_pod("p"))
    world.step(0.5)
    assert world.binds.keys() == {"p"}
    assert world.step(2.0) == []


def test_another_reason_of_the_same_plugin_changes_the_condition_without_another_event() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "maintenance"}))
    told(world)
    world.show(a_pod("p", labels={"hold": "holiday"}))
    told(world)
    assert world.statuses == {"p": REJECTED + "holiday"}
    assert notes(world) == []


def test_a_plugin_that_begins_to_fail_is_an_event_of_its_own() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "maintenance"}))
    told(world)
    world.show(a_pod("p", labels={"hold": "raise"}))
    told(world)
    assert [reason for _, reason, _ in notes(world)] == ["FailedScheduling"]


def test_a_pod_that_is_held_after_it_was_tried_gets_an_event() -> None:
    world = World(Holds())
    world.show(a_pod("p", {"cpu": "100"}))
    world.step()
    assert world.statuses["p"].startswith("Unschedulable: ")
    world.show(a_pod("p", {"cpu": "100"}, labels={"hold": "maintenance"}))
    world.scheduler.node_applied(a_node("large", cpu="200"), world.now_s)
    told(world)
    assert world.binds == {}
    assert world.statuses == {"p": REJECTED + "maintenance"}


def test_what_the_api_shows_already_is_not_written_again_after_a_restart() -> None:
    world = World(Holds())
    message = 'PreEnqueue plugin "Holds": maintenance'
    pod = a_pod("p", labels={"hold": "maintenance"})
    world.show(with_status(pod, reason="PreEnqueueRejected", message=message))
    assert told(world) == []


def test_a_pod_with_scheduling_gates_keeps_their_condition_and_gets_that_of_the_plugin_without_them() -> None:
    world = World(Holds())
    world.show(a_pod("p", labels={"hold": "maintenance"}, schedulingGates=GATES))
    told(world)
    assert not [each for each in world.effects if isinstance(each, SetStatus)]
    world.show(a_pod("p", labels={"hold": "maintenance"}))
    told(world)
    assert world.statuses == {"p": REJECTED + "maintenance"}


def test_a_pod_without_an_order_key_gets_a_condition_as_well() -> None:
    class Sorts:
        name = "Sorts"

        def order_key(self, pod: Any, since_s: float, /) -> Any:
            return None

    own = {"queueSort": {"enabled": [{"name": "Sorts"}], "disabled": [{"name": "*"}]}}
    world = World(known=[Sorts()], profiles=[{"plugins": own}])
    world.show(a_pod("p"))
    told(world)
    assert 'plugin "Sorts": order_key: InvalidPluginResult: returned None instead of a tuple' in world.statuses["p"]


def test_events_of_many_held_pods_are_limited_per_hour() -> None:
    world = World(Holds())
    world.show(*(a_pod(f"p{i}", labels={"hold": "maintenance"}) for i in range(50)))
    world.step()
    world.step(2.0)
    assert len(world.statuses) == 1
    shown = set(world.statuses)
    for _ in range(60):
        world.step(0.06)
        shown |= set(world.statuses)
    assert len(shown) == 50


def test_a_failure_after_the_binding_is_logged() -> None:
    class Fails:
        name = "Fails"

        def post_bind(self, pod: Any, node_name: str, /) -> Any:
            return "done"

    world = World(Fails())
    world.show(a_pod("p"))
    world.step()
    world.answer("p", WriteResult.DONE)
    (problem,) = world.problems
    assert problem.startswith("plugin Fails failed in post_bind on pod default/p: InvalidPluginResult: returned ")


def test_a_pod_that_the_plugin_lets_go_and_its_queue_holds_says_that_it_waits_for_the_queue() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "Holds"}]}}
    world = QueuedWorld(a_queue("q", cpu="1"), known=[Holds()], profiles=[{"plugins": enabled}])
    pod = a_gated_pod("p", cpu="2", gates=(), labels={"hold": "maintenance"})
    del pod["status"]
    world.show(pod)
    told(world)
    assert world.statuses == {"p": REJECTED + "maintenance"}
    world.show({**pod, "metadata": {**pod["metadata"], "labels": {}}})
    told(world)
    assert world.statuses["p"].startswith("WaitingForQueue: ")
