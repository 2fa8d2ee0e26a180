"""The cost of a pod to the scheduler grows no faster than the pod, whatever part of it a client makes larger.

Costs are those of one scenario, measured by `cost_growth.py`: the pod waits, is matched with events, is bound and is
deleted. And work on one pod cannot be interrupted, so it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from clusters import a_node, a_pod
from cost_growth import TIMES, cpu_s, too_steep
from headgate.scheduling.cache.pod_shape import MAX_BYTES
from sized_pods import SIZED, Object, other_disks
from unit.scheduling.world import World

pytestmark = pytest.mark.measured

_ROUNDS = 16
_BOUND_S = 0.1
_BODY_BYTES = 1024 * 1024


def _zoned(name: str, zone: str) -> Object:
    return a_node(name, labels={"zone": zone})


def _again(pod: Object) -> Object:
    """The same pod under another name. Its disks are others, so that none of them is found at once."""
    metadata = {**pod["metadata"], "name": "again", "uid": "uid-again"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], **other_disks(pod)}}


def _changed(pod: Object) -> Object:
    """The same pod without its last gate, and with another label."""
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "more": "x"}}
    gates = pod["spec"].get("schedulingGates")
    spec = {**pod["spec"], "schedulingGates": gates[:-1]} if gates else pod["spec"]
    return {**pod, "metadata": metadata, "spec": spec}


def _steps(world: World, pod: Object) -> list[Callable[[], Any]]:
    labels = {"a": "b"}
    return [
        lambda: world.show(pod),
        world.step,
        lambda: world.show(_changed(pod)),
        lambda: world.step(20),
        lambda: world.show(a_pod("other", labels=labels)),
        world.step,
        lambda: world.show_bound(a_pod("third", labels=labels), "n1"),
        lambda: world.step(20),
        lambda: world.scheduler.node_applied(_zoned("n1", "elsewhere"), world.now_s),
        lambda: world.step(20),
        lambda: world.show_bound(pod, "n2"),
        lambda: world.show(_again(pod)),
        lambda: world.step(1),
        lambda: world.remove("sized"),
        lambda: world.step(20),
    ]


def _costs_s(pod: Object) -> list[float]:
    """The cost of each step of the scenario."""
    world = World(nodes=[_zoned(f"n{number}", f"z{number % 3}") for number in range(4)])
    world.show(a_pod("before", labels={"a": "b"}))
    world.step()
    took = [cpu_s(step) for step in _steps(world, pod)]
    assert not world.problems
    return took


@pytest.mark.parametrize("name", SIZED)
def test_a_pod_of_eight_times_the_size_costs_about_eight_times_as_much(name: str) -> None:
    size, make = SIZED[name]
    _costs_s(make(1))  # what is made once in a process is not counted
    assert not too_steep(lambda: sum(_costs_s(make(size))), lambda: sum(_costs_s(make(TIMES * size))))


@pytest.mark.parametrize("name", SIZED)
def test_no_step_with_a_pod_of_the_largest_size_takes_long(name: str) -> None:
    size, make = SIZED[name]
    pod = make(size * _BODY_BYTES // len(msgspec.json.encode(make(size))))
    longest = float("inf")
    for _ in range(_ROUNDS):  # other processes slow down some rounds
        longest = min(longest, max(_costs_s(pod)))
        if longest < _BOUND_S:
            return
    pytest.fail(f"a step took {longest * 1000:.0f} ms")


def test_an_oversized_pod_gets_a_message_and_waits_for_its_own_update() -> None:
    world = World()
    pod = SIZED["hard spread constraints, each with its topology"][1](2_000)
    world.show(pod)
    world.step()
    assert world.statuses["sized"].startswith("Unschedulable: spec: containers, affinity, tolerations, topology")
    assert world.statuses["sized"].endswith(f"and the limit is {MAX_BYTES}")
    world.scheduler.node_applied(a_node("c"), world.now_s)
    assert not world.step(20)
    world.show({**pod, "spec": {**pod["spec"], "topologySpreadConstraints": []}})
    world.step(20)
    assert world.binds == {"sized": world.binds["sized"]}


def test_an_oversized_pod_on_a_node_counts_with_its_amounts() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    pod = SIZED["tolerations"][1](5_000)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    world.show_bound(pod, "a")
    world.show(a_pod("late", {"cpu": "2"}))
    world.step()
    assert "Insufficient cpu" in world.statuses["late"]


def test_label_keys_that_no_node_has_leave_no_columns() -> None:
    world = World()
    labels = world.scheduler.cluster.matrix.labels
    before = labels.selected_keys()
    for name in ("node affinity terms", "hard spread constraints, each with its topology"):
        size, make = SIZED[name]
        world.show(make(size))
        world.step()
        world.remove("sized")
        world.step()
    assert labels.selected_keys() == before
