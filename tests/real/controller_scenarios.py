"""Stories of cascading deletion, told by `test_controllers.py` on a real cluster and on the embedded one."""

from __future__ import annotations

from typing import Any

from harness.objects import config_map
from harness.scenarios import Object, Place, Story

ZERO = "00000000-0000-4000-8000-000000000000"
HOLD = "example.com/hold"


def ref(owner: Object, block: bool | None = None, **changes: str) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, **({} if block is None else {"blockOwnerDeletion": block}), **changes}


def make(place: Place, name: str, *owners: Object, ns: str = "", **metadata: Any) -> Object:
    obj = config_map(name)
    obj["metadata"] |= metadata
    if owners:
        obj["metadata"]["ownerReferences"] = list(owners)
    return place.post(place.core("configmaps", namespace=ns), obj)


def cm(place: Place, name: str) -> str:
    return place.core("configmaps", name)


def release(place: Place, name: str) -> None:
    place.patch(cm(place, name), {"metadata": {"finalizers": None}})


def see(place: Place) -> None:
    place.note_all(place.core("configmaps"))


def after_a_look(place: Place) -> None:
    """Returns when the collector has looked at what was there before: it looks at things in order."""
    make(place, "sentinel", {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": ZERO})
    place.until_gone(cm(place, "sentinel"))


def background(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    for name in ("one", "two"):
        make(place, name, ref(owner, True))
    make(place, "other")
    place.kubectl("delete configmap owner --cascade=background")
    place.until_gone(cm(place, "one"), cm(place, "two"))
    see(place)


def foreground(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    for name in ("one", "two"):
        child = make(place, name, ref(owner, True))
        make(place, f"{name}-child", ref(child, True))
    after_a_look(place)
    place.kubectl("delete configmap owner --cascade=foreground")
    see(place)


def foreground_held(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    make(place, "blocks", ref(owner, True), finalizers=[HOLD])
    after_a_look(place)
    place.kubectl("delete configmap owner --cascade=foreground --wait=false")
    place.until(
        "the dependent is told to go", lambda: "deletionTimestamp" in place.get(cm(place, "blocks")).json()["metadata"]
    )
    see(place)
    release(place, "blocks")
    place.until_gone(cm(place, "owner"))
    see(place)


def foreground_without_blocking(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    make(place, "free", ref(owner, False), finalizers=[HOLD])
    after_a_look(place)
    place.kubectl("delete configmap owner --cascade=foreground")
    place.until(
        "the dependent is told to go", lambda: "deletionTimestamp" in place.get(cm(place, "free")).json()["metadata"]
    )
    see(place)
    release(place, "free")


def unblocked(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    make(place, "blocks", ref(owner, True), finalizers=[HOLD])
    after_a_look(place)
    place.delete(cm(place, "owner"), "Foreground")
    place.until(
        "the dependent is told to go", lambda: "deletionTimestamp" in place.get(cm(place, "blocks")).json()["metadata"]
    )
    place.patch(cm(place, "blocks"), {"metadata": {"ownerReferences": [ref(owner, False)]}})
    place.until_gone(cm(place, "owner"))
    see(place)
    release(place, "blocks")


def orphan(place: Place) -> None:
    place.make_namespace()
    owner, other = make(place, "owner"), make(place, "other")
    child = make(place, "child", ref(owner, True))
    make(place, "both", ref(owner), ref(other))
    make(place, "grandchild", ref(child))
    after_a_look(place)
    place.kubectl("delete configmap owner --cascade=orphan")
    after_a_look(place)
    see(place)


def orphan_by_finalizer(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner", finalizers=["orphan"])
    make(place, "child", ref(owner))
    after_a_look(place)
    place.kubectl("delete --raw " + cm(place, "owner"))
    place.until_gone(cm(place, "owner"))
    after_a_look(place)
    see(place)


def missing_owner(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    make(place, "lost", ref(owner, uid=ZERO))
    make(place, "saved", ref(owner), ref(owner, uid=ZERO, name="never"))
    place.until_gone(cm(place, "lost"))
    place.until(
        "the dead reference is struck off",
        lambda: len(place.get(cm(place, "saved")).json()["metadata"]["ownerReferences"]) == 1,
    )
    see(place)


def other_namespace(place: Place) -> None:
    place.make_namespace()
    place.make_namespace(f"{place.ns}-b")
    owner = make(place, "owner")
    after_a_look(place)
    make(place, "child", ref(owner), ns=f"{place.ns}-b")
    place.until_gone(place.core("configmaps", "child", f"{place.ns}-b"))
    events = place.core("events", namespace=f"{place.ns}-b")
    place.until("an event tells of it", lambda: bool(place.items(events)))
    for event in place.items(events):
        kept = ("type", "reason", "message", "involvedObject", "source", "count", "reportingComponent")
        place.note("an event", {key: event.get(key) for key in kept})
    see(place)


def made_again(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    make(place, "child", ref(owner))
    place.delete(cm(place, "owner"))
    make(place, "owner")
    place.until_gone(cm(place, "child"))
    see(place)


def two_owners(place: Place) -> None:
    place.make_namespace()
    first, second = make(place, "first"), make(place, "second")
    make(place, "child", ref(first, True), ref(second))
    after_a_look(place)
    place.kubectl("delete configmap first --cascade=background")
    place.until(
        "the reference is struck off",
        lambda: len(place.get(cm(place, "child")).json()["metadata"]["ownerReferences"]) == 1,
    )
    see(place)
    place.kubectl("delete configmap second")
    place.until_gone(cm(place, "child"))
    see(place)


def cluster_scoped_owner(place: Place) -> None:
    place.make_namespace()
    place.make_namespace(f"{place.ns}-b")
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": place.ns}, "handler": "h"}
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    owner = place.post(path, body)
    make(place, "one", ref(owner))
    make(place, "two", ref(owner), ns=f"{place.ns}-b")
    metadata = {"name": f"{place.ns}-child", "ownerReferences": [ref(owner)]}
    place.post(path, {**body, "metadata": metadata})
    place.delete(f"{path}/{place.ns}", "Background")
    place.until_gone(cm(place, "one"), place.core("configmaps", "two", f"{place.ns}-b"), f"{path}/{place.ns}-child")
    see(place)


def namespaced_owner_of_cluster_scoped(place: Place) -> None:
    place.make_namespace()
    owner = make(place, "owner")
    metadata = {"name": place.ns, "ownerReferences": [ref(owner)]}
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": "h"}
    place.post("/apis/node.k8s.io/v1/runtimeclasses", body)
    place.delete(cm(place, "owner"))
    after_a_look(place)
    place.note_object(f"/apis/node.k8s.io/v1/runtimeclasses/{place.ns}")
    place.delete(f"/apis/node.k8s.io/v1/runtimeclasses/{place.ns}")


def unserved_owner(place: Place) -> None:
    place.make_namespace()
    make(place, "child", {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": ZERO})
    after_a_look(place)
    see(place)


def circle(place: Place, policy: str) -> None:
    place.make_namespace()
    x = make(place, "x")
    y = make(place, "y", ref(x, True))
    place.patch(cm(place, "x"), {"metadata": {"ownerReferences": [ref(y, True)]}})
    after_a_look(place)
    see(place)
    place.delete(cm(place, "x"), policy)
    place.until_gone(cm(place, "x"), cm(place, "y"))
    see(place)


def other_version(place: Place) -> None:
    place.make_namespace()
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    path = f"/apis/autoscaling/v2/namespaces/{place.ns}/horizontalpodautoscalers"
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}}
    owner = place.post(path, {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **body})
    make(place, "child", ref(owner, apiVersion="autoscaling/v1"))
    after_a_look(place)
    see(place)
    place.delete(f"{path}/h")
    place.until_gone(cm(place, "child"))
    see(place)


CASCADES = [
    Story("dependents go in the background", background),
    Story("dependents and theirs go first in the foreground", foreground),
    Story("a held dependent holds its owner in the foreground", foreground_held),
    Story("a dependent that does not block does not hold its owner", foreground_without_blocking),
    Story("a dependent that stops blocking lets its owner go", unblocked),
    Story("orphans stay", orphan),
    Story("orphans stay by the owner's own finalizer", orphan_by_finalizer),
    Story("an owner that never was", missing_owner),
    Story("an owner in another namespace", other_namespace),
    Story("an owner made again under its name", made_again),
    Story("two owners, one after the other", two_owners),
    Story("an owner without a namespace", cluster_scoped_owner),
    Story("a dependent without a namespace and an owner with one", namespaced_owner_of_cluster_scoped),
    Story("an owner of a kind that is not served", unserved_owner),
    Story("a circle in the background", lambda place: circle(place, "Background")),
    Story("a circle in the foreground", lambda place: circle(place, "Foreground")),
    Story("an owner named by another version", other_version),
]
