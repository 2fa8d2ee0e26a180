"""Queue plugins of other packages in the scheduler and in the gate controller: calls, wake-ups, views and reports."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from clusters import a_pod as a_wire_pod
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import GATE, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES, STAMP
from headgate.kube.api_resources import APIResource
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import (
    ADD,
    DELETE,
    NODE,
    QUEUE_RESERVATION,
    ClusterEvent,
    PodInfo,
    QueueUnit,
    Rejection,
    named,
    on,
    own_update,
)
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, SetStatus, WriteResult
from headgate.scheduling.gates.gate_controller import GateController, GateSettings
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod, a_pod_group, a_queue
from property.recording_queue_plugins import conf_with

KEYS = APIResource("example.com", "v1", "keys", namespaced=False)


class RequiresKey:
    """Holds the units of all queues but ``open``. Its calls are in ``calls``."""

    annotations = ("example.com/note",)
    watched: ClassVar = {KEYS: ("spec",)}

    def __init__(self, name: str = "RequiresKey", *open_queues: str, rejects: str = "") -> None:
        self.name = name
        self.open = set(open_queues)
        self.rejects = rejects
        self.calls: list[str] = []
        self.units: list[QueueUnit] = []
        self.times_s: list[float] = []

    def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        self.units.append(unit)
        self.times_s.append(now_s)
        self.calls.append(f"admit {unit.queue}")
        if unit.queue in self.open:
            return None
        wakers = (*on(named(KEYS), ADD), *on(NODE, ADD), *own_update())
        return Rejection(self.name, f"no key for {unit.queue}", wakers, expires=False)

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        names = "+".join(pod.name for pod in unit.pods)
        self.calls.append(f"{'restore' if unit.is_restored else 'reserve'} {names}")
        return Rejection(self.name, "no") if unit.pods[0].name == self.rejects else None

    def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None:
        self.calls.append(f"release {pod.name} of {queue}")

    def applied(self, resource: APIResource, wire: Any, /) -> list[ClusterEvent]:
        self.open.add(wire["metadata"]["name"])
        return [ClusterEvent(named(KEYS), ADD)]

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> list[ClusterEvent]:
        return []


def a_key(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {}}


# The scheduler


def a_scheduler(*plugins: Any) -> VirtualScheduler:
    scheduler = VirtualScheduler(*plugins)
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_queue(a_queue("team"), a_queue("q", parent="team"), a_queue("r"))
    return scheduler


def test_a_plugin_sees_the_unit_its_queues_and_the_time() -> None:
    plugin = RequiresKey("RequiresKey", "q")
    scheduler = a_scheduler(plugin)
    scheduler.apply_pod_group(a_pod_group("gang", 2, queue="q"))
    notes = {"example.com/note": "yes", "example.com/other": "no"}
    scheduler.apply_pod(a_pod("a", group="gang", labels={"x": "y"}, annotations=notes), a_pod("b", group="gang"))
    scheduler.run()
    (unit,) = plugin.units
    assert (unit.queue, unit.ancestors, unit.namespace, unit.group) == ("q", ("team", "root"), "default", "gang")
    assert [pod.name for pod in unit.pods] == ["a", "b"]
    assert unit.pods[0].labels == {"x": "y"}
    assert unit.pods[0].annotations["example.com/note"] == "yes"
    assert "example.com/other" not in unit.pods[0].annotations
    assert plugin.times_s == [scheduler.clock.now_s]
    assert not unit.is_restored


@pytest.mark.parametrize("gated", [True, False])
def test_a_hold_is_reported_after_a_second_and_once(gated: bool) -> None:
    scheduler = a_scheduler(RequiresKey())
    scheduler.apply_pod(a_pod("a", queue="q", gated=gated))
    scheduler.advance(0.5)
    assert scheduler.events("a") == []
    scheduler.advance(600)
    message = 'QueueAdmission plugin "RequiresKey": no key for q'
    assert scheduler.events("a") == [f"QueueAdmissionRejected: {message}"]
    condition = scheduler.condition("a")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == (
        ("SchedulingGated" if gated else "WaitingForQueue"),
        message,
    )


def test_the_condition_has_the_present_reason_when_a_hold_has_ended() -> None:
    plugin = RequiresKey("RequiresKey", "r")
    scheduler = a_scheduler(plugin)
    scheduler.apply_queue(a_queue("q", capability={"cpu": "1"}))
    scheduler.apply_pod(a_pod("a", queue="q", gated=True, requests={"cpu": "2"}, priority=1))
    scheduler.apply_pod(a_pod("b", queue="q", gated=True, requests={"cpu": "1"}))
    scheduler.apply(KEYS, a_key("q"))
    scheduler.advance(20)
    condition = scheduler.condition("a")
    assert condition is not None
    assert condition["message"].startswith("queue q has no capacity for 2 cpu")
    plugin.open.clear()
    scheduler.apply_queue(a_queue("q", capability={"cpu": "3"}))
    scheduler.advance(20)
    condition = scheduler.condition("a")
    assert condition is not None
    assert condition["message"] == 'QueueAdmission plugin "RequiresKey": no key for q'
    scheduler.apply_queue(a_queue("q", capability={"cpu": "1"}))
    scheduler.apply(KEYS, a_key("q"))
    scheduler.advance(20)
    condition = scheduler.condition("a")
    assert condition is not None
    assert condition["message"].startswith("queue q has no capacity for 2 cpu")


def test_events_that_the_rejection_names_and_no_others_end_a_hold() -> None:
    plugin = RequiresKey()
    scheduler = a_scheduler(plugin)
    scheduler.apply_pod(a_pod("a", queue="q", gated=True), a_pod("b", queue="r", gated=True))
    scheduler.advance(3600)
    assert sorted(plugin.calls) == ["admit q", "admit r"]
    scheduler.apply_node(a_node("node-a", cpu="9"))
    scheduler.advance(10)
    assert len(plugin.calls) == 2
    scheduler.apply_node(a_node("node-b"))
    scheduler.advance(10)
    assert sorted(plugin.calls[2:]) == ["admit q", "admit r"]
    scheduler.apply_pod(a_pod("b", queue="r", gated=True, labels={"x": "y"}))
    scheduler.advance(10)
    assert plugin.calls[4:] == ["admit r"]
    scheduler.apply(KEYS, a_key("q"))
    scheduler.run()
    assert scheduler.node_of("a") is not None
    assert scheduler.node_of("b") is None


def test_a_plugin_that_rejects_a_reservation_undoes_those_before_it() -> None:
    first, second = RequiresKey("First", "q", "r"), RequiresKey("Second", "q", "r", rejects="a")
    scheduler = a_scheduler(first, second)
    scheduler.apply_pod_group(a_pod_group("gang", 2, queue="q"))
    scheduler.apply_pod(a_pod("a", group="gang", gated=True), a_pod("b", group="gang", gated=True))
    scheduler.apply_pod(a_pod("c", queue="r"))
    scheduler.advance(5)
    undone = ["admit q", "reserve a+b", "release a of q", "release b of q"]
    assert [each for each in first.calls if each not in ("admit r", "reserve c")] == undone
    assert [each for each in second.calls if each not in ("admit r", "reserve c")] == ["admit q", "reserve a+b"]
    assert scheduler.node_of("a") is None
    assert scheduler.node_of("c") == "node-a"
    assert scheduler.events("b") == ['QueueAdmissionRejected: QueueReserve plugin "Second": no']


def test_the_release_of_a_pod_ends_the_holds_that_wait_for_it_at_once() -> None:
    class OnePod(RequiresKey):
        used: ClassVar[set[str]] = set()

        def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
            if self.used:
                return Rejection(self.name, "in use", on(QUEUE_RESERVATION, DELETE), expires=False)
            self.used.update(pod.uid for pod in unit.pods)
            return super().reserve_unit(unit, now_s)

        def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None:
            self.used.remove(pod.uid)

    plugin = OnePod("OnePod", "q", "r")
    scheduler = a_scheduler(plugin)
    scheduler.apply_pod(a_pod("a", queue="q", gated=True), a_pod("b", queue="q", gated=True), a_pod("c", queue="r"))
    scheduler.advance(3600)
    bound = [name for name in "abc" if scheduler.node_of(name)]
    assert len(bound) == 1
    scheduler.delete_pod(*bound)
    scheduler.run()
    assert len([name for name in {*"abc"} - {*bound} if scheduler.node_of(name)]) == 1
    assert len(plugin.used) == 1


def test_a_new_process_restores_promises_and_pods_on_nodes() -> None:
    scheduler = a_scheduler(RequiresKey("RequiresKey", "q"))
    huge = {"cpu": "100"}
    scheduler.apply_pod(a_pod("bound", queue="q"), a_pod("promised", queue="q", gated=True, requests=huge))
    scheduler.run()
    plugin = RequiresKey()
    scheduler = scheduler.restarted(plugin)
    scheduler.run()
    assert sorted(plugin.calls) == ["restore bound", "restore promised"]
    scheduler.delete_pod("promised")
    scheduler.delete_pod("bound")
    scheduler.run()
    assert sorted(plugin.calls)[:2] == ["release bound of q", "release promised of q"]
    assert len(plugin.calls) == 4


def test_a_restored_pod_that_the_plugin_rejects_stays_and_is_not_released() -> None:
    scheduler = a_scheduler(RequiresKey("RequiresKey", "q"))
    scheduler.apply_pod(a_pod("a", queue="q"))
    scheduler.run()
    plugin = RequiresKey(rejects="a")
    scheduler = scheduler.restarted(plugin)
    scheduler.run()
    assert scheduler.node_of("a") == "node-a"
    scheduler.delete_pod("a")
    scheduler.run()
    assert plugin.calls == ["restore a"]


def test_a_sort_key_is_asked_for_once_for_each_version_of_a_unit() -> None:
    class Ordered(RequiresKey):
        keys: ClassVar[list[str]] = []

        def unit_order_key(self, unit: QueueUnit, /) -> tuple[str]:
            self.keys.append("+".join(pod.name for pod in unit.pods))
            return (unit.pods[0].labels.get("place", "m"),)

    scheduler = a_scheduler(Ordered("Ordered"))
    scheduler.apply_queue(a_queue("q", capability={"cpu": "1"}))
    one: dict[str, Any] = {"queue": "q", "gated": True, "requests": {"cpu": "1"}}
    scheduler.apply_pod(a_pod("a", **one, labels={"place": "k"}), a_pod("b", **one))
    scheduler.advance(3600)
    scheduler.apply_queue(a_queue("q", capability={"cpu": "1", "memory": "1Gi"}))
    scheduler.advance(10)
    assert Ordered.keys == ["a", "b"]
    scheduler.apply_pod(a_pod("b", **one, labels={"place": "a"}))
    assert Ordered.keys == ["a", "b", "b"]
    scheduler.apply(KEYS, a_key("q"))
    scheduler.run()
    assert (scheduler.node_of("a"), scheduler.node_of("b")) == (None, "node-a")


def test_profiles_with_queues_share_one_plugin() -> None:
    made: list[RequiresKey] = []

    def make(args: Any, cluster: Any) -> RequiresKey:
        made.append(RequiresKey())
        return made[-1]

    conf = conf_with([RequiresKey()])
    profiles = queue_profile("headgate", conf), queue_profile("volcano", conf)
    scheduler = Scheduler(KubeSchedulerConfiguration(profiles), {**IN_TREE_PLUGINS, "RequiresKey": make})
    assert len(made) == 1
    scheduler.object_applied(KEYS, a_key("q"), 0.0)
    scheduler.object_applied(QUEUES, a_queue("q"), 0.0)
    for name in ("headgate", "volcano"):
        scheduler.pod_applied(a_pod(name, queue="q", schedulerName=name), 0.0)
    scheduler.step(0.0, 10)
    assert made[0].calls.count("admit q") == 2


# The gate controller


class World:
    """A gate controller with a plugin, and the pods as the API server shows them."""

    def __init__(self, plugin: Any, **settings: Any) -> None:
        self.now_s = 1000.0
        self.log: list[str] = []
        self.pods: dict[str, dict[str, Any]] = {}
        self._settings = GateSettings(time_of_day=lambda: self.now_s, conf=conf_with([plugin]), **settings)
        self._begin(plugin)

    def _begin(self, plugin: Any) -> None:
        self.controller = GateController(["default-scheduler"], self._settings, self.log.append, [plugin])
        for name in ("q", "r"):
            self.controller.object_applied(QUEUES, a_queue(name, capability={"cpu": "2"}))

    def restart(self, plugin: Any) -> None:
        self._begin(plugin)
        for each in self.pods.values():
            self.controller.pod_applied(each, self.now_s)

    def pod(self, name: str, queue: str = "q", **annotations: str) -> None:
        pod = a_wire_pod(name, {"cpu": "1"}, schedulingGates=[{"name": GATE}])
        pod["metadata"]["annotations"] = {QUEUE_NAME: queue, OPT_IN: "true", **annotations}
        self.show(pod)

    def show(self, pod: dict[str, Any]) -> None:
        self.pods[pod["metadata"]["name"]] = pod
        self.controller.pod_applied(pod, self.now_s)

    def bind(self, name: str) -> None:
        pod = self.pods[name]
        self.show({**pod, "spec": {**pod["spec"], "nodeName": "n", "schedulingGates": []}})

    def step(self, later_s: float = 0.0) -> list[Effect]:
        """All effects until the controller has nothing to do; the API server removes gates."""
        self.now_s += later_s
        found: list[Effect] = []
        while effects := self.controller.step(self.now_s):
            found += effects
            for each in effects:
                if isinstance(each, RemoveSchedulingGate):
                    pod = self.pods[each.pod.name]
                    metadata = pod["metadata"]
                    metadata = {**metadata, "annotations": {**metadata["annotations"], STAMP: each.stamp}}
                    self.controller.gate_removed(each.pod.uid, WriteResult.DONE, "", self.now_s)
                    self.show({**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulingGates": []}})
        return found

    @staticmethod
    def ungated(effects: list[Effect]) -> list[str]:
        return [each.pod.name for each in effects if isinstance(each, RemoveSchedulingGate)]


def test_the_gate_controller_keeps_the_gate_of_a_held_pod_and_writes_the_reason() -> None:
    world = World(RequiresKey("RequiresKey", "r"))
    world.pod("a", "q")
    world.pod("b", "r")
    assert world.ungated(world.step()) == ["b"]
    (status,) = world.step(1.0)
    assert isinstance(status, SetStatus)
    assert status.condition is not None
    assert status.condition["reason"] == "SchedulingGated"
    assert status.condition["message"] == 'QueueAdmission plugin "RequiresKey": no key for q'


def test_a_watched_object_ends_a_hold_in_the_gate_controller() -> None:
    plugin = RequiresKey()
    world = World(plugin)
    assert set(world.controller.watched) >= {KEYS, QUEUES, POD_GROUPS}
    assert KEYS not in world.controller.event_handlers.needed
    world.pod("a")
    assert world.ungated(world.step()) == []
    assert world.controller.next_deadline_s() != -float("inf")
    world.controller.object_applied(KEYS, a_key("q"))
    assert world.controller.next_deadline_s() == -float("inf")
    assert world.ungated(world.step()) == ["a"]
    world.controller.object_removed(KEYS, "", "q")


def test_the_gate_controller_releases_a_pod_that_has_ended_and_restores_after_a_restart() -> None:
    plugin = RequiresKey("RequiresKey", "q")
    world = World(plugin)
    for name in ("a", "b"):
        world.pod(name)
    world.step()
    world.bind("a")
    world.step()
    assert plugin.calls == ["admit q", "reserve a", "admit q", "reserve b"]
    plugin = RequiresKey("RequiresKey", "q")
    world.restart(plugin)
    world.pod("c")
    world.step()
    assert plugin.calls == ["restore a", "restore b"]
    world.controller.pod_removed("uid-a", world.now_s)
    assert world.ungated(world.step()) == ["c"]
    assert plugin.calls[2:] == ["release a of q", "admit q", "reserve c"]


def test_a_plugin_that_fails_in_the_gate_controller_is_logged_and_holds_one_unit() -> None:
    class Broken(RequiresKey):
        def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
            if unit.pods[0].annotations.get("example.com/note"):
                raise ValueError("broken")
            return None

    world = World(Broken("Broken"))
    world.pod("a", **{"example.com/note": "yes"})
    world.pod("b")
    assert world.ungated(world.step()) == ["b"]
    assert len(world.log) == 1
    assert world.log[0].startswith("plugin Broken failed in admit_unit on pod default/a: ValueError: broken at ")


def test_with_the_feature_gate_off_plugins_are_not_called() -> None:
    plugin = RequiresKey()
    world = World(plugin, enabled=False)
    world.pod("a")
    assert world.ungated(world.controller.step(world.now_s)) == ["a"]
    assert plugin.calls == []
    assert KEYS not in world.controller.watched


def test_the_slow_calls_of_a_plugin_are_logged_by_the_gate_controller() -> None:
    times_s = iter(range(0, 1000, 5))
    world = World(RequiresKey("Slow", "q"), timer_clock=lambda: float(next(times_s)))
    world.pod("a")
    assert world.ungated(world.step()) == []
    assert any("plugin Slow is slow" in each for each in world.log)
    assert any("admit_unit took" in each for each in world.log)


def test_defaults_have_no_external_plugins() -> None:
    assert DEFAULTS.external_plugins == ()
