"""``headgate run --components controllers`` is killed again and again while workloads roll out, scale, run and end.

A Deployment gets a new image as soon as the last rollout is complete, a StatefulSet likewise, and Jobs are created
without end. ``harness/workload_audit`` checks every revision of every pod. In the end each owner has the state that it
specifies.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.scheduler_process import send, wait_for
from harness.server import Server
from harness.workload_audit import WorkloadAudit

Object = dict[str, Any]

PATIENCE_S = 120.0
REPLICAS, SURGE, UNAVAILABLE = 8, 2, 1
MEMBERS = 3
PER_JOB = 4
MOST_PER_LIFE = 60
_APPS = "/apis/apps/v1/namespaces/default"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_MERGE = "application/merge-patch+json"


class Outcome(msgspec.Struct):
    kills: int = 0
    jobs: int = 0
    pods: int = 0
    under_way: int = 0
    """Kills after which work was left to do."""


class ControllerProcess(Process):
    def __init__(self, server: Server, log: Path) -> None:
        flags = ("--components", "controllers", "--no-leader-elect")
        super().__init__([str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), *flags], log)


class Load:
    """What is asked of the controllers; `turn` asks for more where the last wish was fulfilled."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.audit = WorkloadAudit(server)
        self.audit.at_most = {"web": REPLICAS + SURGE, "db": MEMBERS}
        self._image = 0
        self.jobs = 0
        strategy = {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": UNAVAILABLE}}
        self._create(f"{_APPS}/deployments", "web", {"replicas": REPLICAS, "strategy": strategy, **_template("web")})
        self._create(f"{_APPS}/statefulsets", "db", {"replicas": MEMBERS, "serviceName": "db", **_template("db")})

    def _create(self, path: str, name: str, spec: Object) -> None:
        send(self._server, "POST", path, {"metadata": {"name": name}, "spec": spec})

    def turn(self) -> None:
        deployment, members = self._get("deployments/web"), self._get("statefulsets/db")
        if _is_out(deployment, REPLICAS):
            self.audit.at_least["web"] = REPLICAS - UNAVAILABLE
            self._change("deployments/web", "web")
        if _is_out(members, MEMBERS):
            self._change("statefulsets/db", "db")
        if self.jobs < 4 or self._unfinished() < 3:
            self._add_job()

    def _change(self, path: str, app: str) -> None:
        self._image += 1
        containers = [{"name": "c", "image": f"registry.example/{app}:{self._image}"}]
        send(
            self._server,
            "PATCH",
            f"{_APPS}/{path}",
            {"spec": {"template": {"spec": {"containers": containers}}}},
            _MERGE,
        )

    def _add_job(self) -> None:
        self.jobs += 1
        wishes = {"headgate.dev/run-for": "300ms"}
        template = {"metadata": {"labels": {"app": "job"}, "annotations": wishes}, "spec": _pod_spec("job", "Never")}
        spec = {"completions": PER_JOB, "parallelism": 2, "completionMode": "Indexed", "template": template}
        self._create(_JOBS, f"job-{self.jobs}", spec)

    def _get(self, path: str) -> Object:
        return send(self._server, "GET", f"{_APPS}/{path}")

    def _job_status(self) -> list[Object]:
        return [each.get("status") or {} for each in send(self._server, "GET", _JOBS)["items"]]

    def _unfinished(self) -> int:
        return sum("completionTime" not in each for each in self._job_status())

    def is_under_way(self) -> bool:
        sets = (self._get("deployments/web"), REPLICAS), (self._get("statefulsets/db"), MEMBERS)
        return self._unfinished() > 0 or not all(_is_out(*each) for each in sets)

    def judge(self) -> None:
        """All workloads have what their specs ask for, each index of each job has succeeded, nothing is held."""
        wait_for(lambda: not self.is_under_way() or self.audit.problems, limit_s=PATIENCE_S)
        self.audit.finish()
        for status in self._job_status():
            assert (status["succeeded"], status["completedIndexes"]) == (PER_JOB, f"0-{PER_JOB - 1}"), status
            assert not status.get("uncountedTerminatedPods"), status
        for pod in self.audit.of("job"):
            assert not pod["metadata"].get("finalizers"), pod["metadata"]["name"]


def _template(app: str) -> Object:
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(app, "Always")}
    return {"selector": {"matchLabels": labels}, "template": template}


def _pod_spec(app: str, restart: str) -> Object:
    containers = [{"name": "c", "image": f"registry.example/{app}:0"}]
    return {"containers": containers, "restartPolicy": restart, "terminationGracePeriodSeconds": 1}


def _is_out(owner: Object, replicas: int) -> bool:
    """Whether the last wish was seen, and is fulfilled."""
    status = owner.get("status") or {}
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
    return status.get("observedGeneration") == owner["metadata"]["generation"] and counts == [replicas] * 3


@contextmanager
def _running(server: Server, folder: Path, name: str) -> Iterator[ControllerProcess]:
    process = ControllerProcess(server, folder / f"{name}.log")
    try:
        yield process
    finally:
        process.stop()


def run(
    server: Server, folder: Path, kills: int, seed: int = 1, report: Callable[[int], None] = lambda done: None
) -> Outcome:
    outcome, chance = Outcome(kills), random.Random(seed)
    load = Load(server)
    load.audit.start()
    for kill in range(kills):
        with _running(server, folder, f"controllers-{kill}") as process:
            wanted = load.audit.changes + chance.randint(1, MOST_PER_LIFE)
            deadline_s = time.monotonic() + PATIENCE_S
            while load.audit.changes < wanted and not load.audit.problems:
                load.turn()
                assert time.monotonic() < deadline_s, process.tail()
            time.sleep(chance.uniform(0, 0.02))  # when the kill comes is left to chance
            process.kill()
        outcome.under_way += load.is_under_way()
        report(kill + 1)
    with _running(server, folder, "last"):
        load.judge()
    outcome.jobs, outcome.pods = load.jobs, load.audit.made
    return outcome
