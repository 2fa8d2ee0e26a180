from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.capacity.names import OPT_IN, QUEUE_NAME, STAMP
from headgate.recording.name_hashing import NameHasher
from headgate.recording.pruning import prune
from headgate.recording.resources import BY_NAME, RECORDED

SECRET = "hunter2-secret"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "trainer-0",
        "namespace": "team-red",
        "uid": "4711",
        "resourceVersion": "7",
        "labels": {"app": "trainer", "kueue.x-k8s.io/queue-name": "red-queue"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            OPT_IN: "true",
            QUEUE_NAME: "red-queue",
            STAMP: json.dumps({"uid": "4711", "queue": "red-queue", "requests": {"cpu": "1"}, "at": "x"}),
        },
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "9", "controller": True}
        ],
        "managedFields": [{"manager": SECRET}],
    },
    "spec": {
        "nodeName": "machine-17",
        "serviceAccountName": SECRET,
        "imagePullSecrets": [{"name": SECRET}],
        "schedulingGates": [{"name": "example.com/hold"}],
        "nodeSelector": {"team.example/pool": "red-pool"},
        "tolerations": [{"key": "team.example/pool", "operator": "Equal", "value": "red-pool", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "main",
                "image": SECRET,
                "command": [SECRET],
                "args": [SECRET],
                "env": [{"name": "TOKEN", "value": SECRET}],
                "envFrom": [{"secretRef": {"name": SECRET}}],
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}},
                "livenessProbe": {"exec": {"command": [SECRET]}},
            }
        ],
        "volumes": [
            {"name": SECRET, "secret": {"secretName": SECRET}},
            {"persistentVolumeClaim": {"claimName": "data"}},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": SECRET,
        "conditions": [{"type": "Ready", "status": "True", "message": "trainer-0 is ready"}],
        "containerStatuses": [{"name": "main", "image": SECRET, "state": {"terminated": {"message": SECRET}}}],
    },
}


def test_secrets_environment_commands_and_images_are_never_recorded() -> None:
    kept = prune("pods", POD)
    assert SECRET not in json.dumps(kept)
    assert kept["spec"]["containers"] == [
        {"name": "main", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    ]
    assert set(kept["metadata"]["annotations"]) == {OPT_IN, QUEUE_NAME, STAMP}
    assert kept["spec"]["nodeName"] == "machine-17"


def test_every_recorded_resource_says_which_fields_are_recorded() -> None:
    for name in BY_NAME:
        kept = prune(name, {"metadata": {"name": "x"}, "data": {"k": SECRET}, "stringData": SECRET})
        assert kept == {"metadata": {"name": "x"}}


def test_fields_of_an_unexpected_form_do_no_harm() -> None:
    assert prune("pods", {"metadata": {"name": "x"}, "spec": ["text"], "status": None}) == {
        "metadata": {"name": "x"},
        "spec": [{}],
        "status": None,
    }


def test_hashed_names_appear_nowhere_and_references_stay_joined() -> None:
    hasher = NameHasher(b"k" * 32)
    kept = hasher.hash_object(prune("pods", POD))
    text = json.dumps(kept)
    for name in ("trainer", "team-red", "red-queue", "machine-17", "red-pool", "team.example", '"data"', "is ready"):
        assert name not in text, name
    metadata = kept["metadata"]
    queue = hasher.name("red-queue")
    assert metadata["annotations"][QUEUE_NAME] == metadata["labels"]["kueue.x-k8s.io/queue-name"] == queue
    assert json.loads(metadata["annotations"][STAMP])["queue"] == queue
    assert metadata["annotations"][OPT_IN] == "true"
    assert kept["spec"]["nodeName"] == hasher.name("machine-17")
    (toleration,), (selected,) = kept["spec"]["tolerations"], kept["spec"]["nodeSelector"].items()
    assert (toleration["key"], toleration["value"]) == selected
    assert kept["spec"]["containers"][0]["resources"] == POD["spec"]["containers"][0]["resources"]
    assert kept["spec"]["schedulingGates"] == POD["spec"]["schedulingGates"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("4711", "7")
    assert metadata["ownerReferences"][0]["uid"] == "9"
    assert metadata["ownerReferences"][0]["name"] == hasher.name("trainer")


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "team.example/own"])
def test_a_hashed_taint_has_the_key_and_value_of_its_toleration(key: str) -> None:
    hasher = NameHasher(b"k" * 32)
    taint = {"key": key, "value": "red", "effect": "NoSchedule"}
    node = hasher.hash_object(prune("nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint]}}))
    spec = {"tolerations": [{**taint, "operator": "Equal"}]}
    pod = hasher.hash_object(prune("pods", {"metadata": {"name": "p"}, "spec": spec}))
    assert pod["spec"]["tolerations"] == [{**node["spec"]["taints"][0], "operator": "Equal"}]


def test_hashes_differ_between_keys_and_are_valid_names() -> None:
    one, other = NameHasher(b"a" * 32).name("team-red"), NameHasher(b"b" * 32).name("team-red")
    assert one != other
    assert one.isalnum()
    assert one.islower()
    assert len(one) == 16
    assert NameHasher(b"a" * 32).name("default") == "default"


def test_quota_and_flavors_stay_joined_when_names_are_hashed() -> None:
    hasher = NameHasher(b"k" * 32)
    rows = [{"name": "cpu", "nominalQuota": "4", "borrowingLimit": "2"}]
    flavors = [{"name": "red-flavor", "resources": rows}]
    spec = {"cohortName": "red-cohort", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    queue = hasher.hash_object(prune("clusterqueues.kueue.x-k8s.io", {"metadata": {"name": "red"}, "spec": spec}))
    assignment = {"name": "main", "flavors": {"cpu": "red-flavor"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    status = {"admission": {"clusterQueue": "red", "podSetAssignments": [assignment]}}
    workload = hasher.hash_object(prune("workloads.kueue.x-k8s.io", {"metadata": {"name": "w"}, "status": status}))
    given = workload["status"]["admission"]
    assert given["clusterQueue"] == queue["metadata"]["name"]
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
    assert given["podSetAssignments"][0]["flavors"] == {"cpu": flavor["name"]}
    assert flavor["resources"] == rows
    assert queue["spec"]["cohortName"] == hasher.name("red-cohort")


def test_limits_are_recorded_before_holders_and_owners_before_pods() -> None:
    names = [each.resource.plural for each in RECORDED]
    assert names.index("clusterqueues") < names.index("workloads") < names.index("pods")
    assert names.index("jobs") < names.index("pods")
