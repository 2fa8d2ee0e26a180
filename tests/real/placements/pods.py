"""Random pods: their requests, and their priority. `node_rules.py` generates their rules about nodes."""

from __future__ import annotations

from random import Random
from typing import Any

from real.placements.sizes import GPU, Sizes

Object = dict[str, Any]

IMAGES = ("app", "web:1", "web@sha256:" + 64 * "a", "registry.example:5000/tool:v3", "huge", "gone:2")
PRIORITY_CLASSES = {"low": -5, "middle": 10, "high": 1000}
RUNTIME = {"heavy": {"cpu": "250m", "memory": "120Mi"}}

STANDING: tuple[Object, ...] = (
    *(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "middle" else "PreemptLowerPriority",
        }
        for name, value in PRIORITY_CLASSES.items()
    ),
    *(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": name,
            "overhead": {"podFixed": overhead},
            "scheduling": {"tolerations": [{"key": "l", "operator": "Exists", "effect": "NoSchedule"}]},
        }
        for name, overhead in RUNTIME.items()
    ),
    *(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        }
        for name, labels, allowed in (("one", {"app": "a"}, 1), ("none", {"app": "b", "tier": "b"}, 0))
    ),
)
"""What pods refer to and no case changes."""


def draw_pod(draw: Random, name: str, namespace: str, priority: str, sizes: Sizes) -> Object:
    """``priority`` is the name of a class, or empty."""
    spec: Object = {
        "containers": [draw_container(draw, f"c{i}", sizes, has_ports=not i) for i in range(draw.choice([1, 1, 1, 2]))],
        "terminationGracePeriodSeconds": 0,
    }
    if draw.random() < 0.2:
        spec["initContainers"] = [draw_container(draw, f"i{i}", sizes) for i in range(draw.choice([1, 1, 2, 3]))]
        for each in spec["initContainers"]:
            if draw.random() < 0.5:
                each["restartPolicy"] = "Always"
    if draw.random() < 0.1:
        spec["runtimeClassName"] = "heavy"
    if draw.random() < sizes.whole:
        # The pod as a whole has to ask for as much as its containers do together.
        is_single = len(spec["containers"]) == 1 and "initContainers" not in spec
        cpu, memory = draw.choice([("1500m", "1500Mi"), ("2", "3Gi")]) if is_single else ("8", "12Gi")
        spec["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    if draw.random() < 0.05:
        spec["hostNetwork"] = True  # then every port is the node's, whether the pod says so or not
        for port in spec["containers"][0]["ports"]:
            del port["hostPort"]
    if priority:
        spec["priorityClassName"] = priority
    labels = {key: draw.choice(["a", "b"]) for key in ("app", "tier") if draw.random() < 0.85}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    }


def draw_container(draw: Random, name: str, sizes: Sizes, *, has_ports: bool = False) -> Object:
    """One pod cannot have a port twice, so only one of its containers has any."""
    asked = {key: draw.choice(values) for key, (chance, values) in sizes.asks.items() if draw.random() < chance}
    if "hugepages-2Mi" in asked:
        asked["cpu"] = "100m"  # huge pages alone are refused
    limits = {key: asked[key] for key in (GPU, "hugepages-2Mi") if key in asked}
    return {
        "name": name,
        "image": draw.choice(IMAGES),
        "resources": {"requests": asked, "limits": limits},
        "ports": _ports(draw) if has_ports and draw.random() < 0.25 else [],
    }


def _ports(draw: Random) -> list[Object]:
    wanted = draw.sample([80, 81, 53], draw.choice([1, 1, 2]))
    ports: list[Object] = [{"containerPort": port, "hostPort": port} for port in wanted]
    for each in ports:
        if draw.random() < 0.3:
            each["hostIP"] = draw.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0"])
        if draw.random() < 0.3:
            each["protocol"] = draw.choice(["UDP", "SCTP"])
    return ports
