"""A slow, obvious scheduler: one pod at a time, over all nodes, straight from the formulas, on wire objects.

It shares only the reading of quantities, selectors and taints with the scheduler that it checks; these have tests of
their own. It has no cache, no arrays and no shapes: the result depends only on the cluster as it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from headgate.kube import node_affinity, quantity, taints

Object = dict[str, Any]
Points = Sequence[tuple[int, int]]

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
MB = 1024 * 1024


class Answer(NamedTuple):
    node: str | None
    scores: dict[str, int]
    """Of all feasible nodes."""
    reasons: Counter[str]


class Reference:
    def __init__(self, nodes: list[Object], pods: dict[str, list[Object]]) -> None:
        self.nodes = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        self.pods = pods
        """By node name."""

    def schedule(self, pod: Object, strategy: str = "LeastAllocated", points: Points = ()) -> Answer:
        reasons: Counter[str] = Counter()
        feasible = []
        for node in self.nodes:
            found = self.filter(pod, node)
            reasons.update(found)
            if not found:
                feasible.append(node)
        scores = self.score(pod, feasible, strategy, points)
        best = max(scores.values(), default=None)
        return Answer(next((name for name in sorted(scores) if scores[name] == best), None), scores, reasons)

    # -- filters, in order; the first that rejects a node gives all its reasons -------------------------------------

    def filter(self, pod: Object, node: Object) -> list[str]:
        spec = pod["spec"]
        if node["spec"].get("unschedulable") and not taints.is_tolerated(CORDON, spec.get("tolerations") or ()):
            return ["node(s) were unschedulable"]
        if taints.first_untolerated(node["spec"].get("taints"), spec.get("tolerations")) is not None:
            return ["node(s) had untolerated taint(s)"]
        if not node_affinity.required_node_affinity(pod).matches(node["metadata"]["labels"], node["metadata"]["name"]):
            return ["node(s) didn't match Pod's node affinity/selector"]
        if self._clashes(pod, node):
            return ["node(s) didn't have free ports for the requested pod ports"]
        return self._lacks(pod, node)

    def _on(self, node: Object) -> list[Object]:
        return self.pods.get(node["metadata"]["name"], [])

    def _clashes(self, pod: Object, node: Object) -> bool:
        used = [port for other in self._on(node) for port in host_ports(other)]
        return any(
            wanted[:2] == other[:2] and (wanted[2] == other[2] or "0.0.0.0" in (wanted[2], other[2]))
            for wanted in host_ports(pod)
            for other in used
        )

    def _lacks(self, pod: Object, node: Object) -> list[str]:
        found = []
        if len(self._on(node)) + 1 > has(node, "pods"):
            found.append("Too many pods")
        for name, amount in requests(pod).items():
            if amount > 0 and amount > has(node, name) - self._used(node, name):
                found.append(f"Insufficient {name}")
        return found

    def _used(self, node: Object, name: str) -> int:
        return sum(requests(pod).get(name, 0) for pod in self._on(node))

    # -- scores ------------------------------------------------------------------------------------------------------

    def score(self, pod: Object, feasible: list[Object], strategy: str, points: Points) -> dict[str, int]:
        names = [str(node["metadata"]["name"]) for node in feasible]
        total = dict.fromkeys(names, 0)

        def add(weight: int, scores: list[int]) -> None:
            for name, score in zip(names, scores, strict=True):
                total[name] += weight * score

        disliked = [
            taints.count_untolerated_preferences(node["spec"].get("taints"), pod["spec"].get("tolerations"))
            for node in feasible
        ]
        add(3, [100 - 100 * each // max(disliked) if max(disliked) else 100 for each in disliked])
        wishes = node_affinity.preferred_scheduling_terms(pod)
        liked = [wishes.score(node["metadata"]["labels"], node["metadata"]["name"]) for node in feasible]
        add(2, [100 * each // max(liked) if max(liked) else 0 for each in liked])
        rate: dict[str, Callable[[int, int], int]] = {
            "LeastAllocated": lambda use, cap: 0 if use > cap else (cap - use) * 100 // cap,
            "MostAllocated": lambda use, cap: min(use, cap) * 100 // cap,
            "RequestedToCapacityRatio": lambda use, cap: on_line(points, 100 if use > cap else use * 100 // cap),
        }
        add(1, [self._fullness(pod, node, rate[strategy], strategy) for node in feasible])
        asked = requests(pod)
        if asked.get("cpu") or asked.get("memory"):
            add(1, [self._balance(pod, node) for node in feasible])
        add(1, [self._images(pod, node) for node in feasible])
        return total

    def _fullness(self, pod: Object, node: Object, rate: Callable[[int, int], int], strategy: str) -> int:
        scores = []
        for name in ("cpu", "memory"):
            capacity = has(node, name)
            held = sum(held_requests(other)[name] for other in self._on(node))
            if capacity:
                scores.append(rate(held + held_requests(pod)[name], capacity))
        if strategy == "RequestedToCapacityRatio":
            scores = [each for each in scores if each > 0]
            return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0
        return sum(scores) // len(scores) if scores else 0

    def _balance(self, pod: Object, node: Object) -> int:
        shares = [
            min((self._used(node, name) + requests(pod).get(name, 0)) / has(node, name), 1.0)
            for name in ("cpu", "memory")
            if has(node, name)
        ]
        deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
        return int((1 - deviation) * 100)

    def _images(self, pod: Object, node: Object) -> int:
        containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        total = 0
        for container in containers:
            name = container["image"] if ":" in container["image"] else f"{container['image']}:latest"
            holders = [each for each in self.nodes if name in image_sizes(each)]
            if node in holders:
                total += int(image_sizes(node)[name] * (len(holders) / len(self.nodes)))
        most = 1000 * MB * len(containers)
        return 100 * (min(max(total, 23 * MB), most) - 23 * MB) // (most - 23 * MB)


def image_sizes(node: Object) -> dict[str, int]:
    return {name: image["sizeBytes"] for image in node["status"]["images"] for name in image["names"]}


def has(node: Object, name: str) -> int:
    return amount(name, node["status"]["allocatable"].get(name, 0))


def amount(name: str, value: Any) -> int:
    parsed = quantity.amount(value)
    return parsed.milli_value() if name == "cpu" else parsed.value()


def requests(pod: Object, defaults: dict[str, int] | None = None) -> dict[str, int]:
    def of(container: Object) -> dict[str, int]:
        listed = container.get("resources", {}).get("requests") or {}
        return {**(defaults or {}), **{name: amount(name, value) for name, value in listed.items()}}

    total: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        total.update(of(container))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            total.update(of(container))
            sidecars.update(of(container))
            peak |= sidecars
        else:
            peak |= sidecars + Counter(of(container))
    total |= peak
    for name, value in (pod["spec"].get("overhead") or {}).items():
        total[name] += amount(name, value)
    return dict(total)


def held_requests(pod: Object) -> dict[str, int]:
    return {"cpu": 0, "memory": 0, **requests(pod, {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY})}


def host_ports(pod: Object) -> list[tuple[str, int, str]]:
    containers = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return [
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in (*containers, *pod["spec"]["containers"])
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def on_line(points: Points, percent: int) -> int:
    if percent <= points[0][0]:
        return points[0][1] * 10
    for (x1, y1), (x2, y2) in pairwise(points):
        if percent <= x2:
            return y1 * 10 + math.trunc((y2 - y1) * 10 * (percent - x1) / (x2 - x1))
    return points[-1][1] * 10
