"""Scenarios of other kubectl commands for workloads: scale, wait, drain, create job, autoscale, get and describe."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import cron_job, deployment, job, stateful_set, template, workload
from real.workloads.scenario_cluster import WorkloadCluster, scenario

Object = dict[str, Any]


def scaled(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=1), stateful_set("db", replicas=1), job("work", {}))
    cluster.wait(cluster.status("deployments/web", readyReplicas=1), cluster.status("statefulsets/db", readyReplicas=1))
    cluster.kubectl("scale deployment/web --replicas=3 --current-replicas=2")
    cluster.kubectl("scale deployment/web --replicas=3 --current-replicas=1")
    cluster.kubectl("scale statefulset db --replicas=2")
    cluster.kubectl("scale job work --replicas=2")
    cluster.kubectl("scale deployment/none --replicas=2")
    cluster.kubectl("scale deployment/web --replicas=-1")
    cluster.checkpoint(
        "all are as large as they were told",
        cluster.status("deployments/web", readyReplicas=3),
        cluster.status("statefulsets/db", readyReplicas=2),
        cluster.status("jobs/work", active=1, ready=1),
    )
    cluster.kubectl("scale deployment web --replicas=0")
    cluster.kubectl("scale statefulset db --replicas=0")
    cluster.checkpoint("only the Job has pods", cluster.pods_are(1))
    cluster.kubectl("get deployments,statefulsets,replicasets", "sorted")


def waited_for(cluster: WorkloadCluster) -> None:
    cluster.create(
        deployment("web", replicas=2), job("work"), job("bad", {"run-for": "100ms", "exit-code": "1"}, backoffLimit=0)
    )
    cluster.kubectl("wait deployment/web --for=condition=Available")
    cluster.kubectl("wait deployment/web --for=jsonpath={.status.readyReplicas}=2")
    cluster.kubectl("wait job/work --for=condition=Complete")
    cluster.kubectl("wait job/bad --for=condition=Failed")
    cluster.kubectl("wait job/bad --for=condition=Complete --timeout=1s")
    cluster.kubectl("wait deployment/none --for=condition=Available --timeout=1s")
    cluster.kubectl("wait pods -l app=web --for=condition=Ready", "sorted")
    cluster.kubectl("wait pods -l job-name=work --for=jsonpath={.status.phase}=Succeeded")
    cluster.kubectl("delete deployment web --wait=false")
    cluster.kubectl("wait deployment/web --for=delete")
    cluster.checkpoint("two Jobs are left", cluster.pods_are(2))


def from_a_cron_job(cluster: WorkloadCluster) -> None:
    cluster.create(cron_job("tick", schedule="0 0 1 1 *"))
    cluster.kubectl("create job now --from=cronjob/tick")
    cluster.kubectl("create job now --from=cronjob/tick")
    cluster.kubectl("create job other --from=cronjob/none")
    cluster.kubectl("wait job/now --for=condition=Complete")
    cluster.checkpoint(
        "it is done", cluster.status("jobs/now", succeeded=1), cluster.status("cronjobs/tick", active=None)
    )
    cluster.kubectl("get cronjobs,jobs", "sorted")
    cluster.kubectl("create job plain --image=registry.example/app:1 -- true")
    cluster.kubectl("create cronjob tock --image=registry.example/app:1 --schedule=@yearly -- true")
    cluster.looks_at("cronjobs")
    cluster.checkpoint("a plain one has ended beside it", cluster.status("jobs/plain", succeeded=1))


def autoscaled(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=1))
    cluster.wait(cluster.status("deployments/web", readyReplicas=1))
    cluster.kubectl("autoscale deployment web")
    cluster.kubectl("autoscale deployment web --max=0")
    cluster.kubectl("autoscale deployment web --min=3 --max=2")
    cluster.kubectl("autoscale deployment none --max=2")
    cluster.kubectl("autoscale deployment web --min=1 --max=2 --dry-run=server")
    cluster.checkpoint("nothing happened", cluster.status("deployments/web", readyReplicas=1))


def drained(cluster: WorkloadCluster) -> None:
    home = cluster.own_nodes("a", "b")
    first, second = (f"{cluster.ns}-{each}" for each in "ab")
    on_first = {"nodeSelector": {"kubernetes.io/hostname": first}}
    apart = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    cluster.wait(*(cluster.condition(f"nodes/{each}", "Ready") for each in (first, second)))
    cluster.create(
        deployment("web", template("web", topologySpreadConstraints=[apart], **home), replicas=2),
        workload("DaemonSet", "agent", template("agent", **home)),
        {**workload("Pod", "alone"), "apiVersion": "v1", "spec": template("alone", **home | on_first)["spec"]},
    )
    cluster.checkpoint(
        "all run",
        cluster.status("deployments/web", readyReplicas=2),
        cluster.status("daemonsets/agent", numberReady=2),
        cluster.pods_are(5, "Running"),
    )
    cluster.kubectl(f"cordon {first}")
    cluster.kubectl(f"cordon {first}")
    cluster.kubectl(f"get node {first}")
    cluster.kubectl(f"drain {second} --ignore-daemonsets --dry-run=client", "last")
    cluster.kubectl(f"drain {first} --ignore-daemonsets", "last")
    cluster.kubectl(f"uncordon {first}")
    cluster.kubectl("delete pod alone")
    cluster.kubectl(f"drain {first}", "last")
    cluster.kubectl(f"drain {first} --ignore-daemonsets --timeout=30s", "last")
    cluster.checkpoint(
        "the others moved", cluster.status("deployments/web", readyReplicas=2), cluster.pods_are(4, "Running")
    )
    cluster.kubectl(f"uncordon {first}")
    cluster.kubectl(f"uncordon {first}")
    cluster.checkpoint("its taint is gone", cluster.untainted(first))


def shown(cluster: WorkloadCluster) -> None:
    cluster.create(
        deployment("web", replicas=2),
        stateful_set("db", replicas=2),
        workload("DaemonSet", "agent"),
        job("work", completions=2, completionMode="Indexed"),
        cron_job("tick"),
    )
    cluster.wait(cluster.status("deployments/web", readyReplicas=2, availableReplicas=2))
    cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    cluster.checkpoint(
        "all are up",
        cluster.status("deployments/web", readyReplicas=2, availableReplicas=2),
        cluster.status("statefulsets/db", readyReplicas=2, availableReplicas=2),
        cluster.status("daemonsets/agent", numberReady=3, numberAvailable=3),
        cluster.status("poddisruptionbudgets/keep", currentHealthy=2, disruptionsAllowed=1),
        cluster.condition("jobs/work", "Complete"),
    )
    kinds = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs", "poddisruptionbudgets")
    for each in (*kinds, "pods", "controllerrevisions", "all"):
        cluster.kubectl(f"get {each}", "sorted")
    for each in kinds[:-1]:
        cluster.kubectl(f"get {each} -o wide", "sorted")
    for each in kinds:
        cluster.kubectl(f"describe {each}", "sorted")


SCENARIOS = [
    scenario("kubectl scales", scaled),
    scenario("kubectl waits", waited_for),
    scenario("kubectl makes Jobs", from_a_cron_job),
    scenario("kubectl autoscales nothing", autoscaled),
    scenario("kubectl drains a node", drained),
    scenario("kubectl shows every kind of workload", shown),
]
