"""A pod that did not opt in returns its capacity if no node fits, and asks for it again when it is tried again."""

from __future__ import annotations

from typing import Any

from clusters import a_node, a_pod
from headgate.capacity.names import QUEUE_NAME
from unit.scheduling.queued_world import QueuedWorld, a_queue

TAINT = {"key": "example.com/starting", "effect": "NoSchedule"}


def a_plain_pod(name: str) -> dict[str, Any]:
    pod = a_pod(name, {"cpu": "1"})
    pod["metadata"]["annotations"] = {QUEUE_NAME: "q"}
    return pod


def test_it_is_bound_when_a_node_comes_and_nothing_else_happens() -> None:
    world = QueuedWorld(a_queue("q", cpu="2"), nodes=[a_node("starting", cpu="4", taints=[TAINT])])
    world.show(a_plain_pod("p"))
    world.step()
    assert world.binds == {}
    world.scheduler.node_applied(a_node("ready", cpu="1"), world.now_s)
    for _ in range(5):
        deadline_s = world.scheduler.next_deadline_s()
        assert deadline_s is not None, "it is left alone until something happens"
        world.step(after_s=max(deadline_s - world.now_s, 0.0))
        if world.binds:
            break
    assert world.binds == {"p": "ready"}
