"""``headgate run`` is killed with SIGKILL again and again while it admits pods to queues, and a new process follows
each time.

Pods are created without end, run for a moment and are deleted; some are re-created under their name while they wait,
some have a foreign gate. ``harness/queue_audit`` checks every revision. In the end every pod that fits is admitted, all
others are gated, and an engine built from lists has the same counts.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.faulty_proxy import FaultyProxy
from harness.processes import Process
from harness.queue_audit import Limit, QueueAudit, gates_of
from harness.queues import QUEUES, a_queue, install_crds
from harness.real_server import RealServer
from harness.scheduler_process import SchedulerProcess, create_nodes, send, wait_for
from harness.server import JSON_TYPE, Answer, Server
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP
from torture import scheduler_kills

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}
TREE = {
    "team": Limit("", 12),
    "team-a": Limit("team", 8),
    "team-b": Limit("team", 8),
    "solo": Limit("", 6),
}
"""Two queues have more together than the one above them."""
LEAVES = ("team-a", "team-a", "team-b", "solo")
FOREIGN = "example.com/hold"
ROOM = {"node-0": 30, "node-1": 30}
PODS_PER_KILL = 30
MOST_PER_LIFE = 15
BACKLOG = 30
AT_ONCE = 6
PATIENCE_S = 120.0
MOMENT_S = 1.0


class Outcome(msgspec.Struct):
    kills: int = 0
    pods: int = 0
    promised: int = 0
    """Kills after which pods were left that had a promise and no node."""
    under_way: int = 0
    """Kills after which pods were left that had a promise, or for which there was capacity."""
    replaced: int = 0
    """Pods that took the name of one that waited, or was being let in."""


class Load(threading.Thread):
    """Creates pods as long as not too many wait, replaces some, and ends those that run."""

    def __init__(self, server: Server, count: int, seed: int = 1) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._chance = random.Random(seed)
        self._closed = False
        self.count = count
        self.allowed = count
        """How many pods may be created by now; it is set so that there is work left when the next scheduler starts."""
        self.created = 0
        self.replaced = 0
        self.replaces = True
        self.ends = True
        """Whether pods that run are ended, so that others get in."""
        self.audit = QueueAudit(server, ROOM, TREE)

    def run(self) -> None:
        try:
            while not self._closed:
                moves = self._moves()
                if not moves:
                    time.sleep(0.005)
                    continue
                self._chance.choice(moves)()
        except Exception as problem:
            self.audit.problems.append(f"no more pods come: {problem!r}")
            raise

    def _moves(self) -> list[Callable[[], None]]:
        moves: list[Callable[[], None]] = []
        waiting = self.audit.waiting()
        if self.created < min(self.allowed, self.count) and len(waiting) < BACKLOG:
            moves += [self._create_next] * 4
            if self.replaces and (waiting or self.audit.promised()):
                moves.append(self._replace)
        if self.ends and self.audit.running():
            moves += [self._end] * 4
        if any(FOREIGN in gates_of(pod) for pod in list(self.audit.pods.values())):
            moves.append(self._let_go)
        return moves

    def _create_next(self) -> None:
        self._create(f"pod-{self.created}")
        self.created += 1

    def _create(self, name: str) -> None:
        gates = (FOREIGN, GATE) if self._chance.random() < 0.1 else (GATE,)
        pod = a_pod(name, {"cpu": str(self._chance.choice((1, 1, 2)))}, schedulerName="headgate")
        pod["spec"]["schedulingGates"] = [{"name": each} for each in gates]
        annotations = {OPT_IN: "true", QUEUE_NAME: self._chance.choice(LEAVES)}
        pod["metadata"] = {"name": name, "annotations": annotations}
        answer = self._send("POST", PODS, pod)
        assert answer is None or answer.status in (201, 409), answer  # it may have been heard the first time

    def _replace(self) -> None:
        """The next one has the name, and maybe another queue and size: not what was promised to the one before."""
        there = [*self.audit.waiting(), *self.audit.promised() * 5]
        if there:
            name = self._chance.choice(there)["metadata"]["name"]
            self._remove(name)
            self._create(name)
            self.replaced += 1

    def _end(self) -> None:
        """Several at a time, so that capacity for several is free."""
        gone = [pod["metadata"] for pod in self.audit.running()[:AT_ONCE]]
        for each in gone:
            self._remove(each["name"])
        for each in gone:
            self._wait_until_seen(each, lambda pod: False)

    def _let_go(self) -> None:
        held = [pod for pod in list(self.audit.pods.values()) if FOREIGN in gates_of(pod)]
        if held:
            meta = held[0]["metadata"]
            self.audit.let_go.add(meta["uid"])
            body = {"metadata": {"uid": meta["uid"]}, "spec": {"schedulingGates": [{"name": GATE}]}}
            self._send("PATCH", f"{PODS}/{meta['name']}", body)
            self._wait_until_seen(meta, lambda pod: FOREIGN not in gates_of(pod))

    def _remove(self, name: str) -> None:
        self._send("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def _wait_until_seen(self, meta: Object, is_done: Callable[[Object], bool]) -> None:
        """Until it is, or the pod is gone: it is not done twice because the watch is late."""
        pause = threading.Event()
        while not self._closed and not self.audit.problems:
            pod = self.audit.pods.get(meta["name"])
            if pod is None or pod["metadata"]["uid"] != meta["uid"] or is_done(pod):
                return
            pause.wait(0.002)

    def _send(self, method: str, path: str, body: Object) -> Answer | None:
        headers = MERGE if method == "PATCH" else JSON_TYPE
        while not self._closed:
            try:
                return self._server.request(method, path, headers, json.dumps(body).encode())
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # the server is away; whether it heard will be seen
        return None

    def close(self) -> None:
        self._closed = True
        self.join(60)

    def wait_until(self, bound: int, scheduler: Process) -> None:
        """Until so many got a node, or something is wrong."""
        self._wait_for(lambda: self.audit.bound >= bound, scheduler)

    def _wait_for(self, what: Callable[[], bool], scheduler: Process) -> None:
        """Waits until the condition holds, or until something is wrong; the error describes the state."""
        try:
            wait_for(lambda: what() or self.audit.problems, scheduler, PATIENCE_S)
        except AssertionError as problem:
            audit = self.audit
            counts = {"waiting": audit.waiting(), "promised": audit.promised(), "running": audit.running()}
            stand = ", ".join(f"{len(pods)} {name}" for name, pods in counts.items())
            told = f"{self.created} of {self.allowed} created, {audit.bound} bound, {stand}; in use {dict(audit.used)}"
            raise AssertionError(f"{told}\n{problem}") from None

    def wait_for_work(self, *, promised: bool) -> None:
        """Waits until a pod has a promise and no node, or there is capacity for a waiting pod; or that was missed."""
        deadline_s = time.monotonic() + MOMENT_S
        while time.monotonic() < deadline_s:
            if self.audit.promised() if promised else any(map(self.audit.fits, self.audit.waiting())):
                return
            time.sleep(0.0005)

    def judge(self, scheduler: Process) -> None:
        """When no pods end any more, all pods that fit are bound; then all others, as capacity becomes free."""
        audit = self.audit
        self._wait_for(lambda: self.is_done, scheduler)
        self.ends = False
        self._wait_for(lambda: self.is_full, scheduler)
        self._compare()
        self.ends = True
        self._wait_for(lambda: self.is_done and not audit.pods, scheduler)
        self._compare()
        self.close()
        audit.finish()

    @property
    def is_full(self) -> bool:
        """All pods that may be created are created, and all that fit have a node."""
        audit = self.audit
        is_there = self.created == min(self.allowed, self.count)
        return is_there and not audit.promised() and not any(map(audit.fits, audit.waiting()))

    @property
    def is_released(self) -> bool:
        """All that may be are created, and none of them has a gate of ours."""
        return self.created == self.allowed and not any(map(gates_of, self.audit.waiting()))

    @property
    def is_done(self) -> bool:
        return self.created == self.count

    def _compare(self) -> None:
        """The amounts that a scheduler counts at its start, from the API alone, are those of bound pods, and nothing is
        promised."""
        if self.audit.problems:
            return
        wait_for(lambda: self.audit.problems or self._counted() == self._expected())

    def _counted(self) -> dict[str, Object]:
        command = [str(HEADGATE), "queues", "-o", "json", "--kubeconfig", str(self._server.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = {each["name"]: each for each in json.loads(done.stdout)["queues"]}
        return {name: {key: found[name][key] for key in ("allocated", "reserved")} for name in TREE}

    def _expected(self) -> dict[str, Object]:
        used = self.audit.used
        return {name: {"allocated": {"cpu": str(used[name])} if used[name] else {}, "reserved": {}} for name in TREE}


def prepare(server: Server) -> None:
    install_crds(server)
    for name, limit in TREE.items():
        parent = {"parent": limit.parent} if limit.parent else {}
        send(server, "POST", QUEUES, a_queue(name, capability={"cpu": str(limit.cpu)}, **parent))
    create_nodes(server, (a_node(name, cpu=str(cpu), pods="1000") for name, cpu in ROOM.items()))


def load(server: Server, count: int, seed: int = 1) -> AbstractContextManager[Load]:
    prepare(server)
    return scheduler_kills.under(Load(server, count, seed))


def _kill_often(
    made: Load, server: Server, folder: Path, outcome: Outcome, seed: int, report: Callable[[int], None]
) -> SchedulerProcess:
    chance = random.Random(seed)
    made.allowed = PODS_PER_KILL

    def until_the_next(scheduler: SchedulerProcess) -> None:
        made.wait_until(made.audit.bound + chance.randint(1, MOST_PER_LIFE), scheduler)
        made.wait_for_work(promised=chance.random() < 0.5)
        time.sleep(chance.choice((0.0, 0.002, 0.01)))  # when the kill comes is left to chance

    def killed(kill: int) -> None:
        promised = bool(made.audit.promised())
        outcome.promised += promised
        outcome.under_way += promised or any(map(made.audit.fits, made.audit.waiting()))
        report(kill)
        made.allowed += PODS_PER_KILL

    return scheduler_kills.kill_often(server, folder, outcome.kills, until_the_next, killed)


def hang(server: EmbeddedServer, made: Load, seconds: float) -> None:
    """The server stands still with what was sent to it, and does all of it when it goes on: some of it twice."""
    (pid,) = server.pids().values()
    made.wait_for_work(promised=False)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # this is what is tried: a time without an answer
    finally:
        os.kill(pid, signal.SIGCONT)


def outage(server: EmbeddedServer | RealServer, folder: Path, seconds: float, pods: int = 60) -> int:
    """The API server stops while the scheduler has gate removals to send, and starts again after a while. Pods that had
    a promise before are bound with that same promise. Returns how many there were."""
    with load(server, pods) as made:
        proxy = FaultyProxy(server, folder)
        made.allowed, made.ends = pods // 2, False
        scheduler = SchedulerProcess(proxy, folder / "outage.log", "--no-leader-elect")
        try:
            wait_for(lambda: made.is_full or made.audit.problems, scheduler, PATIENCE_S)
            proxy.refuse("PATCH", "")
            made.ends = True
            wait_for(lambda: not made.audit.running() or made.audit.problems, scheduler, PATIENCE_S)
            asked = wait_for(lambda: len(found := _promises(proxy)) >= AT_ONCE and found, scheduler, PATIENCE_S)
            gated = {pod["metadata"]["uid"] for pod in made.audit.waiting() if gates_of(pod)}
            assert set(asked) <= gated, "a promise that did not arrive lifts nothing"
            server.kill()
            proxy.allow()
            time.sleep(seconds)  # this is what is tried: a time without a server
            server.restart()
            made.allowed, made.replaces = pods, False
            made.judge(scheduler)
            assert {uid: made.audit.stamp(uid) for uid in asked} == asked
        finally:
            scheduler.stop()
            proxy.close()
    return len(asked)


def _promises(proxy: FaultyProxy) -> dict[str, str]:
    """By uid, the stamps that did not reach the server."""
    bodies = [json.loads(body)["metadata"] for body in proxy.refused_bodies if b"schedulingGates" in body]
    return {each["uid"]: each["annotations"][STAMP] for each in bodies}


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
    with load(server, outcome.pods, seed) as made:
        scheduler = _kill_often(made, server, folder, outcome, seed, report)
        try:
            then(made)
            made.judge(scheduler)
        finally:
            scheduler.stop()
        outcome.replaced = made.replaced
    return outcome
