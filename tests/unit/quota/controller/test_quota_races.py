"""Quota when events and responses cross: deleted workloads are not counted, and existing ones are not lost."""

from __future__ import annotations

from collections.abc import Callable

from headgate.controllers.framework.effects import Effect, Patch
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.quota.controller.test_quota_controller import API, WORKLOADS, a_world, add, admitted


def during(world: CrashingWorld, name: str, happens: Callable[[], None]) -> None:
    """Happens once, after the first write to this workload was carried out and before anybody hears the answer."""
    left = [happens]

    def carried_out(effect: Effect) -> bool:
        if left and isinstance(effect, Patch) and effect.name == name:
            left.pop()()
        return False

    world.loses_response = carried_out


def test_a_response_after_the_deletion_of_a_workload_holds_no_quota() -> None:
    world = a_world(cpu=1)

    def end() -> None:
        world.server.delete(f"{WORKLOADS}/a")
        world.deliver_all()

    during(world, "a", end)
    add(world, "a")
    world.advance(1)
    assert admitted(world) == []
    add(world, "b")
    world.advance(1)
    assert admitted(world) == ["b"]


def test_the_deletion_of_a_workload_releases_no_quota_of_its_successor() -> None:
    world = a_world(cpu=1)
    add(world, "a", priority=5)
    add(world, "b")
    world.deliver_all()
    world.server.delete(f"{WORKLOADS}/a")
    add(world, "a", priority=5)
    world.settle(delayed=[WORKLOAD])
    assert admitted(world) == ["a"], "the conflict was settled by asking"
    world.settle(lambda options: options[-1])  # each piece of news is acted upon before the next one is heard
    assert admitted(world) == ["a"]


def test_a_workload_that_was_created_and_deleted_between_watches_holds_no_quota() -> None:
    world = a_world(cpu=1)
    add(world, "a")
    world.deliver_all()
    world.server.delete(f"{WORKLOADS}/a")
    add(world, "a")
    world.settle(delayed=[WORKLOAD])
    assert admitted(world) == ["a"]
    world.server.delete(f"{WORKLOADS}/a")
    world.break_watch(WORKLOAD)
    add(world, "b")
    world.advance(5)
    assert admitted(world) == ["b"]


def test_a_status_that_another_client_changes_before_the_response_is_written_again() -> None:
    world = a_world()
    changes = iter([{"status": {"pendingWorkloads": 7}}])

    def overtake(effect: Effect) -> bool:
        is_report = isinstance(effect, Patch) and effect.name == "cq" and effect.subresource == "status"
        return is_report and any(
            world.server.patch(f"{API}/clusterqueues/cq/status", each).status == 200 for each in changes
        )

    world.watch_is_first = overtake
    add(world, "a")
    world.advance(2)
    assert next(changes, None) is None, "the other client was first"
    assert world.server.get(f"{API}/clusterqueues/cq").body["status"]["pendingWorkloads"] == 0
