"""A server with a Karpenter, for tests of which pods make it buy machines.

Machines have 1 CPU and there are none at the start. To know that nothing was bought, a test does not wait for a time: a
witness, a pod in another queue with its own pool, goes from creation to its own machine. By then the scheduler has seen
all earlier pods, and Karpenter, which plans for all waiting pods at once, has too.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clusters import a_pod
from harness.karpenter import SHAPES, STORY, Karpenter, Kubelets, bought, create_pool
from harness.processes import Process
from harness.queues import QUEUES, a_queue, install_crds
from harness.real_server import RealServer
from harness.scheduler_process import SchedulerProcess, create_pod, get_pod, is_bound, scheduled_reason, send, wait_for
from harness.server import Server
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME
from headgate.nodes.autoscalers.instance_types import InstanceType

WITNESS = "witness"
ONE_CPU = {"cpu": "1"}
PATIENCE_S = 60.0
MERGE = "application/merge-patch+json"


class KarpenterCluster:
    """The server, and what runs beside it."""

    def __init__(
        self,
        server: Server,
        processes: list[Process],
        folder: Path,
        *,
        adds_gates: bool = False,
        scheduler_name: str = "headgate",
    ) -> None:
        """The last of the processes is the scheduler, once it is started. `adds_gates`: the server does, to pods that
        ask for it. `scheduler_name`: of the pods."""
        self.server = server
        self._scheduler_name = scheduler_name
        self._processes = processes
        self._folder = folder
        self._adds_gates = adds_gates
        self._witnesses = itertools.count(1)
        self.queue(WITNESS, "1k")

    def start_scheduler(self, *flags: str) -> None:
        log = self._folder / "scheduler.log"
        self._processes.append(SchedulerProcess(self.server, log, "--no-leader-elect", *flags))

    def kill_scheduler(self) -> None:
        self._processes.pop().kill()

    def pod(
        self,
        scenario: str,
        name: str,
        *,
        requests: Mapping[str, str] = ONE_CPU,
        gated: bool = False,
        annotations: Mapping[str, str] = {},
        selector: Mapping[str, str] = {},
        **more: Any,
    ) -> None:
        """Of the scenario's queue; `gated` as the webhook makes it of a pod that asks for the queue's gate. `selector`:
        labels that its node must have besides that of the pool."""
        wanted = {STORY: scenario, **selector}
        pod = a_pod(name, dict(requests), schedulerName=self._scheduler_name, nodeSelector=wanted, **more)
        pod["spec"]["containers"][0]["resources"]["limits"] = dict(requests)  # devices cannot be overcommitted
        pod["metadata"]["annotations"] = {QUEUE_NAME: scenario, **annotations}
        if gated:
            pod["metadata"]["annotations"][OPT_IN] = "true"
            if not self._adds_gates:
                pod["spec"].setdefault("schedulingGates", []).append({"name": GATE})
        create_pod(self.server, pod)

    def queue(
        self,
        scenario: str,
        cpu: str,
        shapes: Sequence[InstanceType] = SHAPES[:1],
        *,
        startup_taint: str = "",
        **limits: str,
    ) -> None:
        """A queue with these limits, and a pool of machines for its pods."""
        create_pool(self.server, scenario, shapes, startup_taint=startup_taint)
        send(self.server, "POST", QUEUES, a_queue(scenario, weight=1, capability={"cpu": cpu, **limits}))

    def set_limit(self, scenario: str, cpu: str) -> None:
        send(self.server, "PATCH", f"{QUEUES}/{scenario}", {"spec": {"capability": {"cpu": cpu}}}, MERGE)

    def application(self, scenario: str, *, gated: bool) -> None:
        """One driver and five executors, as a Spark user submits them."""
        self.pod(scenario, f"{scenario}-driver", gated=gated)
        self.until_bound(f"{scenario}-driver")
        for number in range(1, 6):
            self.pod(scenario, f"{scenario}-executor-{number}", gated=gated)

    def reasons(self, scenario: str) -> dict[str, int]:
        """How many of the scenario's executors have no node, by what is said of them."""
        found = (get_pod(self.server, f"{scenario}-executor-{number}") for number in range(1, 6))
        return dict(Counter(scheduled_reason(pod) for pod in found if not is_bound(pod)))

    def machines(self, scenario: str) -> int:
        return len(bought(self.server, scenario))

    def until(self, what: Callable[[], Any]) -> None:
        wait_for(what, self._processes[0], PATIENCE_S)

    def until_bound(self, *names: str) -> None:
        self.until(lambda: all(is_bound(get_pod(self.server, name)) for name in names))

    def settle(self) -> None:
        name = f"witness-{next(self._witnesses)}"
        self.pod(WITNESS, name)
        self.until_bound(name)


@contextlib.contextmanager
def scheduled_cluster(folder: Path, kube: Path, karpenter: Path, *flags: str) -> Iterator[KarpenterCluster]:
    """A real API server with Karpenter and `headgate run`, which gets ``flags``."""
    server = RealServer(folder / "server", kube)
    processes: list[Process] = []
    try:
        processes.append(Karpenter(server, karpenter, folder / "karpenter"))
        install_crds(server)
        made = KarpenterCluster(server, processes, folder)
        with Kubelets(server):
            made.start_scheduler(*flags)
            yield made
    finally:
        for process in reversed(processes):
            process.stop()
        server.disconnect()
        server.stop()
