"""Plugins that do the worst that Python allows: one pod fails, and the scheduler and all other pods are not
affected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from headgate.cli.wiring.plugins import find_plugins
from headgate.cli.wiring.scheduler import build_plugin
from headgate.scheduling.framework import (
    ADD,
    NODE,
    READS_NODE,
    APIResource,
    ClusterEvent,
    ClusterEventWithHint,
    FilterReason,
    ObjectPatch,
    PermitWait,
    PostFilterNomination,
    PostFilterUnresolvable,
    PostFilterUnschedulable,
    PreFilterRejection,
    Rejection,
    on,
    own_update,
)
from headgate.scheduling.framework.signature_checks import problems
from headgate.scheduling.queue.sort_keys import QueueSortKeys
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod
from unit.plugins.hostile_values import RAISED, Recursive, recurse

NAME = "Hostile"
PODS = APIResource("", "v1", "pods", namespaced=True)
KIND = APIResource("example.com", "v1", "things", namespaced=True)
NEEDED: dict[str, dict[str, Any]] = {
    "reserve": {"unreserve": lambda self, pod, node_name: None},
    "filter": {"reads": READS_NODE, "reasons": lambda self, shape: ()},
    "score": {"reads": READS_NODE},
    "awaited": {"timeout_s": 1.0, "pre_bind": lambda self, pod, node_name: ()},
}
RIGHT: dict[str, Any] = {"filter": None, "pre_bind": (), "score": None, "post_filter": "no"}
AROUND = ("pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reserve", "permit", "pre_bind", "awaited")


def a_plugin(**methods: Callable[..., Any]) -> Any:
    """Each method misbehaves for the pod that requests 2 CPUs, and is correct for others."""

    def method(name: str, bad: Callable[..., Any]) -> Any:
        def called(self: Any, about: Any, *more: Any) -> Any:
            shape = getattr(about, "shape", about)
            if shape.requests.get("cpu") == 2000:
                return bad(about, *more)
            return (
                np.zeros(more[0].size if more[1] is None else len(more[1]), np.int64)
                if name == "score"
                else (RIGHT.get(name))
            )

        return called

    members: dict[str, Any] = {"name": NAME}
    for name, bad in methods.items():
        members |= {**NEEDED.get(name, {}), name: method(name, bad)}
    return type(NAME, (), members)()


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise error

    return raises


def tried(plugin: Any, **more: Any) -> VirtualScheduler:
    scheduler = VirtualScheduler(plugin, **more)
    scheduler.apply_node(a_node("node-a"), a_node("node-b"))
    scheduler.apply_pod(
        a_pod("bad", requests={"cpu": "2"}), *(a_pod(f"good{i}", requests={"cpu": "1"}) for i in range(3))
    )
    scheduler.advance(5)
    return scheduler


def others_are_bound_and_it_is_told(scheduler: VirtualScheduler) -> str:
    """The message of the pod's condition, as it can be written."""
    assert [scheduler.node_of(f"good{i}") is not None for i in range(3)] == [True] * 3
    assert scheduler.node_of("bad") is None
    condition = scheduler.condition("bad")
    assert condition is not None
    assert condition["reason"] == "SchedulerError"
    written = msgspec.json.encode(condition)
    assert len(written) < 10_000
    assert all(msgspec.json.encode(each) for each in scheduler.events("bad"))
    assert NAME in condition["message"]
    return str(condition["message"])


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("method", AROUND)
def test_any_exception_of_a_plugin_fails_one_pod(method: str, error: BaseException) -> None:
    others_are_bound_and_it_is_told(tried(a_plugin(**{method: raising(error)})))


@pytest.mark.parametrize("method", AROUND)
def test_endless_recursion_fails_one_pod(method: str) -> None:
    message = others_are_bound_and_it_is_told(tried(a_plugin(**{method: recurse})))
    assert "recursion" in message


@pytest.mark.parametrize("method", AROUND)
def test_a_result_whose_repr_fails_fails_one_pod(method: str) -> None:
    message = others_are_bound_and_it_is_told(tried(a_plugin(**{method: lambda *args: Recursive()})))
    assert "a value that cannot be shown (Recursive)" in message


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
def test_any_exception_of_an_event_handler_is_logged(error: BaseException) -> None:
    class Watching:
        name = NAME
        watched: ClassVar = {KIND: ()}

        def applied(self, resource: Any, wire: Any) -> Any:
            raise error

        def removed(self, resource: Any, namespace: str, name: str) -> Iterator[ClusterEvent]:
            yield ClusterEvent(NAME, "Delete")
            raise error

        def pre_enqueue(self, pod: Any) -> None: ...

    scheduler = VirtualScheduler(Watching())
    scheduler.apply(KIND, {"metadata": {"name": "a"}})
    scheduler.delete(KIND, "a", "default")
    assert len(scheduler.log) == 2
    assert all(len(line) < 5000 and NAME in line for line in scheduler.log)


@pytest.mark.parametrize(
    "event",
    [
        ClusterEvent(1, "Add"),  # type: ignore[arg-type]  # plugins of others are not type-checked
        ClusterEvent("x", ["Add"]),  # type: ignore[arg-type]  # as above
        ClusterEvent("x", "Add", target=[]),  # type: ignore[arg-type]  # as above
        ClusterEvent("x", "Add", custom=None),  # type: ignore[arg-type]  # as above
        ClusterEvent("x", "Add", subjects=["a"]),  # type: ignore[arg-type]  # as above
        ClusterEvent("x", "Add", subjects=([],)),  # type: ignore[arg-type]  # as above
    ],
    ids=repr,
)
def test_an_invalid_event_is_logged(event: ClusterEvent) -> None:
    class Watching:
        name = NAME
        watched: ClassVar = {KIND: ()}

        def applied(self, resource: Any, wire: Any) -> Any:
            return [event]

        removed = pre_enqueue = lambda self, *args: None

    scheduler = VirtualScheduler(Watching())
    scheduler.apply(KIND, {"metadata": {"name": "a"}})
    assert "InvalidPluginResult: returned a ClusterEvent whose" in scheduler.log[0]


def test_texts_are_cut_and_can_always_be_written() -> None:
    class Word(str):
        def __str__(self) -> str:
            raise ValueError

        def __len__(self) -> int:
            raise ValueError

    for text in ("\ud800 and more", "x" * 10_000_000, Word("a word")):
        scheduler = tried(a_plugin(pre_enqueue=lambda *args, text=text: Rejection(NAME, text)))
        condition = scheduler.condition("bad")
        assert condition is not None
        assert condition["reason"] == "PreEnqueueRejected"
        assert len(msgspec.json.encode(condition)) < 5000
    reason = FilterReason("\ud800" * 10_000)
    for answer in (PreFilterRejection(reason), PreFilterRejection(FilterReason("y" * 10_000_000, unresolvable=True))):
        scheduler = tried(a_plugin(pre_filter=lambda *args, answer=answer: answer))
        condition = scheduler.condition("bad")
        assert condition is not None
        assert len(msgspec.json.encode(condition)) < 20_000


@pytest.mark.parametrize(
    "answer",
    [PostFilterUnschedulable("\ud800"), PostFilterUnresolvable("\ud800"), "\ud800", "z" * 10_000_000],
    ids=["a", "b", "c", "d"],
)
def test_texts_of_post_filter_can_always_be_written(answer: Any) -> None:
    scheduler = VirtualScheduler(a_plugin(post_filter=lambda *args: answer), disabled=["DefaultPreemption"])
    scheduler.apply_node(a_node("node-a", cpu="1"))
    scheduler.apply_pod(a_pod("bad", requests={"cpu": "2"}))
    scheduler.advance(2)
    condition = scheduler.condition("bad")
    assert condition is not None
    assert len(msgspec.json.encode(condition)) < 5000


@pytest.mark.parametrize(
    "seconds", [0, -1, float("nan"), float("inf"), -float("inf"), 10**400, True, "1", np.float32(1)]
)
def test_an_invalid_look_again_s_is_an_invalid_result(seconds: Any) -> None:
    plugin = a_plugin(pre_enqueue=lambda *args: Rejection(NAME, "later", look_again_s=seconds))
    others_are_bound_and_it_is_told(tried(plugin))


@pytest.mark.parametrize("seconds", [1e-300, 1e308, 10**300])
def test_look_again_s_may_be_very_small_and_very_large(seconds: Any) -> None:
    scheduler = tried(a_plugin(pre_enqueue=lambda *args: Rejection(NAME, "later", look_again_s=seconds)))
    assert scheduler.node_of("good0") is not None
    condition = scheduler.condition("bad")
    assert condition is not None
    assert condition["reason"] == "PreEnqueueRejected"


@pytest.mark.parametrize("seconds", [1e308, 0, 1e-300])
def test_a_permit_timeout_may_be_very_short_and_very_long(seconds: float) -> None:
    scheduler = tried(a_plugin(permit=lambda *args: PermitWait(seconds)))
    assert scheduler.node_of("good0") is not None
    assert scheduler.node_of("bad") is None


def test_a_plugin_with_changing_results_is_called_when_it_is_due() -> None:
    calls: list[int] = []

    def fickle(*args: Any) -> Any:
        calls.append(1)
        every = [True, Rejection(NAME, "a", own_update()), "text", Rejection(NAME, "b", look_again_s=1.0), 7]
        return every[len(calls) % len(every)] if len(calls) < 20 else None

    scheduler = tried(a_plugin(pre_enqueue=fickle))
    scheduler.advance(7200)
    assert scheduler.node_of("bad") is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod.labels.update(app="other"),
        lambda pod: pod.labels.clear(),
        lambda pod: pod.annotations.update(a="b"),
        lambda pod: pod.shape.requests.update(cpu=0),
        lambda pod: pod.shape.scored.clear(),
        lambda pod: setattr(pod, "priority", 10**9),
        lambda pod: setattr(pod.shape, "requests", {}),
    ],
    ids=["labels", "all labels", "annotations", "requests", "scored", "a field", "a field of the shape"],
)
def test_a_pod_cannot_be_changed_by_a_plugin(change: Callable[[Any], Any]) -> None:
    others_are_bound_and_it_is_told(tried(a_plugin(pre_enqueue=change)))


def test_a_node_cannot_be_changed_by_a_plugin() -> None:
    def change(pod: Any, matrix: Any) -> None:
        matrix.node(0).labels["zone"] = "other"

    def enlarge(pod: Any, matrix: Any) -> None:
        matrix.node(0).allocatable["cpu"] = 10**9

    for each in (change, enlarge):
        others_are_bound_and_it_is_told(tried(a_plugin(pre_filter=each)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.uint64])
def test_scores_of_small_integer_types_do_not_overflow(dtype: Any) -> None:
    class Prefers:
        name = NAME
        reads = READS_NODE

        def score(self, shape: Any, matrix: Any, rows: Any, state: Any) -> Any:
            rows = np.arange(matrix.size) if rows is None else rows
            return np.array([100 if matrix.name(row) == "node-b" else 0 for row in rows], dtype)

    scheduler = VirtualScheduler(Prefers(), Heavy())
    scheduler.apply_node(a_node("node-a"), a_node("node-b"))
    scheduler.apply_pod(a_pod("p", requests={"cpu": "1"}))
    scheduler.run()
    assert scheduler.node_of("p") == "node-b"


class Heavy:
    """Prefers the first node a little, so that a score that wraps around loses."""

    name = "Heavy"
    reads = READS_NODE

    def score(self, shape: Any, matrix: Any, rows: Any, state: Any) -> Any:
        rows = np.arange(matrix.size) if rows is None else rows
        return np.array([50 if matrix.name(row) == "node-a" else 0 for row in rows], np.int8)


def test_a_result_array_is_copied() -> None:
    kept: list[Any] = []

    class Buffers:
        name = NAME
        reads = READS_NODE

        def filter(self, shape: Any, matrix: Any, rows: Any, state: Any) -> Any:
            found = np.zeros(matrix.size if rows is None else len(rows), np.int64)
            kept.append(found)
            for each in kept[:-1]:
                each[:] = 1
            return found

        def reasons(self, shape: Any) -> Any:
            return [FilterReason("no")]

    scheduler = VirtualScheduler(Buffers())
    scheduler.apply_node(a_node("node-a"))
    for number in range(3):
        scheduler.apply_pod(a_pod(f"p{number}", requests={"cpu": f"{number + 1}"}))
        scheduler.run()
    assert [scheduler.node_of(f"p{number}") for number in range(3)] == ["node-a"] * 3


@pytest.mark.parametrize(
    "write",
    [
        ObjectPatch(None, "default", "p", "u", {}),  # type: ignore[arg-type]  # plugins of others are not type-checked
        ObjectPatch(PODS, None, "p", "u", {}),  # type: ignore[arg-type]  # as above
        ObjectPatch(PODS, "default", "\ud800", "u", {}),
        ObjectPatch(PODS, "default", "p", "u", []),  # type: ignore[arg-type]  # as above
        ObjectPatch(PODS, "default", "p", "u", {"a": object()}),
        ObjectPatch(PODS, "default", "p", "u", {"a": "\ud800"}),
        ObjectPatch(PODS, "default", "p", "u", {1.5j: "a"}),  # type: ignore[dict-item]  # as above
        ObjectPatch(PODS, "default", "p", "u", {}, how="json"),  # type: ignore[arg-type]  # as above
    ],
    ids=range(8),
)
@pytest.mark.parametrize("method", ["pre_bind", "bind"])
def test_a_write_that_cannot_be_encoded_is_an_invalid_result(method: str, write: ObjectPatch) -> None:
    answer = [write] if method == "pre_bind" else write
    disabled = ["DefaultBinder"] if method == "bind" else []
    plugin = a_plugin(**{method: lambda *args: answer})
    scheduler = VirtualScheduler(plugin, disabled=disabled)
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(a_pod("bad", requests={"cpu": "2"}))
    scheduler.advance(1)
    condition = scheduler.condition("bad")
    assert condition is not None
    assert "InvalidPluginResult: " in condition["message"]
    assert scheduler.writes == []


@pytest.mark.parametrize("topic", [1, "x", None, ("a", 1), (), Recursive()], ids=range(6))
def test_invalid_wakers_are_an_invalid_result(topic: Any) -> None:
    plugin = a_plugin(pre_enqueue=lambda *args: Rejection(NAME, "no", (ClusterEventWithHint(topic),)))
    if topic == ():
        tried(plugin)
    else:
        others_are_bound_and_it_is_told(tried(plugin))


class Shifting:
    """A guard that changes while pods wait behind it: its hash, or whether it can be hashed and compared at all."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises
        self.hashed = 0

    def matches(self, event: Any) -> bool:
        return True

    def __hash__(self) -> int:
        self.hashed += 1
        if self.raises and self.hashed > 2:  # by on(), and when the answer is checked
            raise SystemExit
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if self.raises:
            raise SystemExit
        return False


class Equal:
    """A guard that collides with others, and cannot be compared with them."""

    def matches(self, event: Any) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise KeyError


@pytest.mark.parametrize(
    "make", [lambda: Shifting(raises=False), lambda: Shifting(raises=True), Equal], ids=["shifts", "raises", "equal"]
)
def test_a_guard_that_changes_or_cannot_be_compared_wakes_its_pods(make: Callable[[], Any]) -> None:
    is_held = True

    class Holds:
        name = NAME

        def pre_enqueue(self, pod: Any) -> Rejection | None:
            return Rejection(NAME, "wait", on(NODE, ADD, guard=make()), expires=False) if is_held else None

    scheduler = VirtualScheduler(Holds())
    scheduler.apply_pod(*(a_pod(f"p{i}") for i in range(5)))
    scheduler.run()
    scheduler.apply_node(a_node("node-a"))
    scheduler.run()
    is_held = False
    scheduler.delete_pod("p4")
    scheduler.apply_node(a_node("node-b"))
    scheduler.run()
    assert None not in [scheduler.node_of(f"p{i}") for i in range(4)]


class Sorts:
    name = NAME

    def __init__(self, *keys: Any) -> None:
        self.keys = list(keys)

    def order_key(self, pod: Any, since_s: float) -> Any:
        return self.keys.pop(0)


@pytest.mark.parametrize(
    "key",
    [
        (np.array([1, 2]),),
        (datetime(2026, 1, 1, tzinfo=UTC),),
        (object(),),
        ({"a": 1},),
        (None,),
        (np.float32("nan"),),
        (((((((((((1,),),),),),),),),),),),
    ],
    ids=range(7),
)
def test_an_order_key_that_may_not_be_comparable_is_an_invalid_result(key: Any) -> None:
    pod: Any = None
    failed = QueueSortKeys(Sorts(key)).failure(pod, 0.0)
    assert failed is not None
    assert "InvalidPluginResult: " in failed.reason


def test_numbers_texts_and_tuples_of_them_are_order_keys() -> None:
    pod: Any = None
    keys = QueueSortKeys(Sorts((1, "a", (2.5, b"x")), (np.int64(2), "b", (np.float64(1), b""))))
    assert keys.failure(pod, 0.0) is None
    assert keys.failure(pod, 0.0) is None


class Bold(str):
    """A text that cannot be compared."""

    def __lt__(self, other: Any) -> bool:
        raise ValueError(other)


class Shy(int):
    def __gt__(self, other: Any) -> bool:
        raise ValueError(other)


def test_any_two_order_keys_can_be_compared() -> None:
    pod: Any = None
    answers = [
        (10**400, "a"),
        (np.float64(1.5),),
        (Shy(7), 1),
        (True,),
        ("a", 1),
        (Bold("b"), 2),
        ("b", (1, "x")),
        ("b", (1, b"x")),
        (b"a",),
        ((1, 2),),
    ]
    keys = QueueSortKeys(Sorts(*reversed(answers)))
    found = [keys.key(pod, 0.0) for _ in answers]
    assert [each[1][0][1] for each in sorted(found)] == [1, 1.5, 7, 10**400, "a", "b", "b", "b", b"a", ((0, 1), (0, 2))]


# Packages


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "headgate.plugins")


@pytest.mark.parametrize(
    "body", ["import sys; sys.exit(3)", "raise KeyError('\\ud800')", "import asyncio; raise asyncio.CancelledError"]
)
def test_a_package_that_ends_the_program_when_it_is_imported_is_named(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile_package.py").write_text(body + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_package", raising=False)
    found = find_plugins([entry("Hostile", "hostile_package:Hostile"), entry("Filters", "logging:Filterer")])
    assert found.builders.keys() == {"Filters"}
    assert found.problems[0].startswith("plugin Hostile of hostile_package cannot be loaded: ")


@pytest.mark.parametrize("name", ["", "a b", 'quote"d', "new\nline", "\u2028", "x" * 64, "a/b", "-a", "é"])
def test_a_name_that_is_invalid_in_a_condition_is_rejected(name: str) -> None:
    found = find_plugins([entry(name, "logging:Filterer")])
    assert found.builders == {}
    assert "a name has up to 63 letters" in found.problems[0]


def test_of_two_plugins_with_the_same_name_none_is_used() -> None:
    found = find_plugins([entry("Twice", "logging:Filterer"), entry("Twice", "logging:Handler")])
    assert found.builders == {}
    assert len(found.problems) == 2
    assert all("another package has a plugin of this name" in each for each in found.problems)


class Exits:
    name = "Exits"

    def __init__(self, args: Any) -> None:
        sys.exit("no licence")

    def pre_enqueue(self, pod: Any) -> None: ...


def test_a_constructor_that_exits_is_reported_like_any_other_error() -> None:
    with pytest.raises(ValueError, match="no licence"):
        build_plugin(Exits, {})


def test_attributes_that_raise_are_reported_by_config_check() -> None:
    class Raises:
        name = NAME

        @property
        def watched(self) -> Any:
            raise ValueError("not now")

        def pre_enqueue(self, pod: Any) -> None: ...

    assert problems(Raises(), NAME) == ["its attributes cannot be read: ValueError: not now"]


def test_a_nomination_with_invalid_victims_is_an_invalid_result() -> None:
    plugin = a_plugin(post_filter=lambda *args: PostFilterNomination("node-a", ("default/p",)))  # type: ignore[arg-type]  # as above
    scheduler = VirtualScheduler(plugin, disabled=["DefaultPreemption"])
    scheduler.apply_node(a_node("node-a", cpu="1"))
    scheduler.apply_pod(a_pod("bad", requests={"cpu": "2"}))
    scheduler.advance(2)
    condition = scheduler.condition("bad")
    assert condition is not None
    assert "victims of PostFilterNomination must be a tuple of pods" in condition["message"]
    assert scheduler.preempted == []
