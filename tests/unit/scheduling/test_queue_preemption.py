"""Room is made inside a queue by priority, and between queues by what they deserve; nobody else has to go."""

from __future__ import annotations

import msgspec

from clusters import a_node
from headgate.capacity.settings import DEFAULTS
from headgate.scheduling.effects import Preempt
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated

RECLAIM = msgspec.structs.replace(DEFAULTS, actions=("allocate", "reclaim"))


def victims(world: QueuedWorld) -> set[str]:
    return {each.name for effect in world.effects if isinstance(effect, Preempt) for each in effect.victims}


def full_of(world: QueuedWorld, *pods: tuple[str, str, int]) -> None:
    for name, queue, priority in pods:
        world.show_bound(ungated(a_gated_pod(name, queue=queue, priority=priority)), "a")


def test_a_pod_makes_room_in_its_own_queue_and_nowhere_else() -> None:
    world = QueuedWorld(a_queue("mine"), a_queue("theirs"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("low", "mine", 1), ("lower", "theirs", 0))
    world.show(a_gated_pod("p", queue="mine", priority=9))
    world.step()
    assert victims(world) == {"low"}


def test_there_is_no_way_if_only_others_could_go() -> None:
    world = QueuedWorld(a_queue("mine"), a_queue("theirs"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("l1", "theirs", 0), ("l2", "theirs", 0))
    world.show(a_gated_pod("p", queue="mine", priority=9))
    world.step()
    assert victims(world) == set()


def test_a_queue_takes_back_what_it_deserves_whatever_the_priorities() -> None:
    queues = (a_queue("poor", deserved={"cpu": "1"}), a_queue("rich", deserved={"cpu": "1"}))
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="2")], settings=RECLAIM)
    full_of(world, ("r1", "rich", 5), ("r2", "rich", 6))
    world.show(a_gated_pod("p", queue="poor"))
    world.step()
    assert victims(world) == {"r1"}


def test_without_reclaim_it_waits() -> None:
    queues = (a_queue("poor", deserved={"cpu": "1"}), a_queue("rich", deserved={"cpu": "1"}))
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="2")])
    full_of(world, ("r1", "rich", 5), ("r2", "rich", 6))
    world.show(a_gated_pod("p", queue="poor", priority=9))
    world.step()
    assert victims(world) == set()


def test_a_pod_that_says_so_does_not_have_to_go() -> None:
    world = QueuedWorld(a_queue("q"), nodes=[a_node("a", cpu="1")])
    pod = ungated(a_gated_pod("keeps", priority=0))
    pod["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    world.show_bound(pod, "a")
    world.show(a_gated_pod("p", priority=9))
    world.step()
    assert victims(world) == set()
