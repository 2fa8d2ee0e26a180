"""Scenarios of workloads whose pods are refused, held or deleted by another client than their owner."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import STUBBORN, cron_job, deployment, job, stateful_set, template, workload
from real.workloads.scenario_cluster import WorkloadCluster, scenario

Object = dict[str, Any]
GATE: Object = {"schedulingGates": [{"name": "example.com/hold"}]}


def quota(pods: int) -> Object:
    metadata = {"name": "few"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}}


def with_quota(cluster: WorkloadCluster, pods: int) -> None:
    cluster.create(quota(pods))
    cluster.wait(cluster.status("resourcequotas/few", hard={"pods": str(pods)}))


def replicas_in_a_quota(cluster: WorkloadCluster) -> None:
    with_quota(cluster, 1)
    cluster.create(deployment("web", replicas=2))
    cluster.checkpoint(
        "one of two may run",
        cluster.status("deployments/web", readyReplicas=1),
        cluster.condition("deployments/web", "ReplicaFailure"),
        cluster.event("FailedCreate"),
    )
    cluster.change("resourcequotas/few", {"spec": {"hard": {"pods": "3"}}})
    cluster.checkpoint("both run", cluster.status("deployments/web", readyReplicas=2))


def job_in_a_quota(cluster: WorkloadCluster) -> None:
    with_quota(cluster, 1)
    cluster.create(job("work", {}, parallelism=3, completions=3))
    cluster.checkpoint(
        "one of three may run", cluster.status("jobs/work", active=1, ready=1), cluster.event("FailedCreate")
    )
    cluster.change("resourcequotas/few", {"spec": {"hard": {"pods": "5"}}})
    cluster.checkpoint("all run", cluster.status("jobs/work", active=3, ready=3))


def stateful_in_a_quota(cluster: WorkloadCluster) -> None:
    with_quota(cluster, 1)
    cluster.create(stateful_set("db", replicas=2))
    cluster.checkpoint(
        "one of two may run", cluster.status("statefulsets/db", readyReplicas=1), cluster.event("FailedCreate")
    )
    cluster.change("resourcequotas/few", {"spec": {"hard": {"pods": "3"}}})
    cluster.checkpoint("both run", cluster.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))


def no_such_class(cluster: WorkloadCluster) -> None:
    cluster.create(
        deployment("web", template("web", priorityClassName="none"), replicas=1),
        workload("DaemonSet", "agent", template("agent", priorityClassName="none")),
        job("work", {}, {"priorityClassName": "none"}),
    )
    cluster.checkpoint(
        "nothing can be made",
        cluster.condition("deployments/web", "ReplicaFailure"),
        cluster.event("FailedCreate", "ReplicaSet"),
        cluster.event("FailedCreate", "DaemonSet"),
        cluster.event("FailedCreate", "Job"),
    )


def too_large_for_the_namespace(cluster: WorkloadCluster) -> None:
    limits = [{"type": "Container", "max": {"cpu": "100m"}}]
    cluster.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}}
    )
    pods = template("web")
    pods["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    cluster.create(deployment("web", pods, replicas=1))
    cluster.checkpoint(
        "it is refused", cluster.condition("deployments/web", "ReplicaFailure"), cluster.event("FailedCreate")
    )
    cluster.kubectl("describe deployment web", "sorted")


def gated_deployment(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", template("web", **GATE), replicas=2))
    # Ours says that they wait for their queue: its deadline does not run meanwhile.
    cluster.checkpoint(
        "its pods wait",
        cluster.status("deployments/web", replicas=2, unavailableReplicas=2),
        cluster.pods_are(2),
        unsure=("Progressing",),
    )
    cluster.kubectl("get pods", "sorted")
    for each in cluster.pods():
        cluster.change(f"pods/{each['metadata']['name']}", {"spec": {"schedulingGates": None}})
    cluster.checkpoint("they run", cluster.status("deployments/web", readyReplicas=2, availableReplicas=2))
    cluster.kubectl("set image deployment/web main=registry.example/app:2")
    cluster.checkpoint(
        "the old ones run while a new one waits",
        cluster.status("deployments/web", replicas=3, updatedReplicas=1),
        unsure=("Progressing",),
    )
    cluster.kubectl("rollout undo deployment/web")
    cluster.checkpoint(
        "the new one is gone", cluster.status("deployments/web", replicas=2, updatedReplicas=2, readyReplicas=2)
    )


def gated_job(cluster: WorkloadCluster) -> None:
    cluster.create(job("work", None, GATE, parallelism=2, completions=2))
    cluster.checkpoint("its pods wait", cluster.status("jobs/work", active=2, ready=0), cluster.pods_are(2))
    first = cluster.pods()[0]
    cluster.change(f"pods/{first['metadata']['name']}", {"spec": {"schedulingGates": None}})
    cluster.checkpoint("one is through", cluster.status("jobs/work", active=1, succeeded=1))
    cluster.change("jobs/work", {"spec": {"suspend": True}})
    cluster.checkpoint("the other is gone", cluster.pods_are(1), cluster.condition("jobs/work", "Suspended"))


def gated_stateful_set(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", template("db", **GATE), replicas=2))
    cluster.checkpoint("the first waits", cluster.pods_are(1), cluster.status("statefulsets/db", replicas=1))
    cluster.change("pods/db-0", {"spec": {"schedulingGates": None}})
    cluster.checkpoint("the second waits", cluster.status("statefulsets/db", replicas=2, readyReplicas=1))


def namespace_goes(cluster: WorkloadCluster) -> None:
    cluster.create(
        deployment("web", replicas=2),
        stateful_set("db", replicas=2),
        job("work", {}, parallelism=2, completions=2),
        cron_job("tick"),
        workload("DaemonSet", "agent"),
    )
    cluster.checkpoint(
        "all are up",
        cluster.status("deployments/web", readyReplicas=2, availableReplicas=2),
        cluster.status("statefulsets/db", readyReplicas=2, availableReplicas=2),
        cluster.status("jobs/work", active=2, ready=2),
        cluster.status("daemonsets/agent", numberReady=3, numberAvailable=3),
    )
    cluster.kubectl(f"delete namespace {cluster.ns}")
    cluster.until_gone(f"/api/v1/namespaces/{cluster.ns}")
    cluster.make_namespace()
    cluster.checkpoint("nothing is left", cluster.pods_are(0))


def evicted(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2), job("work", STUBBORN, {"terminationGracePeriodSeconds": 1}))
    cluster.checkpoint(
        "all run", cluster.status("deployments/web", readyReplicas=2), cluster.status("jobs/work", active=1, ready=1)
    )
    for each in (cluster.pods(app="web")[0], cluster.pods(app="work")[0]):
        name = each["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        cluster.post(cluster.at(f"pods/{name}", "eviction"), eviction)
    cluster.checkpoint(
        "others run instead",
        cluster.status("deployments/web", readyReplicas=2, replicas=2),
        cluster.status("jobs/work", active=1, ready=1, failed=1),
    )


def relabelled(cluster: WorkloadCluster) -> None:
    """A pod that is no longer meant is let go, and taken back when it is meant again."""
    cluster.create(deployment("web", replicas=2))
    cluster.checkpoint("it is up", cluster.status("deployments/web", readyReplicas=2))
    name = cluster.pods()[0]["metadata"]["name"]
    cluster.change(f"pods/{name}", {"metadata": {"labels": {"app": "apart"}}})
    cluster.checkpoint(
        "another takes its place", cluster.pods_are(3, "Running"), cluster.status("deployments/web", readyReplicas=2)
    )
    cluster.change("deployments/web", {"spec": {"replicas": 3}})
    cluster.checkpoint(
        "it is larger", cluster.pods_are(4, "Running"), cluster.status("deployments/web", readyReplicas=3)
    )
    cluster.remove(f"pods/{name}")
    cluster.checkpoint("nobody misses it", cluster.pods_are(3, "Running"))


SCENARIOS = [
    scenario("a quota has room for one of two replicas", replicas_in_a_quota),
    scenario("a quota has room for one of three pods of a Job", job_in_a_quota),
    scenario("a quota has room for one of two pods of a StatefulSet", stateful_in_a_quota),
    scenario("pods ask for a priority class that is not there", no_such_class),
    scenario("pods are too large for their namespace", too_large_for_the_namespace),
    scenario("the pods of a Deployment wait behind a gate", gated_deployment),
    scenario("the pods of a Job wait behind a gate", gated_job),
    scenario("the pods of a StatefulSet wait behind a gate", gated_stateful_set),
    scenario("a namespace with workloads is deleted", namespace_goes),
    scenario("pods of a Deployment and a Job are evicted", evicted),
    scenario("a pod of a Deployment is labelled otherwise", relabelled),
]
