"""Scenarios of ReplicaSets that no Deployment made: how many pods, whose, and which of them go."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import template, workload
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

Object = dict[str, Any]

WEB = "replicasets/web"
COST = "controller.kubernetes.io/pod-deletion-cost"


def a_set(replicas: int, pods: Object | None = None, **spec: Any) -> Object:
    return workload("ReplicaSet", "web", pods, replicas=replicas, **spec)


def bare(name: str, wishes: dict[str, str] | None = None, **spec: Any) -> Object:
    pod = template("web", wishes, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}


def up(cluster: WorkloadCluster, count: int) -> tuple[WaitCondition, ...]:
    numbers = dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), count)
    return (
        cluster.status(WEB, terminatingReplicas=0, **numbers),
        cluster.pods_are(count),
        cluster.event("SuccessfulCreate"),
    )


def names(cluster: WorkloadCluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.pods()]


def scaled(cluster: WorkloadCluster) -> None:
    """Never down to some of different ages: which of those go is drawn, in part."""
    cluster.create(a_set(4))
    cluster.checkpoint("four", *up(cluster, 4))
    cluster.kubectl("get replicaset web")
    cluster.change(WEB, {"spec": {"replicas": 1}})
    cluster.checkpoint("one", *up(cluster, 1), cluster.event("SuccessfulDelete"))
    cluster.change(WEB, {"spec": {"replicas": 3}})
    cluster.checkpoint("three", *up(cluster, 3))
    cluster.change(WEB, {"spec": {"replicas": 0}})
    cluster.checkpoint("none", *up(cluster, 0))


def adopts_too_many(cluster: WorkloadCluster) -> None:
    """Those that are not ready go first."""
    cluster.create(
        bare("slow", {"start-after": "1h"}), bare("quick"), bare("gated", schedulingGates=[{"name": "a.b/c"}])
    )
    ready = cluster.pods_are(3)
    cluster.wait(
        ready, WaitCondition("quick runs", lambda: _phase(cluster, "quick") == "Running", lambda: cluster.pods())
    )
    cluster.create(a_set(2))
    gone = cluster.pods_are(2), cluster.event("SuccessfulDelete")
    cluster.checkpoint("the gated one goes", cluster.status(WEB, replicas=2, readyReplicas=1), *gone)
    cluster.change(WEB, {"spec": {"replicas": 1}})
    cluster.checkpoint("the slow one goes", cluster.status(WEB, replicas=1, readyReplicas=1), cluster.pods_are(1))
    cluster.note("left", names(cluster))


def _phase(cluster: WorkloadCluster, name: str) -> Any:
    return cluster.read(f"pods/{name}")["status"]["phase"]


def goes_by_cost(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(3))
    cluster.wait(*up(cluster, 3))
    for cost, name in zip(("10", "-5", "junk"), names(cluster), strict=True):
        if cost != "junk":
            cluster.change(f"pods/{name}", {"metadata": {"annotations": {COST: cost}}})
    cluster.change(WEB, {"spec": {"replicas": 2}})
    cluster.checkpoint("the cheapest goes", *up(cluster, 2), cluster.event("SuccessfulDelete"))
    cluster.change(WEB, {"spec": {"replicas": 1}})
    cluster.checkpoint("the dearest stays", *up(cluster, 1))


def relabelled(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(2))
    cluster.wait(*up(cluster, 2))
    first = names(cluster)[0]
    cluster.change(f"pods/{first}", {"metadata": {"labels": {"app": "other"}}})
    cluster.checkpoint("it is released and replaced", cluster.pods_are(3), cluster.status(WEB, readyReplicas=2))
    cluster.change(f"pods/{first}", {"metadata": {"labels": {"app": "web"}}})
    cluster.checkpoint("it is taken back and one goes", *up(cluster, 2), cluster.event("SuccessfulDelete"))


def pods_end(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(2))
    cluster.wait(*up(cluster, 2))
    first, second = names(cluster)
    cluster.end_pod(first)
    cluster.end_pod(second, phase="Succeeded", exit_code=0)
    cluster.checkpoint("both are replaced", cluster.pods_are(4), cluster.status(WEB, replicas=2, readyReplicas=2))
    cluster.remove(f"pods/{first}")
    cluster.checkpoint(
        "a dead one is missed by nobody", cluster.pods_are(3), cluster.status(WEB, replicas=2, readyReplicas=2)
    )


def ended_before(cluster: WorkloadCluster) -> None:
    """A pod that has ended is neither adopted nor released."""
    cluster.create(bare("short", {"run-for": "100ms"}, restartPolicy="Never"))
    cluster.wait(cluster.pods_are(1, "Succeeded"))
    cluster.create(a_set(1))
    cluster.wait(cluster.status(WEB, readyReplicas=1), cluster.pods_are(2))
    (mine,) = (name for name in names(cluster) if name != "short")
    cluster.end_pod(mine)
    cluster.change(f"pods/{mine}", {"metadata": {"labels": {"app": "other"}}})
    cluster.checkpoint("they stay whose they are", cluster.status(WEB, readyReplicas=1), cluster.pods_are(3))


def another_template(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(2))
    cluster.wait(*up(cluster, 2))
    cluster.change(WEB, {"spec": {"template": {"metadata": {"labels": {"tier": "front"}}}}})
    cluster.checkpoint("its pods stay as they are", cluster.status(WEB, replicas=2, fullyLabeledReplicas=0))
    cluster.remove(f"pods/{names(cluster)[0]}")
    cluster.checkpoint(
        "a new one is another", cluster.status(WEB, readyReplicas=2, fullyLabeledReplicas=1), cluster.pods_are(2)
    )


def ready_for_long_enough(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(2, minReadySeconds=6))
    cluster.wait(cluster.status(WEB, readyReplicas=2, availableReplicas=0))
    cluster.checkpoint("they are available", *up(cluster, 2))


def refused(cluster: WorkloadCluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    cluster.create({**quota, "spec": {"hard": {"pods": "1"}}})
    cluster.wait(WaitCondition("it counts", lambda: "used" in cluster.read("resourcequotas/few")["status"], lambda: ""))
    cluster.create(a_set(3))
    failed = cluster.condition(WEB, "ReplicaFailure", "True", "FailedCreate")
    cluster.checkpoint(
        "there is room for one", failed, cluster.pods_are(1), cluster.event("FailedCreate", "ReplicaSet")
    )
    cluster.change("resourcequotas/few", {"spec": {"hard": {"pods": "5"}}})
    cluster.checkpoint("there is room for all", *up(cluster, 3))


def left_and_found(cluster: WorkloadCluster) -> None:
    cluster.create(a_set(2))
    cluster.checkpoint("they are up", *up(cluster, 2))
    cluster.remove(WEB, "Orphan")
    cluster.checkpoint("its pods are left", cluster.gone(WEB), cluster.pods_are(2))
    again = a_set(3)
    again["metadata"]["name"] = "again"
    cluster.create(again)
    cluster.checkpoint("another takes them", cluster.status("replicasets/again", readyReplicas=3), cluster.pods_are(3))


SCENARIOS = [
    scenario("a ReplicaSet is scaled", scaled),
    scenario("a ReplicaSet adopts more pods than it wants", adopts_too_many),
    scenario("pods of a ReplicaSet go by what they cost", goes_by_cost),
    scenario("a pod of a ReplicaSet is labelled otherwise and back", relabelled),
    scenario("pods of a ReplicaSet end", pods_end),
    scenario("pods that have ended are left to whom they belong", ended_before),
    scenario("a ReplicaSet gets another template", another_template),
    scenario("a ReplicaSet waits until pods are ready for long enough", ready_for_long_enough),
    scenario("pods of a ReplicaSet are refused", refused),
    scenario("pods of a ReplicaSet are left and found by another", left_and_found),
]
