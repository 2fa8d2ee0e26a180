"""Stories of ReplicaSets that no Deployment made: how many pods, whose, and which of them go."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import template, workload
from real.workloads.scenario_cluster import Hold, Workplace, story

Object = dict[str, Any]

WEB = "replicasets/web"
COST = "controller.kubernetes.io/pod-deletion-cost"


def a_set(replicas: int, pods: Object | None = None, **spec: Any) -> Object:
    return workload("ReplicaSet", "web", pods, replicas=replicas, **spec)


def bare(name: str, wishes: dict[str, str] | None = None, **spec: Any) -> Object:
    pod = template("web", wishes, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}


def up(place: Workplace, count: int) -> tuple[Hold, ...]:
    numbers = dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), count)
    return place.status(WEB, terminatingReplicas=0, **numbers), place.pods_are(count), place.event("SuccessfulCreate")


def names(place: Workplace) -> list[str]:
    return [each["metadata"]["name"] for each in place.pods()]


def scaled(place: Workplace) -> None:
    """Never down to some of different ages: which of those go is drawn, in part."""
    place.create(a_set(4))
    place.stop("four", *up(place, 4))
    place.kubectl("get replicaset web")
    place.change(WEB, {"spec": {"replicas": 1}})
    place.stop("one", *up(place, 1), place.event("SuccessfulDelete"))
    place.change(WEB, {"spec": {"replicas": 3}})
    place.stop("three", *up(place, 3))
    place.change(WEB, {"spec": {"replicas": 0}})
    place.stop("none", *up(place, 0))


def adopts_too_many(place: Workplace) -> None:
    """Those that are not ready go first."""
    place.create(bare("slow", {"start-after": "1h"}), bare("quick"), bare("gated", schedulingGates=[{"name": "a.b/c"}]))
    ready = place.pods_are(3)
    place.wait(ready, Hold("quick runs", lambda: _phase(place, "quick") == "Running", lambda: place.pods()))
    place.create(a_set(2))
    gone = place.pods_are(2), place.event("SuccessfulDelete")
    place.stop("the gated one goes", place.status(WEB, replicas=2, readyReplicas=1), *gone)
    place.change(WEB, {"spec": {"replicas": 1}})
    place.stop("the slow one goes", place.status(WEB, replicas=1, readyReplicas=1), place.pods_are(1))
    place.note("left", names(place))


def _phase(place: Workplace, name: str) -> Any:
    return place.read(f"pods/{name}")["status"]["phase"]


def goes_by_cost(place: Workplace) -> None:
    place.create(a_set(3))
    place.wait(*up(place, 3))
    for cost, name in zip(("10", "-5", "junk"), names(place), strict=True):
        if cost != "junk":
            place.change(f"pods/{name}", {"metadata": {"annotations": {COST: cost}}})
    place.change(WEB, {"spec": {"replicas": 2}})
    place.stop("the cheapest goes", *up(place, 2), place.event("SuccessfulDelete"))
    place.change(WEB, {"spec": {"replicas": 1}})
    place.stop("the dearest stays", *up(place, 1))


def relabelled(place: Workplace) -> None:
    place.create(a_set(2))
    place.wait(*up(place, 2))
    first = names(place)[0]
    place.change(f"pods/{first}", {"metadata": {"labels": {"app": "other"}}})
    place.stop("it is released and replaced", place.pods_are(3), place.status(WEB, readyReplicas=2))
    place.change(f"pods/{first}", {"metadata": {"labels": {"app": "web"}}})
    place.stop("it is taken back and one goes", *up(place, 2), place.event("SuccessfulDelete"))


def pods_end(place: Workplace) -> None:
    place.create(a_set(2))
    place.wait(*up(place, 2))
    first, second = names(place)
    place.end_pod(first)
    place.end_pod(second, phase="Succeeded", exit_code=0)
    place.stop("both are replaced", place.pods_are(4), place.status(WEB, replicas=2, readyReplicas=2))
    place.remove(f"pods/{first}")
    place.stop("a dead one is missed by nobody", place.pods_are(3), place.status(WEB, replicas=2, readyReplicas=2))


def ended_before(place: Workplace) -> None:
    """A pod that has ended is neither adopted nor released."""
    place.create(bare("short", {"run-for": "100ms"}, restartPolicy="Never"))
    place.wait(place.pods_are(1, "Succeeded"))
    place.create(a_set(1))
    place.wait(place.status(WEB, readyReplicas=1), place.pods_are(2))
    (mine,) = (name for name in names(place) if name != "short")
    place.end_pod(mine)
    place.change(f"pods/{mine}", {"metadata": {"labels": {"app": "other"}}})
    place.stop("they stay whose they are", place.status(WEB, readyReplicas=1), place.pods_are(3))


def another_template(place: Workplace) -> None:
    place.create(a_set(2))
    place.wait(*up(place, 2))
    place.change(WEB, {"spec": {"template": {"metadata": {"labels": {"tier": "front"}}}}})
    place.stop("its pods stay as they are", place.status(WEB, replicas=2, fullyLabeledReplicas=0))
    place.remove(f"pods/{names(place)[0]}")
    place.stop("a new one is another", place.status(WEB, readyReplicas=2, fullyLabeledReplicas=1), place.pods_are(2))


def ready_for_long_enough(place: Workplace) -> None:
    place.create(a_set(2, minReadySeconds=6))
    place.wait(place.status(WEB, readyReplicas=2, availableReplicas=0))
    place.stop("they are available", *up(place, 2))


def refused(place: Workplace) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    place.create({**quota, "spec": {"hard": {"pods": "1"}}})
    place.wait(Hold("it counts", lambda: "used" in place.read("resourcequotas/few")["status"], lambda: ""))
    place.create(a_set(3))
    failed = place.condition(WEB, "ReplicaFailure", "True", "FailedCreate")
    place.stop("there is room for one", failed, place.pods_are(1), place.event("FailedCreate", "ReplicaSet"))
    place.change("resourcequotas/few", {"spec": {"hard": {"pods": "5"}}})
    place.stop("there is room for all", *up(place, 3))


def left_and_found(place: Workplace) -> None:
    place.create(a_set(2))
    place.stop("they are up", *up(place, 2))
    place.remove(WEB, "Orphan")
    place.stop("its pods are left", place.gone(WEB), place.pods_are(2))
    again = a_set(3)
    again["metadata"]["name"] = "again"
    place.create(again)
    place.stop("another takes them", place.status("replicasets/again", readyReplicas=3), place.pods_are(3))


SCENARIOS = [
    story("a ReplicaSet is scaled", scaled),
    story("a ReplicaSet adopts more pods than it wants", adopts_too_many),
    story("pods of a ReplicaSet go by what they cost", goes_by_cost),
    story("a pod of a ReplicaSet is labelled otherwise and back", relabelled),
    story("pods of a ReplicaSet end", pods_end),
    story("pods that have ended are left to whom they belong", ended_before),
    story("a ReplicaSet gets another template", another_template),
    story("a ReplicaSet waits until pods are ready for long enough", ready_for_long_enough),
    story("pods of a ReplicaSet are refused", refused),
    story("pods of a ReplicaSet are left and found by another", left_and_found),
]
