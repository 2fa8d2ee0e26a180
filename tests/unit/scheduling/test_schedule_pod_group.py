"""Groups in the scheduler: enough of them get nodes or none does, and what is said then."""

from __future__ import annotations

from clusters import a_node
from headgate.scheduling.framework.effects import RemoveSchedulingGate
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_group, a_queue, ungated


def a_world(size: int, cpu: str, minimum: int = 2) -> QueuedWorld:
    world = QueuedWorld(a_queue("q", "8"), nodes=[a_node("a", cpu=cpu)])
    world.show_groups(a_group("g", minimum))
    world.show(*(a_gated_pod(f"g-{i}", group="g") for i in range(size)))
    return world


def lift_all(world: QueuedWorld) -> dict[str, str]:
    """What conditions say when all removals are confirmed, one after the other."""
    said: dict[str, str] = {}
    for effect in world.step():
        if isinstance(effect, RemoveSchedulingGate):
            world.lifted(effect.pod.name)
            said |= world.statuses
    return said


def test_every_pod_of_a_gang_that_cannot_be_placed_whole_is_called_unschedulable_those_beyond_the_minimum_too() -> None:
    world = a_world(3, "1")
    said = lift_all(world)
    assert said.keys() == {"g-0", "g-1", "g-2"}
    assert all(each.startswith("Unschedulable: 2/3 tasks in gang unschedulable: ") for each in said.values())
    assert world.taken("a") == 0


def test_none_is_called_unschedulable_before_the_removals_of_the_minimum_are_confirmed() -> None:
    world = a_world(3, "1")
    world.step()
    assert world.lifts.keys() == {"g-0", "g-1", "g-2"}
    for name in ("g-2", "g-0"):
        world.lifted(name)
        assert not world.statuses
    world.lifted("g-1")
    assert world.statuses.keys() == {"g-0", "g-1", "g-2"}


def test_a_gang_is_bound_when_a_node_is_added_and_a_pod_beyond_its_minimum_waits_alone() -> None:
    world = a_world(3, "1")
    lift_all(world)
    world.scheduler.node_applied(a_node("b", cpu="1"), world.now_s)
    world.step(60.0)
    assert world.binds == {"g-0": "a", "g-1": "b"} or world.binds == {"g-0": "b", "g-1": "a"}
    assert world.where("g-2") is PodState.UNSCHEDULABLE
    world.scheduler.node_applied(a_node("c", cpu="1"), world.now_s)
    world.step(60.0)
    assert world.binds == {"g-2": "c"}


def test_a_gang_of_one_is_as_good_as_a_pod_without_a_group() -> None:
    world = a_world(2, "1", minimum=1)
    said = lift_all(world)
    assert world.taken("a") == 1
    assert list(said) == ["g-1"]
    assert "gang" not in said["g-1"]


def test_a_member_that_succeeded_counts_for_its_gang_until_it_is_deleted() -> None:
    """Otherwise the replacement of a failed pod would wait for a gang that can never be complete again."""
    world = QueuedWorld(a_queue("q", "8"))
    world.show_groups(a_group("g", 2))
    done = a_gated_pod("g-0", group="g", gates=(), nodeName="a")
    done["status"] = {"phase": "Succeeded"}
    world.show(done, a_gated_pod("g-1", group="g"))
    world.step()
    assert world.lifts.keys() == {"g-1"}
    assert world.scheduler.queues.usage("q").allocated == {"cpu": 1000}


def test_a_member_that_succeeded_and_was_deleted_counts_no_longer() -> None:
    world = QueuedWorld(a_queue("q", "8"))
    world.show_groups(a_group("g", 2))
    done = a_gated_pod("g-0", group="g", gates=(), nodeName="a")
    done["status"] = {"phase": "Succeeded"}
    world.show(done)
    world.scheduler.pod_removed("uid-g-0", world.now_s)
    world.show(a_gated_pod("g-1", group="g"))
    world.step()
    assert not world.lifts


def test_u15_a_member_that_fits_nowhere_does_not_keep_those_behind_the_gate_from_being_looked_at() -> None:
    world = QueuedWorld(a_queue("q", "8"), nodes=[a_node("a", cpu="2")])
    world.show_groups(a_group("g", 1))
    stuck = a_gated_pod("g-0", "4", group="g")
    world.show(stuck)
    world.step()
    stamp = world.lifts["g-0"]
    world.lifted("g-0")
    assert world.statuses["g-0"].startswith("Unschedulable: ")
    world.show(ungated(stuck, stamp), a_gated_pod("g-1", group="g"), a_gated_pod("g-2", group="g"))
    world.step(60.0)
    assert list(world.lifts) == ["g-1", "g-2"]
    assert {**bound_once_lifted(world, "g-1"), **bound_once_lifted(world, "g-2")} == {"g-1": "a", "g-2": "a"}


def bound_once_lifted(world: QueuedWorld, name: str) -> dict[str, str]:
    world.lifted(name)
    return world.binds
