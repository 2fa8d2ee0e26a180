"""Scenarios of `kubectl rollout`, as people type it at Deployments, StatefulSets and DaemonSets."""

from __future__ import annotations

from real.workloads.manifests import deployment, stateful_set, workload
from real.workloads.scenario_cluster import WorkloadCluster, scenario

NEXT = "main=registry.example/app"


def there_and_back(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=3))
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.kubectl("annotate deployment/web kubernetes.io/change-cause=first")
    cluster.checkpoint(
        "the first runs", cluster.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3)
    )
    cluster.kubectl(f"set image deployment/web {NEXT}:2")
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint(
        "the second runs", cluster.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3)
    )
    cluster.kubectl("rollout history deployment/web")
    cluster.kubectl("rollout history deployment/web --revision=1", "sorted")
    cluster.kubectl("rollout history deployment/web --revision=2", "sorted")
    cluster.kubectl("rollout history deployment/web --revision=7")
    cluster.kubectl("rollout undo deployment/web")
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint(
        "the first runs again", cluster.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3)
    )
    cluster.kubectl("rollout history deployment/web")
    cluster.kubectl("rollout undo deployment/web")
    cluster.kubectl("rollout undo deployment/web --to-revision=9")
    cluster.kubectl("rollout undo deployment/web --to-revision=3 --dry-run=server", "sorted")
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint(
        "the second runs again", cluster.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3)
    )


def paused(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.kubectl("rollout pause deployment/web")
    cluster.kubectl("rollout pause deployment/web")
    cluster.kubectl(f"set image deployment/web {NEXT}:2")
    cluster.kubectl("rollout undo deployment/web")
    cluster.kubectl("rollout restart deployment/web")
    cluster.checkpoint(
        "nothing rolls", cluster.status("deployments/web", readyReplicas=2), cluster.condition(*PROGRESSING, "Unknown")
    )
    cluster.kubectl("rollout status deployment/web --timeout=1s", "last")
    cluster.kubectl("scale deployment/web --replicas=3")
    cluster.checkpoint("it is larger all the same", cluster.status("deployments/web", readyReplicas=3))
    cluster.kubectl("rollout resume deployment/web")
    cluster.kubectl("rollout resume deployment/web")
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint("it rolled", cluster.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))


PROGRESSING = ("deployments/web", "Progressing")


def restarted(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2, strategy={"type": "Recreate"}))
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.kubectl("rollout restart deployment/web")
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint("others run", cluster.status("deployments/web", readyReplicas=2, updatedReplicas=2, replicas=2))
    cluster.kubectl("rollout history deployment/web")


def stuck(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=2))
    cluster.kubectl("rollout status deployment/web", "last")
    nowhere = {"spec": {"nodeSelector": {"no": "such"}}}
    cluster.change("deployments/web", {"spec": {"progressDeadlineSeconds": 3, "template": nowhere}})
    cluster.checkpoint("it gives up", cluster.condition(*PROGRESSING, "False", "ProgressDeadlineExceeded"))
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.change("deployments/web", {"spec": {"progressDeadlineSeconds": 600}})
    cluster.kubectl("rollout undo deployment/web")
    cluster.wait(cluster.condition(*PROGRESSING, "True", "NewReplicaSetAvailable"))
    cluster.kubectl("rollout status deployment/web", "last")
    cluster.checkpoint("it is back", cluster.status("deployments/web", readyReplicas=2, updatedReplicas=2, replicas=2))


def rolls(cluster: WorkloadCluster, who: str, path: str, shown: int, **counts: int) -> None:
    """Out, back and through a restart, with its history; ``shown`` is the revision whose contents are printed."""
    cluster.kubectl(f"rollout status {who}", "last")
    cluster.kubectl(f"set image {who} {NEXT}:2")
    cluster.kubectl(f"rollout status {who}", "last")
    cluster.checkpoint("the second runs", cluster.status(path, **counts))
    cluster.kubectl(f"rollout history {who}")
    cluster.kubectl(f"rollout history {who} --revision={shown}", "sorted")
    cluster.kubectl(f"rollout undo {who}")
    cluster.kubectl(f"rollout status {who}", "last")
    cluster.checkpoint("the first runs again", cluster.status(path, **counts))
    cluster.kubectl(f"rollout history {who}")
    cluster.kubectl(f"rollout restart {who}")
    cluster.kubectl(f"rollout status {who}", "last")


def stateful(cluster: WorkloadCluster) -> None:
    counts = {"readyReplicas": 2, "updatedReplicas": 2}
    cluster.create(stateful_set("db", replicas=2))
    rolls(cluster, "statefulset/db", "statefulsets/db", 1, **counts)
    cluster.kubectl("rollout pause statefulset/db")
    cluster.checkpoint("others run", cluster.status("statefulsets/db", **counts))


def daemons(cluster: WorkloadCluster) -> None:
    counts = {"numberReady": 3, "updatedNumberScheduled": 3}
    cluster.create(workload("DaemonSet", "agent"))
    rolls(cluster, "daemonset/agent", "daemonsets/agent", 2, **counts)
    cluster.checkpoint("others run", cluster.status("daemonsets/agent", **counts))


SCENARIOS = [
    scenario("kubectl rolls a Deployment out and back", there_and_back),
    scenario("kubectl pauses and resumes a Deployment", paused),
    scenario("kubectl restarts a Deployment", restarted),
    scenario("kubectl is told that a Deployment is stuck", stuck),
    scenario("kubectl rolls a StatefulSet out and back", stateful),
    scenario("kubectl rolls a DaemonSet out and back", daemons),
]
