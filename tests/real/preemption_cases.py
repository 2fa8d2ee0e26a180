"""Full clusters and pods that preempt, random from a seed, each in its own namespace and on its own nodes.

No choice of kube-scheduler is left to chance: no two pods started in the same second, so that no two pods or nodes are
equally good to preempt.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from clusters import a_node, a_pod
from harness.objects import priority_class

Object = dict[str, Any]

PRIORITIES = (-5, 0, 1, 5, 10, 20)
NEVER = 21
CLASSES = [
    *(priority_class(f"p{value}".replace("-", "minus"), value) for value in PRIORITIES),
    priority_class("never", NEVER, preemptionPolicy="Never"),
]
PORT = [{"containerPort": 1, "hostPort": 80}]
HOSTNAME = "kubernetes.io/hostname"


class Case(NamedTuple):
    number: int
    namespace: str
    nodes: list[Object]
    running: list[Object]
    """With a node and a status."""
    budgets: list[Object]
    preemptors: list[Object]
    """One after the other."""


def draw_case(number: int) -> Case:
    draw = Random(number)
    namespace = f"case-{number}"
    nodes = [_draw_node(draw, number, f"{namespace}-{letter}") for letter in "abcde"[: draw.randint(1, 5)]]
    seconds = draw.sample(range(3600), 40)
    unstarted = draw.randrange(20)
    running: list[Object] = []
    for node in nodes:
        for _ in range(draw.randint(0, 6)):
            pod = _draw_pod(draw, namespace, f"v{len(running)}", draw.choice(PRIORITIES[:5]))
            pod["spec"]["nodeName"] = node["metadata"]["name"]
            if _has_port(pod) and any(_has_port(each) for each in running if _node_of(each) == _node_of(pod)):
                # To kube-scheduler a port that two pods hold is free when one of them is gone.
                del pod["spec"]["containers"][0]["ports"]
            second = seconds.pop()
            started = f"2025-01-01T0{second // 3600}:{second // 60 % 60:02}:{second % 60:02}Z"
            pod["status"] = {"startTime": started} if len(running) != unstarted else {}
            running.append(pod)
    preemptors = []
    for i in range(3):
        pod = _draw_pod(draw, namespace, f"preemptor-{i}", draw.choice((*PRIORITIES[3:], 10, 20, NEVER)))
        pod["spec"]["nodeSelector"] = {"case": str(number)}
        preemptors.append(pod)
    return Case(number, namespace, nodes, running, _draw_budgets(draw, namespace, running), preemptors)


def _has_port(pod: Object) -> bool:
    return "ports" in pod["spec"]["containers"][0]


def _node_of(pod: Object) -> str:
    return str(pod["spec"]["nodeName"])


def _draw_node(draw: Random, number: int, name: str) -> Object:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if draw.random() < 0.1 else []
    return a_node(
        name,
        cpu=draw.choice(["2", "4"]),
        memory=draw.choice(["2Gi", "4Gi"]),
        pods=str(draw.choice([3, 6, 10])),
        labels={"case": str(number), HOSTNAME: name, "zone": draw.choice("xy")},
        taints=taints,
        cordoned=draw.random() < 0.07,
    )


def _draw_pod(draw: Random, namespace: str, name: str, priority: int) -> Object:
    requests = {"cpu": draw.choice(["500m", "1", "2"]), "memory": draw.choice(["256Mi", "1Gi", "2Gi"])}
    spec: Object = {"priorityClassName": "never" if priority == NEVER else f"p{priority}".replace("-", "minus")}
    labels = {"app": draw.choice(["web", "db", "cache"])}
    if draw.random() < 0.2:
        spec["ports"] = PORT
    near: Object = {
        "topologyKey": draw.choice([HOSTNAME, "zone"]),
        "labelSelector": {"matchLabels": {"app": draw.choice(["web", "db", "cache"])}},
    }
    kind = draw.random()
    if kind < 0.25:
        rules = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
        spec["affinity"] = {"podAntiAffinity" if kind < 0.15 else "podAffinity": rules}
    elif kind < 0.4:
        near |= {"maxSkew": draw.choice([1, 2]), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [near]
    if draw.random() < 0.1:
        labels = {}
    pod = a_pod(name, requests, labels=labels, **spec)
    del pod["metadata"]["uid"]
    pod["metadata"]["namespace"] = namespace
    return pod


def _draw_budgets(draw: Random, namespace: str, running: list[Object]) -> list[Object]:
    selectors: list[Object] = [
        {"matchLabels": {"app": "web"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "cache"]}]},
        {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
        {},
    ]
    budgets = []
    for i in range(draw.choice([0, 1, 1, 2, 3])):
        names = [each["metadata"]["name"] for each in running]
        underway = draw.sample(names, min(len(names), draw.choice([0, 0, 1, 2])))
        budgets.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{i}", "namespace": namespace},
                "spec": {"minAvailable": 1, "selector": draw.choice(selectors)},
                "status": {
                    "disruptionsAllowed": draw.choice([0, 0, 1, 2]),
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                    "disruptedPods": dict.fromkeys(underway, "2025-01-01T00:00:00Z"),
                },
            }
        )
    return budgets
