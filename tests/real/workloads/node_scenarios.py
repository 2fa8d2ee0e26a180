"""Scenarios of nodes with problems, and of the pods on them.

Each scenario has its own node in its own zone without a kubelet: the scenario sets the conditions of the node and
renews its Lease while it should be healthy. Pods are bound to it by name; a taint keeps pods of other scenarios away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.scenarios import Object
from headgate.kube.timestamps import format_micro_time, format_time
from real.workloads.pod_scenarios import bare
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ZONE = "topology.kubernetes.io/zone"
KINDS = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
SCHEDULE, EXECUTE = "NoSchedule", "NoExecute"
MINE = "example.com/mine"
APART = {"key": "example.com/apart", "effect": "NoSchedule"}
BEAT_S = 2.0
PATIENCE_S = 75.0


def name_of(cluster: WorkloadCluster) -> str:
    return f"lonely-{cluster.ns}"


def add_node(cluster: WorkloadCluster, *taints: Object) -> None:
    labels = {ZONE: cluster.ns, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    metadata = {"name": name_of(cluster), "labels": labels}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [APART, *taints]}})


def report(cluster: WorkloadCluster, ready: str = "True", **others: str) -> None:
    now = format_time(time.time())
    states = {**dict.fromkeys(KINDS, "False"), **others, "Ready": ready}
    conditions = [
        {"type": kind, "status": status, "reason": "Said", "message": "so"}
        | {"lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, status in states.items()
    ]
    cluster.change(f"nodes/{name_of(cluster)}", {"status": {"conditions": conditions}}, "status")


def beat(cluster: WorkloadCluster) -> None:
    name = name_of(cluster)
    spec = {"renewTime": format_micro_time(time.time()), "holderIdentity": name, "leaseDurationSeconds": 40}
    if cluster.get(f"{LEASES}/{name}").status == 404:
        cluster.post(LEASES, {"metadata": {"name": name}, "spec": spec})
    else:
        cluster.patch(f"{LEASES}/{name}", {"spec": spec})


@contextmanager
def heard_of(cluster: WorkloadCluster) -> Iterator[None]:
    """The node's Lease is renewed."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(BEAT_S):
            beat(cluster)

    beat(cluster)
    beating = threading.Thread(target=go_on, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


def on_node(cluster: WorkloadCluster, name: str, *tolerations: Object) -> Object:
    return bare(name, nodeName=name_of(cluster), tolerations=list(tolerations))


def tolerating(key: str, seconds: int | None = None) -> Object:
    return {
        "key": key,
        "operator": "Exists",
        "effect": EXECUTE,
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


def run(cluster: WorkloadCluster, *names: str) -> None:
    """What a kubelet would say of pods that run."""
    for name in names:
        ready = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        cluster.change(f"pods/{name}", {"status": {"phase": "Running", "conditions": ready}}, "status")


def taint(cluster: WorkloadCluster, *keys: str) -> None:
    added = [{"key": key, "effect": EXECUTE} for key in keys]
    cluster.change(f"nodes/{name_of(cluster)}", {"spec": {"taints": [APART, *added]}})


def tainted(cluster: WorkloadCluster, *taints: tuple[str, str]) -> WaitCondition:
    def seen() -> set[tuple[str, str]]:
        spec = cluster.read(f"nodes/{name_of(cluster)}")["spec"]
        return {(each["key"], each["effect"]) for each in spec.get("taints") or () if each["key"] != APART["key"]}

    return WaitCondition(f"the node has the taints {taints}", lambda: seen() == set(taints), seen)


def going(cluster: WorkloadCluster, *names: str) -> WaitCondition:
    """These pods are being deleted, and no others."""

    def seen() -> set[str]:
        return {each["metadata"]["name"] for each in cluster.pods() if "deletionTimestamp" in each["metadata"]}

    return WaitCondition(f"{names} are going", lambda: seen() == set(names), seen)


def node_events(cluster: WorkloadCluster, *reasons: str) -> WaitCondition:
    """Events about the node; those are in the namespace default."""

    def seen() -> set[str]:
        chosen = f"fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{name_of(cluster)}"
        found = cluster.get(f"/api/v1/namespaces/default/events?{chosen}").json()["items"]
        return {f"{each['type']} {each['reason']} {each['message']}" for each in found}

    def holds() -> bool:
        return {each.split(" ")[1] for each in seen()} == set(reasons)

    return WaitCondition(f"the node's events are {reasons}", holds, seen)


def note_events(cluster: WorkloadCluster, *reasons: str) -> None:
    hold = node_events(cluster, *reasons)
    cluster.wait(hold)
    cluster.note("events of the node", sorted(hold.seen()))


def turns_unready_and_ready(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    with heard_of(cluster):
        report(cluster)
        cluster.create(on_node(cluster, "stays"), on_node(cluster, "leaves", tolerating(NOT_READY, 3)))
        run(cluster, "stays", "leaves")
        cluster.checkpoint("all is well", tainted(cluster))
        report(cluster, "False")
        cluster.checkpoint(
            "it is not", tainted(cluster, (NOT_READY, SCHEDULE), (NOT_READY, EXECUTE)), going(cluster, "leaves")
        )
        report(cluster)
        cluster.checkpoint("it is again", tainted(cluster))
        note_events(cluster, "RegisteredNode")


def is_under_pressure(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    keys = [f"node.kubernetes.io/{each}" for each in ("memory-pressure", "disk-pressure", "pid-pressure")]
    keys.append("node.kubernetes.io/network-unavailable")
    with heard_of(cluster):
        report(cluster, **dict.fromkeys(KINDS, "True"))
        cluster.checkpoint("everything is short", tainted(cluster, *((key, SCHEDULE) for key in keys)))
        report(cluster, MemoryPressure="True")
        cluster.checkpoint("memory is", tainted(cluster, (keys[0], SCHEDULE)))
        report(cluster)
        cluster.checkpoint("nothing is", tainted(cluster))


def is_cordoned(cluster: WorkloadCluster) -> None:
    add_node(cluster, {"key": MINE, "value": "v", "effect": SCHEDULE})
    with heard_of(cluster):
        report(cluster)
        cluster.kubectl(f"cordon {name_of(cluster)}")
        cluster.checkpoint(
            "cordoned", tainted(cluster, (MINE, SCHEDULE), ("node.kubernetes.io/unschedulable", SCHEDULE))
        )
        cluster.kubectl(f"uncordon {name_of(cluster)}")
        cluster.checkpoint("not any more", tainted(cluster, (MINE, SCHEDULE)))


def falls_silent(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    report(cluster)
    cluster.create(
        on_node(cluster, "runs"), on_node(cluster, "leaves", tolerating(UNREACHABLE, 2)), on_node(cluster, "pends")
    )
    run(cluster, "runs", "leaves")
    both = tainted(cluster, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE))
    cluster.checkpoint("nothing is heard of it", both, going(cluster, "leaves"), words=True, patience_s=PATIENCE_S)
    note_events(cluster, "RegisteredNode", "NodeNotReady")
    with heard_of(cluster):
        report(cluster)
        cluster.checkpoint("it is back", tainted(cluster))


def falls_silent_and_is_in_trouble(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    report(cluster)
    both = tainted(cluster, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE))
    cluster.checkpoint("nothing is heard of it", both, patience_s=PATIENCE_S)
    with heard_of(cluster):
        report(cluster, "False")
        cluster.checkpoint("it is back, and not well", tainted(cluster, (NOT_READY, SCHEDULE), (NOT_READY, EXECUTE)))


def never_speaks(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    cluster.checkpoint(
        "nobody ever heard of it",
        cluster.condition(f"nodes/{name_of(cluster)}", "Ready", "Unknown", "NodeStatusNeverUpdated"),
        tainted(cluster, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE)),
        patience_s=PATIENCE_S,
    )


def is_kept_by_its_lease(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    with heard_of(cluster):
        report(cluster)
        time.sleep(18)  # longer than a node may be silent
        cluster.checkpoint("it is heard of", tainted(cluster), cluster.condition(f"nodes/{name_of(cluster)}", "Ready"))


def is_deleted(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    report(cluster)
    cluster.wait(node_events(cluster, "RegisteredNode"))
    cluster.remove(f"nodes/{name_of(cluster)}")
    note_events(cluster, "RegisteredNode", "RemovingNode")


def labels_are_kept_the_same(cluster: WorkloadCluster) -> None:
    add_node(cluster)

    def seen() -> Any:
        return cluster.read(f"nodes/{name_of(cluster)}")["metadata"]["labels"]

    cluster.wait(WaitCondition("the old labels are there", lambda: "beta.kubernetes.io/arch" in seen(), seen))
    cluster.note("labels", seen())


def pods_leave_in_time(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    with heard_of(cluster):
        report(cluster)
        cluster.create(
            on_node(cluster, "at-once"),
            on_node(cluster, "soon", tolerating(MINE, 2)),
            on_node(cluster, "late", tolerating(MINE, 3600)),
            on_node(cluster, "never", tolerating(MINE)),
            on_node(cluster, "whatever", {"operator": "Exists"}),
        )
        run(cluster, "at-once", "soon", "late", "never", "whatever")
        taint(cluster, MINE)
        cluster.checkpoint("some have left", going(cluster, "at-once", "soon"), words=True)
        cluster.create(on_node(cluster, "new"))
        cluster.checkpoint("who comes leaves", going(cluster, "at-once", "soon", "new"))


def taint_goes_in_time(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    with heard_of(cluster):
        report(cluster)
        cluster.create(on_node(cluster, "waits", tolerating(MINE, 3600)))
        run(cluster, "waits")
        taint(cluster, MINE)
        cluster.checkpoint("it waits", tainted(cluster, (MINE, EXECUTE)))
        taint(cluster)
        cluster.checkpoint("it may stay", tainted(cluster), cluster.event("TaintManagerEviction"), words=True)
        taint(cluster, MINE, "example.com/other")
        cluster.checkpoint("another is not tolerated", going(cluster, "waits"), words=True)


def shortest_time_counts(cluster: WorkloadCluster) -> None:
    add_node(cluster)
    other = "example.com/other"
    with heard_of(cluster):
        report(cluster)
        cluster.create(on_node(cluster, "two", tolerating(MINE, 3600), tolerating(other, 3)))
        cluster.create(on_node(cluster, "one", tolerating(MINE, 3600), tolerating(other)))
        run(cluster, "one", "two")
        taint(cluster, MINE, other)
        cluster.checkpoint("the shorter time is over", going(cluster, "two"), words=True)


def alone(run: Callable[[WorkloadCluster], None]) -> Callable[[WorkloadCluster], None]:
    """Deletes the scenario's node at the end."""

    def run_and_delete_node(cluster: WorkloadCluster) -> None:
        try:
            run(cluster)
        finally:
            cluster.server.request("DELETE", cluster.at(f"nodes/{name_of(cluster)}"))

    return run_and_delete_node


SCENARIOS = [
    scenario("a node turns unready and ready", alone(turns_unready_and_ready)),
    scenario("a node is under pressure", alone(is_under_pressure)),
    scenario("a node is cordoned", alone(is_cordoned)),
    scenario("a node falls silent", alone(falls_silent)),
    scenario("a node falls silent and comes back in trouble", alone(falls_silent_and_is_in_trouble)),
    scenario("a node never speaks", alone(never_speaks)),
    scenario("a node is kept by its lease", alone(is_kept_by_its_lease)),
    scenario("a node is deleted", alone(is_deleted)),
    scenario("labels of a node are kept the same", alone(labels_are_kept_the_same)),
    scenario("pods leave a tainted node in time", alone(pods_leave_in_time)),
    scenario("a taint goes in time", alone(taint_goes_in_time)),
    scenario("the shortest toleration counts", alone(shortest_time_counts)),
]
