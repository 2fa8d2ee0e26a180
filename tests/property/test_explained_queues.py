"""The changes that `headgate explain pod` suggests for queues help: each is applied to a copy of the cluster.

Random clusters have a tree of queues with limits, guarantees and priorities, and pods that run, hold a promise or wait,
alone and in groups, some larger than their queue. Each suggestion is parsed from the text, applied to a newly built
cluster, and followed by one admission step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from capacity_builders import Queues, a_group, a_queue, a_task, stamped
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.explanation import PodExplanation, PodGate, explain
from headgate.capacity.names import GATE, GROUP_NAMES
from headgate.capacity.queue_explanation import explain_queue

Wire = dict[str, Any]
FOREIGN = "example.com/approval"
TREE = {"root": "", "eng": "root", "ops": "root", "a": "eng", "b": "eng", "deep": "eng", "d1": "deep", "c": "ops"}
UNITS = {"cpu": 1000, "memory": 1}
LEAVES = ("a", "b", "d1", "c")
GROUPS = ("g", "h")
GROWTH = re.compile(r"the capability of queue (\S+) has to grow from (\S+) to (\S+) (cpu|memory)")
ALONE = re.compile(r"\((.*) will do once no other pod")
AMOUNT = re.compile(r"(\S+) (\S+) in queue (\S+)")
ENDS = re.compile(r"the end of pods? ([^)]+) is enough\)")


@dataclass
class World:
    queues: dict[str, Wire] = field(default_factory=dict)
    groups: dict[str, Wire] = field(default_factory=dict)
    tasks: dict[str, TaskInfo] = field(default_factory=dict)

    def build(self) -> Queues:
        return Queues(*self.queues.values(), *self.groups.values(), *self.tasks.values())

    def copy(self) -> World:
        return World(
            {name: msgspec.json.decode(msgspec.json.encode(wire)) for name, wire in self.queues.items()},
            dict(self.groups),
            dict(self.tasks),
        )

    def may_go_on(self, name: str) -> bool:
        """After one admission step."""
        queues = self.build()
        queues.admit(10_000)
        return queues.wait_reason(name) is None

    def explain(self, name: str) -> PodExplanation:
        task = self.tasks[name]
        notes = {GROUP_NAMES[0]: task.group} if task.group else {}
        pod = {
            "metadata": {"name": name, "namespace": "ns", "uid": task.uid, "annotations": notes},
            "spec": {"schedulerName": "headgate", "schedulingGates": [{"name": each} for each in task.gates]},
        }
        gates = [PodGate(each) for each in task.gates]
        return explain(pod, self.build().engine, task.requests, gates, ("headgate",))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    limit: dict[str, dict[str, int]] = {"": {}}
    for name, parent in TREE.items():
        above = limit[parent]
        stated = {}
        for resource, most in (("cpu", 8), ("memory", 6)):
            if draw(st.sampled_from([True, False, resource == "cpu"])):
                stated[resource] = draw(st.integers(1, min(most, above.get(resource, most))))
        limit[name] = {**above, **stated}
        room = min(limit[name].get("cpu", 8), 2)
        guarantee = {"cpu": draw(st.integers(0, room))} if name in LEAVES and draw(st.integers(0, 3)) == 0 else None
        deserved = {"cpu": draw(st.integers(2, 4))} if "cpu" not in limit[name] and draw(st.booleans()) else None
        world.queues[name] = a_queue(
            name,
            capability=stated,
            parent=parent,
            guarantee=guarantee,
            deserved=deserved,
            priority=draw(st.sampled_from([0, 0, 1])),
            created_s=float(len(world.queues)),
        )
    for name in GROUPS:
        least = {"minResources": {"cpu": draw(st.integers(1, 4))}} if draw(st.integers(0, 3)) == 0 else {}
        queue, minimum = draw(st.sampled_from(LEAVES)), draw(st.integers(1, 3))
        world.groups[name] = a_group(name, queue, minimum, draw(st.sampled_from(["Pending", "Inqueue"])), **least)
    for number in range(draw(st.integers(3, 12))):
        group = draw(st.sampled_from(["", "", *GROUPS]))
        state = draw(st.sampled_from(["running", "running", "promised", "waiting", "waiting", "waiting", "foreign"]))
        queue = world.groups[group]["spec"]["queue"] if group else draw(st.sampled_from(LEAVES))
        memory = {"memory": draw(st.integers(1, 3))} if draw(st.integers(0, 3)) == 0 else {}
        task = a_task(
            f"p{number}",
            draw(st.sampled_from([1, 1, 2, 3, 12])) if state != "running" else draw(st.integers(1, 2)),
            queue=queue,
            group=group,
            requests=memory,
            priority=draw(st.sampled_from([0, 0, 5])),
            created_s=float(draw(st.integers(0, 9))),
        )
        if state == "running":
            task = msgspec.structs.replace(stamped(task, queue), node_name="n")
        elif state == "promised":
            task = stamped(task, queue, f"2026-01-01T00:00:00.{number:06d}Z")
        elif state == "foreign":
            task = msgspec.structs.replace(task, gates=(FOREIGN, GATE))
        world.tasks[task.name] = task
    return world


@given(worlds())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_suggested_changes_help(world: World) -> None:
    for name, task in world.tasks.items():
        about = world.explain(name)
        for step in about.next:
            for done, words in ((grown, GROWTH), (ended, ENDS)):
                if words.search(step):
                    after = done(without_foreign_gates(world, name), step)
                    event(done.__name__)
                    assert after.may_go_on(name), (step, about)
            if "freed capacity does not help" in step:
                event("never fits")
                check_that_it_never_fits(without_foreign_gates(world, name), task)
            if found := ALONE.search(step):
                event("smaller growth")
                assert alone_with(without_foreign_gates(world, name), task, found[1]).may_go_on(name), (step, about)


def alone_with(world: World, task: TaskInfo, amounts: str) -> World:
    """The pod and its group alone, with these amounts as capabilities."""
    after = world.copy()
    after.tasks = {name: each for name, each in world.tasks.items() if is_own(task, each)}
    for amount, resource, queue in AMOUNT.findall(amounts):
        after.queues[queue]["spec"]["capability"][resource] = amount
    return after


def grown(world: World, step: str) -> World:
    after = world.copy()
    for queue, before, needed, resource in GROWTH.findall(step):
        capability = after.queues[queue]["spec"]["capability"]
        assert str(capability[resource]) == before
        capability[resource] = needed
    return after


def ended(world: World, step: str) -> World:
    found = ENDS.search(step)
    assert found is not None
    after = world.copy()
    for key in found[1].split(", "):
        del after.tasks[key.removeprefix("ns/")]
    return after


def unlimited(world: World) -> World:
    after = world.copy()
    for wire in after.queues.values():
        wire["spec"].pop("capability", None)
    return after


def without_foreign_gates(world: World, name: str) -> World:
    after = world.copy()
    task = after.tasks[name]
    after.tasks[name] = msgspec.structs.replace(task, gates=tuple(each for each in task.gates if each == GATE))
    return after


def check_that_it_never_fits(world: World, task: TaskInfo) -> None:
    """It does not fit even if all pods except its own group are deleted."""
    after = world.copy()
    after.tasks = {name: each for name, each in world.tasks.items() if is_own(task, each)}
    assert not after.may_go_on(task.name)


def is_own(task: TaskInfo, other: TaskInfo) -> bool:
    return other.name == task.name or bool(task.group and other.group == task.group)


@given(worlds())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_pod_that_lacks_capacity_gets_a_suggestion_that_helps(world: World) -> None:
    """If it would be admitted without any limits, capabilities that are enough are found."""
    queues = world.build()
    for name, task in world.tasks.items():
        remedy = queues.engine.remedy(task.uid)
        if remedy is None or queues.wait_reason(name) is None:
            continue
        if unlimited(world).may_go_on(name):
            assert remedy.growth, (name, remedy)
        assert all(each.lacking > 0 for each in (*remedy.missing, *remedy.too_small_limits))


def test_a_pod_behind_many_others_gets_a_suggestion_that_helps() -> None:
    """All others take what is added before it is the turn of the pod."""
    limits: dict[str, dict[str, Any]] = {"root": {"cpu": 1}, "eng": {"cpu": 1}, "ops": {"cpu": 1}, "deep": {"cpu": 1}}
    world = World(groups={name: a_group(name, "a") for name in GROUPS})
    for name, parent in TREE.items():
        spec: dict[str, Any] = {"parent": parent} if parent else {}
        spec |= {"capability": limits[name]} if name in limits else {}
        world.queues[name] = a_queue(name, **spec)
    running = {"p0": (1, ""), "p1": (2, ""), "p5": (1, "h"), "p8": (1, ""), "p10": (1, "h")}
    for name, (cpu, group) in running.items():
        task = stamped(a_task(name, cpu, queue="a", group=group), "a")
        world.tasks[name] = msgspec.structs.replace(task, node_name="n")
    for name, (cpu, group) in {"p2": (1, ""), "p4": (2, ""), "p6": (2, "g"), "p7": (1, "g"), "p9": (2, "")}.items():
        world.tasks[name] = a_task(name, cpu, queue="a", group=group)
    world.tasks["last"] = a_task("last", 1, queue="d1", created_s=9.0)
    remedy = world.build().engine.remedy("u-last")
    assert remedy is not None
    assert remedy.growth
    for each in remedy.growth:
        world.queues[each.queue]["spec"]["capability"] = {"cpu": f"{each.needed}m"}
    assert world.may_go_on("last")


@given(worlds())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_asking_what_would_help_changes_nothing(world: World) -> None:
    asked, other = world.build(), world.build()
    for task in world.tasks.values():
        asked.engine.remedy(task.uid)
        asked.engine.remedy_behind_gates(task.uid)
    assert asked.admit() == other.admit()
    assert [asked.wait_message(name) for name in world.tasks] == [other.wait_message(name) for name in world.tasks]


@given(worlds())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_what_is_said_about_a_queue_is_true(world: World) -> None:
    """Its holders hold what it says is in use, the first pod is first, and what helps that pod helps it."""
    engine = world.build().engine
    for name in TREE:
        about = explain_queue(engine, name, "Open")
        usage = engine.usage(name)
        for resource in ("cpu", "memory"):
            held = sum(int(each.amounts.get(resource, "0")) for each in about.holders)
            assert held == usage.allocated.get(resource, 0) // UNITS[resource] + (
                usage.reserved.get(resource, 0) // UNITS[resource]
            )
        for first in about.first:
            pod = first.pod.removeprefix("ns/")
            assert engine.position(f"u-{pod}") == 0 or world.tasks[pod].group, (name, first)
            if GROWTH.search(first.help):
                event("grown")
                assert grown(world, first.help).may_go_on(pod), (name, first)
            if ENDS.search(first.help):
                event("ended")
                assert ended(world, first.help).may_go_on(pod), (name, first)


def test_a_smaller_growth_is_named_that_helps_when_nothing_else_uses_the_capacity() -> None:
    world = World(queues={"q": a_queue("q", capability={"cpu": 2})})
    world.tasks["running"] = msgspec.structs.replace(stamped(a_task("running", 2, queue="q"), "q"), node_name="n")
    world.tasks["large"] = a_task("large", 3, queue="q")
    (step,) = world.explain("large").next
    assert "from 2 to 5 cpu (3 cpu in queue q will do once no other pod" in step
