"""Kueue's manifests in both versions, on the embedded server and on a real one: the same answers, one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.queues import install_crds
from harness.scheduler_process import wait_for
from harness.server import Server
from headgate.quota.kinds.conversion import FROM_OLDER
from real.kueue_server_pair import GROUP, Pair, paired

pytestmark = pytest.mark.real

Object = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "kueue"
NEW, OLD = f"{GROUP}/v1beta2", f"{GROUP}/v1beta1"
NOW = "2026-01-01T00:00:00Z"
QUOTA = {"name": "cpu", "nominalQuota": "9"}

PLURALS = {
    "ClusterQueue": "clusterqueues",
    "Cohort": "cohorts",
    "ResourceFlavor": "resourceflavors",
    "AdmissionCheck": "admissionchecks",
    "LocalQueue": "namespaces/default/localqueues",
    "Workload": "namespaces/default/workloads",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}


@pytest.fixture(scope="module")
def pair(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with paired(tmp_path_factory.mktemp("kueue"), kube_binaries) as both:
        yield both


def made(version: str, kind: str, name: str, spec: Object, **further: Any) -> Object:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        **further,
    }


def groups(quota: Object = QUOTA, covered: tuple[str, ...] = ("cpu",)) -> list[Object]:
    return [{"coveredResources": list(covered), "flavors": [{"name": "f", "resources": [quota]}]}]


def _covers(found: Any, said: Any) -> bool:
    """Whether everything that was said is there, whatever was filled in."""
    if isinstance(said, dict) and isinstance(found, dict):
        return all(name in found and _covers(found[name], value) for name, value in said.items())
    if isinstance(said, list) and isinstance(found, list):
        return len(said) == len(found) and all(map(_covers, found, said))
    return bool(found == said)


def pod_set(name: str = "main", cpu: str = "1", **further: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "template": {"spec": {"containers": [container]}}, **further}


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_can_be_applied_twice_read_in_both_versions_and_deleted(pair: Pair, file: Path) -> None:
    objects = list(yaml.safe_load_all(file.read_text()))
    applied = pair.kubectl("apply", "-f", str(file))
    assert applied.exit == 0, applied.stderr
    assert [line.split()[-1] for line in applied.stdout.splitlines()] == ["created"] * len(objects)
    again = pair.kubectl("apply", "-f", str(file))
    assert [line.split()[-1] for line in again.stdout.splitlines()] == ["unchanged"] * len(objects)
    for obj in objects:
        kind, name = obj["kind"], obj["metadata"]["name"]
        old, new = (pair.ask("GET", f"{version}/{PLURALS[kind]}/{name}")[1] for version in (OLD, NEW))
        written = old if obj["apiVersion"] == old["apiVersion"] else new
        assert _covers(written.get("spec", {}), obj.get("spec", {}))
    assert pair.kubectl("delete", "-f", str(file)).exit == 0


def test_kubectl_shows_the_columns_of_kueue_under_every_name_that_users_know(pair: Pair) -> None:
    files = [str(EXAMPLES / f"{name}.yaml") for name in ("single-clusterqueue", "cohort", "workload", "v1beta1")]
    pair.kubectl("apply", *(word for file in files for word in ("-f", file)))
    of_queues = ["NAME", "COHORT", "STRATEGY", "PENDING WORKLOADS", "ADMITTED WORKLOADS"]
    for word, columns in {
        "cq": of_queues,
        "clusterqueues.v1beta1.kueue.x-k8s.io": of_queues,
        "lq": ["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"],
        "kwl": ["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"],
        "wpc": ["NAME", "VALUE"],
        "ac": ["NAME", "AGE"],
        "co": ["NAME", "AGE"],
        "flavors": ["NAME", "AGE"],
        "rf": ["NAME", "AGE"],
    }.items():
        shown = pair.kubectl("get", word, "-o", "wide").stdout
        assert [each.strip() for each in shown.splitlines()[0].split("  ") if each] == columns
    narrow = pair.kubectl("get", "cq").stdout
    assert [line.split()[:2] for line in narrow.splitlines()[1:]][-2:] == [
        ["team-a", "research"],
        ["team-b", "research"],
    ]
    assert "older-teams" in pair.kubectl("get", "clusterqueues.v1beta1.kueue.x-k8s.io").stdout


def test_defaults_are_filled_in_both_versions(pair: Pair) -> None:
    status, queue = pair.ask("POST", f"{NEW}/clusterqueues", made("v1beta2", "ClusterQueue", "defaults", {}))
    assert (status, queue["spec"]) == (
        201,
        {
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {
                "borrowWithinCohort": {"policy": "Never"},
                "reclaimWithinCohort": "Never",
                "withinClusterQueue": "Never",
            },
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
        },
    )
    assert pair.ask("GET", f"{OLD}/clusterqueues/defaults")[1]["spec"] == queue["spec"]
    template: Object = {"template": {"spec": {"containers": []}}}
    path = "namespaces/default/workloads"
    _, workload = pair.ask("POST", f"{OLD}/{path}", made("v1beta1", "Workload", "defaults", {"podSets": [template]}))
    assert workload["spec"]["podSets"] == [{"name": "main", "count": 1, **template}]
    assert (workload["spec"]["active"], workload["spec"]["priorityClassSource"]) == (True, "")
    assert "annotations" not in pair.ask("GET", f"{NEW}/{path}/defaults")[1]["metadata"]


def test_v1beta1_says_that_it_is_deprecated(pair: Pair) -> None:
    assert pair.warned("GET", f"{OLD}/clusterqueues") == ['299 - "This version is deprecated. Use v1beta2 instead."']
    assert pair.warned("GET", f"{NEW}/clusterqueues") == []


def test_a_v1beta1_queue_can_be_read_and_changed_in_both_versions_without_loss(pair: Pair) -> None:
    spec = {
        "cohort": "all",
        "resourceGroups": groups({**QUOTA, "borrowingLimit": "1"}),
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        "admissionChecks": ["one", "two"],
    }
    old, new = f"{OLD}/clusterqueues/both", f"{NEW}/clusterqueues/both"
    status, first = pair.ask("POST", f"{OLD}/clusterqueues", made("v1beta1", "ClusterQueue", "both", spec))
    assert (status, first["spec"]["flavorFungibility"]["whenCanBorrow"]) == (201, "Borrow")
    stored = pair.ask("GET", new)[1]
    assert stored["spec"]["cohortName"] == "all"
    assert stored["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    assert stored["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "one"}, {"name": "two"}]}
    assert FROM_OLDER in stored["metadata"]["annotations"]
    assert pair.ask("GET", old)[1] == first
    # A client of v1beta2 changes another field, and one of these values.
    assert pair.ask("PATCH", new, {"spec": {"stopPolicy": "Hold"}})[0] == 200
    assert pair.ask("GET", old)[1]["spec"] == {**first["spec"], "stopPolicy": "Hold"}
    assert pair.ask("PATCH", new, {"spec": {"flavorFungibility": {"whenCanPreempt": "TryNextFlavor"}}})[0] == 200
    changed = pair.ask("GET", old)[1]["spec"]
    assert changed["flavorFungibility"] == {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
    assert changed["admissionChecks"] == ["one", "two"]
    # Then a client of v1beta1 changes it back.
    assert pair.ask("PATCH", old, {"spec": {"flavorFungibility": {"whenCanPreempt": "Preempt"}}})[0] == 200
    assert pair.ask("GET", old)[1]["spec"]["flavorFungibility"] == spec["flavorFungibility"]
    for version in (OLD, NEW):
        assert len(pair.ask("GET", f"{version}/clusterqueues")[1]["items"]) > 1


def test_every_write_and_every_watch_supports_v1beta1(pair: Pair) -> None:
    path, at = f"{OLD}/clusterqueues", f"{OLD}/clusterqueues/ways"
    fungibility = {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
    queue = made("v1beta1", "ClusterQueue", "ways", {"cohort": "a", "flavorFungibility": fungibility})
    assert pair.ask("POST", f"{path}?dryRun=All", queue)[0] == 201
    assert pair.ask("GET", at)[0] == 404
    assert pair.ask("POST", path, queue)[0] == 201
    operations = [
        {"op": "test", "path": "/spec/flavorFungibility/whenCanBorrow", "value": "Borrow"},
        {"op": "replace", "path": "/spec/cohort", "value": "b"},
    ]
    assert pair.ask("JSON", at, operations)[1]["spec"]["cohort"] == "b"
    assert pair.ask("PUT", at, {**queue, "spec": {**queue["spec"], "cohort": "c"}})[0] == 422  # of which revision?
    usage = {"pendingWorkloads": 1, "pendingWorkloadsStatus": {"lastChangeTime": NOW}}
    assert pair.ask("PATCH", f"{at}/status", {"status": usage})[1]["status"] == usage
    assert pair.ask("GET", f"{NEW}/clusterqueues/ways")[1]["status"] == {"pendingWorkloads": 1}
    (seen,) = pair.watched(path, "ways", "ADDED")
    assert (seen["spec"]["cohort"], seen["spec"]["flavorFungibility"], seen["status"]) == ("b", fungibility, usage)
    assert pair.ask("DELETE", at)[0] == 200
    assert pair.ask("GET", f"{NEW}/clusterqueues/ways")[0] == 404


def test_a_queue_is_applied_on_the_servers_side_in_both_versions(pair: Pair) -> None:
    older = made(
        "v1beta1", "ClusterQueue", "applied", {"cohort": "a", "flavorFungibility": {"whenCanBorrow": "Borrow"}}
    )
    newer = made("v1beta2", "ClusterQueue", "applied", {"stopPolicy": "Hold"})
    assert pair.ask("APPLY", f"{OLD}/clusterqueues/applied?fieldManager=one", older)[0] == 201
    assert pair.ask("APPLY", f"{NEW}/clusterqueues/applied?fieldManager=two", newer)[0] == 200
    spec = pair.ask("GET", f"{OLD}/clusterqueues/applied")[1]["spec"]
    assert (spec["cohort"], spec["flavorFungibility"]["whenCanBorrow"], spec["stopPolicy"]) == ("a", "Borrow", "Hold")
    older["spec"] = {"flavorFungibility": {"whenCanBorrow": "Borrow"}}
    assert pair.ask("APPLY", f"{OLD}/clusterqueues/applied?fieldManager=one", older)[0] == 200
    spec = pair.ask("GET", f"{NEW}/clusterqueues/applied")[1]["spec"]
    assert ("cohortName" in spec, spec["stopPolicy"]) == (False, "Hold")


REFUSED: list[tuple[str, str, Object, str]] = [
    (
        "v1beta2",
        "ClusterQueue",
        {"resourceGroups": groups({**QUOTA, "borrowingLimit": 1})},
        "must be nil when cohort is empty",
    ),
    (
        "v1beta1",
        "ClusterQueue",
        {"resourceGroups": groups({**QUOTA, "lendingLimit": 1})},
        "must be nil when cohort is empty",
    ),
    (
        "v1beta2",
        "ClusterQueue",
        {"resourceGroups": groups(covered=("cpu", "memory"))},
        "must have the same number of resources",
    ),
    ("v1beta2", "ClusterQueue", {"queueingStrategy": "LIFO"}, 'Unsupported value: "LIFO"'),
    ("v1beta2", "ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "Borrow"}}, 'Unsupported value: "Borrow"'),
    ("v1beta2", "ClusterQueue", {"resourceGroups": groups({**QUOTA, "nominalQuota": "much"})}, "nominalQuota"),
    (
        "v1beta2",
        "ClusterQueue",
        {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}},
        "spec.concurrentAdmissionPolicy: Forbidden",
    ),
    (
        "v1beta2",
        "Cohort",
        {"resourceGroups": groups({**QUOTA, "borrowingLimit": 1})},
        "must be nil when parent is empty",
    ),
    ("v1beta1", "ResourceFlavor", {"topologyName": "t"}, "spec.topologyName: Forbidden"),
    ("v1beta2", "ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "No"}]}, 'Unsupported value: "No"'),
    (
        "v1beta1",
        "AdmissionCheck",
        {"controllerName": "kueue.x-k8s.io/provisioning-request"},
        "ProvisioningRequest is not supported",
    ),
    (
        "v1beta2",
        "Workload",
        {"podSets": [pod_set(topologyRequest={"required": "rack"})]},
        "spec.podSets[0].topologyRequest: Forbidden",
    ),
    ("v1beta1", "Workload", {"podSets": [pod_set(count=1, minCount=2)]}, "minCount should be positive"),
    ("v1beta2", "Workload", {"podSets": [pod_set(str(number)) for number in range(19)]}, "spec.podSets"),
    ("v1beta2", "Workload", {"podSets": [pod_set(), pod_set()]}, "Duplicate value"),
]


@pytest.mark.parametrize(("version", "kind", "spec", "says"), REFUSED)
def test_invalid_objects_are_refused_with_the_same_message(
    pair: Pair, version: str, kind: str, spec: Object, says: str
) -> None:
    assert says in pair.refused("POST", f"{GROUP}/{version}/{PLURALS[kind]}", made(version, kind, "bad", spec))


def test_a_priority_class_has_a_value(pair: Pair) -> None:
    empty = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "bad"}}
    assert "value: Required value" in pair.refused("POST", f"{NEW}/workloadpriorityclasses", empty)


def test_a_local_queue_stays_with_its_cluster_queue_in_both_versions(pair: Pair) -> None:
    path = "namespaces/default/localqueues"
    assert pair.ask("POST", f"{NEW}/{path}", made("v1beta2", "LocalQueue", "stays", {"clusterQueue": "a"}))[0] == 201
    for version in (OLD, NEW):
        said = pair.refused("PATCH", f"{version}/{path}/stays", {"spec": {"clusterQueue": "b"}})
        assert said == 'spec.clusterQueue: Invalid value: "b": field is immutable'


def test_a_workload_from_pending_to_admitted_and_what_may_not_change_then(pair: Pair) -> None:
    path = "namespaces/default/workloads"
    at, status = f"{NEW}/{path}/life", f"{NEW}/{path}/life/status"
    gates = {"kueue.x-k8s.io/admission-gated-by": "example.com/a,example.com/b"}
    workload = made("v1beta2", "Workload", "life", {"podSets": [pod_set(count=3)], "queueName": "q"})
    workload["metadata"]["annotations"] = gates
    assert pair.ask("POST", f"{NEW}/{path}", workload)[0] == 201
    one = {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/b"}}}
    assert pair.ask("PATCH", at, one)[0] == 200
    assert "can only remove gates" in pair.refused("PATCH", at, {"metadata": {"annotations": gates}})
    condition = {"type": "QuotaReserved", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
    assert "status.admission: Required value" in pair.refused("PATCH", status, {"status": {"conditions": [condition]}})
    given = {"name": "main", "count": 3, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}}
    admission = {"clusterQueue": "q", "podSetAssignments": [given]}
    wrong = {**admission, "podSetAssignments": [{**given, "resourceUsage": {"cpu": "1"}}]}
    reserved = {"status": {"conditions": [condition], "admission": wrong}}
    assert "is not a multiple of 3" in pair.refused("PATCH", status, reserved)
    reserved["status"]["admission"] = admission
    assert pair.ask("PATCH", status, reserved)[0] == 200
    assert pair.ask("GET", f"{OLD}/{path}/life")[1]["status"]["admission"] == admission
    for version in (OLD, NEW):
        said = pair.refused("PATCH", f"{version}/{path}/life", {"spec": {"queueName": "other"}})
        assert "queueName is immutable while workload quota reserved" in said
        said = pair.refused("PATCH", f"{version}/{path}/life", {"spec": {"podSets": [pod_set(count=4)]}})
        assert "spec.podSets[0]: Invalid value: field is immutable" in said
    more = {"status": {"reclaimablePods": [{"name": "main", "count": 4}]}}
    assert "should be less or equal to 3" in pair.refused("PATCH", status, more)
    assert pair.ask("PATCH", at, {"spec": {"active": False}})[0] == 200
    released = {"status": {"admission": None, "conditions": [{**condition, "status": "False"}]}}
    assert pair.ask("PATCH", status, released)[0] == 200
    assert pair.ask("PATCH", at, {"spec": {"queueName": "other"}})[0] == 200


def test_definitions_that_kueue_brought_are_left_as_they_are(pair: Pair) -> None:
    name = "cohorts.kueue.x-k8s.io"
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

    def labelled(server: Server, value: str | None) -> Object:
        body = json.dumps({"metadata": {"labels": {"app.kubernetes.io/managed-by": value}}}).encode()
        found: Object = server.request("PATCH", path, {"Content-Type": "application/merge-patch+json"}, body).json()
        return found

    for server in (pair.real, pair.ours):
        before = labelled(server, "kueue")
        (line,) = [each for each in install_crds(server) if name in each]
        assert line.endswith("left as it is")
        assert server.request("GET", path).json() == before
        labelled(server, "headgate")
        (line,) = [each for each in install_crds(server) if name in each]
        assert line.endswith("unchanged")


def test_a_definition_that_lost_its_webhook_gets_it_back(pair: Pair) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cohorts.kueue.x-k8s.io"

    def said() -> Object:
        found: Object = pair.real.request("GET", path).json()["spec"]["conversion"]
        return found

    right = said()
    assert right["strategy"] == "Webhook"
    broken = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}}).encode()
    assert pair.real.request("PATCH", path, {"Content-Type": "application/merge-patch+json"}, broken).status == 200
    wait_for(lambda: said() == right, pair.webhooks)
    assert pair.ours.request("GET", path).json()["spec"]["conversion"] == {"strategy": "None"}


def test_while_the_webhooks_are_down_v1beta2_works_and_v1beta1_fails_with_the_cause(pair: Pair) -> None:
    queue = made("v1beta2", "ClusterQueue", "outage", {"cohortName": "all"})
    assert pair.ask("POST", f"{NEW}/clusterqueues", queue)[0] == 201
    pair.webhooks.kill()
    changed = json.dumps({"spec": {"stopPolicy": "Hold"}}).encode()
    merge = {"Content-Type": "application/merge-patch+json"}
    assert pair.real.request("PATCH", f"{NEW}/clusterqueues/outage", merge, changed).status == 200
    refused = pair.real.request("GET", f"{OLD}/clusterqueues/outage")
    assert (refused.status, "conversion webhook for kueue.x-k8s.io" in refused.json()["message"]) == (500, True)
    pair.revive()
    assert pair.ours.request("PATCH", f"{NEW}/clusterqueues/outage", merge, changed).status == 200
    assert pair.ask("GET", f"{OLD}/clusterqueues/outage")[1]["spec"]["cohort"] == "all"
