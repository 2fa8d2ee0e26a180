"""Stories of nodes that are in trouble, and of the pods on them.

Each story has a node of its own, in a zone of its own, that no kubelet plays: the story says how the node is, and
renews its Lease for as long as it is to be heard of. Pods are bound to it by name; a taint keeps other stories' away.
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
from real.workloads.scenario_cluster import Hold, Workplace, story

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ZONE = "topology.kubernetes.io/zone"
KINDS = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
SCHEDULE, EXECUTE = "NoSchedule", "NoExecute"
MINE = "example.com/mine"
APART = {"key": "example.com/apart", "effect": "NoSchedule"}
BEAT_S = 2.0
PATIENCE_S = 75.0


def name_of(place: Workplace) -> str:
    return f"lonely-{place.ns}"


def add_node(place: Workplace, *taints: Object) -> None:
    labels = {ZONE: place.ns, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    metadata = {"name": name_of(place), "labels": labels}
    place.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [APART, *taints]}})


def report(place: Workplace, ready: str = "True", **others: str) -> None:
    now = format_time(time.time())
    states = {**dict.fromkeys(KINDS, "False"), **others, "Ready": ready}
    conditions = [
        {"type": kind, "status": status, "reason": "Said", "message": "so"}
        | {"lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, status in states.items()
    ]
    place.change(f"nodes/{name_of(place)}", {"status": {"conditions": conditions}}, "status")


def beat(place: Workplace) -> None:
    name = name_of(place)
    spec = {"renewTime": format_micro_time(time.time()), "holderIdentity": name, "leaseDurationSeconds": 40}
    if place.get(f"{LEASES}/{name}").status == 404:
        place.post(LEASES, {"metadata": {"name": name}, "spec": spec})
    else:
        place.patch(f"{LEASES}/{name}", {"spec": spec})


@contextmanager
def heard_of(place: Workplace) -> Iterator[None]:
    """The node's Lease is renewed."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(BEAT_S):
            beat(place)

    beat(place)
    beating = threading.Thread(target=go_on, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


def on_node(place: Workplace, name: str, *tolerations: Object) -> Object:
    return bare(name, nodeName=name_of(place), tolerations=list(tolerations))


def tolerating(key: str, seconds: int | None = None) -> Object:
    return {
        "key": key,
        "operator": "Exists",
        "effect": EXECUTE,
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


def run(place: Workplace, *names: str) -> None:
    """What a kubelet would say of pods that run."""
    for name in names:
        ready = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        place.change(f"pods/{name}", {"status": {"phase": "Running", "conditions": ready}}, "status")


def taint(place: Workplace, *keys: str) -> None:
    added = [{"key": key, "effect": EXECUTE} for key in keys]
    place.change(f"nodes/{name_of(place)}", {"spec": {"taints": [APART, *added]}})


def tainted(place: Workplace, *taints: tuple[str, str]) -> Hold:
    def seen() -> set[tuple[str, str]]:
        spec = place.read(f"nodes/{name_of(place)}")["spec"]
        return {(each["key"], each["effect"]) for each in spec.get("taints") or () if each["key"] != APART["key"]}

    return Hold(f"the node has the taints {taints}", lambda: seen() == set(taints), seen)


def going(place: Workplace, *names: str) -> Hold:
    """These pods are being deleted, and no others."""

    def seen() -> set[str]:
        return {each["metadata"]["name"] for each in place.pods() if "deletionTimestamp" in each["metadata"]}

    return Hold(f"{names} are going", lambda: seen() == set(names), seen)


def told(place: Workplace, *reasons: str) -> Hold:
    """Events about the node; those are in the namespace default."""

    def seen() -> set[str]:
        chosen = f"fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{name_of(place)}"
        found = place.get(f"/api/v1/namespaces/default/events?{chosen}").json()["items"]
        return {f"{each['type']} {each['reason']} {each['message']}" for each in found}

    def holds() -> bool:
        return {each.split(" ")[1] for each in seen()} == set(reasons)

    return Hold(f"the node's events are {reasons}", holds, seen)


def note_events(place: Workplace, *reasons: str) -> None:
    hold = told(place, *reasons)
    place.wait(hold)
    place.note("events of the node", sorted(hold.seen()))


def turns_unready_and_ready(place: Workplace) -> None:
    add_node(place)
    with heard_of(place):
        report(place)
        place.create(on_node(place, "stays"), on_node(place, "leaves", tolerating(NOT_READY, 3)))
        run(place, "stays", "leaves")
        place.stop("all is well", tainted(place))
        report(place, "False")
        place.stop("it is not", tainted(place, (NOT_READY, SCHEDULE), (NOT_READY, EXECUTE)), going(place, "leaves"))
        report(place)
        place.stop("it is again", tainted(place))
        note_events(place, "RegisteredNode")


def is_under_pressure(place: Workplace) -> None:
    add_node(place)
    keys = [f"node.kubernetes.io/{each}" for each in ("memory-pressure", "disk-pressure", "pid-pressure")]
    keys.append("node.kubernetes.io/network-unavailable")
    with heard_of(place):
        report(place, **dict.fromkeys(KINDS, "True"))
        place.stop("everything is short", tainted(place, *((key, SCHEDULE) for key in keys)))
        report(place, MemoryPressure="True")
        place.stop("memory is", tainted(place, (keys[0], SCHEDULE)))
        report(place)
        place.stop("nothing is", tainted(place))


def is_cordoned(place: Workplace) -> None:
    add_node(place, {"key": MINE, "value": "v", "effect": SCHEDULE})
    with heard_of(place):
        report(place)
        place.kubectl(f"cordon {name_of(place)}")
        place.stop("cordoned", tainted(place, (MINE, SCHEDULE), ("node.kubernetes.io/unschedulable", SCHEDULE)))
        place.kubectl(f"uncordon {name_of(place)}")
        place.stop("not any more", tainted(place, (MINE, SCHEDULE)))


def falls_silent(place: Workplace) -> None:
    add_node(place)
    report(place)
    place.create(on_node(place, "runs"), on_node(place, "leaves", tolerating(UNREACHABLE, 2)), on_node(place, "pends"))
    run(place, "runs", "leaves")
    both = tainted(place, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE))
    place.stop("nothing is heard of it", both, going(place, "leaves"), words=True, patience_s=PATIENCE_S)
    note_events(place, "RegisteredNode", "NodeNotReady")
    with heard_of(place):
        report(place)
        place.stop("it is back", tainted(place))


def falls_silent_and_is_in_trouble(place: Workplace) -> None:
    add_node(place)
    report(place)
    both = tainted(place, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE))
    place.stop("nothing is heard of it", both, patience_s=PATIENCE_S)
    with heard_of(place):
        report(place, "False")
        place.stop("it is back, and not well", tainted(place, (NOT_READY, SCHEDULE), (NOT_READY, EXECUTE)))


def never_speaks(place: Workplace) -> None:
    add_node(place)
    place.stop(
        "nobody ever heard of it",
        place.condition(f"nodes/{name_of(place)}", "Ready", "Unknown", "NodeStatusNeverUpdated"),
        tainted(place, (UNREACHABLE, SCHEDULE), (UNREACHABLE, EXECUTE)),
        patience_s=PATIENCE_S,
    )


def is_kept_by_its_lease(place: Workplace) -> None:
    add_node(place)
    with heard_of(place):
        report(place)
        time.sleep(18)  # longer than a node may be silent
        place.stop("it is heard of", tainted(place), place.condition(f"nodes/{name_of(place)}", "Ready"))


def is_deleted(place: Workplace) -> None:
    add_node(place)
    report(place)
    place.wait(told(place, "RegisteredNode"))
    place.remove(f"nodes/{name_of(place)}")
    note_events(place, "RegisteredNode", "RemovingNode")


def labels_are_kept_the_same(place: Workplace) -> None:
    add_node(place)

    def seen() -> Any:
        return place.read(f"nodes/{name_of(place)}")["metadata"]["labels"]

    place.wait(Hold("the old labels are there", lambda: "beta.kubernetes.io/arch" in seen(), seen))
    place.note("labels", seen())


def pods_leave_in_time(place: Workplace) -> None:
    add_node(place)
    with heard_of(place):
        report(place)
        place.create(
            on_node(place, "at-once"),
            on_node(place, "soon", tolerating(MINE, 2)),
            on_node(place, "late", tolerating(MINE, 3600)),
            on_node(place, "never", tolerating(MINE)),
            on_node(place, "whatever", {"operator": "Exists"}),
        )
        run(place, "at-once", "soon", "late", "never", "whatever")
        taint(place, MINE)
        place.stop("some have left", going(place, "at-once", "soon"), words=True)
        place.create(on_node(place, "new"))
        place.stop("who comes leaves", going(place, "at-once", "soon", "new"))


def taint_goes_in_time(place: Workplace) -> None:
    add_node(place)
    with heard_of(place):
        report(place)
        place.create(on_node(place, "waits", tolerating(MINE, 3600)))
        run(place, "waits")
        taint(place, MINE)
        place.stop("it waits", tainted(place, (MINE, EXECUTE)))
        taint(place)
        place.stop("it may stay", tainted(place), place.event("TaintManagerEviction"), words=True)
        taint(place, MINE, "example.com/other")
        place.stop("another is not tolerated", going(place, "waits"), words=True)


def shortest_time_counts(place: Workplace) -> None:
    add_node(place)
    other = "example.com/other"
    with heard_of(place):
        report(place)
        place.create(on_node(place, "two", tolerating(MINE, 3600), tolerating(other, 3)))
        place.create(on_node(place, "one", tolerating(MINE, 3600), tolerating(other)))
        run(place, "one", "two")
        taint(place, MINE, other)
        place.stop("the shorter time is over", going(place, "two"), words=True)


def alone(tell: Callable[[Workplace], None]) -> Callable[[Workplace], None]:
    """The story's node is taken away at its end."""

    def told(place: Workplace) -> None:
        try:
            tell(place)
        finally:
            place.server.request("DELETE", place.at(f"nodes/{name_of(place)}"))

    return told


SCENARIOS = [
    story("a node turns unready and ready", alone(turns_unready_and_ready)),
    story("a node is under pressure", alone(is_under_pressure)),
    story("a node is cordoned", alone(is_cordoned)),
    story("a node falls silent", alone(falls_silent)),
    story("a node falls silent and comes back in trouble", alone(falls_silent_and_is_in_trouble)),
    story("a node never speaks", alone(never_speaks)),
    story("a node is kept by its lease", alone(is_kept_by_its_lease)),
    story("a node is deleted", alone(is_deleted)),
    story("labels of a node are kept the same", alone(labels_are_kept_the_same)),
    story("pods leave a tainted node in time", alone(pods_leave_in_time)),
    story("a taint goes in time", alone(taint_goes_in_time)),
    story("the shortest toleration counts", alone(shortest_time_counts)),
]
