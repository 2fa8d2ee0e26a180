"""Fixtures for ReplicaSets and Deployments, and pods that the test runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from headgate.controllers.framework.reconcile import Controller
from headgate.kube.timestamps import format_time
from unit.controllers.world import Object, World

PODS = "/api/v1/namespaces/a/pods"
SETS = "/apis/apps/v1/namespaces/a/replicasets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/a/deployments"
A_WHILE_S = 1.0


def name_suffixes() -> Callable[[], str]:
    numbers = count()
    return lambda: f"{next(numbers):05}"


def a_world(*makers: Callable[[], Controller]) -> World:
    world = World(*makers)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    return world.settle()


def template(image: str = "one", **labels: str) -> Object:
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def a_set(name: str = "web", replicas: int = 3, **spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(), **spec},
    }


def put(world: World, path: str, obj: Object) -> Object:
    response = world.server.post(path, obj)
    assert response.status == 201, response.body
    made: Object = response.body
    return made


def get(world: World, path: str) -> Object:
    response = world.server.get(path)
    assert response.status == 200, response.body
    found: Object = response.body
    return found


def patch(world: World, path: str, body: Object) -> None:
    response = world.server.patch(path, body)
    assert response.status == 200, response.body


def pods(world: World) -> list[Object]:
    items: list[Object] = get(world, PODS)["items"]
    return items


def names(world: World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in pods(world))


def run(world: World, *names: str, node: str = "n", ready: bool = True) -> None:
    """Bind these pods and let them run; without names, all that have no node yet."""
    for pod in pods(world):
        name = pod["metadata"]["name"]
        if name in names or (not names and "nodeName" not in pod["spec"]):
            if "nodeName" not in pod["spec"]:
                bind(world, name, node)
            set_ready(world, name, ready=ready)


def bind(world: World, name: str, node: str = "n") -> None:
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    bound = world.server.post(f"{PODS}/{name}/binding", binding)
    assert bound.status == 201, bound.body


def set_ready(world: World, name: str, *, ready: bool = True, phase: str = "Running", **status: Any) -> None:
    now = {"lastTransitionTime": stamp(world)}
    condition = {"type": "Ready", "status": "True" if ready else "False", **now}
    patch(world, f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition], **status}})


def stamp(world: World) -> str:
    return format_time(world.server.epoch_s)


def force_delete(world: World, name: str) -> None:
    """What a kubelet does with a terminating pod: the pod is deleted."""
    world.server.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def delete_terminating(world: World) -> None:
    for pod in pods(world):
        if "deletionTimestamp" in pod["metadata"]:
            force_delete(world, pod["metadata"]["name"])


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.emitted]
