"""Stories of kubectl's other commands about workloads: scale, wait, drain, create job, autoscale, get and describe."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import cron_job, deployment, job, stateful_set, template, workload
from real.workloads.scenario_cluster import Workplace, story

Object = dict[str, Any]


def scaled(place: Workplace) -> None:
    place.create(deployment("web", replicas=1), stateful_set("db", replicas=1), job("work", {}))
    place.wait(place.status("deployments/web", readyReplicas=1), place.status("statefulsets/db", readyReplicas=1))
    place.kubectl("scale deployment/web --replicas=3 --current-replicas=2")
    place.kubectl("scale deployment/web --replicas=3 --current-replicas=1")
    place.kubectl("scale statefulset db --replicas=2")
    place.kubectl("scale job work --replicas=2")
    place.kubectl("scale deployment/none --replicas=2")
    place.kubectl("scale deployment/web --replicas=-1")
    place.stop(
        "all are as large as they were told",
        place.status("deployments/web", readyReplicas=3),
        place.status("statefulsets/db", readyReplicas=2),
        place.status("jobs/work", active=1, ready=1),
    )
    place.kubectl("scale deployment web --replicas=0")
    place.kubectl("scale statefulset db --replicas=0")
    place.stop("only the Job has pods", place.pods_are(1))
    place.kubectl("get deployments,statefulsets,replicasets", "sorted")


def waited_for(place: Workplace) -> None:
    place.create(
        deployment("web", replicas=2), job("work"), job("bad", {"run-for": "100ms", "exit-code": "1"}, backoffLimit=0)
    )
    place.kubectl("wait deployment/web --for=condition=Available")
    place.kubectl("wait deployment/web --for=jsonpath={.status.readyReplicas}=2")
    place.kubectl("wait job/work --for=condition=Complete")
    place.kubectl("wait job/bad --for=condition=Failed")
    place.kubectl("wait job/bad --for=condition=Complete --timeout=1s")
    place.kubectl("wait deployment/none --for=condition=Available --timeout=1s")
    place.kubectl("wait pods -l app=web --for=condition=Ready", "sorted")
    place.kubectl("wait pods -l job-name=work --for=jsonpath={.status.phase}=Succeeded")
    place.kubectl("delete deployment web --wait=false")
    place.kubectl("wait deployment/web --for=delete")
    place.stop("two Jobs are left", place.pods_are(2))


def from_a_cron_job(place: Workplace) -> None:
    place.create(cron_job("tick", schedule="0 0 1 1 *"))
    place.kubectl("create job now --from=cronjob/tick")
    place.kubectl("create job now --from=cronjob/tick")
    place.kubectl("create job other --from=cronjob/none")
    place.kubectl("wait job/now --for=condition=Complete")
    place.stop("it is done", place.status("jobs/now", succeeded=1), place.status("cronjobs/tick", active=None))
    place.kubectl("get cronjobs,jobs", "sorted")
    place.kubectl("create job plain --image=registry.example/app:1 -- true")
    place.kubectl("create cronjob tock --image=registry.example/app:1 --schedule=@yearly -- true")
    place.looks_at("cronjobs")
    place.stop("a plain one has ended beside it", place.status("jobs/plain", succeeded=1))


def autoscaled(place: Workplace) -> None:
    place.create(deployment("web", replicas=1))
    place.wait(place.status("deployments/web", readyReplicas=1))
    place.kubectl("autoscale deployment web")
    place.kubectl("autoscale deployment web --max=0")
    place.kubectl("autoscale deployment web --min=3 --max=2")
    place.kubectl("autoscale deployment none --max=2")
    place.kubectl("autoscale deployment web --min=1 --max=2 --dry-run=server")
    place.stop("nothing happened", place.status("deployments/web", readyReplicas=1))


def drained(place: Workplace) -> None:
    home = place.own_nodes("a", "b")
    first, second = (f"{place.ns}-{each}" for each in "ab")
    on_first = {"nodeSelector": {"kubernetes.io/hostname": first}}
    apart = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    place.wait(*(place.condition(f"nodes/{each}", "Ready") for each in (first, second)))
    place.create(
        deployment("web", template("web", topologySpreadConstraints=[apart], **home), replicas=2),
        workload("DaemonSet", "agent", template("agent", **home)),
        {**workload("Pod", "alone"), "apiVersion": "v1", "spec": template("alone", **home | on_first)["spec"]},
    )
    place.stop(
        "all run",
        place.status("deployments/web", readyReplicas=2),
        place.status("daemonsets/agent", numberReady=2),
        place.pods_are(5, "Running"),
    )
    place.kubectl(f"cordon {first}")
    place.kubectl(f"cordon {first}")
    place.kubectl(f"get node {first}")
    place.kubectl(f"drain {second} --ignore-daemonsets --dry-run=client", "last")
    place.kubectl(f"drain {first} --ignore-daemonsets", "last")
    place.kubectl(f"uncordon {first}")
    place.kubectl("delete pod alone")
    place.kubectl(f"drain {first}", "last")
    place.kubectl(f"drain {first} --ignore-daemonsets --timeout=30s", "last")
    place.stop("the others moved", place.status("deployments/web", readyReplicas=2), place.pods_are(4, "Running"))
    place.kubectl(f"uncordon {first}")
    place.kubectl(f"uncordon {first}")
    place.stop("its taint is gone", place.untainted(first))


def shown(place: Workplace) -> None:
    place.create(
        deployment("web", replicas=2),
        stateful_set("db", replicas=2),
        workload("DaemonSet", "agent"),
        job("work", completions=2, completionMode="Indexed"),
        cron_job("tick"),
    )
    place.wait(place.status("deployments/web", readyReplicas=2, availableReplicas=2))
    place.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    place.stop(
        "all are up",
        place.status("deployments/web", readyReplicas=2, availableReplicas=2),
        place.status("statefulsets/db", readyReplicas=2, availableReplicas=2),
        place.status("daemonsets/agent", numberReady=3, numberAvailable=3),
        place.status("poddisruptionbudgets/keep", currentHealthy=2, disruptionsAllowed=1),
        place.condition("jobs/work", "Complete"),
    )
    kinds = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs", "poddisruptionbudgets")
    for each in (*kinds, "pods", "controllerrevisions", "all"):
        place.kubectl(f"get {each}", "sorted")
    for each in kinds[:-1]:
        place.kubectl(f"get {each} -o wide", "sorted")
    for each in kinds:
        place.kubectl(f"describe {each}", "sorted")


SCENARIOS = [
    story("kubectl scales", scaled),
    story("kubectl waits", waited_for),
    story("kubectl makes Jobs", from_a_cron_job),
    story("kubectl autoscales nothing", autoscaled),
    story("kubectl drains a node", drained),
    story("kubectl shows every kind of workload", shown),
]
