"""Stories of PodDisruptionBudgets: what they count, whom they let go, and what `kubectl drain` makes of that."""

from __future__ import annotations

import json
from typing import Any

from harness.server import JSON_TYPE
from real.workloads.manifests import deployment, job, stateful_set, template
from real.workloads.scenario_cluster import Hold, Workplace, story

Object = dict[str, Any]

BUDGET = "poddisruptionbudgets/b"
LONG_AGO = "2024-01-01T00:00:00Z"
PINNED = {"kubernetes.io/hostname": "node-0002"}


def budget(name: str = "b", app: str = "web", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": selector, **spec},
    }


def bare(name: str, app: str = "web") -> Object:
    pod = template(app)
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}


def allows(place: Workplace, allowed: int, name: str = "b", **counts: Any) -> Hold:
    return place.status(f"poddisruptionbudgets/{name}", disruptionsAllowed=allowed, **counts)


def evict(place: Workplace, name: str, title: str, *, words: bool = True) -> None:
    """`words`: whether it matters what the refusal counts."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place.ns}}
    path = place.at(f"pods/{name}", "eviction")
    answer = place.server.request("POST", path, JSON_TYPE, json.dumps(body).encode())
    place.note(title, [answer.status, answer.json() if words else answer.json().get("reason")])


def unready(place: Workplace, *names: str) -> None:
    """As if readiness gates of these pods were not met."""
    for name in names:
        conditions = place.read(f"pods/{name}")["status"]["conditions"]
        changed = [{**each, "status": "False"} if each["type"] == "Ready" else each for each in conditions]
        place.change(f"pods/{name}", {"status": {"conditions": changed}}, "status")


def keeps_a_number(place: Workplace) -> None:
    place.create(budget(minAvailable=2))
    place.stop("there are no pods", place.event("NoPods"), allows(place, 0, desiredHealthy=2))
    place.create(deployment("web", replicas=3))
    place.stop("one may go", place.pods_are(3, "Running"), allows(place, 1, currentHealthy=3))
    place.kubectl("get pdb")
    place.kubectl("scale deployment web --replicas=2")
    place.stop("none may go", place.pods_are(2, "Running"), allows(place, 0, currentHealthy=2, expectedPods=2))
    place.change(BUDGET, {"spec": {"minAvailable": 1}})
    place.stop("one may go again", allows(place, 1))


def shares_of_a_deployment(place: Workplace) -> None:
    place.create(deployment("web", replicas=5), deployment("db", replicas=5))
    place.wait(place.pods_are(10, "Running"))
    place.create(budget(maxUnavailable="30%"), budget("least", "db", minAvailable="30%"))
    place.stop("rounded up", allows(place, 2), allows(place, 3, "least"))
    place.kubectl("scale deployment web db --replicas=3")
    place.stop("of fewer", place.pods_are(6, "Running"), allows(place, 1, expectedPods=3), allows(place, 2, "least"))
    place.kubectl("get pdb")


def shares_of_a_stateful_set(place: Workplace) -> None:
    place.create(stateful_set("web", replicas=3))
    place.wait(place.pods_are(3, "Running"))
    place.create(budget(maxUnavailable=1))
    place.stop("one may go", place.pods_are(3, "Running"), allows(place, 1, expectedPods=3, currentHealthy=3))
    unready(place, "web-1")
    place.stop("one is not well", allows(place, 0, currentHealthy=2))


def decides_evictions(place: Workplace) -> None:
    place.create(stateful_set("web", replicas=2, podManagementPolicy="Parallel"))
    place.wait(place.pods_are(2, "Running"))
    place.create(budget(minAvailable=2))
    place.wait(allows(place, 0, currentHealthy=2))
    evict(place, "web-0", "it is refused")
    place.stop("nothing has changed", place.pods_are(2, "Running"))
    place.change(BUDGET, {"spec": {"minAvailable": 1}})
    place.wait(allows(place, 1))
    evict(place, "web-0", "it is granted")
    evict(place, "web-1", "the other is not", words=False)
    place.stop("another one took its place", place.pods_are(2, "Running"), allows(place, 1, currentHealthy=2))


def lets_unhealthy_pods_go(place: Workplace) -> None:
    place.create(bare("one"), bare("two"))
    place.wait(place.pods_are(2, "Running"))
    place.create(budget(minAvailable=2))
    place.wait(allows(place, 0, currentHealthy=2))
    unready(place, "one")
    place.wait(allows(place, 0, currentHealthy=1))
    evict(place, "one", "too few are well")
    place.change(BUDGET, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    place.wait(allows(place, 0))
    evict(place, "two", "this one is well")
    evict(place, "one", "it was not well anyhow")
    place.stop("one is left", place.pods_are(1, "Running"), allows(place, 0, expectedPods=1))


def nobody_owns_the_pods(place: Workplace) -> None:
    place.create(bare("one"), bare("two"))
    place.wait(place.pods_are(2, "Running"))
    place.create(budget(maxUnavailable=1))
    place.stop("nobody says how many", place.event("UnmanagedPods"), allows(place, 0, currentHealthy=2), words=True)
    evict(place, "one", "nothing may go")


def owners_that_cannot_be_scaled(place: Workplace) -> None:
    place.create(budget(maxUnavailable=1))
    place.wait(place.event("NoPods"), allows(place, 0, expectedPods=0))
    place.create(job("web", {}))
    place.stop(
        "it cannot be counted",
        place.pods_are(1, "Running"),
        place.condition(BUDGET, "DisruptionAllowed", "False", "SyncFailed"),
        place.event("CalculateExpectedPodCountFailed"),
    )
    evict(place, place.pods()[0]["metadata"]["name"], "nothing may go")
    place.change(BUDGET, {"spec": {"maxUnavailable": None, "minAvailable": 0}})
    place.stop("a number can", allows(place, 1, currentHealthy=1))


def two_for_one(place: Workplace) -> None:
    place.create(budget("first", minAvailable=0), budget("second", minAvailable=0))
    place.wait(allows(place, 0, "first"), allows(place, 0, "second"))
    place.create(bare("one"))
    place.wait(place.pods_are(1, "Running"), place.event("MultiplePodDisruptionBudgets"))
    evict(place, "one", "nobody knows which to ask")


def announced_and_never_done(place: Workplace) -> None:
    """Both say that it was long ago, so that nobody has to wait for two minutes."""
    place.create(stateful_set("web", replicas=2))
    place.wait(place.pods_are(2, "Running"))
    place.create(budget(minAvailable=1))
    place.wait(allows(place, 1, currentHealthy=2))
    place.change(BUDGET, {"status": {"disruptionsAllowed": 0, "disruptedPods": {"web-0": LONG_AGO}}}, "status")
    place.stop("the eviction is forgotten", place.event("NotDeleted", "Pod"), allows(place, 1), words=True)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "Test", "message": "soon"}
    conditions = place.read("pods/web-1")["status"]["conditions"]
    announced = [*conditions, {**target, "lastTransitionTime": LONG_AGO}]
    place.change("pods/web-1", {"status": {"conditions": announced}}, "status")
    place.stop("the announcement is taken back", _not_announced(place, "web-1"))


def _not_announced(place: Workplace, name: str) -> Hold:
    def seen() -> list[str]:
        conditions = place.read(f"pods/{name}")["status"]["conditions"]
        return [str(each["status"]) for each in conditions if each["type"] == "DisruptionTarget"]

    return Hold(f"{name} is no target any more", lambda: seen() == ["False"], seen)


def drained(place: Workplace) -> None:
    """All pods are on one node, so none comes back while it is drained. Other stories lose nothing but its room."""
    node = PINNED["kubernetes.io/hostname"]
    drain = f"drain {node} --pod-selector=app=drained --ignore-daemonsets --timeout"
    place.create(deployment("drained", template("drained", nodeSelector=PINNED), replicas=2))
    place.wait(place.pods_are(2, "Running"))
    place.create(budget(app="drained", minAvailable=1))
    place.wait(allows(place, 1, currentHealthy=2))
    try:
        place.kubectl(f"{drain}=3s", lines="sorted")
        place.stop("one had to stay", allows(place, 0, currentHealthy=1), place.pods_are(2))
        place.remove(BUDGET)
        place.kubectl(f"{drain}=20s", lines="sorted")
        place.stop("none is left there", place.pods_are(2, "Pending"))
    finally:
        place.server.kubectl(["uncordon", node])
    place.stop("they are back", place.pods_are(2, "Running"))


SCENARIOS = [
    story("a budget keeps a number of pods", keeps_a_number),
    story("a budget of shares of a deployment", shares_of_a_deployment),
    story("a budget of a stateful set", shares_of_a_stateful_set),
    story("a budget decides evictions", decides_evictions),
    story("a budget lets unhealthy pods go", lets_unhealthy_pods_go),
    story("a budget of pods that nobody owns", nobody_owns_the_pods),
    story("a budget of owners that cannot be scaled", owners_that_cannot_be_scaled),
    story("two budgets for one pod", two_for_one),
    story("disruptions are announced and never done", announced_and_never_done),
    story("a node is drained as its budget lets it", drained),
]
