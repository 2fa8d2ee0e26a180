"""Cached results for pods with volumes equal fresh ones, after any changes of storage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.framework.scheduling_cycle import Outcome, SchedulingCycle
from headgate.scheduling.plugins.volume_binding import VolumeBinding
from storage import (
    HOST,
    ZONE,
    Object,
    Shown,
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_volume,
    an_attachment,
    claims,
    hide,
    show,
)

PLUGINS = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")
NODES = [a_node(f"n{i}", labels={HOST: f"n{i}", ZONE: "ab"[i % 2]}) for i in range(3)]
SCRATCH = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
DISK = [{"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}]
ASKED: list[Object] = [
    a_pod("plain"),
    a_pod("one", volumes=claims("c0")),
    a_pod("two", volumes=claims("c1", "c2")),
    a_pod("p", volumes=SCRATCH),
    a_pod("disk", volumes=DISK),
]
SPOTS = st.sampled_from([{}, {"at": {HOST: ["n0"]}}, {"at": {ZONE: ["b"]}}, {"at": {HOST: ["n1", "n2"], ZONE: ["a"]}}])
CLAIM_NAMES = st.sampled_from(["c0", "c1", "c2", "p-scratch"])
NUMBERS = st.integers(0, 2)


@st.composite
def a_drawn_claim(draw: st.DrawFn) -> Shown:
    more: dict[str, Any] = {"on_class": draw(st.sampled_from(["local", "made", "tight", "now"])), "owner": "uid-p"}
    match draw(st.integers(0, 4)):
        case 0:
            more["volume"] = f"v{draw(NUMBERS)}"
        case 1:
            more["annotations"] = {"volume.kubernetes.io/selected-node": f"n{draw(NUMBERS)}"}
        case 2:
            more["accessModes"] = ["ReadWriteOncePod"]
    return a_claim(draw(CLAIM_NAMES), **more)


@st.composite
def a_drawn_volume(draw: st.DrawFn) -> Shown:
    more: dict[str, Any] = {"on_class": draw(st.sampled_from(["local", "made"])), **draw(SPOTS)}
    if draw(st.booleans()):
        more["claim"] = draw(CLAIM_NAMES)
    if draw(st.booleans()):
        more["csi"] = {"driver": "made", "volumeHandle": draw(st.sampled_from(["x", "y", "z"]))}
    if draw(st.booleans()):
        more["labels"] = {ZONE: draw(st.sampled_from(["a", "b", "a__b"]))}
    return a_volume(f"v{draw(NUMBERS)}", **more)


KINDS = (
    a_drawn_claim(),
    a_drawn_volume(),
    st.builds(lambda mode: a_class("local", mode=mode), st.sampled_from(["WaitForFirstConsumer", "Immediate"])),
    st.builds(lambda i, n: a_csi_node(f"n{i}", made=n), NUMBERS, NUMBERS),
    st.builds(lambda told: a_driver("tight", tells_capacity=told), st.booleans()),
    st.builds(lambda size: a_capacity("x", "tight", size, at={ZONE: "a"}), st.sampled_from(["1Mi", "8Gi"])),
    st.builds(lambda i, v: an_attachment(f"a{i}", f"n{i}", f"v{v}", "made"), NUMBERS, NUMBERS),
)
STEPS = st.one_of(
    *(st.tuples(st.just("show"), each) for each in KINDS),
    st.tuples(st.just("hide"), st.one_of(*KINDS)),
    st.tuples(st.just("bind"), st.tuples(st.integers(0, len(ASKED) - 1), NUMBERS)),
    st.tuples(st.just("remove"), st.integers(0, len(ASKED) - 1)),
    st.tuples(st.just("reserve"), st.integers(0, len(ASKED) - 1)),
    st.tuples(st.just("unreserve"), st.integers(0, len(ASKED) - 1)),
)


def seen(outcome: Outcome) -> str:
    return outcome.node_name if isinstance(outcome, ScheduleResult) else outcome.message


@pytest.mark.parametrize("plugin", PLUGINS)
@settings(max_examples=20)  # an example is up to 30 scheduling cycles, and there is one run per plugin
@given(st.lists(STEPS, min_size=10, max_size=30))
def test_cached_volume_results_equal_fresh_ones(plugin: str, steps: list[tuple[str, Any]]) -> None:
    """Of each plugin alone, so that none is helped by what another one looks at."""
    others = [{"name": each} for each in PLUGINS if each != plugin]
    cluster = Cluster(*NODES, plugins={"multiPoint": {"disabled": others}})
    show(
        cluster, a_class("local"), a_class("made", "made"), a_class("tight", "tight"), a_class("now", mode="Immediate")
    )
    show(cluster, *(a_claim(name, on_class="made", owner="uid-p") for name in ("c0", "c1", "c2", "p-scratch")))
    binding = VolumeBinding(cluster.cluster)
    pods = [cluster.pod(each) for each in ASKED]
    for i, (what, with_) in enumerate(steps):
        match what:
            case "show":
                with_[1]["metadata"]["resourceVersion"] = f"r{i}"
                show(cluster, with_)
            case "hide":
                hide(cluster, with_)
            case "bind":
                there = ASKED[with_[0]]
                named = {**there["metadata"], "name": f"at-{with_[0]}", "uid": f"uid-at-{with_[0]}"}
                cluster.bind({**there, "metadata": named}, f"n{with_[1]}")
            case "remove":
                cluster.matrix.pod_removed(f"uid-at-{with_}")
            case "reserve":
                found = cluster.cycle.decide(pods[with_])
                if isinstance(found, ScheduleResult) and plugin == "VolumeBinding":
                    binding.unreserve(pods[with_], found.node_name)
                    binding.reserve(pods[with_], found.node_name)
            case _:
                binding.unreserve(pods[with_], "")
        anew = SchedulingCycle(cluster.matrix, cluster.cycle.plugins, 100)
        assert [seen(cluster.cycle.decide(each)) for each in pods] == [seen(anew.decide(each)) for each in pods]
