"""Queue plugins that do the worst that Python allows: one unit waits with a reason, and all others go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from headgate.capacity.engine import AdmissionUnit
from headgate.cli.commands.config import command as config_command
from headgate.cli.wiring.plugins import find_plugins
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.config.volcano_conf import parse_volcano_conf
from headgate.scheduling.framework import (
    DELETE,
    QUEUE_RESERVATION,
    ClusterEvent,
    ClusterEventWithHint,
    QueueUnit,
    Rejection,
    on,
    own_update,
)
from headgate.scheduling.framework.plugin_timers import ProfileTimers
from headgate.scheduling.framework.signature_checks import problems
from headgate.scheduling.gates.queue_plugins import MAX_CALL_S, QueuePluginRunner
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod, a_pod_group, a_queue
from unit.plugins.hostile_values import RAISED, Recursive, recurse

NAME = "Hostile"
ASKED = ("admit_unit", "reserve_unit", "unit_order_key")


async def later(*args: Any) -> None: ...


def yielding(*args: Any) -> Any:
    yield None


def changing(unit: QueueUnit, *args: Any) -> None:
    unit.queue = "another"  # type: ignore[misc]  # the type checker of others may be off


WRONG: dict[str, Callable[..., Any]] = {
    "True": lambda *args: True,
    "False": lambda *args: False,
    "a text": lambda *args: "closed",
    "a number": lambda *args: 0,
    "a value that cannot be shown": lambda *args: Recursive(),
    "the class": lambda *args: Rejection,
    "recursion": recurse,
    "a coroutine": later,
    "a generator": yielding,
    "a change of its view": changing,
}
WRONG_REJECTIONS: dict[str, Callable[[], Any]] = {
    "of another plugin": lambda: Rejection("Other", "no"),
    "no text": lambda: Rejection(NAME, None),  # type: ignore[arg-type]  # plugins of others are not type-checked
    "a list of wakers": lambda: Rejection(NAME, "no", [ClusterEventWithHint(("a", "b"))]),  # type: ignore[arg-type]
    "a topic that is no tuple": lambda: Rejection(NAME, "no", (ClusterEventWithHint([]),)),  # type: ignore[arg-type]
    "NaN": lambda: Rejection(NAME, "no", look_again_s=float("nan")),
    "no time": lambda: Rejection(NAME, "no", look_again_s=0.0),
    "a time in the past": lambda: Rejection(NAME, "no", look_again_s=-1.0),
    "infinity": lambda: Rejection(NAME, "no", look_again_s=float("inf")),
    "expires": lambda: Rejection(NAME, "no", expires=None),  # type: ignore[arg-type]  # as above
}
WRONG_KEYS: dict[str, Callable[..., Any]] = {
    "None": lambda *args: None,
    "a list": lambda *args: [1],
    "NaN": lambda *args: (float("nan"),),
    "a dictionary": lambda *args: ({},),
    "no end": lambda *args: (((((((((((1,),),),),),),),),),),),
}


def a_plugin(**methods: Callable[..., Any]) -> Any:
    """Each method misbehaves for units with a pod that begins with ``bad``, and is correct for others."""

    def method(name: str, bad: Callable[..., Any]) -> Any:
        def called(self: Any, about: Any, *more: Any) -> Any:
            pods = about.pods if isinstance(about, QueueUnit) else (about,)
            if any(pod.name.startswith("bad") for pod in pods):
                return bad(about, *more)
            return (0,) if name == "unit_order_key" else None

        return called

    members: dict[str, Any] = {"name": NAME}
    if "reserve_unit" in methods or "release_pod" in methods:
        members |= {"reserve_unit": lambda self, *args: None, "release_pod": lambda self, *args: None}
    return type(NAME, (), members | {name: method(name, bad) for name, bad in methods.items()})()


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise error

    return raises


def tried(plugin: Any, *more: Any) -> VirtualScheduler:
    """A pod and a gang with which the plugin misbehaves, and three pods."""
    scheduler = VirtualScheduler(plugin, *more)
    scheduler.apply_node(a_node("node-a"), a_node("node-b"))
    scheduler.apply_queue(a_queue("q", capability={"cpu": "100"}))
    scheduler.apply_pod_group(a_pod_group("gang", 2, queue="q", minResources={"cpu": "99"}))
    scheduler.apply_pod(
        a_pod("bad", queue="q", gated=True),
        a_pod("bad-too", queue="q"),
        *(a_pod(f"bad-{i}", group="gang", gated=True) for i in range(2)),
        *(a_pod(f"good{i}", queue="q", gated=bool(i), requests={"cpu": "1"}) for i in range(3)),
    )
    scheduler.advance(5)
    return scheduler


def others_are_bound_and_it_is_told(scheduler: VirtualScheduler) -> str:
    """The message of the pod's condition, as it can be written."""
    assert [scheduler.node_of(f"good{i}") is not None for i in range(3)] == [True] * 3
    for name in ("bad", "bad-too", "bad-0", "bad-1"):
        assert scheduler.node_of(name) is None
        condition = scheduler.condition(name)
        assert condition is not None
        assert condition["reason"] == ("SchedulerError" if name == "bad-too" else "SchedulingGated")
        assert len(msgspec.json.encode(condition)) < 10_000
        assert NAME in condition["message"]
        assert all(msgspec.json.encode(each) for each in scheduler.events(name))
        assert [each.split(":")[0] for each in scheduler.events(name)] == ["FailedScheduling"]
    assert scheduler.log
    assert all(NAME in line and len(line) < 6000 for line in scheduler.log)
    condition = scheduler.condition("bad")
    assert condition is not None
    return str(condition["message"])


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("method", ASKED)
def test_any_exception_holds_one_unit(method: str, error: BaseException) -> None:
    others_are_bound_and_it_is_told(tried(a_plugin(**{method: raising(error)})))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("method", ASKED)
def test_an_invalid_result_holds_one_unit(method: str, wrong: Callable[..., Any]) -> None:
    others_are_bound_and_it_is_told(tried(a_plugin(**{method: wrong})))


@pytest.mark.parametrize("rejection", WRONG_REJECTIONS.values(), ids=WRONG_REJECTIONS)
@pytest.mark.parametrize("method", ["admit_unit", "reserve_unit"])
def test_an_invalid_rejection_holds_one_unit(method: str, rejection: Callable[[], Any]) -> None:
    message = others_are_bound_and_it_is_told(tried(a_plugin(**{method: lambda *args: rejection()})))
    assert "InvalidPluginResult" in message


@pytest.mark.parametrize("key", WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_an_invalid_sort_key_holds_one_unit(key: Callable[..., Any]) -> None:
    message = others_are_bound_and_it_is_told(tried(a_plugin(unit_order_key=key)))
    assert message.startswith(f'running QueueOrder plugin "{NAME}": InvalidPluginResult: returned')


def test_sort_keys_of_different_types_are_comparable() -> None:
    class Mixed:
        name = "Mixed"

        def unit_order_key(self, unit: QueueUnit) -> tuple[Any, ...]:
            return {"a": (b"x",), "b": ("x",), "c": (1, 2), "d": ((1,),), "e": (True,)}[unit.pods[0].name]

    scheduler = VirtualScheduler(Mixed())
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(*(a_pod(name) for name in "abcde"))
    scheduler.run()
    assert [scheduler.node_of(name) for name in "abcde"] == ["node-a"] * 5
    assert scheduler.log == []


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
def test_any_exception_of_release_pod_is_logged_and_the_next_pod_gets_the_capacity(error: BaseException) -> None:
    scheduler = VirtualScheduler(a_plugin(release_pod=raising(error)))
    scheduler.apply_node(a_node("node-a", cpu="1"))
    scheduler.apply_queue(a_queue("q", capability={"cpu": "1"}))
    scheduler.apply_pod(a_pod("bad", queue="q", gated=True, requests={"cpu": "1"}))
    scheduler.run()
    scheduler.apply_pod(a_pod("next", queue="q", gated=True, requests={"cpu": "1"}))
    scheduler.run()
    scheduler.delete_pod("bad")
    scheduler.run()
    assert scheduler.node_of("next") == "node-a"
    assert len(scheduler.log) == 1
    assert scheduler.log[0].startswith(f"plugin {NAME} failed in release_pod on pod default/bad")


@pytest.mark.parametrize("wrong", [WRONG[name] for name in ("True", "a text", "a coroutine", "a generator")])
def test_an_invalid_result_of_release_pod_is_logged(wrong: Callable[..., Any]) -> None:
    scheduler = VirtualScheduler(a_plugin(release_pod=wrong))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(a_pod("bad"))
    scheduler.run()
    scheduler.delete_pod("bad")
    scheduler.run()
    assert "InvalidPluginResult: returned" in scheduler.log[0]


def test_a_hint_that_fails_is_logged_and_the_unit_is_asked_about_again() -> None:
    class Broken:
        def matches(self, event: Any) -> bool:
            raise ValueError("no")

    asked: list[str] = []

    def admit(unit: QueueUnit, now_s: float) -> Rejection:
        asked.append(unit.pods[0].name)
        return Rejection(NAME, "closed", on("Node", "Add", guard=Broken()), expires=False)

    scheduler = VirtualScheduler(a_plugin(admit_unit=admit))
    scheduler.apply_pod(a_pod("bad"))
    scheduler.run()
    scheduler.apply_node(a_node("node-a"))
    scheduler.run()
    assert asked == ["bad", "bad"]
    assert "matches of a queueing hint: ValueError: no" in scheduler.log[0]


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("admit_unit", "admit_unit is async: the scheduler calls admit_unit(unit, now_s) and does not await it"),
        ("reserve_unit", "reserve_unit is async: the scheduler calls reserve_unit(unit, now_s) and does not await it"),
        ("release_pod", "release_pod is async: the scheduler calls release_pod(pod, queue, now_s) and does not"),
        ("unit_order_key", "unit_order_key is async: the scheduler calls unit_order_key(unit) and does not await it"),
    ],
)
def test_an_async_method_is_refused(method: str, problem: str) -> None:
    async def called(self: Any, *args: Any) -> None: ...

    plugin = type(NAME, (), {"name": NAME, "reserve_unit": later, "release_pod": later, method: called})()
    assert any(each.startswith(problem) for each in problems(plugin, NAME))
    with pytest.raises(ValueError, match="is async"):
        VirtualScheduler(plugin)


def test_wrong_signatures_and_missing_methods_are_refused() -> None:
    class Wrong:
        name = NAME
        release_pod = None

        def admit_unit(self, unit: Any) -> None: ...

        def reserve_unit(self, unit: Any, now_s: float, more: int) -> None: ...

        def unit_order_key(self) -> Any:
            yield ()

    assert problems(Wrong(), NAME) == [
        "admit_unit(unit: 'Any') -> 'None' cannot be called as admit_unit(unit, now_s)",
        "reserve_unit(unit: 'Any', now_s: 'float', more: 'int') -> 'None' cannot be called as "
        "reserve_unit(unit, now_s)",
        "it has reserve_unit but no release_pod",
        "unit_order_key yields: unit_order_key(unit) must return its answer",
        "unit_order_key() -> 'Any' cannot be called as unit_order_key(unit)",
    ]

    class Forgetful:
        name = NAME

        def release_pod(self, pod: Any, queue: str, now_s: float) -> None: ...

    assert problems(Forgetful(), NAME) == ["it has release_pod but no reserve_unit"]


# Calls that take too long


class Watch:
    """A clock that a slow plugin moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def a_pod_info(name: str) -> PodInfo:
    read = read_pod(a_pod(name), ShapeTable())
    assert isinstance(read, PodInfo)
    return read


def one_unit(*names: str) -> AdmissionUnit:
    return AdmissionUnit("q", ("root",), "default", "", tuple(f"uid-default-{name}" for name in names))


class Slow:
    """``took_s``: how long each call takes, by method."""

    name = "Slow"

    def __init__(self, watch: Watch, **took_s: float) -> None:
        self.watch, self.took_s = watch, took_s
        self.calls: list[str] = []

    def _take(self, method: str) -> None:
        self.watch.now_s += self.took_s.get(method, 0.0)
        self.calls.append(method)

    def admit_unit(self, unit: QueueUnit, now_s: float) -> None:
        self._take("admit_unit")

    def reserve_unit(self, unit: QueueUnit, now_s: float) -> None:
        self._take("reserve_unit")

    def release_pod(self, pod: PodInfo, queue: str, now_s: float) -> None:
        self._take("release_pod")

    def unit_order_key(self, unit: QueueUnit) -> tuple[int]:
        self._take("unit_order_key")
        return (1,)


def runner_with(*plugins: Any, watch: Watch) -> tuple[QueuePluginRunner, SchedulerMetrics]:
    metrics = SchedulerMetrics(watch)
    runner = QueuePluginRunner(plugins, metrics.timers(""))
    for name in ("a", "b"):
        runner.pod_applied(a_pod_info(name))
    return runner, metrics


@pytest.mark.parametrize(
    ("method", "point", "calls"),
    [
        ("admit_unit", "QueueAdmission", ["admit_unit"]),
        ("reserve_unit", "QueueReserve", ["admit_unit", "reserve_unit", "release_pod"]),
    ],
)
def test_a_call_that_takes_too_long_holds_the_unit_and_reserves_nothing(
    method: str, point: str, calls: list[str]
) -> None:
    watch = Watch()
    first, slow = Slow(watch), Slow(watch, **{method: MAX_CALL_S + 0.5})
    first.name = "First"
    runner, metrics = runner_with(first, slow, watch=watch)
    reason = runner.admit(one_unit("a"), 0.0, 0.0)
    assert reason == f'running {point} plugin "Slow": TimeoutError: {method} took 1.5 s, and may take 1 s'
    assert slow.calls == calls
    assert first.calls.count("reserve_unit") == first.calls.count("release_pod")
    assert runner.is_error("uid-default-a")
    assert any("Slow failed in" in each for each in metrics.plugin_failures.messages(0.0))
    assert any("plugin Slow is slow" in each for each in metrics.slow_calls.messages())
    slow.took_s = {}
    assert runner.admit(one_unit("b"), 0.0, 0.0) == ""


def test_a_sort_key_that_takes_too_long_holds_the_unit() -> None:
    watch = Watch()
    slow = Slow(watch, unit_order_key=2.0)
    runner, _ = runner_with(slow, watch=watch)
    runner.order_keys(one_unit("a"))
    assert runner.admit(one_unit("a"), 0.0, 0.0).startswith(
        'running QueueOrder plugin "Slow": TimeoutError: unit_order_key'
    )
    assert runner.next_deadline_s() == 300.0
    slow.took_s = {}
    assert runner.ended_holds(300.0) == ["uid-default-a"]
    runner.order_keys(one_unit("a"))
    assert runner.admit(one_unit("a"), 300.0, 300.0) == ""


def test_a_slow_release_counts_as_done() -> None:
    watch = Watch()
    slow = Slow(watch, release_pod=2.0)
    runner, metrics = runner_with(slow, watch=watch)
    assert runner.admit(one_unit("a"), 0.0, 0.0) == ""
    runner.release("uid-default-a", 0.0)
    runner.release("uid-default-a", 0.0)
    assert slow.calls == ["admit_unit", "reserve_unit", "release_pod"]
    assert any("release_pod took 2.0 s" in each for each in metrics.plugin_failures.messages(0.0))


# Plugins that would keep the scheduler busy


def test_a_plugin_that_asks_to_be_called_at_once_is_called_ten_times_a_second_at_most() -> None:
    asked = []

    def admit(unit: QueueUnit, now_s: float) -> Rejection:
        asked.append(now_s)
        return Rejection(NAME, "soon", look_again_s=1e-9)

    scheduler = VirtualScheduler(a_plugin(admit_unit=admit))
    scheduler.apply_pod(a_pod("bad"))
    scheduler.run()
    assert len(asked) == 1
    scheduler.advance(1.0)
    assert len(asked) <= 11


def test_a_reservation_that_fails_again_and_again_wakes_no_unit_by_its_own_undoing() -> None:
    class First:
        name = "First"
        calls = 0

        def reserve_unit(self, unit: QueueUnit, now_s: float) -> None:
            First.calls += 1

        def release_pod(self, pod: PodInfo, queue: str, now_s: float) -> None: ...

    def reserve(unit: QueueUnit, now_s: float) -> Rejection:
        return Rejection(NAME, "full", on(QUEUE_RESERVATION, DELETE), expires=False)

    scheduler = VirtualScheduler(First(), a_plugin(reserve_unit=reserve))
    scheduler.apply_pod(a_pod("bad"), a_pod("bad-too"))
    scheduler.advance(3600)
    assert First.calls == 2


def test_events_with_strange_fields_wake_nothing_and_raise_nothing() -> None:
    runner, _ = runner_with(Slow(Watch()), watch=Watch())
    runner.event_happened(ClusterEvent("x", "y", target="unknown"))
    assert runner.next_deadline_s() is None


def test_a_plugin_that_recovers_is_asked_again_after_five_minutes_or_an_update_of_the_pod() -> None:
    broken = {"bad": True, "bad-too": True}

    def admit(unit: QueueUnit, now_s: float) -> None:
        if broken[unit.pods[0].name]:
            raise ValueError("broken")

    scheduler = VirtualScheduler(a_plugin(admit_unit=admit))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(a_pod("bad"), a_pod("bad-too"))
    scheduler.advance(60)
    broken.clear()
    broken |= {"bad": False, "bad-too": False}
    scheduler.apply_pod(a_pod("bad", labels={"a": "b"}))
    scheduler.run()
    assert (scheduler.node_of("bad"), scheduler.node_of("bad-too")) == ("node-a", None)
    scheduler.advance(240)
    assert scheduler.node_of("bad-too") == "node-a"


def test_own_updates_of_a_member_wake_its_gang() -> None:
    allowed: set[str] = set()

    def admit(unit: QueueUnit, now_s: float) -> Rejection | None:
        if any(pod.labels.get("go") for pod in unit.pods):
            return None
        return Rejection(NAME, "no label", own_update(), expires=False)

    scheduler = VirtualScheduler(a_plugin(admit_unit=admit))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod_group(a_pod_group("gang", 2))
    scheduler.apply_pod(a_pod("bad-0", group="gang", gated=True), a_pod("bad-1", group="gang", gated=True))
    scheduler.advance(10)
    assert not allowed
    assert scheduler.node_of("bad-0") is None
    scheduler.apply_pod(a_pod("bad-1", group="gang", gated=True, labels={"go": "yes"}))
    scheduler.run()
    assert [scheduler.node_of(f"bad-{i}") for i in range(2)] == ["node-a", "node-a"]


# Configuration


class Seats:
    name = "Seats"

    def __init__(self, args: Mapping[str, Any]) -> None:
        if set(args) - {"rows"}:
            raise ValueError("there is only 'rows'")

    def admit_unit(self, unit: QueueUnit, now_s: float) -> None: ...

    def unit_order_key(self, unit: QueueUnit) -> tuple[int]:
        return (1,)


class AsyncSeats(Seats):
    name = "AsyncSeats"

    async def admit_unit(self, unit: QueueUnit, now_s: float) -> None: ...  # type: ignore[override]


class Nodes:
    name = "Nodes"

    def __init__(self, args: Mapping[str, Any]) -> None: ...

    def pre_enqueue(self, pod: Any) -> None: ...


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(each.__name__, f"{__name__}:{each.__name__}", "headgate.plugins") for each in PLUGINS]
    found = find_plugins(entries)
    assert not found.problems
    monkeypatch.setattr("headgate.cli.commands.config.find_plugins", lambda: found)


PLUGINS = (Seats, AsyncSeats, Nodes)
CONF = "actions: allocate\ntiers:\n- plugins:\n  - name: {}\n    arguments: {}\n  - name: capacity\n"
KUBE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{{}: {{enabled: [{{name: {}}}]}}}}
"""


def checked(tmp_path: Path, text: str) -> tuple[int, str]:
    file = tmp_path / "file"
    file.write_text(text)
    done = CliRunner().invoke(config_command, ["check", str(file)])
    return done.exit_code, done.stdout


@pytest.mark.usefixtures("installed")
def test_a_tier_may_name_a_queue_plugin_and_the_check_prints_its_points(tmp_path: Path) -> None:
    code, printed = checked(tmp_path, CONF.format("Seats", "{rows: 3}"))
    assert code == 0
    rows = [line.split() for line in printed.splitlines() if line.startswith("  ")]
    assert ["queueAdmission", "Seats"] in rows
    assert ["queueOrder", "capacity"] in rows, "the order of queues"
    assert ["queueOrder", "of", "units", "Seats"] in rows, "the order of units in a queue"
    assert ["queueReserve", "-"] in rows
    assert ["jobOrder", "Seats"] in rows
    assert sum(row[0] == "queueOrder" and row[1] != "of" for row in rows) == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CONF.format("Seats", "{windows: 3}"), "Seats.arguments: Invalid value: "),
        (CONF.format("AsyncSeats", "{}"), "admit_unit is async"),
        (CONF.format("Nodes", "{}"), "the plugin serves no extension point of queues"),
        (CONF.format("Seat", "{}"), "no such plugin: is it Seats?"),
        (KUBE.format("multiPoint", "Seats"), "name it in a tier of a volcano-scheduler.conf"),
        (KUBE.format("filter", "Seats"), "the plugin does not serve filter; it serves queueAdmission, queueOrder"),
    ],
)
def test_config_check_refuses(tmp_path: Path, text: str, problem: str) -> None:
    code, printed = checked(tmp_path, text)
    assert code == 1
    assert problem in printed


def test_the_order_of_a_queue_plugin_can_be_switched_off_in_its_tier() -> None:
    registry = find_plugins([EntryPoint("Seats", f"{__name__}:Seats", "headgate.plugins")]).registry
    plugin = {"name": "Seats", "enableJobOrder": False}
    read = parse_volcano_conf({"actions": "allocate", "tiers": [{"plugins": [plugin]}]}, registry)
    assert not isinstance(read, list)
    assert read.conf.order("jobOrder") == ()
    assert [each.name for each in read.conf.external_plugins] == ["Seats"]


def test_timers_without_a_clock_never_find_a_call_slow() -> None:
    runner = QueuePluginRunner([Slow(Watch(), admit_unit=100.0)], ProfileTimers())
    runner.pod_applied(a_pod_info("a"))
    assert runner.admit(one_unit("a"), 0.0, 0.0) == ""
