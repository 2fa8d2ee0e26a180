"""A real API server with the real kube-scheduler and `headgate run --components gates,webhooks`, and hollow nodes.

The webhook adds the gates, Headgate removes them, and kube-scheduler binds the pods. A test waits for a state, never
for a time; that something does *not* happen is shown by a later event (:meth:`GatedCluster.settle`).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from clusters import a_pod
from harness.control_plane import Nodes
from harness.embedded_server import HEADGATE
from harness.kube_scheduler import kube_scheduler
from harness.pod_watch import Object, PodWatch
from harness.processes import Process, free_ports
from harness.queues import API_VERSION, QUEUES, a_group, a_queue
from harness.real_server import RealServer
from harness.scheduler_process import PATIENCE_S, create_pod, get_pod, is_bound, scheduled_reason, send, wait_for
from harness.server import Server
from harness.webhooks import adds_gates, prepare
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME

GROUPS = f"/apis/{API_VERSION}/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
STOP_AFTER = "headgate.dev/stop-after"
MERGE = "application/merge-patch+json"
_PATIENCE_S = 90.0


class GatesProcess(Process):
    """`headgate run --components gates,webhooks`, as a user starts it."""

    def __init__(self, server: Server, log: Path, *flags: str) -> None:
        (port,) = free_ports(1)
        command = [
            str(HEADGATE),
            *("run", "--kubeconfig", str(server.kubeconfig), "--components", "gates,webhooks"),
            *("--webhook-url", f"https://127.0.0.1:{port}", "--webhook-listen", f"127.0.0.1:{port}", *flags),
        ]
        super().__init__(command, log)
        self.wait_until(lambda: "webhooks: ready" in log.read_text(), PATIENCE_S)


class Reasons(PodWatch):
    """What `PodScheduled` ever said of each pod."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.said: dict[str, list[str]] = {}

    def judge(self, kind: str, pod: Object) -> None:
        said = self.said.setdefault(pod["metadata"]["name"], [])
        reason = "Bound" if is_bound(pod) else scheduled_reason(pod)
        if GATE in [each["name"] for each in pod["spec"].get("schedulingGates") or ()] and reason == "Unschedulable":
            self.problems.append(f"{pod['metadata']['name']} has a gate and looks like a shortage")
        if reason and said[-1:] != [reason]:
            said.append(reason)


class GatedCluster:
    """Two nodes of 2 CPU. Each test has its own queue."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.server = RealServer(folder / "server", programs)
        self._folder = folder
        self._logs = itertools.count(1)
        self._witnesses = itertools.count(1)
        self._processes: list[Process] = []
        prepare(self.server)
        self.reasons = Reasons(self.server)
        self.reasons.start()
        self.nodes = Nodes(self.server, 2, {"cpu": "2", "memory": "8Gi", "pods": "110"})
        command = kube_scheduler(programs, self.server.kubeconfig, folder)
        self.scheduler = Process(command, folder / "kube-scheduler.log")
        self.gates = self.start_gates("--no-leader-elect")
        self.until_gated()
        self.queue("witness", "1k")

    def start_gates(self, *flags: str) -> GatesProcess:
        self.gates = GatesProcess(self.server, self._folder / f"gates-{next(self._logs)}.log", *flags)
        return self.gates

    def until_gated(self) -> None:
        """Until the API server asks the webhooks of a process that was started."""
        self.until(lambda: adds_gates(self.server, "default-scheduler"))

    def close(self) -> None:
        self.gates.stop()
        self.scheduler.stop()
        self.nodes.stop()
        self.reasons.finish()
        self.server.disconnect()
        self.server.stop()

    def queue(self, name: str, cpu: str) -> None:
        send(self.server, "POST", QUEUES, a_queue(name, capability={"cpu": cpu}))

    def limit(self, name: str, cpu: str) -> None:
        send(self.server, "PATCH", f"{QUEUES}/{name}", {"spec": {"capability": {"cpu": cpu}}}, MERGE)

    def group(self, name: str, queue: str, minimum: int) -> None:
        send(self.server, "POST", GROUPS, a_group(name, queue=queue, minMember=minimum))

    def pod(self, name: str, queue: str, cpu: str = "1", *, group: str = "", stop_after: str = "", **spec: Any) -> None:
        """It opts in; the webhook adds the gate."""
        pod = a_pod(name, {"cpu": cpu}, terminationGracePeriodSeconds=spec.pop("grace_s", 120), **spec)
        said = {QUEUE_NAME: queue, OPT_IN: "true", GROUP_NAMES[0]: group, STOP_AFTER: stop_after}
        pod["metadata"]["annotations"] = {key: value for key, value in said.items() if value}
        created = create_pod(self.server, pod)
        assert {"name": GATE} in created["spec"].get("schedulingGates", []), "the webhook adds the gate"

    def delete(self, name: str, *, force: bool = False) -> None:
        send(self.server, "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0} if force else None)

    def end(self, *names: str) -> None:
        """The kubelet stops these terminating pods now."""
        for name in names:
            body = {"metadata": {"annotations": {STOP_AFTER: "0s"}}}
            send(self.server, "PATCH", f"{PODS}/{name}", body, MERGE)

    def get(self, name: str) -> Object:
        return get_pod(self.server, name)

    def until(self, what: Any) -> None:
        wait_for(what, self.gates, _PATIENCE_S)

    def until_bound(self, *names: str) -> None:
        self.until(lambda: all(is_bound(self.get(name)) for name in names))

    def until_reason(self, name: str, reason: str) -> None:
        self.until(lambda: scheduled_reason(self.get(name)) == reason)

    def is_gated(self, name: str) -> bool:
        return {"name": GATE} in self.get(name)["spec"].get("schedulingGates", [])

    def settle(self) -> None:
        """Whatever is to be decided by now has been: a pod that came last has a node."""
        name = f"witness-{next(self._witnesses)}"
        self.pod(name, "witness", "1m")
        self.until_bound(name)
        self.delete(name, force=True)  # it frees capacity for two pods of 1 CPU on each node

    def used(self, queue: str) -> tuple[str, str]:
        """What the status says is allocated and reserved, of CPU."""
        status = send(self.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
        found = [str((status.get(each) or {}).get("cpu") or "0") for each in ("allocated", "reserved")]
        return found[0], found[1]
