"""Takes a cluster through the steps of a simulation: it submits the jobs, ends the pods, and waits for the decisions.

The journal of the simulation has two kinds of entries. Submissions and ends are made here, one after the other, in the
order of the journal. Admissions, bindings, preemptions and machines are decisions of the cluster: before the next step,
everything that the simulation decided until then must have happened. So the order of decisions does not depend on the
speed of the machine, and any other decision of the cluster is seen as a difference.

The owner of a preempted pod creates it again, as in a simulation; this class is the owner.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from harness.pod_watch import PodWatch
from harness.scheduler_process import RETRY_S, request, send
from harness.server import Server
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, STAMP
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.io.autoscaler_runner import AutoscalerRunner
from headgate.simulate.simulation import JournalEntry
from headgate.simulate.trace import TraceJob

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
NODES = "/api/v1/nodes"
RUN_FOR = "headgate.dev/run-for"
STIMULI = ("submitted", "ended")
PATIENCE_S = 60.0


class RunningAutoscaler:
    """A model of an autoscaler beside a server, in its own thread."""

    def __init__(self, server: Server, model: AutoscalerModel) -> None:
        self._server = server
        self._model = model
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._started.wait()

    @property
    def added(self) -> list[str]:
        return list(self._runner.added)

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        access = find_rest_config(str(self._server.kubeconfig))
        assert isinstance(access, RESTConfig)
        transport = HTTPTransport(access)
        self._runner = AutoscalerRunner(self._model, transport, "autoscaler")
        running = asyncio.create_task(self._runner.run())
        self._started.set()
        await self._done.wait()
        running.cancel()
        await asyncio.wait([running])
        await transport.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()


class Decisions(PodWatch):
    """What the cluster decided, in the order of revisions: ``(what, pod)``."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.made: list[tuple[str, str]] = []
        self.gone: set[str] = set()
        self.ended: set[str] = set()
        self._known: set[tuple[str, str]] = set()

    def judge(self, kind: str, pod: Object) -> None:
        metadata, name = pod["metadata"], pod["metadata"]["name"]
        if kind == "DELETED":
            self.gone.add(name)
        if read_stamp((metadata.get("annotations") or {}).get(STAMP), metadata["uid"]) is not None:
            self._made("admitted", name)
        if pod["spec"].get("nodeName"):
            self._made("bound", name)
        if pod["status"].get("phase") == "Succeeded":
            self.ended.add(name)
        elif "deletionTimestamp" in metadata:
            self._made("preempted", name)

    def has_made(self, what: str, name: str) -> bool:
        return (what, name) in self._known

    def _made(self, what: str, name: str) -> None:
        if (what, name) not in self._known:
            self._known.add((what, name))
            self.made.append((what, name))


class SteppedCluster:
    """``gated``: pods are created with the queue gate, as the webhook does it where there is one."""

    def __init__(self, server: Server, autoscaler: RunningAutoscaler, jobs: Iterable[TraceJob], *, gated: bool) -> None:
        self._server = server
        self._autoscaler = autoscaler
        self._jobs = {job.name: job for job in jobs}
        self._gated = gated
        self.decisions = Decisions(server)
        self.decisions.start()

    def run(self, journal: Sequence[JournalEntry]) -> None:
        """Raises ``AssertionError`` with the first decision that did not happen."""
        wanted: set[tuple[str, str]] = set()
        machines = 0
        for entry in journal:
            if entry.what == "submitted":
                self._submit(self._jobs[entry.name])
            elif entry.what == "ended":
                self._end(entry.name)
            elif entry.what == "machine-added" and entry.node == "bought":
                machines += 1
                self._until(entry, partial(self._has_machines, machines))
            elif entry.what in ("admitted", "bound", "preempted"):
                wanted.add((entry.what, entry.name))
                self._until(entry, partial(self.decisions.has_made, entry.what, entry.name))
                if entry.what == "preempted":
                    self._until(entry, partial(self.decisions.gone.__contains__, entry.name))
                    self._create_again(entry)
        assert set(self.decisions.made) == wanted
        assert len(self._autoscaler.added) == machines

    def _has_machines(self, count: int) -> bool:
        return len(self._autoscaler.added) >= count

    def _until(self, entry: JournalEntry, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert not self.decisions.problems, self.decisions.problems
            assert time.monotonic() < deadline_s, (
                f"the simulation has {entry}; the cluster made {self.decisions.made[-5:]}"
            )
            time.sleep(RETRY_S / 10)

    def _submit(self, job: TraceJob) -> None:
        if job.min_pods:
            group = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": job.name},
                "spec": {"minMember": job.min_pods, "queue": job.queue},
            }
            send(self._server, "POST", GROUPS, group)
        for number in range(job.pods):
            self._create(job, job.name if job.pods == 1 else f"{job.name}-{number}")

    def _create(self, job: TraceJob, name: str) -> None:
        annotations = {QUEUE_NAME: job.queue, OPT_IN: "true", RUN_FOR: "never"}
        if job.min_pods:
            annotations[GROUP_NAMES[0]] = job.name
        spec: Object = {
            "schedulerName": "headgate",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "simulated", "resources": {"requests": dict(job.requests)}}],
        }
        if job.priority_class:
            spec["priorityClassName"] = job.priority_class
        if self._gated:
            spec["schedulingGates"] = [{"name": GATE}]
        metadata = {"name": name, "annotations": annotations}
        send(self._server, "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def _create_again(self, entry: JournalEntry) -> None:
        name, _, attempt = entry.name.rpartition("-r")
        is_again = bool(name) and attempt.isdigit()
        first = name if is_again else entry.name
        self._create(self._jobs[entry.job], f"{first}-r{int(attempt) + 1 if is_again else 1}")

    def _end(self, name: str) -> None:
        body = json.dumps({"metadata": {"annotations": {RUN_FOR: "0s"}}}).encode()
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = request(self._server, "PATCH", f"{PODS}/{name}", headers, body)
        assert answer.status == 200, answer
        entry = JournalEntry(0.0, "ended", name)
        self._until(entry, lambda: name in self.decisions.ended)


def units_in_order(made: Iterable[tuple[str, str]], job_of: Callable[[str], str]) -> list[tuple[str, str]]:
    """Decisions about jobs, each once: the pods of a gang are admitted and bound together."""
    return list(dict.fromkeys((what, job_of(name)) for what, name in made))
