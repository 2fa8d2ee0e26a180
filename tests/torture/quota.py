"""``headgate run --components quota,jobs`` is killed again and again while two queues lend, borrow and preempt.

Jobs are created as long as there are faults, so that some always wait, on any machine; some are deleted, or re-created
under their name, and one queue is drained now and then. Pods are created beside them, alone and in groups, and a user
replaces preempted ones (``quota_pods.py``). ``harness/quota_audit`` checks every revision. In the end all have
finished, queues report no usage, and nothing is left over.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.faulty_proxy import FaultyProxy
from harness.processes import Process
from harness.queues import install_crds
from harness.quota_audit import PATHS, QuotaAudit
from harness.scheduler_process import Reached, send, wait_for
from harness.server import JSON_TYPE, Server
from headgate.jobs.names import PRIORITY_CLASS, QUEUE_NAME
from headgate.kube import conditions
from kueue_builders import Limits, a_cluster_queue, a_flavor, a_local_queue
from torture.quota_pods import PODS, PodLoad

Object = dict[str, Any]

COMPONENTS = ("--components", "apiserver,nodes,scheduler,controllers")
"""Of the server: everything but what is tried."""
PATIENCE_S = 240.0
BACKLOG = 10
MOST_PER_LIFE = 40
FEWEST_PER_LIFE = 5
TURN_S = 0.05
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_WORKLOADS = f"{_KUEUE}/namespaces/default/workloads"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_MERGE = "application/merge-patch+json"
_POLICY = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
_QUOTAS: dict[str, Limits] = {"a": (4, 2, None), "b": (4, None, 2)}
"""The first may borrow only so much, the second lends only so much."""


class Outcome(msgspec.Struct):
    kills: int = 0
    jobs: int = 0
    deleted: int = 0
    replaced: int = 0
    midway: int = 0
    """Kills after which a workload was between two writes: admitted and not started, evicted and not stopped yet."""
    admissions: int = 0
    evictions: int = 0
    lifted: int = 0
    """Gates of pods."""


class QuotaProcess(Process):
    def __init__(self, server: Reached, log: Path, *flags: str) -> None:
        asked = ("--components", "quota,jobs", *flags)
        super().__init__([str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), *asked], log)


class Load:
    """What is asked of queues; `turn` asks for more where too few wait."""

    def __init__(self, server: Server, seed: int = 1) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self.made = self.deleted = self.replaced = 0
        self._is_drained = False
        install_crds(server)
        wait_for(lambda: all(self._answer("GET", path, None) == 200 for path in PATHS.values()))
        self.audit = QuotaAudit(server)
        self.pods = PodLoad(self._ask, lambda: self._list(PODS), lambda: self._list(_WORKLOADS), self._chance)
        self._put("resourceflavors", "ResourceFlavor", a_flavor())
        for name, value in (("low", 1), ("high", 100)):
            body = {"metadata": {"name": name}, "value": value}
            self._put("workloadpriorityclasses", "WorkloadPriorityClass", body)
        for name, limits in _QUOTAS.items():
            queue = a_cluster_queue(name, {"default": {"cpu": limits}}, cohortName="pool", preemption=_POLICY)
            self._put("clusterqueues", "ClusterQueue", queue)
            self._put("namespaces/default/localqueues", "LocalQueue", a_local_queue(name, name, "default"))
        self.audit.start()

    def _put(self, path: str, kind: str, obj: Object) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj}
        send(self._server, "POST", f"{_KUEUE}/{path}", body)

    # -- while there are faults ------------------------------------------------------------------------------------

    def turn(self) -> None:
        left = self.unfinished()
        self.pods.turn()
        if self._is_drained and self._chance.random() < 0.1:
            self._drain(False)
        for _ in range(BACKLOG - len(left)):
            self.made += 1
            self._create(f"job-{self.made}")
            match self._chance.choices(("", "delete", "replace", "drain"), (12, 3, 3, 2))[0]:
                case "delete" if left:
                    self._delete(self._chance.choice(left))
                case "replace" if left:
                    self._replace(self._chance.choice(left))
                case "drain":
                    self._drain(True)

    def _create(self, name: str) -> None:
        count = self._chance.choice((1, 1, 2))
        labels = {QUEUE_NAME: self._chance.choice("ab"), PRIORITY_CLASS: self._chance.choice(("low", "low", "high"))}
        container = {"name": "c", "image": "registry.example/c", "resources": {"requests": {"cpu": "1"}}}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
        runs = {"headgate.dev/run-for": f"{self._chance.choice((100, 400, 1500))}ms"}
        template = {"metadata": {"annotations": runs}, "spec": pod}
        spec = {"suspend": True, "completions": count, "parallelism": count, "template": template}
        self._ask("POST", _JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def _delete(self, job: str) -> None:
        self.deleted += 1
        self._remove(job)

    def _replace(self, job: str) -> None:
        """The next one has the name, and maybe another queue and size."""
        self.replaced += 1
        self._remove(job)
        self._create(job)

    def _remove(self, job: str) -> None:
        self._ask("DELETE", f"{_JOBS}/{job}", {"propagationPolicy": "Background"})

    def _drain(self, is_drained: bool) -> None:
        self._is_drained = is_drained
        body = {"spec": {"stopPolicy": "HoldAndDrain" if is_drained else "None"}}
        self._ask("PATCH", f"{_KUEUE}/clusterqueues/b", body, _MERGE)

    def _ask(self, method: str, path: str, body: Object, content: str = "") -> None:
        """The first request may have been performed, and a deleted pod may have ended."""
        while (status := self._answer(method, path, body, content)) is None:
            time.sleep(0.05)  # the server is away
        assert status in (200, 201, 404, 409), (method, path, status)

    def _answer(self, method: str, path: str, body: Object | None, content: str = "") -> int | None:
        headers = {"Content-Type": content} if content else JSON_TYPE
        sent = None if body is None else json.dumps(body).encode()
        try:
            return self._server.request(method, path, headers, sent).status
        except (OSError, http.client.HTTPException):
            return None

    # -- how it stands ---------------------------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        return [each["metadata"]["name"] for each in self._jobs() if "completionTime" not in (each.get("status") or {})]

    def is_midway(self) -> bool:
        """Whether the next write of a workload is due."""
        workloads = {
            owner["uid"]: each
            for each in self._list(_WORKLOADS)
            for owner in each["metadata"].get("ownerReferences") or ()
        }
        return any(_is_due(each, workloads.get(each["metadata"]["uid"])) for each in self._jobs())

    def _jobs(self) -> list[Object]:
        return self._list(_JOBS)

    def _list(self, path: str) -> list[Object]:
        return list(send(self._server, "GET", path)["items"])

    # -- afterwards ------------------------------------------------------------------------------------------------

    def judge(self, process: Process) -> None:
        """No more of them: all there are end, queues say so; when they are deleted, nothing of them is left."""
        self._drain(False)
        wait_for(lambda: not self.unfinished(), process, PATIENCE_S, self._state)
        wait_for(self.pods.are_done, process, PATIENCE_S, self._state)
        wait_for(lambda: all(map(_is_empty, self._list(PATHS["clusterqueues"]))), process, PATIENCE_S, self._state)
        for each in self._jobs():
            self._remove(each["metadata"]["name"])
        self.pods.remove_all()
        wait_for(lambda: not self._list(_WORKLOADS) and not self._list(PODS), process, PATIENCE_S, self._state)
        self.audit.finish()

    def _state(self) -> str:
        """All there is, for the message of a run that does not end."""
        paths = (PATHS["clusterqueues"], _WORKLOADS, _JOBS, PODS)
        return "\n".join(json.dumps(each) for path in paths for each in self._list(path))

    def fill_outcome(self, outcome: Outcome) -> Outcome:
        judge = self.audit.judge
        outcome.jobs, outcome.deleted, outcome.replaced = self.made, self.deleted, self.replaced
        outcome.admissions, outcome.evictions = sum(judge.admissions.values()), judge.evictions
        outcome.lifted = sum(judge.lifted.values())
        return outcome


def _is_due(job: Object, workload: Object | None) -> bool:
    told = ((workload or {}).get("status") or {}).get("conditions")
    is_waiting = job["spec"]["suspend"]
    is_evicted, is_admitted = (conditions.is_true(told, each) for each in ("Evicted", "Admitted"))
    is_over = "completionTime" in (job.get("status") or {})
    if is_over or workload is None:
        return not conditions.is_true(told, "Finished")
    return (is_admitted and is_waiting) or (is_evicted and is_admitted)


def _is_empty(queue: Object) -> bool:
    status = queue["status"]
    counts = [status[each] for each in ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")]
    totals = [row["total"] for flavor in status["flavorsReservation"] for row in flavor["resources"]]
    return not any(counts) and set(totals) == {"0"}


@contextmanager
def _running(server: Reached, log: Path) -> Iterator[QuotaProcess]:
    process = QuotaProcess(server, log, "--no-leader-elect")
    try:
        yield process
    finally:
        process.stop()


def work_on(load: Load, process: Process, changes: int, begin: Callable[[], bool] = lambda: True) -> None:
    """Until so many Workloads were written to since it began, with always enough to do."""
    wanted, deadline_s = math.inf, time.monotonic() + PATIENCE_S
    while load.audit.changes("workloads") < wanted:
        if wanted == math.inf and begin():
            wanted = load.audit.changes("workloads") + changes
        load.turn()
        time.sleep(TURN_S)  # the tested program and the test share the machine
        assert process.running(), process.tail()
        assert time.monotonic() < deadline_s, process.tail()


def run(
    server: Server, folder: Path, kills: int, seed: int = 1, report: Callable[[int], None] = lambda done: None
) -> Outcome:
    outcome, chance = Outcome(kills), random.Random(seed)
    load = Load(server, seed)
    for kill in range(kills):
        with _running(server, folder / f"quota-{kill}.log") as process:
            work_on(load, process, chance.randint(FEWEST_PER_LIFE, MOST_PER_LIFE))
            time.sleep(chance.uniform(0, 0.02))  # when the kill comes is left to chance
            process.kill()
        outcome.midway += load.is_midway()
        report(kill + 1)
    with _running(server, folder / "quota-last.log") as process:
        load.judge(process)
    return load.fill_outcome(outcome)


def outage(server: EmbeddedServer, folder: Path, seconds: float, seed: int = 2) -> Outcome:
    """The API server goes away while jobs wait, run and are preempted, and is started again later."""
    load, wire = Load(server, seed), FaultyProxy(server, folder)  # the wire stays where it is when the server moves
    try:
        with _running(wire, folder / "outage.log") as process:
            work_on(load, process, 60)
            server.kill()
            time.sleep(seconds)  # this is what is tried: a time without a server
            server.restart(COMPONENTS)
            work_on(load, process, 60)
            load.judge(process)
    finally:
        wire.close()
    return load.fill_outcome(Outcome())
