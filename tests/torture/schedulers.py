"""``headgate run`` is killed with SIGKILL again and again while it binds pods, and a new process follows each time.

Pods are created without end; together they request exactly what the nodes have. A scheduler that books a node twice, or
forgets a bound pod, ends with a pod that fits nowhere. ``harness/scheduler_audit`` watches and checks every revision.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from clusters import a_node, a_pod
from harness.processes import Process
from harness.scheduler_audit import SchedulerAudit
from harness.scheduler_process import SchedulerProcess, create_nodes, pods, wait_for
from harness.server import JSON_TYPE, Server
from torture import scheduler_kills

PODS = "/api/v1/namespaces/default/pods"
NODES = 5
PODS_PER_KILL = 60
MOST_PER_LIFE = 40
BACKLOG = 60
PATIENCE_S = 120.0


class Outcome(msgspec.Struct):
    kills: int = 0
    pods: int = 0
    under_way: int = 0
    """Kills after which pods were left that had been decided or were still to be."""


class Load(threading.Thread):
    """Creates pods of one cpu each as long as not too many wait, and judges where they go."""

    def __init__(self, server: Server, count: int, backlog: int = BACKLOG) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._backlog = backlog
        self.count = count
        self.allowed = count
        """How many pods may be created by now; it is set so that there is work left when the next scheduler starts."""
        self.created = 0
        self._closed = False
        room = {f"node-{number}": -(-count // NODES) for number in range(NODES)}
        create_nodes(server, (a_node(name, cpu=str(cpu), pods=str(cpu)) for name, cpu in room.items()))
        self.audit = SchedulerAudit(server, room)

    def run(self) -> None:
        while self.created < self.count and not self._closed:
            if self.created >= self.allowed or self.created - self.audit.bound >= self._backlog:
                time.sleep(0.005)
                continue
            self._create(f"pod-{self.created}")
            self.created += 1

    def _create(self, name: str) -> None:
        pod = a_pod(name, {"cpu": "1"}, schedulerName="headgate")
        del pod["metadata"]["uid"]
        while not self._closed:
            try:
                answer = self._server.request("POST", PODS, JSON_TYPE, json.dumps(pod).encode())
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # the server is away; whether it has the pod will be seen
                continue
            assert answer.status in (201, 409), answer
            return

    def close(self) -> None:
        self._closed = True
        self.join(30)

    def wait_until(self, bound: int, scheduler: Process) -> None:
        """Until so many have a node, or something is wrong."""
        wait_for(lambda: self.audit.bound >= bound or self.audit.problems, scheduler, PATIENCE_S)

    def judge(self) -> None:
        """All are there, each on the node that it got first."""
        wait_for(lambda: self.audit.bound == self.count or self.audit.problems, limit_s=PATIENCE_S)
        self.audit.finish()
        found = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods(self._server).values()}
        assert found == self.audit.node_of
        assert len(found) == self.count


def load(server: Server, count: int, backlog: int = BACKLOG) -> AbstractContextManager[Load]:
    return scheduler_kills.under(Load(server, count, backlog))


def _kill_often(
    made: Load, server: Server, folder: Path, outcome: Outcome, seed: int, report: Callable[[int], None]
) -> SchedulerProcess:
    chance = random.Random(seed)
    made.allowed = PODS_PER_KILL

    def until_the_next(scheduler: SchedulerProcess) -> None:
        made.wait_until(made.audit.bound + chance.randint(1, MOST_PER_LIFE), scheduler)
        time.sleep(chance.uniform(0, 0.01))  # when the kill comes is left to chance

    def killed(kill: int) -> None:
        outcome.under_way += made.created > made.audit.bound
        report(kill)
        made.allowed += PODS_PER_KILL

    return scheduler_kills.kill_often(server, folder, outcome.kills, until_the_next, killed)


def run(
    server: Server,
    folder: Path,
    kills: int,
    seed: int = 1,
    report: Callable[[int], None] = lambda done: None,
    then: Callable[[Load], None] = lambda made: None,
) -> Outcome:
    """``then`` happens after the last kill, while there still is something to do."""
    outcome = Outcome(kills, (kills + 1) * PODS_PER_KILL)
    with load(server, outcome.pods) as made:
        scheduler = _kill_often(made, server, folder, outcome, seed, report)
        try:
            then(made)
            made.judge()
        finally:
            scheduler.stop()
    return outcome
