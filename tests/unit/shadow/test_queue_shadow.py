"""The shadow of Volcano: which pods their queue admits, compared with the queue engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from clusters import a_pod
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import GATE, GROUP_NAMES, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.kube.api_resources import PODS
from headgate.shadow.comparison import DecisionComparison
from headgate.shadow.queue_shadow import QueueShadow, QueueShadowSettings
from unit.scheduling.queued_world import a_gated_pod, a_group, a_queue, ungated

Object = dict[str, Any]

PATIENCE_S = 30.0
SETTINGS = QueueShadowSettings("scheduler", frozenset({"default-scheduler"}), DEFAULTS, patience_s=PATIENCE_S)


class Beside:
    """A world that Volcano decides about, and the shadow."""

    def __init__(self, *queues: Object, settings: QueueShadowSettings = SETTINGS) -> None:
        self.compared: list[DecisionComparison] = []
        self.shadow = QueueShadow(settings, self.compared.append)
        self.now_s = 1_800_000_000.0
        self.queue(*queues)
        self.shadow.begin(self.now_s)

    def queue(self, *queues: Object) -> None:
        for each in queues:
            self.shadow.applied(QUEUES, each, self.now_s)

    def group(self, *groups: Object) -> None:
        for each in groups:
            self.shadow.applied(POD_GROUPS, each, self.now_s)

    def show(self, *pods: Object) -> None:
        for each in pods:
            self.shadow.applied(PODS, each, self.now_s)

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.shadow.step(self.now_s)

    def outcomes(self) -> dict[str, int]:
        found = Counter[str](each.outcome for each in self.compared)
        self.compared.clear()
        return dict(found)


def a_plain_pod(name: str, cpu: str = "1", queue: str = "q", group: str = "", **spec: Any) -> Object:
    """Of a queue, without the queue gate."""
    pod = a_pod(name, {"cpu": cpu}, **spec)
    pod["metadata"]["annotations"] = {QUEUE_NAME: queue, **({GROUP_NAMES[0]: group} if group else {})}
    return pod


def bound(pod: Object, node: str = "n") -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def test_a_binding_of_a_pod_that_its_queue_has_capacity_for_is_the_same() -> None:
    world = Beside(a_queue("q", "2"))
    pod = a_plain_pod("a")
    world.show(pod, bound(pod))
    assert world.outcomes() == {"same": 1}


def test_a_binding_above_the_limit_of_the_queue_is_a_difference_with_the_reason() -> None:
    world = Beside(a_queue("q", "2"))
    first, second = a_plain_pod("first", "2"), a_plain_pod("second", "2")
    world.show(first, bound(first), second)
    world.outcomes()
    world.show(bound(second))
    (found,) = world.compared
    assert (found.outcome, found.name, found.reason) == ("only_other", "second", "QueueFull")
    assert found.message == "queue q has no capacity for 2 cpu: 2 of 2 are in use or promised to others"


def test_the_engine_follows_what_the_other_bound() -> None:
    world = Beside(a_queue("q", "2"))
    first, second = a_plain_pod("first", "2", priority=5), a_plain_pod("second", "2")
    world.show(first, second, bound(second))
    (found,) = world.compared
    assert (found.outcome, found.name, found.instead) == ("only_other", "second", ("default/first",))
    assert world.shadow.open_decisions() == {"admission": 0}, "there is no capacity for the first any more"


def test_the_removal_of_a_queue_gate_is_an_admission_and_holds_capacity() -> None:
    world = Beside(a_queue("q", "2"))
    first, second = a_gated_pod("first", "2"), a_gated_pod("second", "2")
    world.show(first, second, ungated(first))
    assert world.outcomes() == {"same": 1}
    assert world.shadow.open_decisions() == {"admission": 0}, "the capacity is promised to the first"
    world.show(ungated(second))
    assert world.outcomes() == {"only_other": 1}
    world.show(bound(ungated(first)))
    assert world.outcomes() == {}, "the pod is admitted once"


def test_a_gate_of_another_component_is_waited_for() -> None:
    world = Beside(a_queue("q", "2"))
    world.show(a_gated_pod("a", gates=(GATE, "example.com/other")))
    world.pass_s(PATIENCE_S)
    assert world.outcomes() == {}


def test_a_pod_that_keeps_its_gate_is_reported_once_after_the_patience() -> None:
    world = Beside(a_queue("q", "2"))
    pod = a_gated_pod("a")
    world.show(pod)
    world.pass_s(PATIENCE_S - 1)
    assert world.outcomes() == {}
    world.pass_s(1)
    world.pass_s(PATIENCE_S)
    (found,) = world.compared
    assert (found.outcome, found.other, found.headgate) == ("only_headgate", "keeps its gate", "admitted")
    world.outcomes()
    world.show(ungated(pod))
    assert world.outcomes() == {"late": 1}


def test_a_pod_whose_group_is_in_the_queue_waits_for_a_node_and_not_for_its_queue() -> None:
    world = Beside(a_queue("q", "2"))
    world.group(a_group("g", 1))
    pod = a_plain_pod("a", group="g")
    world.show(pod)
    world.pass_s(PATIENCE_S)
    assert world.outcomes() == {}
    pending = a_group("g", 1)
    pending["status"] = {"phase": "Pending"}
    world.group(pending)
    world.pass_s(PATIENCE_S)
    assert world.outcomes() == {"only_headgate": 1}
    world.group(a_group("g", 1))
    world.show(bound(pod))
    assert world.outcomes() == {"late": 1}


def test_a_gang_that_is_bound_whole_is_the_same_and_one_below_its_minimum_differs() -> None:
    world = Beside(a_queue("q", "4"))
    world.group(a_group("g", 2), a_group("h", 2))
    whole = [a_plain_pod(name, group="g") for name in ("g0", "g1")]
    alone = a_plain_pod("h0", group="h")
    world.show(*whole, alone, *map(bound, whole))
    assert world.outcomes() == {"same": 2}
    world.show(bound(alone))
    (found,) = world.compared
    assert (found.outcome, found.reason) == ("only_other", "NotEnoughTasks")


def test_pods_of_other_schedulers_and_pods_that_end_are_not_compared() -> None:
    world = Beside(a_queue("q", "1"))
    other = a_plain_pod("other", schedulerName="another")
    ended = a_plain_pod("ended")
    world.show(other, bound(other), ended, {**ended, "status": {"phase": "Failed"}})
    world.pass_s(PATIENCE_S)
    assert world.outcomes() == {}


def test_with_gates_only_a_pod_without_the_gate_counts_from_its_binding_on() -> None:
    settings = msgspec.structs.replace(SETTINGS, component="gates", only_gated=True)
    world = Beside(a_queue("q", "2"), settings=settings)
    plain, gated = a_plain_pod("plain", "2"), a_gated_pod("gated", "2")
    world.show(plain, bound(plain), gated)
    assert world.outcomes() == {}, "no queue was asked"
    world.show(ungated(gated))
    (found,) = world.compared
    assert (found.component, found.outcome) == ("gates", "only_other")


def test_a_pod_that_is_deleted_frees_its_capacity() -> None:
    world = Beside(a_queue("q", "2"))
    first, second = a_plain_pod("first", "2"), a_plain_pod("second", "2")
    world.show(first, bound(first), second)
    world.shadow.removed(PODS, "default", "first", first["metadata"]["uid"], world.now_s)
    world.show(bound(second))
    assert world.outcomes() == {"same": 2}
