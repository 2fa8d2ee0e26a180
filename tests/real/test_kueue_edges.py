"""Quota where other parts of a cluster have a say: LimitRanges, RuntimeClasses, gates and webhooks of others,
rollbacks, forced deletions, claims of devices. On the embedded server, and on a real one with
kube-controller-manager."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.server_kinds import SERVER_KINDS
from harness.webhook_server import WebhookServer
from harness.webhooks import sent
from headgate.kube.pods.requests import pod_requests
from queued_objects import GATE, GROUP_NAME, SCHEDULING_GATED, TOTAL, Wire, collection, gates, queued
from real.kueue_cluster import API, NAMESPACE, KueueCluster

pytestmark = pytest.mark.real

JOBS = collection("Job", NAMESPACE)
PODS = collection("Pod", NAMESPACE)
DEPLOYMENTS = collection("Deployment", NAMESPACE)
REPLICA_SETS = collection("ReplicaSet", NAMESPACE)
OTHER = "example.com/other"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    made = KueueCluster(request.param, tmp_path_factory.mktemp(request.param), kube_binaries, "SchedulingGatedBy=true")
    yield made
    made.stop()


def reserved(cluster: KueueCluster, queue: str) -> str:
    """Empty while nothing is reported."""
    for flavor in (cluster.get(f"{API}/clusterqueues/{queue}").get("status") or {}).get("flavorsReservation") or ():
        return str(flavor["resources"][0]["total"])
    return ""


def events(cluster: KueueCluster, reason: str) -> list[Wire]:
    found: list[Wire] = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=reason={reason}")["items"]
    return found


def bare(name: str, queue: str, **pod: Any) -> Wire:
    """A Job whose container says nothing about resources."""
    body = queued("Job", name, queue=queue)
    del body["spec"]["template"]["spec"]["containers"][0]["resources"]
    body["spec"]["template"]["spec"] |= pod
    return body


def test_every_started_pod_has_one_event_and_no_event_of_a_failure(cluster: KueueCluster) -> None:
    cluster.queue("many", 20)
    names = [f"many-{number}" for number in range(20)]
    for name in names:
        cluster.pod(name, "many")
    cluster.until(lambda: all(map(cluster.is_admitted, names)))

    def pods_with_event(reason: str) -> list[str]:
        found = [each["involvedObject"]["name"] for each in events(cluster, reason)]
        return sorted(each for each in found if each in names)

    cluster.until(lambda: pods_with_event("Started") == sorted(names))
    assert pods_with_event("FailedToStart") == []


def test_jobs_are_counted_with_what_admission_adds_to_their_pods(cluster: KueueCluster) -> None:
    cluster.queue("defaults", 4)
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1500m"}, "default": {"cpu": "2"}}]
    cluster.made(f"/api/v1/namespaces/{NAMESPACE}/limitranges", {"metadata": {"name": "d"}, "spec": {"limits": limits}})
    overhead = {"podFixed": {"cpu": "500m"}}
    vm = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": overhead}
    cluster.made("/apis/node.k8s.io/v1/runtimeclasses", vm)
    for number in range(5):
        cluster.made(JOBS, bare(f"bare-{number}", "defaults", runtimeClassName="vm"))

    def running() -> list[Wire]:
        items = cluster.get(JOBS)["items"]
        return [
            each for each in items if each["metadata"]["name"].startswith("bare") and each["spec"]["suspend"] is False
        ]

    cluster.until(lambda: len(running()) == 2 and reserved(cluster, "defaults") == "4")
    pods = cluster.until(
        lambda: found if len(found := cluster.get(f"{PODS}?labelSelector=job-name")["items"]) >= 2 else None
    )
    mine = [each for each in pods if each["metadata"]["labels"]["job-name"].startswith("bare")]
    assert [str(pod_requests(each)["cpu"]) for each in mine] == ["2", "2"]
    answer = sent(cluster.server, "DELETE", f"/api/v1/namespaces/{NAMESPACE}/limitranges/d")
    assert answer.status == 200


def test_a_pod_with_a_foreign_gate_gets_no_quota(cluster: KueueCluster) -> None:
    cluster.queue("foreign", 1)
    cluster.pod("held", "foreign", schedulingGates=[{"name": OTHER}])
    cluster.pod("free", "foreign")
    cluster.run("free")
    assert sorted(gates(cluster.get(f"{PODS}/held"))) == [OTHER, GATE]
    assert cluster.workloads("held") == []
    cluster.report("free", "Succeeded")
    cluster.until(lambda: reserved(cluster, "foreign") == "0")
    cluster.patch(f"{PODS}/held", {"spec": {"schedulingGates": [{"name": GATE}]}})
    cluster.until(lambda: cluster.is_admitted("held"))


def test_quota_of_a_pod_whose_gate_a_webhook_keeps_goes_to_the_next_workload(
    cluster: KueueCluster, tmp_path: Path
) -> None:
    cluster.queue("denied", 1)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}

    def deny(review: Any) -> Any:
        request = review["request"]
        lifts = len(gates(request["object"])) < len(gates(request["oldObject"]))
        response: Wire = {"uid": request["uid"], "allowed": not lifts}
        if lifts:
            response["status"] = {"code": 403, "message": "not on a Monday"}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    with WebhookServer(tmp_path) as hooks:
        hooks.hooks["/deny"] = deny
        client = {"url": hooks.url("/deny"), "caBundle": base64.b64encode(hooks.ca).decode()}
        hook = {
            "name": "deny.example.com",
            "rules": [rule],
            "clientConfig": client,
            "objectSelector": {"matchLabels": {"deny": "yes"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        cluster.made(HOOKS, {"metadata": {"name": "deny"}, "webhooks": [hook]})
        probe = queued("Pod", "probe", queue="", labels={"deny": "yes"}, schedulingGates=[{"name": OTHER}])
        cluster.made(PODS, probe)
        lifted = {"spec": {"schedulingGates": None}}
        cluster.until(lambda: cluster.patch(f"{PODS}/probe?dryRun=All", lifted).status == 403)
        cluster.pod("denied", "denied", labels={"deny": "yes"})
        # Read once: the condition is false again as soon as the workload is admitted again.
        reason, message = cluster.until(lambda: cluster.workloads("denied") and cluster.condition("denied", "Evicted"))
        assert reason == "StartRefused"
        assert "not on a Monday" in message
        cluster.pod("allowed", "denied", priority="high")
        cluster.run("allowed")
        assert gates(cluster.get(f"{PODS}/denied")) == [GATE]
        cluster.report("allowed", "Succeeded")
        assert sent(cluster.server, "DELETE", f"{HOOKS}/deny").status == 200
    cluster.until(lambda: cluster.is_admitted("denied"))
    (workload,) = cluster.workloads("denied")
    (counted,) = workload["status"]["schedulingStats"]["evictions"]
    assert (counted["reason"], counted["underlyingCause"], counted["count"] >= 1) == ("StartRefused", "", True)


def test_a_deployment_that_was_gated_once_can_be_rolled_back(cluster: KueueCluster) -> None:
    cluster.queue("rollback", 8)
    made = queued("Deployment", "web", queue="rollback", annotations={SCHEDULING_GATED: OTHER}, cpu="100m")
    cluster.made(DEPLOYMENTS, made)

    def copies() -> list[Wire]:
        found = cluster.get(f"{REPLICA_SETS}?labelSelector=app=web")["items"]
        return [each for each in found if SCHEDULING_GATED in each["metadata"].get("annotations", {})]

    cluster.until(lambda: len(copies()) == 1)
    removed = cluster.patch(f"{DEPLOYMENTS}/web", {"metadata": {"annotations": {SCHEDULING_GATED: None}}})
    assert removed.status == 200, removed.body
    container = {**made["spec"]["template"]["spec"]["containers"][0], "image": "other"}
    later = {"spec": {"template": {"spec": {"containers": [container]}}}}
    assert cluster.patch(f"{DEPLOYMENTS}/web", later).status == 200
    cluster.until(lambda: len(cluster.get(f"{REPLICA_SETS}?labelSelector=app=web")["items"]) == 2)
    undone = cluster.server.kubectl(["-n", NAMESPACE, "rollout", "undo", "deployment/web"])
    assert undone.exit == 0, undone
    found = cluster.get(f"{DEPLOYMENTS}/web")
    assert SCHEDULING_GATED not in found["metadata"]["annotations"]
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "i"

    def admitted() -> list[Wire]:
        pods = cluster.get(f"{PODS}?labelSelector=app=web")["items"]
        return [each for each in pods if not gates(each) and "deletionTimestamp" not in each["metadata"]]

    cluster.until(admitted)
    orphaned = cluster.server.kubectl(["-n", NAMESPACE, "delete", "deployment", "web", "--cascade=orphan"])
    assert orphaned.exit == 0, orphaned
    (copy,) = copies()
    assert (
        "ownerReferences"
        not in cluster.until(
            lambda: found if "ownerReferences" not in (found := cluster.get(_path(copy)))["metadata"] else None
        )["metadata"]
    )
    assert cluster.patch(_path(copy), {"spec": {"replicas": 2}}).status == 200
    cluster.until(lambda: len(admitted()) == 2)


def _path(replica_set: Wire) -> str:
    return f"{REPLICA_SETS}/{replica_set['metadata']['name']}"


def test_a_group_member_that_is_deleted_by_force_is_gone(cluster: KueueCluster) -> None:
    cluster.queue("forced", 2)
    for name in ("forced-0", "forced-1"):
        cluster.pod(name, "forced", labels={GROUP_NAME: "forced"}, annotations={TOTAL: "2"})
    cluster.run("forced-0", "forced-1")
    cluster.delete("forced-0")
    assert cluster.is_ending("forced-0")
    answer = sent(cluster.server, "DELETE", f"{PODS}/forced-0", {"gracePeriodSeconds": 0})
    assert answer.status == 200, answer.body
    cluster.until(lambda: not cluster.is_there("forced-0"))
    assert cluster.is_there("forced-1")


def test_a_job_that_claims_devices_is_not_admitted(cluster: KueueCluster) -> None:
    cluster.queue("claims", 1)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    cluster.made(JOBS, bare("claims", "claims", resourceClaims=claims))

    def reason() -> Any:
        found = [each for workload in cluster.workloads("claims") for each in _conditions(workload)]
        return next(((each["reason"], each["message"]) for each in found if each["type"] == "QuotaReserved"), None)

    told, message = cluster.until(reason)
    assert told == "Misconfigured"
    assert "Workload uses DRA resources" in message


def test_a_job_that_ran_too_long_names_the_cause_of_its_end(cluster: KueueCluster) -> None:
    cluster.queue("long", 1)
    body = queued("Job", "long", queue="long", labels={"kueue.x-k8s.io/max-exec-time-seconds": "1"})
    cluster.made(JOBS, body)
    reason, _ = cluster.until(lambda: cluster.workloads("long") and cluster.condition("long", "Evicted"))
    assert reason == "DeactivatedDueToMaximumExecutionTimeExceeded"
    (workload,) = cluster.workloads("long")
    counted = {"reason": "Deactivated", "underlyingCause": "MaximumExecutionTimeExceeded", "count": 1}
    assert workload["status"]["schedulingStats"]["evictions"] == [counted]


def _conditions(workload: Wire) -> list[Wire]:
    found: list[Wire] = (workload.get("status") or {}).get("conditions") or []
    return found
