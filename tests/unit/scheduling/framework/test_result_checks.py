"""Invalid results of plugins: an error of one pod and one plugin at every extension point; other pods are not
affected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from headgate.kube.api_resources import CONFIG_MAPS
from headgate.scheduling.framework import cluster_events, result_checks
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import Bind, PreBindWrites, WriteResult
from headgate.scheduling.framework.interface import (
    READS_NODE,
    FilterReason,
    PermitWait,
    PostFilterNomination,
    PostFilterUnschedulable,
    PreBindPending,
    PreFilterRejection,
    PreFilterResult,
    Rejection,
    Skip,
)
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.queue.sort_keys import QueueSortKeys
from headgate.waiting.queueing_hints import ClusterEventWithHint, hint_matches
from unit.scheduling import pods
from unit.scheduling.world import World, a_node, a_pod

BAD = {"cpu": "2"}
GOOD = {"cpu": "1"}
NAME = "Strange"


async def coroutine() -> None:
    """What an ``async def`` returns when it is called and not awaited."""


def generator() -> Any:
    yield None


class Unhashable:
    __hash__ = None  # type: ignore[assignment]  # the very thing that is tested

    def matches(self, event: Any, /) -> bool:
        return True


UNHASHABLE: Any = Unhashable()


def is_bad(about: Any) -> bool:
    """A pod or a shape."""
    shape = getattr(about, "shape", about)
    return bool(shape.requests.get("cpu") == 2000)


def plugin(right: Any = None, **methods: Callable[[], Any]) -> Any:
    """Its methods return a new invalid result for the bad pod, and ``right`` for others."""

    def method(make: Callable[[], Any]) -> Any:
        return lambda self, *args: make() if args and is_bad(args[0]) else right

    return type(NAME, (), {"name": NAME, **{name: method(make) for name, make in methods.items()}})()


WRONG: Mapping[str, Callable[[], Any]] = {
    "True": lambda: True,
    "False": lambda: False,
    "text": lambda: "no",
    "number": lambda: 1,
    "coroutine": coroutine,
    "generator": generator,
    "list": lambda: [Rejection(NAME, "no")],
    "class": lambda: Rejection,
}
WRONG_REJECTIONS: Mapping[str, Callable[[], Any]] = {
    "another plugin": lambda: Rejection("Other", "no"),
    "no name": lambda: Rejection(None, "no"),  # type: ignore[arg-type]  # plugins of others are not type-checked
    "no reason": lambda: Rejection(NAME, None),  # type: ignore[arg-type]  # as above
    "a list of wakers": lambda: Rejection(NAME, "no", [ClusterEventWithHint("x")]),  # type: ignore[arg-type]  # as above
    "one waker": lambda: Rejection(NAME, "no", ClusterEventWithHint("x")),  # type: ignore[arg-type]  # as above
    "texts as wakers": lambda: Rejection(NAME, "no", ("x",)),  # type: ignore[arg-type]  # as above
    "a guard without a hash": lambda: Rejection(NAME, "no", (ClusterEventWithHint("x", UNHASHABLE),)),
    "a topic without a hash": lambda: Rejection(NAME, "no", (ClusterEventWithHint([]),)),  # type: ignore[arg-type]  # as above
    "text for expires": lambda: Rejection(NAME, "no", expires="no"),  # type: ignore[arg-type]  # as above
}
ANY_WRONG = {**WRONG, **WRONG_REJECTIONS}


def tried(invalid_plugin: Any) -> World:
    world = World(invalid_plugin)
    world.show(a_pod("bad", BAD), a_pod("good", GOOD))
    world.step()
    return world


@pytest.mark.parametrize("make", ANY_WRONG.values(), ids=ANY_WRONG)
def test_a_wrong_answer_of_pre_enqueue_holds_that_pod_in_the_name_of_the_plugin(make: Callable[[], Any]) -> None:
    world = tried(plugin(pre_enqueue=make))
    assert world.binds.keys() == {"good"}
    assert world.where("bad") is PodState.GATED
    queued = world.scheduler.queue.get("uid-bad")
    assert queued is not None
    assert queued.gating is not None
    assert queued.gating.plugin == NAME
    assert "InvalidPluginResult: " in queued.gating.reason


def test_the_plugin_is_called_again_when_a_held_pod_changes() -> None:
    results: list[Any] = [True, None]
    invalid_plugin = type(NAME, (), {"name": NAME, "pre_enqueue": lambda self, pod: results.pop(0)})()
    world = World(invalid_plugin)
    world.show(a_pod("p", GOOD))
    assert world.step() == []
    world.show(a_pod("p", GOOD, labels={"changed": "yes"}))
    world.step()
    assert world.binds.keys() == {"p"}


AROUND = [
    *(("reserve", id_, make) for id_, make in ANY_WRONG.items()),
    *(("permit", id_, make) for id_, make in ANY_WRONG.items()),
    ("permit", "a wait for text", lambda: PermitWait("long")),  # type: ignore[arg-type]  # as above
    ("permit", "a wait for NaN", lambda: PermitWait(float("nan"))),
    ("permit", "a wait for ever", lambda: PermitWait(float("inf"))),
    ("permit", "a wait for less than nothing", lambda: PermitWait(-1.0)),
    *(("pre_bind", id_, make) for id_, make in ANY_WRONG.items()),
    ("pre_bind", "None", lambda: None),
    *(("bind", id_, make) for id_, make in WRONG.items()),
    ("bind", "a rejection", lambda: Rejection(NAME, "no")),
]


@pytest.mark.parametrize(("method", "make"), [(m, f) for m, _, f in AROUND], ids=[f"{m}-{i}" for m, i, _ in AROUND])
def test_an_invalid_result_in_the_binding_cycle_fails_that_pod_and_frees_its_capacity(
    method: str, make: Callable[[], Any]
) -> None:
    invalid_plugin = plugin(() if method == "pre_bind" else None, **{method: make})
    if method == "reserve":
        type(invalid_plugin).unreserve = lambda self, pod, node: None
    world = World(invalid_plugin)
    if method == "bind":
        world = World(invalid_plugin, profiles=[bind_first(invalid_plugin)])
    world.show(a_pod("bad", BAD), a_pod("good", GOOD))
    world.step()
    assert world.binds.keys() == {"good"}
    assert world.where("bad") is PodState.ERROR_BACKOFF
    assert world.taken("a") + world.taken("b") == 1
    assert world.statuses["bad"].startswith(
        f'SchedulerError: running plugin "{NAME}" ({method}): InvalidPluginResult: '
    )
    assert ("bad", "FailedScheduling") in world.said


def bind_first(invalid_plugin: Any) -> dict[str, Any]:
    own = {"enabled": [{"name": invalid_plugin.name}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    return {"plugins": {"bind": own}}


def test_a_binding_of_another_pod_or_to_another_node_is_refused() -> None:
    first: list[Any] = []

    class Confused:
        name = NAME

        def bind(self, pod: Any, node_name: str, /) -> Any:
            if pod.name == "lost":
                return Bind(pod, "elsewhere")
            first.append(pod)
            return Bind(first[0], node_name)

    world = World(Confused(), profiles=[bind_first(Confused())])
    world.show(a_pod("p", GOOD), a_pod("q", GOOD), a_pod("lost", GOOD))
    world.step()
    assert len(world.binds) == 1
    assert sum("Bind of another pod" in status for status in world.statuses.values()) == 2


@pytest.mark.parametrize("make", [*WRONG.values(), lambda: None], ids=[*WRONG, "None"])
def test_an_invalid_result_of_post_bind_leaves_the_pod_bound(make: Callable[[], Any]) -> None:
    world = World(plugin((), post_bind=make))
    world.show(a_pod("bad", BAD))
    world.step()
    world.answer("bad", WriteResult.DONE)
    assert world.said == [("bad", "Scheduled")]


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_an_invalid_result_of_unreserve_is_logged_and_the_pod_frees_its_capacity(make: Callable[[], Any]) -> None:
    invalid_plugin = plugin(None, reserve=lambda: None, unreserve=make, permit=lambda: Rejection(NAME, "not today"))
    world = tried(invalid_plugin)
    assert world.binds.keys() == {"good"}
    assert world.taken("a") + world.taken("b") == 1
    assert "not today" in world.statuses["bad"]
    (problem,) = world.problems
    assert problem.startswith(f"plugin {NAME} failed in unreserve on pod default/bad: InvalidPluginResult: returned ")


@pytest.mark.parametrize("make", [*WRONG.values(), lambda: None, lambda: {"uid-held": "go"}], ids=[*WRONG, "None", "x"])
def test_a_wrong_answer_of_released_fails_the_pods_that_the_plugin_holds(make: Callable[[], Any]) -> None:
    class Holds:
        name = NAME

        def permit(self, pod: Any, node_name: str, /) -> Any:
            return PermitWait(60.0) if pod.name == "held" else None

        def released(self) -> Any:
            return make()

    world = World(Holds())
    world.show(a_pod("held", GOOD), a_pod("good", GOOD))
    world.step()
    assert world.binds.keys() == {"good"}
    assert f'running plugin "{NAME}" (released): InvalidPluginResult: ' in world.statuses["held"]


@pytest.mark.parametrize(
    ("awaited", "timeout_s"),
    [
        (True, 1.0),
        (1, 1.0),
        (PreBindPending([]), 1.0),  # type: ignore[arg-type]  # as above
        (PreBindPending(()), "x"),
        (PreBindPending(()), float("nan")),
        (PreBindPending(()), None),
    ],
)
def test_a_wrong_answer_of_awaited_fails_that_pod(awaited: Any, timeout_s: Any) -> None:
    class Awaits:
        name = NAME

        def __init__(self) -> None:
            self.timeout_s = timeout_s

        def pre_bind(self, pod: Any, node_name: str, /) -> Any:
            return ()

        def awaited(self, pod: Any, node_name: str, /) -> Any:
            return awaited if is_bad(pod) else None

    world = tried(Awaits())
    assert world.binds.keys() == {"good"}
    assert f'running plugin "{NAME}"' in world.statuses["bad"]


def test_writes_before_a_binding_may_be_a_list_or_a_tuple() -> None:
    world = World(plugin([], pre_bind=list))
    world.show(a_pod("bad", BAD), a_pod("good", GOOD))
    world.step()
    assert world.binds.keys() == {"bad", "good"}
    assert not [each for each in world.effects if isinstance(each, PreBindWrites)]


# -- choosing a node


def array(*values: int) -> Callable[[], Any]:
    return lambda: np.array(values, np.int64)


STATES = ("number", "list")
"""What a plugin that has a filter may keep for it."""
CHOOSING: list[tuple[str, str, Callable[[], Any]]] = [
    *(("pre_filter", id_, make) for id_, make in ANY_WRONG.items() if id_ not in STATES),
    ("pre_filter", "a refusal with a text", lambda: PreFilterRejection("no")),  # type: ignore[arg-type]  # as above
    ("pre_filter", "a list of names", lambda: PreFilterResult(["a"])),  # type: ignore[arg-type]  # as above
    ("pre_filter", "a text as names", lambda: PreFilterResult("a")),  # type: ignore[arg-type]  # as above
    ("pre_filter", "the class of a skip", lambda: Skip),
    *(("pre_score", id_, make) for id_, make in ANY_WRONG.items() if id_ not in STATES),
    *(("filter", id_, make) for id_, make in ANY_WRONG.items()),
    ("filter", "too few", array(0)),
    ("filter", "too many", array(0, 0, 0)),
    ("filter", "a table", lambda: np.zeros((2, 2), np.int64)),
    ("filter", "floats", lambda: np.zeros(2)),
    ("filter", "bools", lambda: np.zeros(2, np.bool_)),
    ("filter", "a list", lambda: [0, 0]),
    ("filter", "a reason that there is not", array(2, 2)),
    ("filter", "less than none", array(-1, -1)),
    *(("score", id_, make) for id_, make in ANY_WRONG.items()),
    ("score", "None", lambda: None),
    ("score", "floats", lambda: np.zeros(2)),
    ("score", "too few", array(1)),
    ("score", "below 0", array(-1, -1)),
    ("score", "above 100", array(101, 0)),
    *(("normalize", id_, make) for id_, make in ANY_WRONG.items()),
    ("normalize", "None", lambda: None),
    ("normalize", "too few", array(1)),
    ("normalize", "above 100", array(101, 0)),
    ("scale", "coroutine", coroutine),
    ("scale", "list", list),
    *(("key", id_, WRONG[id_]) for id_ in ("coroutine", "generator", "list")),
    *(("stamp", id_, WRONG[id_]) for id_ in ("coroutine", "generator", "list")),
]


class Chooses:
    """Correct at every extension point, except for one method when it is called for the bad pod."""

    name = NAME
    reads = READS_NODE
    asks_about: Any = None

    def __init__(self, method: str, make: Callable[[], Any]) -> None:
        self._wrong = method, make

    def _answer(self, method: str, about: Any, right: Any) -> Any:
        wrong, make = self._wrong
        return make() if method == wrong and is_bad(about) else right

    def pre_filter(self, pod: Any, matrix: Any, /) -> Any:
        return self._answer("pre_filter", pod, None)

    def filter(self, shape: Any, matrix: Any, rows: Any, state: Any, /) -> Any:
        return self._answer("filter", shape, None)

    def reasons(self, shape: Any, /) -> Any:
        return self._answer("reasons", shape, [FilterReason("no")])

    def pre_score(self, pod: Any, matrix: Any, /) -> Any:
        return self._answer("pre_score", pod, None)

    def score(self, shape: Any, matrix: Any, rows: Any, state: Any, /) -> Any:
        self.asks_about = shape
        return self._answer("score", shape, np.zeros(matrix.size if rows is None else len(rows), np.int64))

    def key(self, pod: Any, /) -> Any:
        return self._answer("key", pod, None)

    def stamp(self, shape: Any, matrix: Any, /) -> Any:
        return self._answer("stamp", shape, 0)


class Normalizes(Chooses):
    def scale(self, feasible: Any, /) -> Any:
        return self._answer("scale", self.asks_about, 1)

    def normalize(self, raw: Any, scale: Any, /) -> Any:
        return self._answer("normalize", self.asks_about, raw)


@pytest.mark.parametrize(("method", "make"), [(m, f) for m, _, f in CHOOSING], ids=[f"{m}-{i}" for m, i, _ in CHOOSING])
def test_a_wrong_answer_about_nodes_fails_that_pod_with_the_name_of_the_plugin(
    method: str, make: Callable[[], Any]
) -> None:
    world = tried((Normalizes if method in ("scale", "normalize") else Chooses)(method, make))
    assert world.binds.keys() == {"good"}
    assert world.where("bad") is PodState.ERROR_BACKOFF
    assert world.statuses["bad"].startswith("SchedulerError: ")
    assert f'plugin "{NAME}": ' in world.statuses["bad"]


@pytest.mark.parametrize("point", ["pre_filter", "pre_score"])
@pytest.mark.parametrize("make", ANY_WRONG.values(), ids=ANY_WRONG)
def test_a_plugin_that_has_nothing_to_read_a_state_must_not_return_one(point: str, make: Callable[[], Any]) -> None:
    world = tried(plugin(**{point: make}))
    assert world.binds.keys() == {"good"}
    assert f'plugin "{NAME}": ' in world.statuses["bad"]


@pytest.mark.parametrize("wrong", [None, "no", ["no"], [FilterReason(1)], True])  # type: ignore[arg-type]  # as above
def test_wrong_reasons_of_a_filter_fail_that_pod(wrong: Any) -> None:
    invalid_plugin = Chooses("filter", array(1, 1))
    invalid_plugin.reasons = lambda shape: wrong  # type: ignore[method-assign]  # one more wrong method
    world = tried(invalid_plugin)
    assert world.binds.keys() == {"good"}
    assert world.statuses["bad"].startswith(f'SchedulerError: running reasons plugin "{NAME}": ')


@pytest.mark.parametrize(
    "wrong", [None, "x", True, [ClusterEventWithHint("x")], (1,), (ClusterEventWithHint("x", UNHASHABLE),)]
)
def test_wrong_queueing_hints_fail_that_pod(wrong: Any) -> None:
    class Hints(Chooses):
        def wakers(self, shape: Any, /) -> Any:
            return wrong

    world = tried(Hints("filter", array(1, 1)))
    assert world.binds.keys() == {"good"}
    assert world.statuses["bad"].startswith(f'SchedulerError: running wakers plugin "{NAME}": ')


@pytest.mark.parametrize("verdict", [np.zeros(2), "x"])
def test_a_guard_that_gives_no_verdict_wakes_its_pods(verdict: Any) -> None:
    class Guard:
        def matches(self, event: Any, /) -> bool:
            found: bool = verdict
            return found

    assert hint_matches(Guard(), ClusterEvent(cluster_events.NODE, cluster_events.ADD))


@pytest.mark.parametrize(
    "make",
    [
        *(make for id_, make in WRONG.items() if id_ != "text"),
        lambda: None,
        lambda: PostFilterUnschedulable(None),  # type: ignore[arg-type]  # as above
        lambda: PostFilterNomination("no such node"),
        lambda: PostFilterNomination("a", ["victim"]),  # type: ignore[arg-type]  # as above
        lambda: PostFilterNomination("a", []),  # type: ignore[arg-type]  # as above
    ],
)
def test_an_invalid_result_of_post_filter_is_in_the_message_of_the_pod(make: Callable[[], Any]) -> None:
    world = World(plugin("", post_filter=make), nodes=[a_node("a", cpu="1")])
    world.show(a_pod("bad", BAD), a_pod("good", GOOD))
    world.step()
    assert world.binds.keys() == {"good"}
    assert "Insufficient cpu" in world.statuses["bad"]
    assert f'running PostFilter plugin "{NAME}": ' in world.statuses["bad"]


# -- the order of pods


@pytest.mark.parametrize(
    "make",
    [*WRONG.values(), lambda: None, lambda: (float("nan"), 0), lambda: (object(), 0)],
)
def test_an_invalid_order_key_holds_that_pod_and_others_keep_their_order(make: Callable[[], Any]) -> None:
    class Sorts:
        name = NAME

        def order_key(self, pod: Any, since_s: float, /) -> Any:
            return make() if pod.name == "bad" else (-pod.priority, pod.name)

    own = {"queueSort": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}}
    world = World(known=[Sorts()], profiles=[{"plugins": own}])
    world.show(a_pod("q", GOOD), a_pod("bad", BAD), a_pod("p", GOOD))
    world.step()
    assert list(world.binds) == ["p", "q"]
    assert world.where("bad") is PodState.GATED


def test_order_keys_of_different_lengths_and_kinds_of_numbers_are_compared() -> None:
    class Sorts:
        name = NAME

        def order_key(self, pod: Any, since_s: float, /) -> Any:
            return {"a": (1, ("x",)), "b": (1.5,), "c": (True, ("y", 2)), "d": (1, (2,))}[pod.name]

    keys = QueueSortKeys(Sorts())
    assert [keys.failure(pods.a_pod(name), 0.0) for name in "abcd"] == [None] * 4
    assert sorted("dcba", key=lambda name: keys.key(pods.a_pod(name), 0.0)) == ["d", "a", "c", "b"]


def test_a_key_of_other_types_makes_no_later_key_wrong() -> None:
    class Sorts:
        name = NAME

        def order_key(self, pod: Any, since_s: float, /) -> Any:
            return ("x", 1) if pod.name == "odd" else (-pod.priority, pod.name)

    own = {"queueSort": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}}
    world = World(known=[Sorts()], profiles=[{"plugins": own}])
    world.show(a_pod("odd", GOOD))
    world.step()
    assert list(world.binds) == ["odd"]
    world.show(a_pod("q", GOOD), a_pod("p", GOOD))
    world.step()
    assert list(world.binds) == ["p", "q"]


# -- objects that plugins watch


@pytest.mark.parametrize("method", ["applied", "removed"])
@pytest.mark.parametrize("make", [*WRONG.values(), lambda: None], ids=[*WRONG, "None"])
def test_an_invalid_result_of_an_event_handler_is_logged_and_other_handlers_are_called(
    method: str, make: Callable[[], Any]
) -> None:
    class Watches:
        name = NAME
        watched: ClassVar = {CONFIG_MAPS: ("data",)}

        def __init__(self, own: str, results: Mapping[str, Callable[[], Any]]) -> None:
            self.name = own
            self._answers = results
            self.received = 0

        def pre_enqueue(self, pod: Any, /) -> None:
            return None

        def applied(self, resource: Any, wire: Any, /) -> Any:
            self.received += 1
            return self._answers.get("applied", tuple)()

        def removed(self, resource: Any, namespace: str, name: str, /) -> Any:
            self.received += 1
            return self._answers.get("removed", tuple)()

    second = Watches("Second", {})
    world = World(Watches(NAME, {method: make}), second)
    wire = {"metadata": {"namespace": "default", "name": "c"}, "data": {}}
    world.scheduler.object_applied(CONFIG_MAPS, wire, world.now_s)
    world.scheduler.object_removed(CONFIG_MAPS, "default", "c", world.now_s)
    assert second.received == 2
    (problem,) = world.problems
    assert problem.startswith(f"plugin {NAME} failed in {method} on a change of configmaps: InvalidPluginResult: ")


def test_the_text_about_an_invalid_result_is_short_and_never_fails() -> None:
    class Unshown:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "a value that cannot be shown (Unshown)" in str(result_checks.invalid_result(Unshown(), "None"))
    assert len(str(result_checks.invalid_result("x" * 10_000, "None"))) < 200


# -- plugins that read more of a pod than its shape


class TeamOnly:
    """Rejects pods of one team in PreFilter; it has no filter and no score."""

    name = "TeamOnly"
    is_closed = False

    def pre_filter(self, pod: Any, matrix: Any, /) -> Any:
        refused = pod.labels.get("team") == "b" or self.is_closed
        return PreFilterRejection(FilterReason("not this team", unresolvable=True)) if refused else None

    def key(self, pod: Any, /) -> Any:
        return pod.labels.get("team")

    def stamp(self, shape: Any, matrix: Any, /) -> Any:
        return self.is_closed


def test_a_pre_filter_plugin_without_filter_is_called_per_key_for_a_known_shape() -> None:
    world = World(TeamOnly())
    world.show(a_pod("p", GOOD, labels={"team": "a"}))
    world.step()
    assert world.binds.keys() == {"p"}
    world.show(a_pod("q", GOOD, labels={"team": "b"}), a_pod("r", GOOD, labels={"team": "a"}))
    world.step()
    assert world.binds.keys() == {"r"}
    assert "not this team" in world.statuses["q"]


def test_a_pre_filter_plugin_without_filter_is_called_again_when_its_stamp_changes() -> None:
    plugin = TeamOnly()
    world = World(plugin)
    world.show(a_pod("p", GOOD))
    world.step()
    assert world.binds.keys() == {"p"}
    plugin.is_closed = True
    world.show(a_pod("q", GOOD))
    world.step()
    assert world.binds == {}
    assert "not this team" in world.statuses["q"]


def test_a_pre_score_plugin_without_score_is_called_per_key_for_a_known_shape() -> None:
    calls: list[str] = []

    class Counts:
        name = "Counts"

        def pre_score(self, pod: Any, matrix: Any, /) -> None:
            calls.append(pod.name)

        def key(self, pod: Any, /) -> Any:
            return pod.labels.get("team")

    world = World(Counts())
    world.show(a_pod("p", GOOD, labels={"team": "a"}), a_pod("q", GOOD, labels={"team": "a"}))
    world.show(a_pod("r", GOOD, labels={"team": "b"}))
    world.step()
    assert world.binds.keys() == {"p", "q", "r"}
    assert calls == ["p", "r"]


def test_a_handler_that_reads_whole_objects_gets_them_beside_one_that_reads_some_fields() -> None:
    def watching(name: str, *fields: str) -> Any:
        members = {"watched": {CONFIG_MAPS: fields}, "applied": heard, "removed": heard, "pre_enqueue": lambda *_: None}
        return type(name, (), {"name": name, **members})()

    def heard(*args: Any) -> Any:
        return ()

    some = World(watching("A", "data"), watching("B", "metadata.labels"))
    assert some.scheduler.cluster.watched()[CONFIG_MAPS] == {"data", "metadata.labels"}
    whole = World(watching("A", "data"), watching("B"))
    assert whole.scheduler.cluster.watched()[CONFIG_MAPS] == frozenset()
