"""The file of variants, and the snapshot: what is read, changed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.capacity.names import QUEUES
from headgate.kube.api_resources import NODES
from headgate.simulate.snapshot import SnapshotError, read_snapshot
from headgate.simulate.variants import VariantError, read_file, settings_of, snapshot_of
from simulated_clusters import machines, volcano_queue

Object = dict[str, Any]

HEADER = {"apiVersion": "headgate.dev/v1alpha1", "kind": "Simulation"}


def read(**fields: Any) -> Any:
    return read_file({**HEADER, **fields})


def test_settings_of_a_variant_replace_those_of_the_file_field_by_field() -> None:
    group = {"name": "pool", "machineTypes": [{"name": "m", "resources": {"cpu": "4"}}]}
    autoscaler = {"model": "karpenter", "groups": [group], "bootSeconds": 30}
    file = read(
        settings={"gates": False, "autoscaler": autoscaler, "prices": {"m": 1.0}},
        variants=[{"name": "a"}, {"name": "b", "settings": {"gates": True, "autoscaler": {"bootSeconds": 5}}}],
    )
    first, second = (settings_of(file, each) for each in file.variants)
    assert (first.gates, second.gates) == (False, True)
    assert first.autoscaler is not None
    assert second.autoscaler is not None
    assert (first.autoscaler.boot_seconds, second.autoscaler.boot_seconds) == (30.0, 5.0)
    assert second.autoscaler.model == "karpenter"


def test_a_variant_patches_adds_and_removes_objects() -> None:
    snapshot = read_snapshot([*machines(3), volcano_queue("q", cpu=2), volcano_queue("r", cpu=2)])
    file = read(
        variants=[
            {
                "name": "changed",
                "patches": [
                    {"kind": "Queue", "name": "q", "patch": {"spec": {"weight": 5}}},
                    {"kind": "Node", "name": "*", "patch": {"metadata": {"labels": {"zone": "a"}}}},
                ],
                "remove": [{"kind": "Node", "name": "node-1"}],
                "add": [volcano_queue("s")],
            }
        ]
    )
    changed = snapshot_of(snapshot, file.variants[0])
    assert [each["metadata"]["name"] for each in changed.of(NODES)] == ["node-0", "node-2"]
    assert all(each["metadata"]["labels"]["zone"] == "a" for each in changed.of(NODES))
    assert [(each["metadata"]["name"], each["spec"]["weight"]) for each in changed.of(QUEUES)] == [
        *(("q", 5), ("r", 1), ("s", 1))
    ]
    assert snapshot.of(QUEUES)[0]["spec"]["weight"] == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "Other"}, "must be of apiVersion headgate.dev/v1alpha1 and kind Simulation"),
        ({"variant": []}, "variant"),
        ({"settings": {"gate": True}}, "gate"),
        ({"settings": {"stopSeconds": -1}}, "stopSeconds"),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "'a' is used twice"),
        ({"variants": [{"name": "a", "settings": {"autoscaler": {"model": "other", "groups": []}}}]}, "variant a"),
        ({"generator": {"profile": "borg"}}, "'borg' is not one of helios, philly, openb"),
        (
            {
                "settings": {
                    "autoscaler": {
                        "model": "cluster-autoscaler",
                        "groups": [
                            {
                                "name": "g",
                                "machineTypes": [
                                    {"name": "x", "resources": {"cpu": "1"}},
                                    {"name": "y", "resources": {"cpu": "2"}},
                                ],
                            }
                        ],
                    }
                }
            },
            "g has 2 machine types; a node group of Cluster Autoscaler has one",
        ),
    ],
)
def test_a_wrong_file_is_refused(fields: Object, text: str) -> None:
    with pytest.raises(VariantError) as raised:
        read(**fields)
    assert text in str(raised.value)


def test_a_change_of_an_object_that_does_not_exist_is_refused() -> None:
    file = read(variants=[{"name": "a", "patches": [{"kind": "Queue", "name": "nope", "patch": {}}]}])
    with pytest.raises(VariantError, match="variant a: the snapshot has no Queue nope"):
        snapshot_of(read_snapshot([volcano_queue("q")]), file.variants[0])


POD: Object = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        ({"kind": "Deployment", "metadata": {"name": "d"}}, "Deployment d: this kind is not simulated"),
        (POD, "Pod p: it has no node"),
        ({"kind": "Node", "metadata": {}}, "no kind or no metadata.name"),
        (
            {"kind": "ClusterQueue", "metadata": {"name": "c"}, "spec": {"admissionChecks": ["x"]}},
            "ClusterQueue c: spec.admissionChecks is not simulated",
        ),
        (
            {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {"topologyName": "t"}},
            "ResourceFlavor f: spec.topologyName is not simulated",
        ),
    ],
)
def test_what_is_not_simulated_is_refused(obj: Object, text: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        read_snapshot([obj])
    assert text in str(raised.value)


def test_a_snapshot_may_be_a_list_and_has_ended_pods() -> None:
    ended = {**POD, "status": {"phase": "Succeeded"}}
    snapshot = read_snapshot([{"kind": "List", "items": [volcano_queue("q"), ended]}, None])
    assert len(snapshot.objects) == 1
    assert snapshot.skipped == ("Pod p: it has ended",)
    with pytest.raises(SnapshotError, match="Queue q is in the snapshot twice"):
        read_snapshot([volcano_queue("q"), volcano_queue("q")])


def test_objects_of_kueues_older_version_are_converted() -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "c"},
        "spec": {"cohort": "all"},
    }
    (obj,) = read_snapshot([queue]).objects
    assert obj[1]["spec"] == {"cohortName": "all"}
