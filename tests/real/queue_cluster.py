"""A server of either kind with queues and a scheduler, and the steps of the tests of gates.

The scheduler is `headgate run`, as a user starts it, behind a proxy that can cause faults. Pods are created with
annotation and gate, as the webhook leaves them. A test waits for a state, never for a time; that something does *not*
happen is shown by a later event (:meth:`QueueCluster.until_the_next_decision`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clusters import a_node, a_pod
from harness.faulty_proxy import FaultyProxy
from harness.queues import API_VERSION, QUEUES, a_group, a_queue, install_crds
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_priority_class,
    is_bound,
    scheduled_reason,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import running_server
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
GROUPS = f"/apis/{API_VERSION}/namespaces/default/podgroups"
MERGE = "application/merge-patch+json"
FOREIGN = "example.com/hold"


class QueueCluster:
    """One large node. The cluster names the queues; a test names its pods, which are deleted after it."""

    def __init__(self, server: Server, folder: Path, *flags: str) -> None:
        """`flags`: of the scheduler, besides those that it needs."""
        self.server = server
        self.flags = flags
        self.proxy = FaultyProxy(server, folder)
        self._folder = folder
        self._number = 0
        install_crds(server)
        create_nodes(server, [a_node("node", cpu="100", memory="100Gi")])
        self.scheduler = self._started()

    def _started(self) -> SchedulerProcess:
        self._number += 1
        log = self._folder / f"scheduler-{self._number}.log"
        return SchedulerProcess(self.proxy, log, "--no-leader-elect", *self.flags)

    def close(self) -> None:
        self.scheduler.stop()
        self.proxy.close()

    def killed(self) -> None:
        self.scheduler.kill()

    def started_again(self) -> None:
        self.scheduler = self._started()

    def queue(self, cpu: str, annotations: Mapping[str, str] = {}, **spec: Any) -> str:
        self._number += 1
        name = f"queue-{self._number}"
        limits = {"capability": {"cpu": cpu}} if cpu else {}
        queue = a_queue(name, **limits, **spec)
        queue["metadata"]["annotations"] = dict(annotations)
        send(self.server, "POST", QUEUES, queue)
        return name

    def limit(self, queue: str, cpu: str) -> None:
        send(self.server, "PATCH", f"{QUEUES}/{queue}", {"spec": {"capability": {"cpu": cpu}}}, MERGE)

    def until_used(self, queue: str, allocated: str = "", reserved: str = "") -> None:
        """What the queue's status says of CPU; empty: nothing."""

        def told() -> bool:
            status = send(self.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
            used = [(status.get(key) or {}).get("cpu") or "" for key in ("allocated", "reserved")]
            return ["" if each == "0" else each for each in used] == [allocated, reserved]

        wait_for(told, self.scheduler)

    def group(self, name: str, queue: str, minimum: int, **spec: Any) -> None:
        send(self.server, "POST", GROUPS, a_group(name, queue=queue, minMember=minimum, **spec))

    def phase(self, group: str) -> str:
        status = send(self.server, "GET", f"{GROUPS}/{group}").get("status") or {}
        return str(status.get("phase") or "")

    def priority_class(self, name: str, value: int, **annotations: str) -> None:
        metadata = {"name": name, "annotations": annotations}
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
        create_priority_class(self.server, body)

    def node(self, label: str, cpu: str = "1") -> None:
        """One more, for pods that ask for this label."""
        create_nodes(self.server, [a_node(label, cpu=cpu, labels={"for": label})])

    def pod(
        self,
        name: str,
        queue: str = "",
        cpu: str = "1",
        gates: tuple[str, ...] = (GATE,),
        group: str = "",
        wants: str = "",
        opts_in: bool = True,
        **spec: Any,
    ) -> Object:
        pod = a_pod(name, {"cpu": cpu} if cpu else {}, schedulerName="headgate", **spec)
        if gates:
            pod["spec"]["schedulingGates"] = [{"name": each} for each in gates]
        if wants:
            pod["spec"]["nodeSelector"] = {"for": wants}
        said = {OPT_IN: "true" if opts_in else "", QUEUE_NAME: queue, GROUP_NAMES[0]: group}
        pod["metadata"] = {"name": name, "annotations": {key: value for key, value in said.items() if value}}
        return send(self.server, "POST", PODS, pod)

    def get(self, name: str) -> Object:
        return send(self.server, "GET", f"{PODS}/{name}")

    def patch(self, name: str, body: Object, subresource: str = "") -> Object:
        return send(self.server, "PATCH", f"{PODS}/{name}{subresource}", body, MERGE)

    def delete(self, name: str) -> None:
        send(self.server, "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def until_bound(self, *names: str) -> None:
        wait_for(lambda: all(is_bound(self.get(name)) for name in names), self.scheduler)

    def until_unschedulable(self, *names: str) -> Object:
        for name in names:
            self.until_reason(name, "Unschedulable")
        return self.get(names[-1])

    def until_reason(self, name: str, reason: str) -> None:
        wait_for(lambda: scheduled_reason(self.get(name)) == reason, self.scheduler)

    def until_the_next_decision(self) -> None:
        """Whatever is to be decided by now has been: a pod that came last has a node."""
        queue = self.queue("1")
        name = f"last-{self._number}"
        self.pod(name, queue)
        self.until_bound(name)

    def is_gated(self, name: str) -> bool:
        pod = self.get(name)
        gated = bool(gates_of(pod))
        assert scheduled_reason(pod) == "SchedulingGated" or not gated, "a gated pod must never look like a shortage"
        return gated

    def delete_pods(self) -> None:
        send(self.server, "DELETE", PODS, {"gracePeriodSeconds": 0})
        send(self.server, "DELETE", GROUPS)


def gates_of(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


@contextlib.contextmanager
def running_queue_cluster(server_kind: str, folder: Path, programs: Path, *flags: str) -> Iterator[QueueCluster]:
    with running_server(server_kind, folder, programs) as server:
        cluster = QueueCluster(server, folder, *flags)
        try:
            yield cluster
        finally:
            cluster.close()
