"""Stories of `kubectl rollout`, as people type it at Deployments, StatefulSets and DaemonSets."""

from __future__ import annotations

from real.workloads.manifests import deployment, stateful_set, workload
from real.workloads.scenario_cluster import Workplace, story

NEXT = "main=registry.example/app"


def there_and_back(place: Workplace) -> None:
    place.create(deployment("web", replicas=3))
    place.kubectl("rollout status deployment/web", "last")
    place.kubectl("annotate deployment/web kubernetes.io/change-cause=first")
    place.stop("the first runs", place.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))
    place.kubectl(f"set image deployment/web {NEXT}:2")
    place.kubectl("rollout status deployment/web", "last")
    place.stop("the second runs", place.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))
    place.kubectl("rollout history deployment/web")
    place.kubectl("rollout history deployment/web --revision=1", "sorted")
    place.kubectl("rollout history deployment/web --revision=2", "sorted")
    place.kubectl("rollout history deployment/web --revision=7")
    place.kubectl("rollout undo deployment/web")
    place.kubectl("rollout status deployment/web", "last")
    place.stop("the first runs again", place.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))
    place.kubectl("rollout history deployment/web")
    place.kubectl("rollout undo deployment/web")
    place.kubectl("rollout undo deployment/web --to-revision=9")
    place.kubectl("rollout undo deployment/web --to-revision=3 --dry-run=server", "sorted")
    place.kubectl("rollout status deployment/web", "last")
    place.stop("the second runs again", place.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))


def paused(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.kubectl("rollout status deployment/web", "last")
    place.kubectl("rollout pause deployment/web")
    place.kubectl("rollout pause deployment/web")
    place.kubectl(f"set image deployment/web {NEXT}:2")
    place.kubectl("rollout undo deployment/web")
    place.kubectl("rollout restart deployment/web")
    place.stop(
        "nothing rolls", place.status("deployments/web", readyReplicas=2), place.condition(*PROGRESSING, "Unknown")
    )
    place.kubectl("rollout status deployment/web --timeout=1s", "last")
    place.kubectl("scale deployment/web --replicas=3")
    place.stop("it is larger all the same", place.status("deployments/web", readyReplicas=3))
    place.kubectl("rollout resume deployment/web")
    place.kubectl("rollout resume deployment/web")
    place.kubectl("rollout status deployment/web", "last")
    place.stop("it rolled", place.status("deployments/web", readyReplicas=3, updatedReplicas=3, replicas=3))


PROGRESSING = ("deployments/web", "Progressing")


def restarted(place: Workplace) -> None:
    place.create(deployment("web", replicas=2, strategy={"type": "Recreate"}))
    place.kubectl("rollout status deployment/web", "last")
    place.kubectl("rollout restart deployment/web")
    place.kubectl("rollout status deployment/web", "last")
    place.stop("others run", place.status("deployments/web", readyReplicas=2, updatedReplicas=2, replicas=2))
    place.kubectl("rollout history deployment/web")


def stuck(place: Workplace) -> None:
    place.create(deployment("web", replicas=2))
    place.kubectl("rollout status deployment/web", "last")
    nowhere = {"spec": {"nodeSelector": {"no": "such"}}}
    place.change("deployments/web", {"spec": {"progressDeadlineSeconds": 3, "template": nowhere}})
    place.stop("it gives up", place.condition(*PROGRESSING, "False", "ProgressDeadlineExceeded"))
    place.kubectl("rollout status deployment/web", "last")
    place.change("deployments/web", {"spec": {"progressDeadlineSeconds": 600}})
    place.kubectl("rollout undo deployment/web")
    place.wait(place.condition(*PROGRESSING, "True", "NewReplicaSetAvailable"))
    place.kubectl("rollout status deployment/web", "last")
    place.stop("it is back", place.status("deployments/web", readyReplicas=2, updatedReplicas=2, replicas=2))


def rolls(place: Workplace, who: str, path: str, shown: int, **counts: int) -> None:
    """Out, back and through a restart, with its history; ``shown`` is the revision whose contents are printed."""
    place.kubectl(f"rollout status {who}", "last")
    place.kubectl(f"set image {who} {NEXT}:2")
    place.kubectl(f"rollout status {who}", "last")
    place.stop("the second runs", place.status(path, **counts))
    place.kubectl(f"rollout history {who}")
    place.kubectl(f"rollout history {who} --revision={shown}", "sorted")
    place.kubectl(f"rollout undo {who}")
    place.kubectl(f"rollout status {who}", "last")
    place.stop("the first runs again", place.status(path, **counts))
    place.kubectl(f"rollout history {who}")
    place.kubectl(f"rollout restart {who}")
    place.kubectl(f"rollout status {who}", "last")


def stateful(place: Workplace) -> None:
    counts = {"readyReplicas": 2, "updatedReplicas": 2}
    place.create(stateful_set("db", replicas=2))
    rolls(place, "statefulset/db", "statefulsets/db", 1, **counts)
    place.kubectl("rollout pause statefulset/db")
    place.stop("others run", place.status("statefulsets/db", **counts))


def daemons(place: Workplace) -> None:
    counts = {"numberReady": 3, "updatedNumberScheduled": 3}
    place.create(workload("DaemonSet", "agent"))
    rolls(place, "daemonset/agent", "daemonsets/agent", 2, **counts)
    place.stop("others run", place.status("daemonsets/agent", **counts))


SCENARIOS = [
    story("kubectl rolls a Deployment out and back", there_and_back),
    story("kubectl pauses and resumes a Deployment", paused),
    story("kubectl restarts a Deployment", restarted),
    story("kubectl is told that a Deployment is stuck", stuck),
    story("kubectl rolls a StatefulSet out and back", stateful),
    story("kubectl rolls a DaemonSet out and back", daemons),
]
