"""VolumeBinding: claims that reject the pod, and nodes that reach or can get the volumes of the others."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.framework.interface import Unplaced
from headgate.scheduling.volumes import storage_cache
from storage import (
    HOST,
    ZONE,
    Object,
    Shown,
    a_capacity,
    a_claim,
    a_class,
    a_driver,
    a_volume,
    asked,
    claims,
    hide,
    show,
)

POD = a_pod("p", volumes=claims("c"))
IMMEDIATE = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
NO_VOLUME = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
NO_ROOM = "0/2 nodes are available: 2 node(s) did not have enough free storage."


def two_nodes(*shown: Shown) -> Cluster:
    cluster = Cluster(a_node("n1", labels={HOST: "n1", ZONE: "a"}), a_node("n2", labels={HOST: "n2", ZONE: "b"}))
    show(cluster, *shown)
    return cluster


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ([], '0/2 nodes are available: persistentvolumeclaim "c" not found.'),
        (
            [a_claim("c", phase="Lost", volumeName="v")],
            '"c" bound to non-existent persistentvolume "v"',
        ),
        ([a_claim("c", deleting=True)], 'persistentvolumeclaim "c" is being deleted'),
        ([a_claim("c")], IMMEDIATE),
        ([a_claim("c", on_class="unknown")], IMMEDIATE),
        ([a_claim("c", on_class="s"), a_class("s", mode="Immediate")], IMMEDIATE),
        ([a_claim("c", on_class="s", volumeName="v"), a_class("s")], IMMEDIATE),
        ([a_claim("c", volume="v")], '0/2 nodes are available: persistentvolume "v" not found.'),
    ],
)
def test_a_claim_that_cannot_be_used_rejects_the_pod_on_all_nodes(shown: list[Shown], said: str) -> None:
    assert said in asked(two_nodes(*shown), POD)


def test_preemption_does_not_resolve_problems_of_claims() -> None:
    cluster = two_nodes(a_claim("c"))
    found = cluster.cycle.decide(cluster.pod(POD))
    assert isinstance(found, Unplaced)
    assert found.resolvable == ()


def test_a_bound_claim_restricts_the_pod_to_nodes_that_reach_its_volume() -> None:
    cluster = two_nodes(a_claim("c", volume="v"), a_volume("v", claim="c", at={HOST: ["n2"]}))
    assert asked(cluster, POD) == "n2"
    show(cluster, a_volume("v", claim="c", revision="2", at={HOST: ["n3"]}))
    assert asked(cluster, POD) == "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."


def test_the_affinity_of_a_volume_is_matched_with_labels_only() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    affinity = {"required": {"nodeSelectorTerms": [by_name]}}
    cluster = two_nodes(a_claim("c", volume="v"), a_volume("v", claim="c", nodeAffinity=affinity))
    assert asked(cluster, POD) == "n1"


def test_without_volume_zone_a_missing_volume_is_a_reason_per_node() -> None:
    off = {"filter": {"disabled": [{"name": "VolumeZone"}]}, "preFilter": {"disabled": [{"name": "VolumeZone"}]}}
    cluster = Cluster(a_node("n1"), a_node("n2"), plugins=off)
    show(cluster, a_claim("c", volume="v"))
    reason = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert asked(cluster, POD) == f"0/2 nodes are available: 2 {reason}."


def test_the_claim_of_an_ephemeral_volume_is_awaited_and_must_be_the_pods_own() -> None:
    pod = a_pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    cluster = two_nodes(a_class("s"), a_volume("v", claim="p-scratch", at={ZONE: ["b"]}))
    waits = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert asked(cluster, pod) == f"0/2 nodes are available: {waits}."
    show(cluster, a_claim("p-scratch", owner="uid-other", volume="v"))
    assert "PVC default/p-scratch was not created for pod default/p (pod is not owner)" in asked(cluster, pod)
    show(cluster, a_claim("p-scratch", revision="2", owner="uid-p", volume="v"))
    assert asked(cluster, pod) == "n2"
    other = {**pod, "metadata": {**pod["metadata"], "name": "q", "uid": "uid-q"}}
    assert '"q-scratch"' in asked(cluster, other)


def test_a_waiting_claim_gets_a_free_volume_that_the_node_reaches() -> None:
    cluster = two_nodes(a_class("s"), a_claim("c", on_class="s"))
    assert asked(cluster, POD) == NO_VOLUME
    show(cluster, a_volume("v", on_class="s", at={HOST: ["n2"]}))
    assert asked(cluster, POD) == "n2"
    hide(cluster, a_volume("v"))
    assert asked(cluster, POD) == NO_VOLUME


@pytest.mark.parametrize(
    "other",
    [
        {"size": "500Mi"},
        {"on_class": "other"},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeAttributesClassName": "gold"},
        {"phase": "Released"},
        {"claim": "other"},
        {"claim": "c", "claim_uid": "of-an-older-claim"},
        {"labels": {"tier": "slow"}},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
    ],
)
def test_a_volume_that_does_not_satisfy_the_claim_is_not_used(other: dict[str, Any]) -> None:
    fitting: dict[str, Any] = {"on_class": "s", "labels": {"tier": "fast"}}
    claim = a_claim("c", on_class="s", selector={"matchLabels": {"tier": "fast"}})
    cluster = two_nodes(a_class("s"), claim, a_volume("v", **{**fitting, **other}))
    assert asked(cluster, POD) == NO_VOLUME
    show(cluster, a_volume("v", revision="2", **fitting))
    assert asked(cluster, POD) == "n1"


def test_a_prebound_volume_is_the_only_candidate() -> None:
    cluster = two_nodes(
        a_class("s"),
        a_claim("c", on_class="s"),
        a_volume("free", on_class="s"),
        a_volume("mine", "5Gi", on_class="s", claim="c", claim_uid="", phase="Available", at={HOST: ["n2"]}),
    )
    assert asked(cluster, POD) == "n2"


def test_two_claims_of_a_pod_do_not_share_a_volume() -> None:
    pod = a_pod("p", volumes=claims("c", "d"))
    cluster = two_nodes(a_class("s"), a_claim("c", on_class="s"), a_claim("d", on_class="s"))
    show(cluster, a_volume("v1", on_class="s", at={HOST: ["n1"]}), a_volume("v2", on_class="s", at={HOST: ["n2"]}))
    assert asked(cluster, pod) == NO_VOLUME
    show(cluster, a_volume("v3", on_class="s", at={HOST: ["n2"]}))
    assert asked(cluster, pod) == "n2"


def test_a_class_provisions_only_in_its_topology() -> None:
    zone_b = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
    cluster = two_nodes(a_class("s", "ebs", allowedTopologies=zone_b), a_claim("c", on_class="s"))
    assert asked(cluster, POD) == "n2"
    show(cluster, a_class("s", "ebs", allowedTopologies=[{"matchLabelExpressions": []}]))
    assert asked(cluster, POD) == NO_VOLUME
    show(cluster, a_class("s", "ebs"))
    assert asked(cluster, POD) == "n1"


def test_a_claim_with_a_selected_node_restricts_the_pod_to_it() -> None:
    underway = a_claim("c", on_class="s", annotations={"volume.kubernetes.io/selected-node": "n2"})
    cluster = two_nodes(a_class("s", "ebs"), underway)
    assert asked(cluster, POD) == "n2"
    show(cluster, a_claim("c", on_class="s", revision="2", annotations={"volume.kubernetes.io/selected-node": "n9"}))
    assert asked(cluster, POD) == NO_VOLUME


@pytest.mark.parametrize(
    ("capacity", "said"),
    [
        (a_capacity("x", "s", "10Gi", at={ZONE: "b"}), "n2"),
        (a_capacity("x", "s", "10Gi"), NO_ROOM),
        (a_capacity("x", "s", at={ZONE: "b"}), NO_ROOM),
        (a_capacity("x", "s", "1Gi", at={ZONE: "b"}), NO_ROOM),
        (a_capacity("x", "s", "10Gi", at={ZONE: "b"}, maximumVolumeSize="2Gi"), NO_ROOM),
        (a_capacity("x", "s", "1Gi", at={ZONE: "b"}, maximumVolumeSize="5Gi"), "n2"),
        (a_capacity("x", "other", "10Gi", at={ZONE: "b"}), NO_ROOM),
    ],
)
def test_the_capacity_that_a_driver_reports_is_used(capacity: Shown, said: str) -> None:
    cluster = two_nodes(a_class("s", "ebs"), a_claim("c", "5Gi", on_class="s"), a_driver("ebs", tells_capacity=False))
    assert asked(cluster, POD) == "n1"
    show(cluster, a_driver("ebs", tells_capacity=True))
    assert asked(cluster, POD) == NO_ROOM
    show(cluster, capacity)
    assert asked(cluster, POD) == said


def test_different_nodes_have_different_reasons() -> None:
    pod = a_pod("p", volumes=claims("bound", "c"))
    cluster = two_nodes(a_class("s"), a_claim("bound", volume="v"), a_claim("c", on_class="s"))
    show(cluster, a_volume("v", claim="bound", at={HOST: ["n1"]}), a_volume("w", on_class="s", at={HOST: ["n2"]}))
    volume = "1 node(s) didn't find available persistent volumes to bind"
    reach = "1 node(s) didn't match PersistentVolume's node affinity"
    assert asked(cluster, pod) == f"0/2 nodes are available: {volume}, {reach}."


def test_an_invalid_object_is_ignored_and_others_are_used() -> None:
    cluster = two_nodes(a_class("s"), a_claim("c", on_class="s"), a_volume("v", on_class="s"))
    broken: Any = {"metadata": {"name": "v"}, "spec": {"capacity": 7}}
    show(cluster, (storage_cache.VOLUMES, broken))
    assert list(cluster.cluster.storage.ignored_objects) == ["persistentvolumes/v"]
    assert asked(cluster, POD) == NO_VOLUME
    show(cluster, a_volume("v", on_class="s"))
    assert cluster.cluster.storage.ignored_objects == {}
    assert asked(cluster, POD) == "n1"


def test_changes_of_storage_do_not_affect_pods_without_claims() -> None:
    cluster = two_nodes()
    plain: Object = a_pod("plain")
    asked(cluster, plain)
    entries = list(cluster.cycle._shape_cache.values())
    show(cluster, a_class("s"), a_claim("c", on_class="s"), a_volume("v", on_class="s"))
    asked(cluster, a_pod("other"))
    assert list(cluster.cycle._shape_cache.values()) == entries
