"""Unit tests of timers, addresses and annotations."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.nodes.address_pool import AddressPool, network_of
from headgate.nodes.behaviour import (
    NodeBehaviour,
    PodBehaviour,
    annotation_problems,
    node_behaviour,
    pod_behaviour,
    seconds,
)
from headgate.nodes.timer_heap import TimerHeap

steps = st.lists(st.tuples(st.sampled_from("sscd"), st.integers(0, 5), st.integers(0, 20)), max_size=300)


@given(steps=steps)
def test_timers_behave_like_a_dict_that_is_scanned(steps: list[tuple[str, int, int]]) -> None:
    timers: TimerHeap[int] = TimerHeap()
    model: dict[int, int] = {}
    for verb, key, at in steps:
        if verb == "s":
            timers.set(key, at)
            model[key] = at
        elif verb == "c":
            timers.cancel(key)
            model.pop(key, None)
        else:
            fired = list(timers.due(at))
            assert sorted(fired) == sorted(k for k, deadline in model.items() if deadline <= at)
            assert [model[k] for k in fired] == sorted(model[k] for k in fired)
            model = {k: deadline for k, deadline in model.items() if deadline > at}
        assert timers.next_deadline_s() == min(model.values(), default=None)
        assert len(timers) == len(model)


def test_a_timer_that_is_set_again_to_its_deadline_keeps_its_turn() -> None:
    timers: TimerHeap[str] = TimerHeap()
    for key in ("first", "second", "first"):
        timers.set(key, 10.0)
    assert list(timers.due(10.0)) == ["first", "second"]


def test_a_pool_gives_each_address_once_and_reuses_the_oldest_last() -> None:
    pool = AddressPool(IPv4Network("10.0.0.0/29"))
    pool.claim("10.0.0.2")
    assert [pool.take() for _ in range(6)] == ["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", None]
    pool.release("10.0.0.3")
    pool.release("not an address")
    pool.release("192.168.0.1")
    assert pool.take() == "10.0.0.3"


def test_what_is_no_network_is_none() -> None:
    assert network_of("") is None
    assert network_of("fd00::/64") is None
    assert network_of("10.1.0.0/16") == IPv4Network("10.1.0.0/16")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("45", 45.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-1s", None),
        ("x", None),
    ],
)
def test_durations(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


def test_annotations_that_cannot_be_read_are_ignored_and_complained_about() -> None:
    metadata = {
        "annotations": {
            "headgate.dev/run-for": "soon",
            "headgate.dev/exit-code": "1000",
            "headgate.dev/boot-never": "maybe",
            "headgate.dev/late-resources": "gpu",
            "headgate.dev/admitted": "{}",
            "other.dev/run-for": "soon",
        }
    }
    assert pod_behaviour(metadata) == PodBehaviour()
    assert node_behaviour(metadata) == NodeBehaviour()
    long = {"annotations": {"headgate.dev/run-for": "1s" * 125_000}}
    assert pod_behaviour(long) == PodBehaviour()
    assert len(annotation_problems(long)[0]) < 400
    assert [line.split("=")[0] for line in annotation_problems(metadata)] == [
        "annotation headgate.dev/run-for",
        "annotation headgate.dev/exit-code",
        "annotation headgate.dev/boot-never",
        "annotation headgate.dev/late-resources",
    ]


def test_late_resources_may_be_several() -> None:
    metadata = {"annotations": {"headgate.dev/late-resources": "nvidia.com/gpu=8, example.com/nic=1"}}
    assert node_behaviour(metadata).late_resources == {"nvidia.com/gpu": "8", "example.com/nic": "1"}
    assert annotation_problems(metadata) == []
