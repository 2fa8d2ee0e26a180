"""Stories of what goes with an owner of workloads and what stays behind."""

from __future__ import annotations

from real.workloads.manifests import cron_job, deployment, job, stateful_set, template
from real.workloads.scenario_cluster import Workplace, story

DEPLOYED = {"readyReplicas": 2, "updatedReplicas": 2}
AT_WORK = {"active": 2, "ready": 2}


def all_of_a_deployment_goes(place: Workplace, cascade: str) -> None:
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", **DEPLOYED))
    place.kubectl(f"delete deployment web --cascade={cascade}")
    place.stop("all is gone", place.pods_are(0), place.gone("deployments/web"))


def deployment_orphan(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", **DEPLOYED))
    place.kubectl("delete deployment web --cascade=orphan")
    place.stop("the pods and their ReplicaSet stay", place.gone("deployments/web"), place.pods_are(2, "Running"))
    place.create(deployment("web", replicas=2))
    place.stop("a new one takes them up", place.status("deployments/web", **DEPLOYED))


def a_running_job(place: Workplace) -> None:
    place.create(job("work", {}, parallelism=2, completions=2))
    place.stop("it runs", place.status("jobs/work", **AT_WORK))


def all_of_a_job_goes(place: Workplace, cascade: str) -> None:
    a_running_job(place)
    place.kubectl(f"delete job work --cascade={cascade}")
    place.stop("all is gone", place.pods_are(0), place.gone("jobs/work"))


def job_orphan(place: Workplace) -> None:
    a_running_job(place)
    place.kubectl("delete job work --cascade=orphan")
    place.stop("its pods stay", place.gone("jobs/work"), place.pods_are(2, "Running"))


def job_by_default(place: Workplace) -> None:
    """Whoever deletes a Job and says nothing keeps its pods."""
    place.create(job("work", {}, parallelism=2, completions=2))
    place.wait(place.status("jobs/work", active=2, ready=2))
    place.remove("jobs/work")
    place.stop("its pods stay", place.gone("jobs/work"), place.pods_are(2, "Running"))


def stateful_set_cascades(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.stop("it is up", place.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete statefulset db --cascade=orphan")
    place.stop("its pods stay", place.gone("statefulsets/db"), place.pods_are(2, "Running"))
    place.create(stateful_set("db", replicas=2))
    place.stop("a new one takes them up", place.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete statefulset db --cascade=foreground")
    place.stop("all is gone", place.pods_are(0))


def stateful_set_background(place: Workplace) -> None:
    place.create(stateful_set("db", replicas=2))
    place.stop("it is up", place.status("statefulsets/db", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete statefulset db --cascade=background")
    place.stop("all is gone", place.gone("statefulsets/db"), place.pods_are(0))


def cron_job_goes(place: Workplace, cascade: str) -> None:
    place.create(cron_job("tick", {}))
    place.kubectl("create job now --from=cronjob/tick")
    place.stop("its Job runs", place.status("jobs/now", active=1, ready=1))
    place.kubectl(f"delete cronjob tick --cascade={cascade}")
    if cascade == "orphan":
        place.stop("its Job runs on", place.gone("cronjobs/tick"), place.pods_are(1, "Running"))
    else:
        place.stop("all is gone", place.gone("jobs/now"), place.pods_are(0))


def held_by_a_finalizer(place: Workplace) -> None:
    """A pod that somebody holds holds everything above it, if everything above was deleted in the foreground."""
    pods = template("web")
    pods["metadata"]["finalizers"] = ["example.com/hold"]
    place.create(deployment("web", pods, replicas=1))
    place.stop("it is up", place.status("deployments/web", readyReplicas=1, updatedReplicas=1))
    place.kubectl("delete deployment web --cascade=foreground --wait=false")
    place.stop("all of it is going", place.going("deployments/web"), place.going_pods(1))
    (pod,) = place.pods()
    place.change(f"pods/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    place.stop("all is gone", place.gone("deployments/web"), place.pods_are(0))


SCENARIOS = [
    story("a Deployment is deleted in the background", lambda place: all_of_a_deployment_goes(place, "background")),
    story("a Deployment is deleted in the foreground", lambda place: all_of_a_deployment_goes(place, "foreground")),
    story("a Deployment is deleted and its pods are taken up again", deployment_orphan),
    story("a Job is deleted in the background", lambda place: all_of_a_job_goes(place, "background")),
    story("a Job is deleted in the foreground", lambda place: all_of_a_job_goes(place, "foreground")),
    story("a Job is deleted and its pods stay", job_orphan),
    story("a Job is deleted and nothing is said of its pods", job_by_default),
    story("a StatefulSet is deleted and its pods are taken up again", stateful_set_cascades),
    story("a StatefulSet is deleted in the background", stateful_set_background),
    story("a CronJob is deleted in the background", lambda place: cron_job_goes(place, "background")),
    story("a CronJob is deleted in the foreground", lambda place: cron_job_goes(place, "foreground")),
    story("a CronJob is deleted and its Job runs on", lambda place: cron_job_goes(place, "orphan")),
    story("a Deployment is held by a finalizer of its pod", held_by_a_finalizer),
]
