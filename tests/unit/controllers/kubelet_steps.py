"""Steps of a kubelet and a scheduler that a test performs one by one."""

from __future__ import annotations

from typing import Any

from unit.controllers import workload_fixtures
from unit.controllers.workload_fixtures import PODS, bind, force_delete, names, set_ready
from unit.controllers.world import World

__all__ = ["PODS", "finish", "names", "pods", "report", "run"]

Object = dict[str, Any]


def pods(world: World) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in workload_fixtures.pods(world)}


def report(world: World, name: str, phase: str, *, ready: bool = False) -> None:
    set_ready(world, name, ready=ready, phase=phase)


def run(world: World, *which: str, node: str = "n") -> None:
    """Bind those that have no node yet, and say that they are running and ready."""
    for name, pod in pods(world).items():
        if name in which or not which:
            if "nodeName" not in pod["spec"]:
                bind(world, name, node)
            report(world, name, "Running", ready=True)


def finish(world: World, *which: str) -> None:
    """Terminating pods are deleted."""
    for name, pod in pods(world).items():
        if "deletionTimestamp" in pod["metadata"] and (name in which or not which):
            force_delete(world, name)
