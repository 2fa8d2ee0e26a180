"""Scenarios of PodDisruptionBudgets: what they count, which evictions they allow, and how `kubectl drain` uses them."""

from __future__ import annotations

import json
from typing import Any

from harness.server import JSON_TYPE
from real.workloads.manifests import deployment, job, stateful_set, template
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

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


def allows(cluster: WorkloadCluster, allowed: int, name: str = "b", **counts: Any) -> WaitCondition:
    return cluster.status(f"poddisruptionbudgets/{name}", disruptionsAllowed=allowed, **counts)


def evict(cluster: WorkloadCluster, name: str, title: str, *, words: bool = True) -> None:
    """`words`: whether it matters what the refusal counts."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": cluster.ns}}
    path = cluster.at(f"pods/{name}", "eviction")
    answer = cluster.server.request("POST", path, JSON_TYPE, json.dumps(body).encode())
    cluster.note(title, [answer.status, answer.json() if words else answer.json().get("reason")])


def unready(cluster: WorkloadCluster, *names: str) -> None:
    """As if readiness gates of these pods were not met."""
    for name in names:
        conditions = cluster.read(f"pods/{name}")["status"]["conditions"]
        changed = [{**each, "status": "False"} if each["type"] == "Ready" else each for each in conditions]
        cluster.change(f"pods/{name}", {"status": {"conditions": changed}}, "status")


def keeps_a_number(cluster: WorkloadCluster) -> None:
    cluster.create(budget(minAvailable=2))
    cluster.checkpoint("there are no pods", cluster.event("NoPods"), allows(cluster, 0, desiredHealthy=2))
    cluster.create(deployment("web", replicas=3))
    cluster.checkpoint("one may go", cluster.pods_are(3, "Running"), allows(cluster, 1, currentHealthy=3))
    cluster.kubectl("get pdb")
    cluster.kubectl("scale deployment web --replicas=2")
    cluster.checkpoint(
        "none may go", cluster.pods_are(2, "Running"), allows(cluster, 0, currentHealthy=2, expectedPods=2)
    )
    cluster.change(BUDGET, {"spec": {"minAvailable": 1}})
    cluster.checkpoint("one may go again", allows(cluster, 1))


def shares_of_a_deployment(cluster: WorkloadCluster) -> None:
    cluster.create(deployment("web", replicas=5), deployment("db", replicas=5))
    cluster.wait(cluster.pods_are(10, "Running"))
    cluster.create(budget(maxUnavailable="30%"), budget("least", "db", minAvailable="30%"))
    cluster.checkpoint("rounded up", allows(cluster, 2), allows(cluster, 3, "least"))
    cluster.kubectl("scale deployment web db --replicas=3")
    cluster.checkpoint(
        "of fewer", cluster.pods_are(6, "Running"), allows(cluster, 1, expectedPods=3), allows(cluster, 2, "least")
    )
    cluster.kubectl("get pdb")


def shares_of_a_stateful_set(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("web", replicas=3))
    cluster.wait(cluster.pods_are(3, "Running"))
    cluster.create(budget(maxUnavailable=1))
    cluster.checkpoint(
        "one may go", cluster.pods_are(3, "Running"), allows(cluster, 1, expectedPods=3, currentHealthy=3)
    )
    unready(cluster, "web-1")
    cluster.checkpoint("one is not well", allows(cluster, 0, currentHealthy=2))


def decides_evictions(cluster: WorkloadCluster) -> None:
    cluster.create(stateful_set("web", replicas=2, podManagementPolicy="Parallel"))
    cluster.wait(cluster.pods_are(2, "Running"))
    cluster.create(budget(minAvailable=2))
    cluster.wait(allows(cluster, 0, currentHealthy=2))
    evict(cluster, "web-0", "it is refused")
    cluster.checkpoint("nothing has changed", cluster.pods_are(2, "Running"))
    cluster.change(BUDGET, {"spec": {"minAvailable": 1}})
    cluster.wait(allows(cluster, 1))
    evict(cluster, "web-0", "it is granted")
    evict(cluster, "web-1", "the other is not", words=False)
    cluster.checkpoint(
        "another one took its place", cluster.pods_are(2, "Running"), allows(cluster, 1, currentHealthy=2)
    )


def lets_unhealthy_pods_go(cluster: WorkloadCluster) -> None:
    cluster.create(bare("one"), bare("two"))
    cluster.wait(cluster.pods_are(2, "Running"))
    cluster.create(budget(minAvailable=2))
    cluster.wait(allows(cluster, 0, currentHealthy=2))
    unready(cluster, "one")
    cluster.wait(allows(cluster, 0, currentHealthy=1))
    evict(cluster, "one", "too few are well")
    cluster.change(BUDGET, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    cluster.wait(allows(cluster, 0))
    evict(cluster, "two", "this one is well")
    evict(cluster, "one", "it was not well anyhow")
    cluster.checkpoint("one is left", cluster.pods_are(1, "Running"), allows(cluster, 0, expectedPods=1))


def nobody_owns_the_pods(cluster: WorkloadCluster) -> None:
    cluster.create(bare("one"), bare("two"))
    cluster.wait(cluster.pods_are(2, "Running"))
    cluster.create(budget(maxUnavailable=1))
    cluster.checkpoint(
        "nobody says how many", cluster.event("UnmanagedPods"), allows(cluster, 0, currentHealthy=2), words=True
    )
    evict(cluster, "one", "nothing may go")


def owners_that_cannot_be_scaled(cluster: WorkloadCluster) -> None:
    cluster.create(budget(maxUnavailable=1))
    cluster.wait(cluster.event("NoPods"), allows(cluster, 0, expectedPods=0))
    cluster.create(job("web", {}))
    cluster.checkpoint(
        "it cannot be counted",
        cluster.pods_are(1, "Running"),
        cluster.status("jobs/web", active=1, ready=1),
        cluster.condition(BUDGET, "DisruptionAllowed", "False", "SyncFailed"),
        cluster.event("CalculateExpectedPodCountFailed"),
    )
    evict(cluster, cluster.pods()[0]["metadata"]["name"], "nothing may go")
    cluster.change(BUDGET, {"spec": {"maxUnavailable": None, "minAvailable": 0}})
    cluster.checkpoint("a number can", allows(cluster, 1, currentHealthy=1))


def two_for_one(cluster: WorkloadCluster) -> None:
    cluster.create(budget("first", minAvailable=0), budget("second", minAvailable=0))
    cluster.wait(allows(cluster, 0, "first"), allows(cluster, 0, "second"))
    cluster.create(bare("one"))
    cluster.wait(cluster.pods_are(1, "Running"), cluster.event("MultiplePodDisruptionBudgets"))
    evict(cluster, "one", "nobody knows which to ask")


def announced_and_never_done(cluster: WorkloadCluster) -> None:
    """Both timestamps are set back, so that the test does not have to wait for two minutes."""
    cluster.create(stateful_set("web", replicas=2))
    cluster.wait(cluster.pods_are(2, "Running"))
    cluster.create(budget(minAvailable=1))
    cluster.wait(allows(cluster, 1, currentHealthy=2))
    cluster.change(BUDGET, {"status": {"disruptionsAllowed": 0, "disruptedPods": {"web-0": LONG_AGO}}}, "status")
    cluster.checkpoint("the eviction is forgotten", cluster.event("NotDeleted", "Pod"), allows(cluster, 1), words=True)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "Test", "message": "soon"}
    conditions = cluster.read("pods/web-1")["status"]["conditions"]
    announced = [*conditions, {**target, "lastTransitionTime": LONG_AGO}]
    cluster.change("pods/web-1", {"status": {"conditions": announced}}, "status")
    cluster.checkpoint("the announcement is taken back", _not_announced(cluster, "web-1"))


def _not_announced(cluster: WorkloadCluster, name: str) -> WaitCondition:
    def seen() -> list[str]:
        conditions = cluster.read(f"pods/{name}")["status"]["conditions"]
        return [str(each["status"]) for each in conditions if each["type"] == "DisruptionTarget"]

    return WaitCondition(f"{name} is no target any more", lambda: seen() == ["False"], seen)


def drained(cluster: WorkloadCluster) -> None:
    """All pods are on one node, so none comes back while it is drained. Other scenarios lose nothing but its room."""
    node = PINNED["kubernetes.io/hostname"]
    drain = f"drain {node} --pod-selector=app=drained --ignore-daemonsets --timeout"
    cluster.create(deployment("drained", template("drained", nodeSelector=PINNED), replicas=2))
    cluster.wait(cluster.pods_are(2, "Running"))
    cluster.create(budget(app="drained", minAvailable=1))
    cluster.wait(allows(cluster, 1, currentHealthy=2))
    try:
        # kubectl asks again after 5 s: the first pod has gone by then, and no line depends on how fast it went.
        cluster.kubectl(f"{drain}=4s", lines="sorted")
        cluster.checkpoint("one had to stay", allows(cluster, 0, currentHealthy=1), cluster.pods_are(2))
        cluster.remove(BUDGET)
        cluster.kubectl(f"{drain}=20s", lines="sorted")
        cluster.checkpoint("none is left there", cluster.pods_are(2, "Pending"))
    finally:
        cluster.server.kubectl(["uncordon", node])
    cluster.checkpoint("they are back", cluster.pods_are(2, "Running"))


SCENARIOS = [
    scenario("a budget keeps a number of pods", keeps_a_number),
    scenario("a budget of shares of a deployment", shares_of_a_deployment),
    scenario("a budget of a stateful set", shares_of_a_stateful_set),
    scenario("a budget decides evictions", decides_evictions),
    scenario("a budget lets unhealthy pods go", lets_unhealthy_pods_go),
    scenario("a budget of pods that nobody owns", nobody_owns_the_pods),
    scenario("a budget of owners that cannot be scaled", owners_that_cannot_be_scaled),
    scenario("two budgets for one pod", two_for_one),
    scenario("disruptions are announced and never done", announced_and_never_done),
    scenario("a node is drained as its budget lets it", drained),
]
