"""Scenarios of cascading deletion, which `test_controllers.py` runs on a real cluster and on the embedded one."""

from __future__ import annotations

from typing import Any

from harness.objects import config_map
from harness.scenarios import Object, Scenario, ScenarioCluster

ZERO = "00000000-0000-4000-8000-000000000000"
HOLD = "example.com/hold"


def ref(owner: Object, block: bool | None = None, **changes: str) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, **({} if block is None else {"blockOwnerDeletion": block}), **changes}


def make(cluster: ScenarioCluster, name: str, *owners: Object, ns: str = "", **metadata: Any) -> Object:
    obj = config_map(name)
    obj["metadata"] |= metadata
    if owners:
        obj["metadata"]["ownerReferences"] = list(owners)
    return cluster.post(cluster.core("configmaps", namespace=ns), obj)


def cm(cluster: ScenarioCluster, name: str) -> str:
    return cluster.core("configmaps", name)


def release(cluster: ScenarioCluster, name: str) -> None:
    cluster.patch(cm(cluster, name), {"metadata": {"finalizers": None}})


def see(cluster: ScenarioCluster) -> None:
    cluster.note_all(cluster.core("configmaps"))


def after_a_look(cluster: ScenarioCluster) -> None:
    """Returns when the collector has looked at what was there before: it looks at things in order."""
    make(cluster, "sentinel", {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": ZERO})
    cluster.until_gone(cm(cluster, "sentinel"))


def background(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    for name in ("one", "two"):
        make(cluster, name, ref(owner, True))
    make(cluster, "other")
    cluster.kubectl("delete configmap owner --cascade=background")
    cluster.until_gone(cm(cluster, "one"), cm(cluster, "two"))
    see(cluster)


def foreground(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    for name in ("one", "two"):
        child = make(cluster, name, ref(owner, True))
        make(cluster, f"{name}-child", ref(child, True))
    after_a_look(cluster)
    cluster.kubectl("delete configmap owner --cascade=foreground")
    see(cluster)


def foreground_held(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    make(cluster, "blocks", ref(owner, True), finalizers=[HOLD])
    after_a_look(cluster)
    cluster.kubectl("delete configmap owner --cascade=foreground --wait=false")
    cluster.until(
        "the dependent is told to go",
        lambda: "deletionTimestamp" in cluster.get(cm(cluster, "blocks")).json()["metadata"],
    )
    see(cluster)
    release(cluster, "blocks")
    cluster.until_gone(cm(cluster, "owner"))
    see(cluster)


def foreground_without_blocking(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    make(cluster, "free", ref(owner, False), finalizers=[HOLD])
    after_a_look(cluster)
    cluster.kubectl("delete configmap owner --cascade=foreground")
    cluster.until(
        "the dependent is told to go",
        lambda: "deletionTimestamp" in cluster.get(cm(cluster, "free")).json()["metadata"],
    )
    see(cluster)
    release(cluster, "free")


def unblocked(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    make(cluster, "blocks", ref(owner, True), finalizers=[HOLD])
    after_a_look(cluster)
    cluster.delete(cm(cluster, "owner"), "Foreground")
    cluster.until(
        "the dependent is told to go",
        lambda: "deletionTimestamp" in cluster.get(cm(cluster, "blocks")).json()["metadata"],
    )
    cluster.patch(cm(cluster, "blocks"), {"metadata": {"ownerReferences": [ref(owner, False)]}})
    cluster.until_gone(cm(cluster, "owner"))
    see(cluster)
    release(cluster, "blocks")


def orphan(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner, other = make(cluster, "owner"), make(cluster, "other")
    child = make(cluster, "child", ref(owner, True))
    make(cluster, "both", ref(owner), ref(other))
    make(cluster, "grandchild", ref(child))
    after_a_look(cluster)
    cluster.kubectl("delete configmap owner --cascade=orphan")
    after_a_look(cluster)
    see(cluster)


def orphan_by_finalizer(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner", finalizers=["orphan"])
    make(cluster, "child", ref(owner))
    after_a_look(cluster)
    cluster.kubectl("delete --raw " + cm(cluster, "owner"))
    cluster.until_gone(cm(cluster, "owner"))
    after_a_look(cluster)
    see(cluster)


def missing_owner(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    make(cluster, "lost", ref(owner, uid=ZERO))
    make(cluster, "saved", ref(owner), ref(owner, uid=ZERO, name="never"))
    cluster.until_gone(cm(cluster, "lost"))
    cluster.until(
        "the dead reference is struck off",
        lambda: len(cluster.get(cm(cluster, "saved")).json()["metadata"]["ownerReferences"]) == 1,
    )
    see(cluster)


def other_namespace(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    cluster.make_namespace(f"{cluster.ns}-b")
    owner = make(cluster, "owner")
    after_a_look(cluster)
    make(cluster, "child", ref(owner), ns=f"{cluster.ns}-b")
    cluster.until_gone(cluster.core("configmaps", "child", f"{cluster.ns}-b"))
    events = cluster.core("events", namespace=f"{cluster.ns}-b")
    cluster.until("an event tells of it", lambda: bool(cluster.items(events)))
    for event in cluster.items(events):
        kept = ("type", "reason", "message", "involvedObject", "source", "count", "reportingComponent")
        cluster.note("an event", {key: event.get(key) for key in kept})
    see(cluster)


def made_again(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    make(cluster, "child", ref(owner))
    cluster.delete(cm(cluster, "owner"))
    make(cluster, "owner")
    cluster.until_gone(cm(cluster, "child"))
    see(cluster)


def two_owners(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    first, second = make(cluster, "first"), make(cluster, "second")
    make(cluster, "child", ref(first, True), ref(second))
    after_a_look(cluster)
    cluster.kubectl("delete configmap first --cascade=background")
    cluster.until(
        "the reference is struck off",
        lambda: len(cluster.get(cm(cluster, "child")).json()["metadata"]["ownerReferences"]) == 1,
    )
    see(cluster)
    cluster.kubectl("delete configmap second")
    cluster.until_gone(cm(cluster, "child"))
    see(cluster)


def cluster_scoped_owner(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    cluster.make_namespace(f"{cluster.ns}-b")
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": cluster.ns}, "handler": "h"}
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    owner = cluster.post(path, body)
    make(cluster, "one", ref(owner))
    make(cluster, "two", ref(owner), ns=f"{cluster.ns}-b")
    metadata = {"name": f"{cluster.ns}-child", "ownerReferences": [ref(owner)]}
    cluster.post(path, {**body, "metadata": metadata})
    cluster.delete(f"{path}/{cluster.ns}", "Background")
    cluster.until_gone(
        cm(cluster, "one"), cluster.core("configmaps", "two", f"{cluster.ns}-b"), f"{path}/{cluster.ns}-child"
    )
    see(cluster)


def namespaced_owner_of_cluster_scoped(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    owner = make(cluster, "owner")
    metadata = {"name": cluster.ns, "ownerReferences": [ref(owner)]}
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": "h"}
    cluster.post("/apis/node.k8s.io/v1/runtimeclasses", body)
    cluster.delete(cm(cluster, "owner"))
    after_a_look(cluster)
    cluster.note_object(f"/apis/node.k8s.io/v1/runtimeclasses/{cluster.ns}")
    cluster.delete(f"/apis/node.k8s.io/v1/runtimeclasses/{cluster.ns}")


def unserved_owner(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    make(cluster, "child", {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": ZERO})
    after_a_look(cluster)
    see(cluster)


def circle(cluster: ScenarioCluster, policy: str) -> None:
    cluster.make_namespace()
    x = make(cluster, "x")
    y = make(cluster, "y", ref(x, True))
    cluster.patch(cm(cluster, "x"), {"metadata": {"ownerReferences": [ref(y, True)]}})
    after_a_look(cluster)
    see(cluster)
    cluster.delete(cm(cluster, "x"), policy)
    cluster.until_gone(cm(cluster, "x"), cm(cluster, "y"))
    see(cluster)


def other_version(cluster: ScenarioCluster) -> None:
    cluster.make_namespace()
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    path = f"/apis/autoscaling/v2/namespaces/{cluster.ns}/horizontalpodautoscalers"
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}}
    owner = cluster.post(path, {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **body})
    make(cluster, "child", ref(owner, apiVersion="autoscaling/v1"))
    after_a_look(cluster)
    see(cluster)
    cluster.delete(f"{path}/h")
    cluster.until_gone(cm(cluster, "child"))
    see(cluster)


CASCADES = [
    Scenario("dependents go in the background", background),
    Scenario("dependents and theirs go first in the foreground", foreground),
    Scenario("a held dependent holds its owner in the foreground", foreground_held),
    Scenario("a dependent that does not block does not hold its owner", foreground_without_blocking),
    Scenario("a dependent that stops blocking lets its owner go", unblocked),
    Scenario("orphans stay", orphan),
    Scenario("orphans stay by the owner's own finalizer", orphan_by_finalizer),
    Scenario("an owner that never was", missing_owner),
    Scenario("an owner in another namespace", other_namespace),
    Scenario("an owner made again under its name", made_again),
    Scenario("two owners, one after the other", two_owners),
    Scenario("an owner without a namespace", cluster_scoped_owner),
    Scenario("a dependent without a namespace and an owner with one", namespaced_owner_of_cluster_scoped),
    Scenario("an owner of a kind that is not served", unserved_owner),
    Scenario("a circle in the background", lambda place: circle(place, "Background")),
    Scenario("a circle in the foreground", lambda place: circle(place, "Foreground")),
    Scenario("an owner named by another version", other_version),
]
