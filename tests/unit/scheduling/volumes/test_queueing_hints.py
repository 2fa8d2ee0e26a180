"""What wakes pods that wait for storage: changes that may help them, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import EnqueueExtensions
from headgate.waiting.queueing_hints import any_event_matches
from storage import (
    ZONE,
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

POD = a_pod("p", volumes=claims("c"))
EPHEMERAL = a_pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])


def with_disk(iqn: str, **spec: Any) -> dict[str, Any]:
    return a_pod("p", volumes=[{"name": "d", "iscsi": {"iqn": iqn}}], **spec)


DISK = with_disk("i")
TOPOLOGY = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]


def wakes(plugin: str, cluster: Cluster, events: list[ClusterEvent], pod: dict[str, Any] = POD) -> bool:
    (found,) = (each for each in cluster.cycle.plugins.filters if each.name == plugin)
    assert isinstance(found, EnqueueExtensions)
    wakers = found.wakers(cluster.pod(pod).shape)
    return any(any_event_matches(wakers, each) for each in events)


def waiting(*shown: Shown) -> Cluster:
    cluster = Cluster(a_node("n"))
    show(cluster, a_class("s", "ebs"), a_claim("c", on_class="s"), *shown)
    return cluster


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        ([], a_volume("v", on_class="s"), True),
        ([], a_volume("v", on_class="other"), False),
        ([a_volume("v", on_class="s", phase="Released")], a_volume("v", on_class="s"), True),
        ([a_volume("v", on_class="s")], a_volume("v", on_class="s", revision="2"), False),
        ([], a_claim("other", on_class="s"), False),
        ([], a_claim("c", on_class="s", volume="v"), True),
        ([], a_class("new"), False),
        ([], a_class("s", "ebs", allowedTopologies=TOPOLOGY), True),
        ([], a_driver("ebs", tells_capacity=True), False),
        ([a_driver("ebs", tells_capacity=True)], a_driver("ebs", tells_capacity=False), True),
        ([a_driver("ebs", tells_capacity=False)], a_driver("ebs", tells_capacity=True), False),
        ([], a_capacity("x", "s", "1Gi"), True),
        ([a_capacity("x", "s", "1Gi")], a_capacity("x", "s", "2Gi"), True),
        ([a_capacity("x", "s", "2Gi")], a_capacity("x", "s", "1Gi"), False),
        ([], a_capacity("x", "other", "1Gi"), False),
        ([], a_csi_node("n", d=3), False),
    ],
)
def test_events_that_wake_pods_rejected_by_volume_binding(before: list[Shown], after: Shown, helps: bool) -> None:
    cluster = waiting(*before)
    assert wakes("VolumeBinding", cluster, show(cluster, after)) is helps


@pytest.mark.parametrize(
    ("after", "helps"),
    [(a_claim("p-scratch"), True), (a_claim("q-scratch"), True), (a_claim("p-other"), False)],
)
def test_claims_of_ephemeral_volumes_are_recognized_by_their_suffix(after: Shown, helps: bool) -> None:
    cluster = waiting()
    assert wakes("VolumeBinding", cluster, show(cluster, after), EPHEMERAL) is helps


def test_a_deleted_volume_wakes_no_pod() -> None:
    cluster = waiting(a_volume("v", on_class="s"))
    assert not wakes("VolumeBinding", cluster, hide(cluster, a_volume("v")))


@pytest.mark.parametrize("plugin", ["VolumeBinding", "VolumeZone"])
def test_a_pod_with_a_bound_claim_waits_for_that_volume(plugin: str) -> None:
    cluster = waiting(a_claim("c", on_class="s", revision="2", volume="v"))
    assert not wakes(plugin, cluster, show(cluster, a_volume("w", on_class="s")))
    assert wakes(plugin, cluster, show(cluster, a_volume("v", on_class="s", claim="c")))
    assert wakes(plugin, cluster, show(cluster, a_volume("v", on_class="s", claim="c", labels={ZONE: "b"})))


@pytest.mark.parametrize(
    "shown",
    [a_claim("other"), a_claim("c", on_class="s", deleting=True), a_claim("c", on_class="s", phase="Lost")],
)
def test_a_pod_that_waits_for_a_claim_waits_for_nothing_else(shown: Shown) -> None:
    cluster = Cluster(a_node("n"))
    show(cluster, a_class("s", "ebs"), shown)
    others = [
        *show(cluster, a_volume("v", on_class="s"), a_class("t")),
        ClusterEvent(cluster_events.NODE, cluster_events.ADD),
    ]
    claim = show(cluster, a_claim("c", on_class="s", revision="2"))
    hide(cluster, a_claim("c"))
    show(cluster, shown)
    for plugin in ("VolumeBinding", "VolumeZone"):
        assert not wakes(plugin, cluster, others)
        assert wakes(plugin, cluster, claim)


def test_a_pod_with_a_missing_class_waits_for_it() -> None:
    cluster = waiting(a_claim("c", on_class="new", revision="2"))
    other, new = show(cluster, a_class("other")), show(cluster, a_class("new"))
    hide(cluster, a_class("new"))
    for plugin in ("VolumeBinding", "VolumeZone"):
        assert wakes(plugin, cluster, new)
        assert not wakes(plugin, cluster, other)


def test_pods_with_ephemeral_volumes_wake_for_any_volume_or_class() -> None:
    cluster = waiting()
    assert wakes("VolumeBinding", cluster, show(cluster, a_volume("v", on_class="other")), EPHEMERAL)
    assert wakes("VolumeBinding", cluster, show(cluster, a_class("other")), EPHEMERAL)


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        ([], a_csi_node("n", d=1), True),
        ([a_csi_node("n", d=1)], a_csi_node("n", d=2), True),
        ([a_csi_node("n", d=2)], a_csi_node("n", d=1), False),
        ([a_csi_node("n", d=2)], a_csi_node("n", d=1, e=1), True),
        ([], an_attachment("x", "n", "v", "d"), False),
        ([], a_volume("v"), False),
    ],
)
def test_events_that_wake_pods_rejected_by_node_volume_limits(before: list[Shown], after: Shown, helps: bool) -> None:
    cluster = waiting(*before)
    assert wakes("NodeVolumeLimits", cluster, show(cluster, after)) is helps


def test_a_deleted_attachment_wakes() -> None:
    cluster = waiting(an_attachment("x", "n", "v", "d"))
    assert wakes("NodeVolumeLimits", cluster, hide(cluster, an_attachment("x", "n", "v", "d")))


@pytest.mark.parametrize(
    ("plugin", "waits", "gone", "helps"),
    [
        ("NodeVolumeLimits", POD, a_pod("gone", volumes=claims("other"), nodeName="n"), True),
        ("NodeVolumeLimits", POD, a_pod("gone", volumes=claims("other")), False),
        ("NodeVolumeLimits", POD, a_pod("gone", nodeName="n"), False),
        ("VolumeRestrictions", POD, a_pod("gone", volumes=claims("c"), nodeName="n"), True),
        ("VolumeRestrictions", POD, a_pod("gone", volumes=claims("other"), nodeName="n"), False),
        ("VolumeRestrictions", DISK, a_pod("gone", volumes=[{"name": "d", "iscsi": {"iqn": "i"}}], nodeName="n"), True),
        (
            "VolumeRestrictions",
            DISK,
            a_pod("gone", volumes=[{"name": "d", "iscsi": {"iqn": "j"}}], nodeName="n"),
            False,
        ),
        ("VolumeBinding", POD, a_pod("gone", volumes=claims("c"), nodeName="n"), False),
    ],
)
def test_a_deleted_pod_with_volumes_wakes(plugin: str, waits: Any, gone: Any, helps: bool) -> None:
    cluster = waiting()
    event = ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=cluster.pod(gone))
    assert wakes(plugin, cluster, [event], waits) is helps


@pytest.mark.parametrize("plugin", ["VolumeBinding", "VolumeZone", "VolumeRestrictions"])
def test_an_added_node_wakes_except_for_attach_limits(plugin: str) -> None:
    cluster = waiting()
    assert wakes(plugin, cluster, [ClusterEvent(cluster_events.NODE, cluster_events.ADD)])
    assert not wakes("NodeVolumeLimits", cluster, [ClusterEvent(cluster_events.NODE, cluster_events.ADD)])
    relabelled = wakes(plugin, cluster, [ClusterEvent(cluster_events.NODE, cluster_events.NODE_LABEL)])
    assert relabelled is (plugin != "VolumeRestrictions")


def test_a_waiting_pod_is_not_woken_by_a_thousand_other_claims() -> None:
    cluster = waiting()
    events = [event for i in range(1000) for event in show(cluster, a_claim(f"c{i}"))]
    assert not wakes("VolumeBinding", cluster, events)
