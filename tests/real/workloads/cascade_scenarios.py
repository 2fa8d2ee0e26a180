"""Scenarios of what goes with an owner of workloads and what stays behind."""

from __future__ import annotations

from real.workloads.manifests import cron_job, deployment, job, stateful_set, template
from real.workloads.scenario_cluster import WorkloadCluster, scenario

DEPLOYED = {"readyReplicas": 2, "updatedReplicas": 2}
AT_WORK = {"active": 2, "ready": 2}


def all_of_a_deployment_goes(cluster: WorkloadCluster, cascade: str) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.checkpoint("it is up", cluster.status("deployments/web", **DEPLOYED))
    cluster.kubectl(f"delete deployment web --cascade={cascade}")
    cluster.checkpoint("all is gone", cluster.pods_are(0), cluster.gone("deployments/web"))


def deployment_orphan(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.checkpoint("it is up", cluster.status("deployments/web", **DEPLOYED))
    cluster.kubectl("delete deployment web --cascade=orphan")
    cluster.checkpoint(
        "the pods and their ReplicaSet stay", cluster.gone("deployments/web"), cluster.pods_are(2, "Running")
    )
    cluster.create(deployment("web", replicas=2))
    cluster.checkpoint("a new one takes them up", cluster.status("deployments/web", **DEPLOYED))


def a_running_job(cluster: WorkloadCluster) -> None:
    cluster.create(job("work", {}, parallelism=2, completions=2))
    cluster.checkpoint("it runs", cluster.status("jobs/work", **AT_WORK))


def all_of_a_job_goes(cluster: WorkloadCluster, cascade: str) -> None:
    a_running_job(cluster)
    cluster.kubectl(f"delete job work --cascade={cascade}")
    cluster.checkpoint("all is gone", cluster.pods_are(0), cluster.gone("jobs/work"))


def job_orphan(cluster: WorkloadCluster) -> None:
    a_running_job(cluster)
    cluster.kubectl("delete job work --cascade=orphan")
    cluster.checkpoint("its pods stay", cluster.gone("jobs/work"), cluster.pods_are(2, "Running"))


def job_by_default(cluster: WorkloadCluster) -> None:
    """A Job that is deleted without a propagation policy keeps its pods."""
    cluster.create(job("work", {}, parallelism=2, completions=2))
    cluster.wait(cluster.status("jobs/work", active=2, ready=2))
    cluster.remove("jobs/work")
    cluster.checkpoint("its pods stay", cluster.gone("jobs/work"), cluster.pods_are(2, "Running"))


def stateful_set_cascades(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.checkpoint("it is up", cluster.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    cluster.kubectl("delete statefulset db --cascade=orphan")
    cluster.checkpoint("its pods stay", cluster.gone("statefulsets/db"), cluster.pods_are(2, "Running"))
    cluster.create(stateful_set("db", replicas=2))
    cluster.checkpoint("a new one takes them up", cluster.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    cluster.kubectl("delete statefulset db --cascade=foreground")
    cluster.checkpoint("all is gone", cluster.pods_are(0))


def stateful_set_background(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("db", replicas=2))
    cluster.checkpoint("it is up", cluster.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    cluster.kubectl("delete statefulset db --cascade=background")
    cluster.checkpoint("all is gone", cluster.gone("statefulsets/db"), cluster.pods_are(0))


def cron_job_goes(cluster: WorkloadCluster, cascade: str) -> None:
    cluster.create(cron_job("tick", {}))
    cluster.kubectl("create job now --from=cronjob/tick")
    cluster.checkpoint("its Job runs", cluster.status("jobs/now", active=1, ready=1))
    cluster.kubectl(f"delete cronjob tick --cascade={cascade}")
    if cascade == "orphan":
        cluster.checkpoint("its Job runs on", cluster.gone("cronjobs/tick"), cluster.pods_are(1, "Running"))
    else:
        cluster.checkpoint("all is gone", cluster.gone("jobs/now"), cluster.pods_are(0))


def held_by_a_finalizer(cluster: WorkloadCluster) -> None:
    """A pod with a finalizer keeps all its owners, if all of them were deleted in the foreground."""
    pods = template("web")
    pods["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(deployment("web", pods, replicas=1))
    cluster.checkpoint("it is up", cluster.status("deployments/web", readyReplicas=1, updatedReplicas=1))
    cluster.kubectl("delete deployment web --cascade=foreground --wait=false")
    cluster.checkpoint("all of it is going", cluster.going("deployments/web"), cluster.going_pods(1))
    (pod,) = cluster.pods()
    cluster.change(f"pods/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    cluster.checkpoint("all is gone", cluster.gone("deployments/web"), cluster.pods_are(0))


SCENARIOS = [
    scenario("a Deployment is deleted in the background", lambda place: all_of_a_deployment_goes(place, "background")),
    scenario("a Deployment is deleted in the foreground", lambda place: all_of_a_deployment_goes(place, "foreground")),
    scenario("a Deployment is deleted and its pods are taken up again", deployment_orphan),
    scenario("a Job is deleted in the background", lambda place: all_of_a_job_goes(place, "background")),
    scenario("a Job is deleted in the foreground", lambda place: all_of_a_job_goes(place, "foreground")),
    scenario("a Job is deleted and its pods stay", job_orphan),
    scenario("a Job is deleted and nothing is said of its pods", job_by_default),
    scenario("a StatefulSet is deleted and its pods are taken up again", stateful_set_cascades),
    scenario("a StatefulSet is deleted in the background", stateful_set_background),
    scenario("a CronJob is deleted in the background", lambda place: cron_job_goes(place, "background")),
    scenario("a CronJob is deleted in the foreground", lambda place: cron_job_goes(place, "foreground")),
    scenario("a CronJob is deleted and its Job runs on", lambda place: cron_job_goes(place, "orphan")),
    scenario("a Deployment is held by a finalizer of its pod", held_by_a_finalizer),
]
