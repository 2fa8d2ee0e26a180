"""The real Karpenter beside `headgate run` on a real API server: which pods make it buy machines.

Machines have 1 CPU and there are none at the start. That nothing was bought is not waited for: a witness, a pod in
another queue with a pool of its own, goes all the way from creation to a machine of its own. The scheduler has then
looked at everything that came before it, and Karpenter, which plans for all pods that wait at once, has too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_pod
from harness.karpenter import STORY, Karpenter, Kubelets, bought, create_pool
from harness.processes import Process
from harness.real import RealServer
from harness.scheduling import (
    SchedulerProcess,
    create_pod,
    get_pod,
    is_bound,
    patch_pod,
    scheduled_reason,
    wait_for,
)
from harness.server import Server

pytestmark = pytest.mark.real

Object = dict[str, Any]
WITNESS = "witness"
FOREIGN = {"name": "example.com/somebody-elses"}
PATIENCE_S = 60.0


class World:
    """The server, and what runs beside it."""

    def __init__(self, server: Server, processes: list[Process]) -> None:
        self.server = server
        self._processes = processes
        self._witnesses = itertools.count(1)

    def pod(self, story: str, name: str, **more: Any) -> None:
        create_pod(self.server, our_pod(story, name, **more))

    def machines(self, story: str) -> int:
        return len(bought(self.server, story))

    def until(self, what: Callable[[], Any]) -> None:
        wait_for(what, self._processes[0], PATIENCE_S)

    def until_bound(self, *names: str) -> None:
        self.until(lambda: all(is_bound(get_pod(self.server, name)) for name in names))

    def settle(self) -> None:
        name = f"witness-{next(self._witnesses)}"
        self.pod(WITNESS, name)
        self.until_bound(name)


def our_pod(story: str, name: str, **more: Any) -> Object:
    return a_pod(name, {"cpu": "1"}, schedulerName="headgate", nodeSelector={STORY: story}, **more)


@pytest.fixture(scope="module")
def world(kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("karpenter")
    server = RealServer(folder / "server", kube_binaries)
    processes: list[Process] = []
    try:
        processes.append(Karpenter(server, karpenter_binaries, folder / "karpenter"))
        create_pool(server, WITNESS)
        with Kubelets(server):
            processes.append(SchedulerProcess(server, folder / "scheduler.log", "--no-leader-elect"))
            yield World(server, processes)
    finally:
        for process in reversed(processes):
            process.stop()
        server.disconnect()
        server.stop()


def test_pods_without_a_node_get_a_machine_each_from_none(world: World) -> None:
    create_pool(world.server, "plain")
    world.pod("plain", "plain-1")
    world.pod("plain", "plain-2")
    world.until_bound("plain-1", "plain-2")
    world.settle()
    assert world.machines("plain") == 2


def test_a_pod_behind_somebody_elses_gate_gets_its_machine_when_that_is_lifted_and_not_before(world: World) -> None:
    create_pool(world.server, "foreign")
    world.pod("foreign", "foreign-1", schedulingGates=[FOREIGN])
    world.settle()
    assert scheduled_reason(get_pod(world.server, "foreign-1")) == "SchedulingGated"
    assert world.machines("foreign") == 0
    patch_pod(world.server, "foreign-1", {"spec": {"schedulingGates": None}})
    world.until_bound("foreign-1")
    assert world.machines("foreign") == 1
