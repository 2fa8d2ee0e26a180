"""Plugins that reject, wait, fail or return invalid results after PreEnqueue are named in conditions, Events and the
log."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework import (
    READS_NODE,
    APIResource,
    ClusterEventWithHint,
    ObjectPatch,
    PermitWait,
    PreBindPending,
    PreFilterResult,
    Rejection,
    named,
    own_update,
)
from headgate.scheduling.framework.plugin_failures import PluginFailures
from headgate.scheduling.framework.result_checks import printable
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod

NAME = "Zoo"
CONFIG_MAPS = APIResource("", "v1", "configmaps", namespaced=True)
PARTS: dict[str, dict[str, Any]] = {
    "reserve": {"unreserve": lambda self, pod, node_name: None},
    "filter": {"reads": READS_NODE, "reasons": lambda self, shape: ()},
    "reasons": {"reads": READS_NODE, "filter": lambda self, shape, matrix, rows, state: np.ones(matrix.size, int)},
    "awaited": {"timeout_s": 30.0, "pre_bind": lambda self, pod, node_name: ()},
    "key": {"pre_filter": lambda self, pod, matrix: None},
    "matches": {},
}


def a_plugin(**methods: Callable[..., Any]) -> Any:
    members: dict[str, Any] = {"name": NAME}
    for name, method in methods.items():
        members |= {**PARTS.get(name, {}), name: method}
    return type(NAME, (), members)()


def returning(value: Any) -> Callable[..., Any]:
    return lambda self, *args: value


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(self: Any, *args: Any) -> Any:
        raise error

    return raises


def tried(plugin: Any, seconds: float = 0.5, **more: Any) -> VirtualScheduler:
    scheduler = VirtualScheduler(plugin, **more)
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(a_pod("p"))
    scheduler.advance(seconds)
    return scheduler


def message(scheduler: VirtualScheduler) -> str:
    condition = scheduler.condition("p")
    assert condition is not None
    return f"{condition['reason']}: {condition['message']}"


# Names


@pytest.mark.parametrize(("method", "point"), [("reserve", "Reserve"), ("permit", "Permit"), ("pre_bind", "PreBind")])
@pytest.mark.parametrize(("reason", "told"), [("plain no", "plain no"), ("", "no reason given")])
def test_a_rejection_after_the_choice_of_a_node_names_the_plugin(
    method: str, point: str, reason: str, told: str
) -> None:
    scheduler = tried(a_plugin(**{method: returning(Rejection(NAME, reason, own_update()))}))
    assert message(scheduler) == f'Unschedulable: {point} plugin "Zoo": {told}'
    assert scheduler.events("p") == [f'FailedScheduling: {point} plugin "Zoo": {told}']


def test_a_long_wait_on_permit_sets_a_condition_that_names_the_plugin() -> None:
    scheduler = tried(a_plugin(permit=returning(PermitWait(1e9))), seconds=9)
    assert scheduler.condition("p") is None
    scheduler.advance(2)
    expected = 'Permit plugin "Zoo": the pod waits on permit for node node-a, for 1e+09 s at most'
    assert message(scheduler) == f"WaitingOnPermit: {expected}"
    assert scheduler.events("p") == [f"WaitingOnPermit: {expected}"]


def test_a_long_wait_before_the_binding_and_its_timeout_name_the_plugin() -> None:
    scheduler = tried(a_plugin(awaited=returning(PreBindPending(own_update()))), seconds=11)
    assert message(scheduler).startswith('WaitingOnPreBind: PreBind plugin "Zoo": ')
    scheduler.advance(20)
    expected = 'running PreBind plugin "Zoo": timed out waiting for the work that was started before binding'
    assert message(scheduler) == f"SchedulerError: {expected}"


def test_a_timeout_on_permit_names_the_plugin() -> None:
    scheduler = tried(a_plugin(permit=returning(PermitWait(3))), seconds=3.5)
    assert message(scheduler) == 'Unschedulable: Permit plugin "Zoo": timed out waiting on permit'


@pytest.mark.parametrize(
    ("method", "error", "told"),
    [
        ("pre_filter", SystemExit(3), 'running PreFilter plugin "Zoo": SystemExit: 3'),
        ("key", KeyError("k"), "running key plugin \"Zoo\": KeyError: 'k'"),
        ("reasons", KeyError("r"), "running reasons plugin \"Zoo\": KeyError: 'r'"),
    ],
)
def test_a_message_about_an_exception_has_its_type(method: str, error: BaseException, told: str) -> None:
    assert message(tried(a_plugin(**{method: raising(error)}))) == f"SchedulerError: {told}"


# The log


@pytest.mark.parametrize(
    "method", ["pre_filter", "filter", "pre_score", "reserve", "permit", "pre_bind", "awaited", "bind", "pre_enqueue"]
)
def test_an_exception_is_logged_once_with_its_location_in_the_plugin(method: str) -> None:
    disabled = ("DefaultBinder",) if method == "bind" else ()
    scheduler = tried(a_plugin(**{method: raising(ValueError("boom"))}), 50, disabled=disabled)
    (line,) = scheduler.log
    assert line.startswith(f"plugin Zoo failed in {method} on pod default/p: ValueError: boom at {__file__}:")
    scheduler.advance(400)
    assert 2 <= len(scheduler.log) <= 9
    assert "such failures since the last message" in scheduler.log[1] or scheduler.log[1:] == [line]


def test_an_invalid_result_of_post_filter_is_logged_with_the_location_of_the_method() -> None:
    scheduler = VirtualScheduler(a_plugin(post_filter=returning(True)))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(a_pod("p", requests={"cpu": "100"}))
    scheduler.advance(1)
    (line,) = scheduler.log
    assert line.startswith(
        "plugin Zoo failed in post_filter on pod default/p: InvalidPluginResult: returned True (bool)"
    )
    assert f" at {__file__}:" in line


def test_texts_that_vary_do_not_flood_the_log() -> None:
    failures = PluginFailures()
    plugin = a_plugin()
    lines = []
    for number in range(1000):
        failures.failed(plugin, "applied", ValueError(f"<object at {number:#x}>"))
        lines += failures.messages(now_s=number / 10)
    assert len(lines) == 2
    assert lines[1].endswith("(600 such failures since the last message)")


def test_a_failure_that_does_not_come_again_is_logged_once() -> None:
    failures = PluginFailures()
    failures.failed(a_plugin(), "applied", ValueError("no"))
    assert [len(failures.messages(now_s)) for now_s in (0.0, 61.0, 1000.0)] == [1, 0, 0]


def test_each_plugin_and_each_extension_point_has_its_own_messages() -> None:
    failures = PluginFailures()
    for plugin in (a_plugin(), type("Park", (), {"name": "Park"})()):
        for method in ("applied", "removed", "applied"):
            failures.failed(plugin, method, ValueError("no"))
    assert [line.partition(":")[0] for line in failures.messages(now_s=0.0)] == [
        "plugin Zoo failed in applied",
        "plugin Zoo failed in removed",
        "plugin Park failed in applied",
        "plugin Park failed in removed",
    ]


def test_the_number_of_failure_groups_is_limited() -> None:
    failures = PluginFailures()
    for number in range(5000):
        failures.failed(a_plugin(), "applied", type(f"Error{number}", (Exception,), {})("no"))
    assert len(failures.messages(0.0)) == 1001


def test_control_characters_of_a_text_are_escaped() -> None:
    assert printable("a\x00b\nc\x1b[31m\u202e\x85d é") == "a\\x00b\\nc\\x1b[31m\\u202e\\x85d é"
    scheduler = tried(a_plugin(pre_enqueue=returning(Rejection(NAME, "two\nlines\x1b[2J", own_update()))), 2)
    assert message(scheduler) == 'PreEnqueueRejected: PreEnqueue plugin "Zoo": two\\nlines\\x1b[2J'


# Guards


def test_a_guard_without_matches_is_an_invalid_result() -> None:
    guard: Any = "notaguard"
    scheduler = tried(a_plugin(pre_enqueue=returning(Rejection(NAME, "no", own_update(guard)))), 2)
    assert "a tuple of ClusterEventWithHint whose guards have a method matches(event)" in message(scheduler)


@pytest.mark.parametrize("matches", [returning("yes"), returning(None), raising(ValueError("boom"))])
def test_a_guard_that_fails_lets_the_event_pass_and_is_logged(matches: Callable[..., Any]) -> None:
    asked: list[str] = []
    guard = type("Guard", (), {"matches": matches})()

    def pre_enqueue(self: Any, pod: Any) -> Rejection:
        asked.append(pod.name)
        return Rejection(NAME, "no", own_update(guard), expires=False)

    scheduler = tried(a_plugin(pre_enqueue=pre_enqueue))
    scheduler.apply_pod(a_pod("p", labels={"a": "b"}))
    scheduler.run()
    assert len(asked) == 2
    assert [line.partition(":")[0] for line in scheduler.log] == ["plugin Zoo failed in matches of a queueing hint"]


def test_a_guard_may_return_numpy_booleans() -> None:
    guard: Any = type("Guard", (), {"matches": returning(np.bool_(False))})()
    assert ClusterEventWithHint(("x",), guard).guard is guard
    scheduler = tried(a_plugin(pre_enqueue=returning(Rejection(NAME, "no", own_update(guard)))))
    scheduler.apply_pod(a_pod("p", labels={"a": "b"}))
    scheduler.run()
    assert scheduler.log == []


# Own writes


def test_a_pod_is_not_woken_by_the_condition_that_the_scheduler_wrote() -> None:
    asked: list[str] = []

    def pre_enqueue(self: Any, pod: Any) -> Rejection:
        asked.append(pod.name)
        return Rejection(NAME, f"asked {len(asked)}", own_update(), expires=False)

    scheduler = tried(a_plugin(pre_enqueue=pre_enqueue), 60)
    assert len(asked) == 1
    assert message(scheduler).endswith("asked 1")
    scheduler.apply_pod(a_pod("p", labels={"a": "b"}))
    scheduler.advance(60)
    assert len(asked) == 2


# Values


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_express_is_an_invalid_result(number: float) -> None:
    write = ObjectPatch(CONFIG_MAPS, "default", "c", "uid-c", {"data": [{"x": number}]})
    scheduler = tried(a_plugin(pre_bind=returning([write])))
    assert "body of ObjectPatch must be a mapping that JSON can express" in message(scheduler)


def test_the_columns_of_the_matrix_cannot_be_written_to() -> None:
    def spoils(self: Any, shape: Any, matrix: Any, rows: Any, state: Any) -> None:
        matrix.is_node[:] = False

    scheduler = VirtualScheduler(a_plugin(filter=spoils))
    scheduler.apply_node(*(a_node(f"node-{i}") for i in range(100)))
    scheduler.apply_pod(a_pod("p"))
    scheduler.run()
    assert "read-only" in message(scheduler)
    matrix = scheduler.scheduler.cluster.matrix
    assert int(np.count_nonzero(matrix.is_node)) == 100
    for column in (matrix.is_node, matrix.unschedulable, matrix.taint_set):
        assert not column.flags.writeable


def test_a_slow_plugin_that_watches_objects_is_counted_and_named() -> None:
    moments = iter(range(1000))
    metrics = SchedulerMetrics(lambda: next(moments) * 0.1)
    plugin = a_plugin(applied=returning(()), removed=returning(()))
    type(plugin).watched = {CONFIG_MAPS: ()}
    cluster = Cluster(timers=metrics.timers(""))
    cluster.add_event_handler(plugin)
    cluster.applied(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "default"}})
    (line,) = metrics.slow_calls.messages()
    assert line.startswith("plugin Zoo is slow: 1 of its applied calls")
    assert [sample.value for sample in metrics.slow_calls.samples()] == [1]


def test_the_name_of_a_kind_in_place_of_its_resource_is_a_clear_error() -> None:
    kind: Any = "configmaps"
    with pytest.raises(TypeError, match="named takes an APIResource, not 'configmaps'"):
        named(kind)


def test_a_set_of_names_is_accepted_and_copied() -> None:
    names: Any = {"node-a"}
    scheduler = tried(a_plugin(pre_filter=returning(PreFilterResult(names))))
    assert scheduler.node_of("p") == "node-a"
