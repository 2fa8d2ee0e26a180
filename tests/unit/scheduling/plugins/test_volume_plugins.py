"""VolumeZone, VolumeRestrictions, NodeVolumeLimits: zones by label, volumes for one pod, and how many a node takes."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.framework.interface import Unplaced
from storage import (
    ZONE,
    Object,
    Shown,
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    an_attachment,
    asked,
    claims,
    hide,
    show,
)

POD = a_pod("p", volumes=claims("c"))
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NO_ZONE = "node(s) had no available volume zone"
NO_DISK = "0/1 nodes are available: 1 node(s) had no available disk."
IN_USE = (
    "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod."
)
FULL = "0/1 nodes are available: 1 node(s) exceed max volume count."


def one_node(*shown: Shown, **labels: str) -> Cluster:
    cluster = Cluster(a_node("n", labels=labels))
    show(cluster, *shown)
    return cluster


# -- zones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: " a __ b "}, {ZONE: "b"}, True),
        ({ZONE: "a____b"}, {ZONE: "c"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({"other": "a"}, {ZONE: "b"}, True),
    ],
)
def test_a_volume_restricts_the_pod_to_nodes_of_its_zones(
    volume: dict[str, str], node: dict[str, str], fits: bool
) -> None:
    cluster = one_node(a_claim("c", volume="v"), a_volume("v", claim="c", labels=volume), **node)
    assert asked(cluster, POD) == ("n" if fits else f"0/1 nodes are available: 1 {NO_ZONE}.")


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ([a_claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([a_claim("c", on_class="s")], 'storageclass.storage.k8s.io "s" not found'),
        ([a_claim("c", on_class="s"), a_class("s", mode="Immediate")], "PersistentVolume had no name"),
        ([a_claim("c", volumeName="v")], 'persistentvolume "v" not found'),
    ],
)
def test_volume_zone_alone_reports_missing_objects(shown: list[Shown], said: str) -> None:
    cluster = Cluster(a_node("n"), plugins={"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}})
    show(cluster, *shown)
    assert asked(cluster, POD) == f"0/1 nodes are available: {said}."


# -- for one pod alone --------------------------------------------------------------------------------------------


def disk(kind: str, **source: Any) -> list[Object]:
    return [{"name": "d", kind: source}]


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        (disk("gcePersistentDisk", pdName="d"), disk("gcePersistentDisk", pdName="d"), True),
        (disk("gcePersistentDisk", pdName="d"), disk("gcePersistentDisk", pdName="e"), False),
        (
            disk("gcePersistentDisk", pdName="d", readOnly=True),
            disk("gcePersistentDisk", pdName="d", readOnly=True),
            False,
        ),
        (disk("gcePersistentDisk", pdName="d", readOnly=True), disk("gcePersistentDisk", pdName="d"), True),
        (
            disk("awsElasticBlockStore", volumeID="d", readOnly=True),
            disk("awsElasticBlockStore", volumeID="d", readOnly=True),
            True,
        ),
        (disk("iscsi", iqn="i", lun=0), disk("iscsi", iqn="i", lun=1), True),
        (disk("iscsi", iqn="i", readOnly=True), disk("iscsi", iqn="i", readOnly=True), False),
        (disk("rbd", monitors=["a", "b"], image="i"), disk("rbd", monitors=["b"], image="i"), True),
        (disk("rbd", monitors=["a"], image="i"), disk("rbd", monitors=["b"], image="i"), False),
        (disk("rbd", monitors=["a"], image="i", pool="x"), disk("rbd", monitors=["a"], image="i"), False),
        (disk("gcePersistentDisk", pdName="d"), disk("awsElasticBlockStore", volumeID="d"), False),
    ],
)
def test_pods_of_a_node_share_a_disk_only_read_only(mine: Any, theirs: Any, clash: bool) -> None:
    cluster = one_node()
    existing = cluster.bind(a_pod("there", volumes=theirs), "n")
    pod = a_pod("p", volumes=mine)
    assert asked(cluster, pod) == (NO_DISK if clash else "n")
    cluster.matrix.pod_removed(existing.uid)
    assert asked(cluster, pod) == "n"


def test_a_read_write_once_pod_claim_is_in_use_in_the_whole_cluster() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    show(cluster, a_claim("c", volume="v", accessModes=["ReadWriteOncePod"]), a_volume("v", claim="c"))
    existing = cluster.bind(a_pod("there", volumes=claims("c")), "n1")
    assert asked(cluster, POD) == IN_USE
    cluster.matrix.pod_removed(existing.uid)
    assert asked(cluster, POD) == "n1"


def test_preemption_resolves_a_read_write_once_pod_claim() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    show(cluster, a_claim("c", volume="v", accessModes=["ReadWriteOncePod"]), a_volume("v", claim="c"))
    existing = cluster.bind(a_pod("there", volumes=claims("c")), "n2")
    pod = cluster.pod(POD)
    found = cluster.cycle.decide(pod)
    assert isinstance(found, Unplaced)
    assert found.resolvable == ("n1", "n2")
    row = cluster.matrix.row_of("n2")
    assert row is not None
    assert [each.text for each in cluster.cycle.probe(pod, row)] == [
        IN_USE.removeprefix("0/2 nodes are available: 2 ")[:-1]
    ]
    assert cluster.cycle.probe(pod, row, removed=[existing]) == ()
    assert asked(cluster, POD) == IN_USE


# -- how many a node takes ----------------------------------------------------------------------------------------


def csi(name: str, claim: str = "", handle: str = "") -> Shown:
    source = {"driver": "d", "volumeHandle": handle or f"h-{name}"}
    return a_volume(name, csi=source, **({"claim": claim} if claim else {}))


def limited(count: int, *shown: Shown) -> Cluster:
    """One node, two pods there with a volume each of driver ``d``, and a claim ``c`` for a third."""
    cluster = one_node(a_csi_node("n", d=count), *shown)
    for each in ("a", "b"):
        show(cluster, a_claim(each, volume=f"v-{each}"), csi(f"v-{each}", each))
        cluster.bind(a_pod(f"with-{each}", volumes=claims(each)), "n")
    show(cluster, a_claim("c", volume="v-c"), csi("v-c", "c"))
    return cluster


def test_a_node_has_an_attach_limit_per_driver() -> None:
    assert asked(limited(3), POD) == "n"
    assert asked(limited(2), POD) == FULL


def test_a_node_without_limits_accepts_any_number_of_volumes() -> None:
    cluster = limited(2)
    hide(cluster, a_csi_node("n"))
    assert asked(cluster, POD) == "n"


def test_a_volume_counts_once_however_many_pods_use_it() -> None:
    assert asked(limited(2), a_pod("p", volumes=claims("a"))) == "n"


def test_volumes_attached_without_a_pod_count() -> None:
    cluster = limited(3, csi("gone"), an_attachment("x", "n", "gone", "d"))
    assert asked(cluster, POD) == FULL
    hide(cluster, an_attachment("x", "n", "gone", "d"))
    assert asked(cluster, POD) == "n"


def test_attached_volumes_of_pods_are_not_counted_twice() -> None:
    cluster = limited(3)
    show(cluster, an_attachment("x", "n", "v-a", "d"), an_attachment("y", "elsewhere", "v-c", "d"))
    assert asked(cluster, POD) == "n"


def test_an_unprovisioned_volume_counts_for_the_driver_of_its_class() -> None:
    cluster = limited(2, a_class("s", "d"), a_claim("new", on_class="s"))
    assert asked(cluster, a_pod("p", volumes=claims("new"))) == FULL
    show(cluster, a_csi_node("n", d=3))
    assert asked(cluster, a_pod("p", volumes=claims("new"))) == "n"


def test_migrated_volumes_count_for_their_csi_drivers() -> None:
    cluster = one_node(a_csi_node("n", ebs_csi_aws_com=1))
    cluster.bind(a_pod("there", volumes=disk("awsElasticBlockStore", volumeID="aws://zone/vol-1")), "n")
    assert asked(cluster, a_pod("p", volumes=disk("awsElasticBlockStore", volumeID="vol-2"))) == FULL


@pytest.mark.parametrize(
    ("zones", "counts"),
    [("", True), ("eu-a-1", True), ("eu-a-1__eu-a-2", True), ("eu-a-1__us-b-1", False), ("north__west", False)],
)
def test_a_disk_counts_unless_its_zones_are_of_no_region(zones: str, counts: bool) -> None:
    disk = a_volume("v", claim="c", labels={OLD_ZONE: zones} if zones else {}, gcePersistentDisk={"pdName": "d"})
    cluster = one_node(a_csi_node("n", pd_csi_storage_gke_io=0), a_claim("c", volume="v"), disk)
    assert asked(cluster, POD) == (FULL if counts else "n")


def test_disks_of_one_name_in_different_zones_are_two() -> None:
    cluster = one_node(a_csi_node("n", pd_csi_storage_gke_io=1))
    for name in ("c", "d"):
        disk = a_volume(name, claim=name, labels={ZONE: f"eu-a-{name}"}, gcePersistentDisk={"pdName": "same"})
        show(cluster, a_claim(name, volume=name), disk)
    cluster.bind(a_pod("there", volumes=claims("d")), "n")
    assert asked(cluster, POD) == FULL


def test_removing_a_pod_frees_an_attach_slot() -> None:
    cluster = limited(2)
    pod, row = cluster.pod(POD), cluster.matrix.row_of("n")
    assert row is not None
    victim = next(iter(cluster.matrix.pods_on(row).values()))
    assert [each.text for each in cluster.cycle.probe(pod, row)] == ["node(s) exceed max volume count"]
    assert cluster.cycle.probe(pod, row, removed=[victim]) == ()
