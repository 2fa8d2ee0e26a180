"""Stories of what goes with an owner of workloads and what stays behind."""

from __future__ import annotations

from real.workloads.manifests import cron_job, deployment, job, stateful_set, template
from real.workloads.place import Workplace, story


def deployment_background(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete deployment web --cascade=background")
    place.stop("all is gone", place.pods_are(0), place.gone("deployments/web"))


def deployment_foreground(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete deployment web --cascade=foreground")
    place.stop("all is gone", place.pods_are(0))


def deployment_orphan(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.stop("it is up", place.status("deployments/web", readyReplicas=2, updatedReplicas=2))
    place.kubectl("delete deployment web --cascade=orphan")
    place.stop("the pods and their ReplicaSet stay", place.gone("deployments/web"), place.pods_are(2, "Running"))
    place.create(deployment("web", replicas=2))
    place.stop("a new one takes them up", place.status("deployments/web", readyReplicas=2, updatedReplicas=2))


def job_background(place: Workplace) -> None:
    place.create(job("work", {}, parallelism=2, completions=2))
    place.stop("it runs", place.status("jobs/work", active=2, ready=2))
    place.kubectl("delete job work --cascade=background")
    place.stop("all is gone", place.pods_are(0), place.gone("jobs/work"))


def job_foreground(place: Workplace) -> None:
    place.create(job("work", {}, parallelism=2, completions=2))
    place.stop("it runs", place.status("jobs/work", active=2, ready=2))
    place.kubectl("delete job work --cascade=foreground")
    place.stop("all is gone", place.pods_are(0))


def job_orphan(place: Workplace) -> None:
    place.create(job("work", {}, parallelism=2, completions=2))
    place.stop("it runs", place.status("jobs/work", active=2, ready=2))
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


def cron_job_background(place: Workplace) -> None:
    place.create(cron_job("tick", {}))
    place.kubectl("create job now --from=cronjob/tick")
    place.stop("its Job runs", place.status("jobs/now", active=1, ready=1))
    place.kubectl("delete cronjob tick --cascade=background")
    place.stop("all is gone", place.gone("jobs/now"), place.pods_are(0))


def cron_job_foreground(place: Workplace) -> None:
    place.create(cron_job("tick", {}))
    place.kubectl("create job now --from=cronjob/tick")
    place.stop("its Job runs", place.status("jobs/now", active=1, ready=1))
    place.kubectl("delete cronjob tick --cascade=foreground")
    place.stop("all is gone", place.gone("jobs/now"), place.pods_are(0))


def cron_job_orphan(place: Workplace) -> None:
    place.create(cron_job("tick", {}))
    place.kubectl("create job now --from=cronjob/tick")
    place.stop("its Job runs", place.status("jobs/now", active=1, ready=1))
    place.kubectl("delete cronjob tick --cascade=orphan")
    place.stop("its Job runs on", place.gone("cronjobs/tick"), place.pods_are(1, "Running"))


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


STORIES = [
    story("a Deployment is deleted in the background", deployment_background),
    story("a Deployment is deleted in the foreground", deployment_foreground),
    story("a Deployment is deleted and its pods are taken up again", deployment_orphan),
    story("a Job is deleted in the background", job_background),
    story("a Job is deleted in the foreground", job_foreground),
    story("a Job is deleted and its pods stay", job_orphan),
    story("a Job is deleted and nothing is said of its pods", job_by_default),
    story("a StatefulSet is deleted and its pods are taken up again", stateful_set_cascades),
    story("a StatefulSet is deleted in the background", stateful_set_background),
    story("a CronJob is deleted in the background", cron_job_background),
    story("a CronJob is deleted in the foreground", cron_job_foreground),
    story("a CronJob is deleted and its Job runs on", cron_job_orphan),
    story("a Deployment is held by a finalizer of its pod", held_by_a_finalizer),
]
