"""Clusters with queues as data: what Volcano's users expect to be placed, in which order.

The cases are those that Volcano's own suites tell of its actions, each for pods
that opted in to the queue's gate and for pods that did not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clusters import a_node, a_pod
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, TASK_SPEC
from headgate.kube.timestamps import format_time

Object = dict[str, Any]


class Scenario(msgspec.Struct, frozen=True):
    """``placed``: the pods that get a node, in that order; ``nodes_of``: where, if it matters."""

    nodes: tuple[Object, ...]
    queues: tuple[Object, ...]
    groups: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    placed: tuple[str, ...] = ()
    nodes_of: Mapping[str, str] = {}
    settings: SchedulerConf = DEFAULTS


def queue(name: str, cpu: str = "", created_s: int = 0, **spec: Any) -> Object:
    limits = {"capability": {"cpu": cpu}} if cpu else {}
    meta = {"name": name, "uid": f"queue-{name}", "creationTimestamp": format_time(created_s)}
    return {"metadata": meta, "spec": {**limits, **spec}, "status": {"state": "Open"}}


def group(name: str, minimum: int = 1, created_s: int = 0, **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default", "uid": f"group-{name}", "creationTimestamp": format_time(created_s)}
    return {"metadata": meta, "spec": {"minMember": minimum, **spec}, "status": {"phase": "Inqueue"}}


def pod(
    name: str, cpu: str = "1", group: str = "", queue: str = "", role: str = "", created_s: int = 0, **spec: Any
) -> Object:
    made = a_pod(name, {"cpu": cpu} if cpu else {}, **spec)
    keys = {GROUP_NAMES[0]: group, QUEUE_NAME: queue, TASK_SPEC: role}
    made["metadata"]["annotations"] = {key: value for key, value in keys.items() if value}
    made["metadata"]["creationTimestamp"] = format_time(created_s)
    return made


def opted_in(pod: Object) -> Object:
    """The same behind the queue's gate, as the webhook leaves it; one on a node had it lifted long ago."""
    annotations = {**pod["metadata"]["annotations"], OPT_IN: "true"}
    gates = [] if pod["spec"].get("nodeName") else [{"name": GATE}]
    spec = {**pod["spec"], "schedulingGates": gates}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


ONE = (queue("q"),)

SCENARIOS: Mapping[str, Scenario] = {
    "a role that no node fits does not keep the other one": Scenario(
        nodes=(a_node("a", cpu="2", labels={"kind": "worker"}),),
        queues=ONE,
        groups=(group("g", queue="q"),),
        pods=(
            pod("master", group="g", role="master", nodeSelector={"kind": "master"}),
            pod("worker", group="g", role="worker", nodeSelector={"kind": "worker"}),
        ),
        placed=("worker",),
    ),
    "two roles with a minimum of one each get one each": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("q", "2"),),
        groups=(group("g", 2, queue="q", minTaskMember={"master": 1, "worker": 1}),),
        pods=(
            pod("master-0", group="g", role="master"),
            pod("master-1", group="g", role="master"),
            pod("worker-0", group="g", role="worker"),
            pod("worker-1", group="g", role="worker"),
        ),
        placed=("master-0", "worker-0"),
    ),
    "a gang of which only one fits gets nothing": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=ONE,
        groups=(group("g", 2, queue="q"),),
        pods=(pod("master-0", group="g"), pod("master-1", group="g")),
    ),
    "two pods that fit one node go there": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=ONE,
        groups=(group("g", queue="q"),),
        pods=(pod("p1", group="g"), pod("p2", group="g")),
        placed=("p1", "p2"),
    ),
    "two jobs share a node fairly": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("q", "4"),),
        groups=(group("g1", queue="q"), group("g2", queue="q")),
        pods=(
            *(pod(f"g1-{i}", group="g1") for i in range(2)),
            *(pod(f"g2-{i}", group="g2") for i in range(2)),
        ),
        placed=("g1-0", "g2-0"),
    ),
    "a pod too large for any node does not block another queue": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("first", priority=10), queue("second", priority=1)),
        pods=(pod("large", "8", queue="first"), pod("small", "1", queue="second")),
        placed=("small",),
    ),
    "a pod too large for its queue does not block the others of it": Scenario(
        nodes=(a_node("a", cpu="8"),),
        queues=(queue("q", "2"),),
        pods=(pod("large", "3", queue="q"), pod("small", "1", queue="q", created_s=1)),
        placed=("small",),
    ),
    "the job that holds less comes first": Scenario(
        nodes=(a_node("a", cpu="4"),),
        queues=(queue("q", "8"),),
        groups=(group("rich", queue="q"), group("poor", queue="q", created_s=9)),
        pods=(
            *(pod(f"rich-{i}", group="rich", nodeName="a") for i in range(3)),
            pod("rich-9", group="rich"),
            pod("poor-0", group="poor", created_s=9),
        ),
        placed=("poor-0",),
    ),
    "shares are looked at anew after every pod": Scenario(
        nodes=(a_node("a", cpu="5"),),
        queues=(queue("q", "8"),),
        groups=(group("g1", queue="q"), group("g2", queue="q", created_s=9)),
        pods=(
            *(pod(f"g1-{i}", "1", group="g1") for i in range(4)),
            *(pod(f"g2-{i}", "2", group="g2") for i in range(2)),
        ),
        placed=("g1-0", "g2-0", "g1-1", "g1-2"),
    ),
    "a job without pods that wait does not stall its queue": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=ONE,
        groups=(group("done", queue="q"), group("next", queue="q", created_s=9)),
        pods=(pod("done-0", group="done", nodeName="a"), pod("next-0", group="next")),
        placed=("next-0",),
    ),
    "queues come by their priority": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=(queue("low", priority=1), queue("high", priority=10, created_s=9), queue("mid", priority=5)),
        pods=(pod("l", queue="low"), pod("m", queue="mid"), pod("h", queue="high", created_s=9)),
        placed=("h",),
    ),
    "of queues with the same priority the one with the lesser share of what it deserves comes first": Scenario(
        nodes=(a_node("a", cpu="4"),),
        queues=(queue("a", deserved={"cpu": "2"}), queue("b", deserved={"cpu": "4"}, created_s=9)),
        pods=(
            pod("a0", queue="a", nodeName="a"),
            pod("b0", queue="b", nodeName="a"),
            pod("a1", queue="a"),
            pod("b1", queue="b", created_s=9),
            pod("b2", queue="b", created_s=9),
        ),
        placed=("b1", "a1"),
    ),
    "a queue that deserves something comes before one that does not": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=(queue("a"), queue("b", deserved={"cpu": "1"}, created_s=9)),
        pods=(pod("a0", queue="a"), pod("b0", queue="b", created_s=9)),
        placed=("b0",),
    ),
    "in a tree the branches below the common ancestor are compared": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=(
            queue("eng", priority=1),
            queue("ops", priority=2),
            queue("eng-a", parent="eng", priority=9),
            queue("ops-a", parent="ops"),
        ),
        pods=(pod("e", queue="eng-a"), pod("o", queue="ops-a", created_s=9)),
        placed=("o",),
    ),
    "jobs come by priority before anything else": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=ONE,
        groups=(group("old", 1, queue="q"), group("urgent", 2, created_s=9, queue="q")),
        pods=(
            pod("old-0", group="old"),
            pod("urgent-0", group="urgent", priority=7, created_s=9),
            pod("urgent-1", group="urgent", priority=7, created_s=9),
        ),
        placed=("urgent-0", "urgent-1"),
    ),
    "of jobs with the same priority one that is not whole comes before one that is": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("q", "100"),),
        groups=(group("whole", 1, queue="q"), group("starts", 1, created_s=9, queue="q")),
        pods=(
            pod("whole-0", group="whole", nodeName="a"),
            pod("whole-1", group="whole"),
            pod("starts-0", group="starts", created_s=9),
        ),
        placed=("starts-0",),
    ),
    "then the older job, then the name": Scenario(
        nodes=(a_node("a", cpu="3"),),
        queues=ONE,
        pods=(
            pod("c", queue="q", created_s=5),
            pod("b", queue="q", created_s=5),
            pod("z", queue="q", created_s=1),
            pod("d", queue="q", created_s=9),
        ),
        placed=("z", "b", "c"),
    ),
    "within a job pods come by priority, then age, then name": Scenario(
        nodes=(a_node("a", cpu="4"),),
        queues=ONE,
        groups=(group("g", queue="q"),),
        pods=(
            pod("b", group="g", created_s=2),
            pod("a", group="g", created_s=2),
            pod("old", group="g", created_s=1),
            pod("vip", group="g", created_s=9, priority=5),
            pod("late", group="g", created_s=9),
        ),
        placed=("vip", "old", "a", "b"),
    ),
    "pods that ask for nothing are placed, too": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=(queue("q", "1"),),
        pods=(pod("full", "1", queue="q", nodeName="a"), pod("free", "", queue="q")),
        placed=("free",),
    ),
    "a closed queue takes nobody": Scenario(
        nodes=(a_node("a", cpu="4"),),
        queues=({**queue("shut"), "status": {"state": "Closed"}}, queue("open")),
        pods=(pod("s", queue="shut"), pod("o", queue="open")),
        placed=("o",),
    ),
    "what another queue has over is used": Scenario(
        nodes=(a_node("a", cpu="4"),),
        queues=(queue("a", deserved={"cpu": "1"}), queue("b", deserved={"cpu": "3"})),
        pods=tuple(pod(f"a{i}", queue="a") for i in range(4)),
        placed=("a0", "a1", "a2", "a3"),
    ),
    "what a gang has beyond its minimum does not start without it": Scenario(
        nodes=(a_node("a", cpu="1"),),
        queues=(queue("q", "3"),),
        groups=(group("g", 2, queue="q"),),
        pods=tuple(pod(f"g-{i}", group="g") for i in range(3)),
    ),
    "a gang goes on without a pod that fits nowhere if the others are enough": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("q", "8"),),
        groups=(group("g", 2, queue="q"),),
        pods=(pod("g-0", "4", group="g"), pod("g-1", group="g"), pod("g-2", group="g"), pod("g-3", group="g")),
        placed=("g-1", "g-2"),
    ),
    "a gang of which the roles do not all fit gets nothing": Scenario(
        nodes=(a_node("a", cpu="2"),),
        queues=(queue("q", "8"),),
        groups=(group("g", 2, queue="q", minTaskMember={"master": 1, "worker": 1}),),
        pods=(
            pod("master", "4", group="g", role="master"),
            pod("worker-0", group="g", role="worker"),
            pod("worker-1", group="g", role="worker"),
        ),
    ),
    "a gang that has its minimum takes more one by one": Scenario(
        nodes=(a_node("a", cpu="3"),),
        queues=(queue("q", "8"),),
        groups=(group("g", 2, queue="q"),),
        pods=(
            *(pod(f"g-{i}", group="g", nodeName="a") for i in range(2)),
            *(pod(f"g-{i}", group="g") for i in (2, 3)),
        ),
        placed=("g-2",),
    ),
}
