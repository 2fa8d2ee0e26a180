"""Windows of queues against the slow reference of ``test_capacity.py``, with many gangs and little else.

No grant lifts the pods that count in a window above it, unless a gang is larger than the window. A pod that has no node
counts until the timeout of the window has passed, also in an engine that was started in the meantime. What is granted
is always what the reference would grant next, so a window delays units and changes no order: a unit that does not fit
in a window is not overtaken in that queue.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity_builders import a_group, a_queue
from headgate.capacity.api.queue import read_queue
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.names import GATE, MAX_PODS_WITHOUT_NODE, WITHOUT_NODE_TIMEOUT
from property.reference_queues import ROOT, Group, Pod
from property.test_capacity import World

_PLACES = {"default": ROOT, "a": ROOT, "b": ROOT, "a1": "a", "a2": "a", "deep": "a2"}
_LEAVES = ("a1", "deep", "b")
_GROUPS = ("g", "h", "i")


class WindowWorld(World):
    """Queues have windows, and now and then a limit."""

    def time_between_steps_s(self) -> float:
        return float(self.draw(st.sampled_from([1, 1, 7, 30])))

    def plant(self, name: str, is_new: bool = False) -> None:
        window = self.draw(st.sampled_from([None, 1, 2, 3, 4]))
        timeout = self.draw(st.sampled_from([None, "5s", "20s"]))
        wire = a_queue(
            name,
            cpu=self.draw(st.sampled_from([None, None, 6])) if name == "a1" else None,
            parent="" if name == ROOT else _PLACES[name],
            annotations=({} if window is None else {MAX_PODS_WITHOUT_NODE: str(window)})
            | ({} if timeout is None else {WITHOUT_NODE_TIMEOUT: timeout}),
        )
        self.wires[name] = wire
        self.slow.queues[name] = read_queue(wire)
        self.each("queue_applied", wire)

    def regroup(self, name: str) -> None:
        if name in self.slow.groups:
            return
        queue, minimum = self.pick(_LEAVES), self.draw(st.integers(1, 4))
        least = self.draw(st.sampled_from([None, minimum]))
        wire = a_group(name, queue, minimum, "Inqueue", **({} if least is None else {"minResources": {"cpu": least}}))
        self.group_wires[name] = wire
        self.slow.groups[name] = Group(queue, minimum, {} if least is None else {"cpu": least * 1000}, 0.0, "Inqueue")
        self.each("group_applied", wire)

    def create(self) -> None:
        self.number += 1
        group = self.draw(st.sampled_from(["", *_GROUPS, *_GROUPS]))
        is_opted_in = self.draw(st.sampled_from([True, True, True, False]))
        task = TaskInfo(
            uid=f"u{self.number}",
            namespace="ns",
            name=f"p{self.number}",
            requests={"cpu": 1000},
            priority=self.draw(st.sampled_from([0, 0, 5])),
            created_s=float(self.number // 3),
            group=group,
            queue=self.pick(_LEAVES) if not group else "",
            opted_in=is_opted_in,
            gates=(GATE,) if is_opted_in else (),
        )
        self.versions[task.uid] = []
        self.slow.pods[task.uid] = Pod(task)
        self.tell(task)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_windows_delay_grants_as_slow_ones_do_and_change_no_order(data: Any) -> None:
    world = WindowWorld(data.draw)
    for name in _GROUPS:
        world.regroup(name)
    for _ in range(data.draw(st.integers(10, 60))):
        action = data.draw(
            st.sampled_from(
                ["create"] * 9
                + ["admit"] * 6
                + ["place", "place", "place", "unplace", "stamp", "delete", "plant", "plant", "resize", "restart"]
            )
        )
        if action in ("create", "admit", "restart"):
            getattr(world, action)()
        elif action == "plant":
            world.plant(world.pick((*_PLACES, ROOT)))
        else:
            world.act(action)
        world.check()
