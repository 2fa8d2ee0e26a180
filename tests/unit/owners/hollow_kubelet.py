"""What a kubelet and a scheduler would do to pods in a world, one move at a time, as a test says."""

from __future__ import annotations

from typing import Any

from headgate.kube.timestamps import format_time
from unit.owners.world import World

Object = dict[str, Any]
PODS = "/api/v1/namespaces/a/pods"


def pods(world: World) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in world.server.get(PODS).body["items"]}


def names(world: World) -> list[str]:
    return sorted(pods(world))


def bind(world: World, name: str, node: str = "n") -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    assert world.server.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target}).status == 201


def report(world: World, name: str, phase: str, *, ready: bool = False) -> None:
    stamp = format_time(world.server.epoch_s)
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": stamp}
    answer = world.server.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition]}})
    assert answer.status == 200, answer.body


def run(world: World, *which: str, node: str = "n") -> None:
    """Bind those that have no node yet, and say that they are running and ready."""
    for name, pod in pods(world).items():
        if name in which or not which:
            if "nodeName" not in pod["spec"]:
                bind(world, name, node)
            report(world, name, "Running", ready=True)


def finish(world: World, *which: str) -> None:
    """Those that were told to go are gone."""
    for name, pod in pods(world).items():
        if "deletionTimestamp" in pod["metadata"] and (name in which or not which):
            assert world.server.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0}).status == 200
