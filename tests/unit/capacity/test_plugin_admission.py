"""Queue plugins in the queue engine: what they hold blocks nothing else, and what they reserved is released once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, stamped
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS, PluginOption
from headgate.capacity.engine import AdmissionUnit, WaitReason
from headgate.capacity.explanation import PodGate, explain
from headgate.capacity.names import DEQUEUE_STRATEGY, GATE, MAX_PODS_WITHOUT_NODE, OPT_IN
from headgate.capacity.ordering.order_keys import Key

Unit = str | tuple[str, str]
REASON = 'QueueAdmission plugin "Fake": closed'


class FakePlugins:
    """Holds the units with a pod in ``closed``, by name, until the test ends the hold."""

    def __init__(self, *closed: str, keys: Mapping[str, Key] | None = None) -> None:
        self.closed = set(closed)
        self.keys = keys
        self.asked: list[str] = []
        self.checked: list[str] = []
        self.reserved: dict[str, str] = {}
        self.log: list[str] = []
        self.held: dict[Unit, None] = {}
        self.ended: dict[Unit, None] = {}

    @property
    def has_order(self) -> bool:
        return self.keys is not None

    def admit(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        self.asked.append(_text(unit))
        if self._is_closed(unit):
            return REASON
        self._reserve(unit, "reserve")
        return ""

    def check(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        self.checked.append(_text(unit))
        return REASON if self._is_closed(unit) else ""

    def _is_closed(self, unit: AdmissionUnit) -> bool:
        if any(uid.removeprefix("u-") in self.closed for uid in unit.uids):
            assert unit.key not in self.held
            self.held[unit.key] = None
            return True
        return False

    def ended_holds(self, now_s: float) -> list[Unit]:
        found = [each for each in self.ended if each in self.held]
        for each in found:
            del self.held[each]
        self.ended.clear()
        return found

    def forget_hold(self, unit: Unit) -> None:
        del self.held[unit]

    def restore(self, unit: AdmissionUnit, time_of_day_s: float) -> None:
        self._reserve(unit, "restore")

    def _reserve(self, unit: AdmissionUnit, word: str) -> None:
        for uid in unit.uids:
            assert uid not in self.reserved
            self.reserved[uid] = unit.queue
        self.log.append(f"{word} {_text(unit)}")

    def release(self, uid: str, time_of_day_s: float) -> None:
        del self.reserved[uid]
        self.log.append(f"release {uid.removeprefix('u-')}")

    def order_keys(self, unit: AdmissionUnit) -> Mapping[str, Key]:
        assert self.keys is not None
        return {"Fake": self.keys[unit.group or unit.uids[0].removeprefix("u-")]}

    def forget_order(self, unit: Unit) -> None: ...

    def next_deadline_s(self) -> float | None:
        return None

    def open(self, *names: str) -> None:
        self.closed -= set(names)
        self.ended.update(self.held)


def _text(unit: AdmissionUnit) -> str:
    names = "+".join(uid.removeprefix("u-") for uid in unit.uids)
    return f"{names} in {unit.queue}" + (f" of {unit.group}" if unit.group else "")


def with_plugins(*objects: Any, closed: tuple[str, ...] = (), **more: Any) -> tuple[Queues, FakePlugins]:
    plugins = FakePlugins(*closed)
    return Queues(*objects, plugins=plugins, **more), plugins


def a_gang(name: str, count: int, **fields: Any) -> list[TaskInfo]:
    return [a_task(f"{name}-{number}", group=name, **fields) for number in range(count)]


# Holds


def test_a_held_unit_waits_with_the_reason_of_the_plugin_and_others_go_on() -> None:
    queues, plugins = with_plugins(a_queue("q", 9), a_task("a", queue="q"), a_task("b", queue="q"), closed=("a",))
    assert queues.admit() == ["b"]
    assert queues.wait_reason("a") is WaitReason.PLUGIN
    assert queues.wait_message("a") == REASON
    assert queues.engine.changed_holds() == ["u-a"]
    assert queues.engine.changed_holds() == []
    assert queues.usage("q") == (0, 1000)
    plugins.open("a")
    assert queues.admit() == ["a"]
    assert plugins.asked == ["a in q", "b in q", "a in q"]


def test_a_held_unit_is_asked_about_again_only_when_its_hold_ends() -> None:
    queues, plugins = with_plugins(a_queue("q", 9), a_task("a", queue="q"), closed=("a",))
    for _ in range(3):
        assert queues.admit() == []
    queues.apply(a_queue("q", 8), a_task("a", 2, queue="q"), a_task("b", queue="q"))
    assert queues.admit() == ["b"]
    assert plugins.asked == ["a in q", "b in q"]


def test_plugins_are_asked_only_about_units_that_their_queue_has_capacity_for() -> None:
    queues, plugins = with_plugins(a_queue("q", 1), a_task("a", queue="q"), a_task("b", queue="q"))
    assert queues.admit() == ["a"]
    assert plugins.asked == ["a in q"]
    assert queues.wait_reason("b") is WaitReason.FULL


@pytest.mark.parametrize("strategy", ["fifo", "backfill", "traverse"])
def test_a_held_unit_is_not_in_the_line_of_its_queue(strategy: str) -> None:
    queue = a_queue("q", 2, annotations={DEQUEUE_STRATEGY: strategy})
    tasks = a_task("a", 2, queue="q", priority=9), a_task("b", queue="q"), a_task("c", queue="q")
    queues, plugins = with_plugins(queue, *tasks, closed=("a",))
    assert queues.admit() == ["b", "c"]
    plugins.open("a")
    assert queues.admit() == []
    assert queues.wait_reason("a") is WaitReason.FULL


def test_a_held_unit_does_not_close_the_window_of_its_queue() -> None:
    queue = a_queue("q", 9, annotations={MAX_PODS_WITHOUT_NODE: "1"})
    queues, _ = with_plugins(queue, a_task("a", queue="q", priority=9), a_task("b", queue="q"), closed=("a",))
    assert queues.admit() == ["b"]


def test_a_gang_is_held_as_one_unit() -> None:
    objects = a_queue("q", 9), a_group("g", "q", minimum=2), *a_gang("g", 3), a_task("p", queue="q")
    queues, plugins = with_plugins(*objects, closed=("g-1",))
    assert queues.admit() == ["p"]
    assert {queues.wait_message(f"g-{i}") for i in range(3)} == {REASON}
    plugins.open("g-1")
    assert queues.admit() == ["g-0", "g-1", "g-2"]
    assert plugins.asked[-2:] == ["g-0+g-1 in q of g", "g-2 in q of g"]


def test_nothing_is_set_aside_for_a_held_gang() -> None:
    group = a_group("g", "q", minimum=2, minResources={"cpu": "9"})
    queues, plugins = with_plugins(
        a_queue("q", 9), group, *a_gang("g", 2, created_s=1.0), a_task("p", queue="q", created_s=2.0), closed=("g-0",)
    )
    assert queues.admit() == ["p"]
    assert queues.engine.usage("q").inqueue == {}
    plugins.open("g-0")
    assert queues.admit() == ["g-0", "g-1"]
    assert queues.engine.usage("q").inqueue == {"cpu": 7000}


def test_a_hold_ends_when_the_pods_of_the_gang_change() -> None:
    objects = a_queue("q", 9), a_group("g", "q", minimum=2), *a_gang("g", 2)
    queues, plugins = with_plugins(*objects, closed=("g-1",))
    assert queues.admit() == []
    queues.engine.task_removed("u-g-1")
    assert queues.wait_reason("g-0") is WaitReason.NOT_ENOUGH_PODS
    assert not plugins.held
    queues.apply(a_task("g-2", group="g"))
    assert queues.admit() == ["g-0", "g-2"]


def test_a_hold_ends_when_the_pod_moves_to_another_queue_or_waits_no_more() -> None:
    objects = a_queue("q", 9), a_queue("r", 9), a_task("a", queue="q"), a_task("b", queue="q"), a_task("c", queue="q")
    queues, plugins = with_plugins(*objects, closed=("a", "b", "c"))
    assert queues.admit() == []
    plugins.closed.clear()
    queues.apply(a_task("a", queue="r"), a_task("b", queue="q", gates=(GATE, "example.com/other")))
    queues.engine.task_removed("u-c")
    assert list(plugins.held) == []
    assert queues.admit() == ["a"]
    assert queues.wait_reason("b") is WaitReason.FOREIGN_GATE


def test_a_held_unit_counts_among_those_that_wait() -> None:
    queues, _ = with_plugins(
        a_queue("q", 1), a_task("a", queue="q", created_s=5.0), a_task("b", 2, queue="q", created_s=7.0), closed=("a",)
    )
    assert queues.engine.oldest_waiting_s("q") == 5.0
    queues.admit()
    assert queues.engine.oldest_waiting_s("q") == 5.0
    assert queues.engine.usage("q").waiting == 2


def test_nothing_is_preempted_for_a_unit_that_a_plugin_holds() -> None:
    running = a_task("low", 2, queue="q", node_name="n")
    queues, plugins = with_plugins(a_queue("q", 2), running, a_task("a", 2, queue="q", priority=9), closed=("a",))
    queues.admit()
    assert plugins.asked == []
    assert queues.engine.starving() == ["u-a"]
    assert queues.engine.plan_preemption("u-a") is None
    assert plugins.checked == ["a in q"]
    assert queues.wait_message("a") == REASON
    assert queues.engine.plan_preemption("u-a") is None
    plugins.open("a")
    queues.admit()
    plan = queues.engine.plan_preemption("u-a")
    assert plan is not None
    assert plan.victims == ("u-low",)


def test_a_remedy_is_found_without_calls_of_plugins() -> None:
    queues, plugins = with_plugins(a_queue("q", 1), a_task("a", queue="q", node_name="n"), a_task("b", queue="q"))
    queues.admit()
    before = list(plugins.log)
    remedy = queues.engine.remedy("u-b")
    assert remedy is not None
    assert remedy.pods_to_end == ("ns/a",)
    assert plugins.log == before
    assert plugins.asked == []


@pytest.mark.parametrize("reason", ["SchedulingGated", "WaitingForQueue", "SchedulerError"])
def test_an_explanation_names_the_plugin_from_the_condition(reason: str) -> None:
    pod = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u-a", "annotations": {OPT_IN: "true"}},
        "spec": {"schedulerName": "headgate", "schedulingGates": [{"name": GATE}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": REASON}]},
    }
    engine = Queues(a_queue("q", 9), a_task("a", queue="q")).engine
    explanation = explain(pod, engine, {"cpu": 1000}, [PodGate(GATE)], ("headgate",))
    (hold,) = explanation.holds
    assert (hold.kind, hold.name) == ("plugin", "Fake")
    assert hold.text.endswith("closed")
    assert explanation.summary == "it waits for a plugin of its scheduler"


# Reservations


def a_stamped_world() -> tuple[Queues, FakePlugins]:
    """A pod whose promise the API shows."""
    conf = msgspec.structs.replace(DEFAULTS, has_leases=True)
    queues, plugins = with_plugins(a_queue("q", 2), a_task("a", 2, queue="q"), conf=conf)
    assert queues.admit() == ["a"]
    queues.apply(stamped(a_task("a", 2, queue="q"), "q"))
    assert plugins.log == ["reserve a in q"]
    return queues, plugins


def _revoke(queues: Queues) -> None:
    queues.engine.set_revoking("u-a", revoking=True)
    queues.engine.revocation_confirmed("u-a")


def _lapse(queues: Queues) -> None:
    queues.engine.update_leases(queues.now_s, queues.now_s)
    queues.engine.begin_lapse(["u-a"], queues.now_s)
    queues.engine.lapse_confirmed(["u-a"])


def _lower_limit(queues: Queues) -> None:
    queues.apply(a_queue("q", 1))


def _delete(queues: Queues) -> None:
    queues.engine.task_removed("u-a")


def _terminate(queues: Queues) -> None:
    queues.apply(a_task("a", 2, queue="q", node_name="n", gates=(), is_terminal_or_terminating=True))


def _succeed(queues: Queues) -> None:
    ended = {"is_terminal_or_terminating": True, "is_terminal": True, "succeeded": True}
    queues.apply(a_task("a", 2, queue="q", node_name="n", gates=(), **ended))


def _evict(queues: Queues) -> None:
    queues.placed("a")
    queues.engine.evicted("u-a")


def _finish_later(queues: Queues) -> None:
    queues.apply(a_task("a", 2, queue="q", node_name="n", gates=()))
    queues.admit()
    _delete(queues)


@pytest.mark.parametrize(
    "end",
    [_revoke, _lapse, _lower_limit, _delete, _terminate, _succeed, _evict, _finish_later],
    ids=lambda end: end.__name__,
)
def test_a_reservation_is_released_once_on_every_path(end: Callable[[Queues], None]) -> None:
    queues, plugins = a_stamped_world()
    end(queues)
    assert end is _lower_limit or queues.engine.next_deadline_s() == -float("inf")
    plugins.closed = {"a"}
    for _ in range(3):
        queues.admit()
    assert plugins.log == ["reserve a in q", "release a"]
    assert plugins.reserved == {}
    assert queues.engine.next_deadline_s() != -float("inf")


def test_a_refused_gate_removal_releases_the_reservation() -> None:
    queues, plugins = with_plugins(a_queue("q", 2), a_task("a", queue="q"))
    queues.admit()
    queues.engine.refused("u-a", queues.now_s + 100.0, "no")
    queues.admit()
    assert plugins.log == ["reserve a in q", "release a"]


def test_a_tentative_grant_is_released_when_no_node_fits_and_reserved_again() -> None:
    queues, plugins = with_plugins(a_queue("q", 2), a_task("a", queue="q", opted_in=False))
    queues.admit()
    queues.engine.unplaced("u-a")
    queues.admit()
    queues.engine.wait_reason("u-a")
    assert queues.admit() == ["a"]
    assert plugins.log == ["reserve a in q", "release a", "reserve a in q"]


def test_a_pod_that_gets_its_node_keeps_its_reservation() -> None:
    queues, plugins = a_stamped_world()
    queues.placed("a")
    queues.engine.unplaced("u-a")
    queues.placed("a")
    queues.apply(stamped(a_task("a", 2, queue="q", node_name="n"), "q"))
    queues.admit()
    assert plugins.log == ["reserve a in q"]


def test_a_new_engine_restores_the_reservations_of_stamped_and_bound_pods() -> None:
    bound = a_task("b", queue="q", opted_in=False, node_name="n")
    gone = a_task("g", queue="q", node_name="n", gates=(), is_terminal_or_terminating=True)
    queues, plugins = with_plugins(a_queue("q", 9), stamped(a_task("a", queue="q"), "q"), bound, gone, a_task("w"))
    assert queues.admit() == ["w"]
    assert plugins.log == ["restore a in q", "restore b in q", "reserve w in default"]


def test_a_larger_promise_to_a_resized_pod_is_not_a_new_reservation() -> None:
    queues, plugins = with_plugins(a_queue("q", 4), a_task("a", queue="q"), a_task("b", queue="q"))
    queues.admit()
    queues.apply(a_task("a", 3, queue="q"))
    plugins.closed = {"a"}
    assert queues.admit() == ["a"]
    assert queues.usage("q") == (0, 4000)
    assert plugins.log == ["reserve a in q", "reserve b in q"]


def test_a_bound_pod_that_moves_to_another_queue_is_released_and_restored_there() -> None:
    queues, plugins = with_plugins(
        a_queue("q", 4), a_queue("r", 4), a_task("a", queue="q", opted_in=False, node_name="n")
    )
    queues.admit()
    queues.apply(a_task("a", queue="r", opted_in=False, node_name="n"))
    queues.admit()
    assert plugins.log == ["restore a in q", "release a", "restore a in r"]


def test_members_of_a_gang_are_released_one_by_one() -> None:
    queues, plugins = with_plugins(a_queue("q", 9), a_group("g", "q", minimum=2), *a_gang("g", 2))
    assert queues.admit() == ["g-0", "g-1"]
    queues.placed("g-0", "g-1")
    queues.engine.task_removed("u-g-0")
    queues.admit()
    assert plugins.log == ["reserve g-0+g-1 in q of g", "release g-0"]


# Order


def ordered(**keys: Key) -> tuple[Queues, FakePlugins]:
    option = PluginOption("Fake", external_points=("queueOrder", "jobOrder"))
    conf = msgspec.structs.replace(DEFAULTS, tiers=((option,), *DEFAULTS.tiers))
    plugins = FakePlugins(keys=keys)
    return Queues(a_queue("q", 99), conf=conf, plugins=plugins), plugins


def test_the_key_of_a_plugin_in_the_first_tier_comes_before_the_priority() -> None:
    queues, _ = ordered(a=(3,), b=(2,), g=(1,))
    queues.apply(a_task("a", queue="q", priority=9), a_task("b", queue="q"), a_group("g", "q", minimum=2))
    queues.apply(*a_gang("g", 2))
    assert queues.admit() == ["g-0", "g-1", "b", "a"]


def test_a_pod_gets_another_place_when_its_key_changes() -> None:
    queues, plugins = ordered(a=(1,), b=(2,))
    queues.apply(a_queue("q", 1), a_task("a", queue="q"), a_task("b", queue="q"))
    assert queues.engine.position("u-b") == 1
    plugins.keys = {"a": (1,), "b": (0,)}
    queues.engine.reorder("u-b")
    assert queues.engine.position("u-b") == 0
    assert queues.admit() == ["b"]


def test_without_plugins_nothing_is_kept() -> None:
    engine = Queues(a_queue("q", 9), a_task("a", queue="q")).engine
    engine.admit(1.0, 10)
    assert engine._cache.admission is None
    assert engine.changed_holds() == []


# Fields of groups that are not supported


HARD: dict[str, Any] = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}


@pytest.mark.parametrize("topology", [HARD["networkTopology"], {"highestTierAllowed": 2}])
def test_a_group_with_hard_network_topology_waits_with_a_reason(topology: dict[str, Any]) -> None:
    queues = Queues(a_queue("q", 9), a_group("g", "q", minimum=2, networkTopology=topology), *a_gang("g", 2))
    assert queues.admit() == []
    assert queues.wait_reason("g-0") is WaitReason.NOT_SUPPORTED
    assert queues.wait_message("g-0") == (
        "its PodGroup g is held: spec.networkTopology: hard network topology is not supported: its pods wait; "
        "with mode soft they are placed without regard to it"
    )
    assert queues.engine.problems() == {}
    queues.apply(a_group("g", "q", minimum=2, networkTopology={"mode": "soft"}))
    assert queues.admit() == ["g-0", "g-1"]


def test_pods_on_nodes_stay_when_their_group_asks_for_hard_network_topology() -> None:
    queues = Queues(a_queue("q", 9), a_group("g", "q", minimum=1), *a_gang("g", 2))
    assert queues.admit() == ["g-0", "g-1"]
    queues.apply(a_task("g-0", group="g", node_name="n", gates=()))
    queues.apply(a_group("g", "q", minimum=1, **HARD))
    assert queues.admit() == []
    assert queues.usage("q") == (1000, 0)
    assert queues.wait_reason("g-0") is None
    assert queues.wait_reason("g-1") is WaitReason.NOT_SUPPORTED


def test_an_explanation_says_which_field_of_the_group_has_to_change() -> None:
    pod = {
        "metadata": {"name": "g-0", "namespace": "ns", "uid": "u-g-0", "annotations": {OPT_IN: "true"}},
        "spec": {"schedulerName": "headgate", "schedulingGates": [{"name": GATE}]},
    }
    engine = Queues(a_queue("q", 9), a_group("g", "q", minimum=1, **HARD), *a_gang("g", 1)).engine
    explanation = explain(pod, engine, {"cpu": 1000}, [PodGate(GATE)], ("headgate",))
    (hold,) = explanation.holds
    assert (hold.kind, hold.why) == ("group", "PodGroupNotSupported")
    assert explanation.next == ("that field of its PodGroup has to be changed or removed",)
