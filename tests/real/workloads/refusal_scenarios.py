"""Stories of workloads whose pods are refused, held back or taken away by somebody else than their owner."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import STUBBORN, cron_job, deployment, job, stateful_set, template, workload
from real.workloads.scenario_cluster import Workplace, story

Object = dict[str, Any]
GATE: Object = {"schedulingGates": [{"name": "example.com/hold"}]}


def quota(pods: int) -> Object:
    metadata = {"name": "few"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}}


def with_quota(place: Workplace, pods: int) -> None:
    place.create(quota(pods))
    place.wait(place.status("resourcequotas/few", hard={"pods": str(pods)}))


def replicas_in_a_quota(place: Workplace) -> None:
    with_quota(place, 1)
    place.create(deployment("web", replicas=2))
    place.stop(
        "one of two may run",
        place.status("deployments/web", readyReplicas=1),
        place.condition("deployments/web", "ReplicaFailure"),
        place.event("FailedCreate"),
    )
    place.change("resourcequotas/few", {"spec": {"hard": {"pods": "3"}}})
    place.stop("both run", place.status("deployments/web", readyReplicas=2))


def job_in_a_quota(place: Workplace) -> None:
    with_quota(place, 1)
    place.create(job("work", {}, parallelism=3, completions=3))
    place.stop("one of three may run", place.status("jobs/work", active=1, ready=1), place.event("FailedCreate"))
    place.change("resourcequotas/few", {"spec": {"hard": {"pods": "5"}}})
    place.stop("all run", place.status("jobs/work", active=3, ready=3))


def stateful_in_a_quota(place: Workplace) -> None:
    with_quota(place, 1)
    place.create(stateful_set("db", replicas=2))
    place.stop("one of two may run", place.status("statefulsets/db", readyReplicas=1), place.event("FailedCreate"))
    place.change("resourcequotas/few", {"spec": {"hard": {"pods": "3"}}})
    place.stop("both run", place.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))


def no_such_class(place: Workplace) -> None:
    place.create(
        deployment("web", template("web", priorityClassName="none"), replicas=1),
        workload("DaemonSet", "agent", template("agent", priorityClassName="none")),
        job("work", {}, {"priorityClassName": "none"}),
    )
    place.stop(
        "nothing can be made",
        place.condition("deployments/web", "ReplicaFailure"),
        place.event("FailedCreate", "ReplicaSet"),
        place.event("FailedCreate", "DaemonSet"),
        place.event("FailedCreate", "Job"),
    )


def too_large_for_the_namespace(place: Workplace) -> None:
    limits = [{"type": "Container", "max": {"cpu": "100m"}}]
    place.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}})
    pods = template("web")
    pods["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    place.create(deployment("web", pods, replicas=1))
    place.stop("it is refused", place.condition("deployments/web", "ReplicaFailure"), place.event("FailedCreate"))
    place.kubectl("describe deployment web", "sorted")


def gated_deployment(place: Workplace) -> None:
    place.create(deployment("web", template("web", **GATE), replicas=2))
    # Ours says that they wait for their queue: its deadline does not run meanwhile.
    place.stop(
        "its pods wait",
        place.status("deployments/web", replicas=2, unavailableReplicas=2),
        place.pods_are(2),
        unsure=("Progressing",),
    )
    place.kubectl("get pods", "sorted")
    for each in place.pods():
        place.change(f"pods/{each['metadata']['name']}", {"spec": {"schedulingGates": None}})
    place.stop("they run", place.status("deployments/web", readyReplicas=2, availableReplicas=2))
    place.kubectl("set image deployment/web main=registry.example/app:2")
    place.stop(
        "the old ones run while a new one waits",
        place.status("deployments/web", replicas=3, updatedReplicas=1),
        unsure=("Progressing",),
    )
    place.kubectl("rollout undo deployment/web")
    place.stop("the new one is gone", place.status("deployments/web", replicas=2, updatedReplicas=2, readyReplicas=2))


def gated_job(place: Workplace) -> None:
    place.create(job("work", None, GATE, parallelism=2, completions=2))
    place.stop("its pods wait", place.status("jobs/work", active=2, ready=0), place.pods_are(2))
    first = place.pods()[0]
    place.change(f"pods/{first['metadata']['name']}", {"spec": {"schedulingGates": None}})
    place.stop("one is through", place.status("jobs/work", active=1, succeeded=1))
    place.change("jobs/work", {"spec": {"suspend": True}})
    place.stop("the other is gone", place.pods_are(1), place.condition("jobs/work", "Suspended"))


def gated_stateful_set(place: Workplace) -> None:
    place.create(stateful_set("db", template("db", **GATE), replicas=2))
    place.stop("the first waits", place.pods_are(1), place.status("statefulsets/db", replicas=1))
    place.change("pods/db-0", {"spec": {"schedulingGates": None}})
    place.stop("the second waits", place.status("statefulsets/db", replicas=2, readyReplicas=1))


def namespace_goes(place: Workplace) -> None:
    place.create(
        deployment("web", replicas=2),
        stateful_set("db", replicas=2),
        job("work", {}, parallelism=2, completions=2),
        cron_job("tick"),
        workload("DaemonSet", "agent"),
    )
    place.stop(
        "all are up",
        place.status("deployments/web", readyReplicas=2, availableReplicas=2),
        place.status("statefulsets/db", readyReplicas=2, availableReplicas=2),
        place.status("jobs/work", active=2, ready=2),
        place.status("daemonsets/agent", numberReady=3, numberAvailable=3),
    )
    place.kubectl(f"delete namespace {place.ns}")
    place.until_gone(f"/api/v1/namespaces/{place.ns}")
    place.make_namespace()
    place.stop("nothing is left", place.pods_are(0))


def evicted(place: Workplace) -> None:
    place.create(deployment("web", replicas=2), job("work", STUBBORN, {"terminationGracePeriodSeconds": 1}))
    place.stop(
        "all run", place.status("deployments/web", readyReplicas=2), place.status("jobs/work", active=1, ready=1)
    )
    for each in (place.pods(app="web")[0], place.pods(app="work")[0]):
        name = each["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        place.post(place.at(f"pods/{name}", "eviction"), eviction)
    place.stop(
        "others run instead",
        place.status("deployments/web", readyReplicas=2, replicas=2),
        place.status("jobs/work", active=1, ready=1, failed=1),
    )


def relabelled(place: Workplace) -> None:
    """A pod that is no longer meant is let go, and taken back when it is meant again."""
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", readyReplicas=2))
    name = place.pods()[0]["metadata"]["name"]
    place.change(f"pods/{name}", {"metadata": {"labels": {"app": "apart"}}})
    place.stop(
        "another takes its place", place.pods_are(3, "Running"), place.status("deployments/web", readyReplicas=2)
    )
    place.change("deployments/web", {"spec": {"replicas": 3}})
    place.stop("it is larger", place.pods_are(4, "Running"), place.status("deployments/web", readyReplicas=3))
    place.remove(f"pods/{name}")
    place.stop("nobody misses it", place.pods_are(3, "Running"))


SCENARIOS = [
    story("a quota has room for one of two replicas", replicas_in_a_quota),
    story("a quota has room for one of three pods of a Job", job_in_a_quota),
    story("a quota has room for one of two pods of a StatefulSet", stateful_in_a_quota),
    story("pods ask for a priority class that is not there", no_such_class),
    story("pods are too large for their namespace", too_large_for_the_namespace),
    story("the pods of a Deployment wait behind a gate", gated_deployment),
    story("the pods of a Job wait behind a gate", gated_job),
    story("the pods of a StatefulSet wait behind a gate", gated_stateful_set),
    story("a namespace with workloads is deleted", namespace_goes),
    story("pods of a Deployment and a Job are evicted", evicted),
    story("a pod of a Deployment is labelled otherwise", relabelled),
]
