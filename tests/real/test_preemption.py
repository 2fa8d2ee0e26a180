"""The real kube-scheduler and our DefaultPreemption on the same full clusters: victims, nodes and messages.

All clusters exist before kube-scheduler starts, so it has all of them, budgets included, in its cache when preemptors
are created: one per cluster and round. Every round has a new kube-scheduler, which sees the results of the last one:
terminating victims and nominations. Headgate gets the same objects and must decide the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster
from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import create_priority_class, send, wait_for
from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS
from headgate.scheduling.framework.interface import ScheduleResult
from real.preemption_cases import CLASSES, Case, draw_case

pytestmark = pytest.mark.real

Object = dict[str, Any]

CASES = 40
PATIENCE_S = 60.0
MERGE = "application/merge-patch+json"
POLICY = "/apis/policy/v1"


class Arena:
    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        flags = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0")
        self.server = RealServer(folder / "server", programs, flags=flags)
        for each in CLASSES:
            create_priority_class(self.server, each)

    def send(self, method: str, path: str, body: Any = None, content: str = "") -> Object:
        return send(self.server, method, path, body, content)

    def prepare(self, case: Case) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": case.namespace}})
        for node in case.nodes:
            self.send("POST", "/api/v1/nodes", node)
        for collection, objects in (("/api/v1", case.running), (POLICY, case.budgets)):
            plural = "pods" if collection == "/api/v1" else "poddisruptionbudgets"
            path = f"{collection}/namespaces/{case.namespace}/{plural}"
            for each in objects:
                self.send("POST", path, each)
                if each["status"]:
                    name = each["metadata"]["name"]
                    self.send("PATCH", f"{path}/{name}/status", {"status": each["status"]}, MERGE)

    def scheduler(self, number: int) -> Process:
        flags = ("--secure-port=0", "--v=2", "--feature-gates=SchedulerPopFromBackoffQ=false")
        slowly = {"podInitialBackoffSeconds": 300, "podMaxBackoffSeconds": 300}
        kubeconfig = self.server.kubeconfig
        command = kube_scheduler(
            self._programs, kubeconfig, self._folder, *flags, percentageOfNodesToScore=100, **slowly
        )
        return Process(command, self._folder / f"kube-scheduler-{number}.log")

    def pods(self) -> dict[str, dict[str, Object]]:
        """By namespace and name."""
        found: dict[str, dict[str, Object]] = {}
        for each in self.send("GET", "/api/v1/pods")["items"]:
            found.setdefault(each["metadata"]["namespace"], {})[each["metadata"]["name"]] = each
        return found


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    running = Arena(kube_binaries, tmp_path_factory.mktemp("preemption"))
    yield running
    running.server.disconnect()
    running.server.stop()


def as_shown(cluster: Arena) -> Cluster:
    """Our own view of all that there is: nodes, budgets, pods with a node, promises."""
    ours = Cluster(preempts=True)
    for node in cluster.send("GET", "/api/v1/nodes")["items"]:
        ours.apply(node)
    for budget in cluster.send("GET", f"{POLICY}/poddisruptionbudgets")["items"]:
        ours.cluster.applied(POD_DISRUPTION_BUDGETS, budget)
    for there in cluster.pods().values():
        for wire in there.values():
            pod = ours.pod(wire)
            if pod.node_name:
                ours.matrix.pod_applied(pod)
            elif pod.nominated_node:
                ours.nominator.nominate(pod, pod.nominated_node)
    return ours


def said_of(pod: Object) -> str:
    found = [each for each in pod["status"].get("conditions") or () if each["type"] == "PodScheduled"]
    return str(found[0].get("message") or "") if found else ""


def leaving(pods: dict[str, Object]) -> set[str]:
    return {name for name, each in pods.items() if each["metadata"].get("deletionTimestamp")}


def play(cluster: Arena, cases: list[Case], number: int) -> list[str]:
    """One round: a pod per cluster, decided there and here; what differs."""
    ours, before = as_shown(cluster), cluster.pods()
    scheduler = cluster.scheduler(number)
    wires = {}
    for case in cases:
        path = f"/api/v1/namespaces/{case.namespace}/pods"
        wires[case.namespace] = cluster.send("POST", path, case.preemptors[number])
    name = f"preemptor-{number}"
    outcomes = {namespace: ours.cycle.place(ours.pod(wire)) for namespace, wire in wires.items()}

    def all_decided() -> dict[str, dict[str, Object]] | None:
        log = scheduler.log.read_text()  # before the list, so that what it says has ended is in the list
        shown = cluster.pods()
        for namespace, outcome in outcomes.items():
            pod = shown[namespace][name]
            if not pod["spec"].get("nodeName") and not said_of(pod):
                return None
            doomed = [] if isinstance(outcome, ScheduleResult) or not outcome.nominated else outcome.nominated.victims
            ended = f'"Async Preemption finished completely" preemptor="{namespace}/{name}"'
            if (
                pod["status"].get("nominatedNodeName")
                and not all(each.deleting for each in doomed)
                and ended not in log
            ):
                return None
        return shown

    after = wait_for(all_decided, scheduler, PATIENCE_S)
    scheduler.stop()
    differing = []
    for case in cases:
        pod, outcome = after[case.namespace][name], outcomes[case.namespace]
        victims = leaving(after[case.namespace]) - leaving(before.get(case.namespace, {}))
        real = (said_of(pod), pod["status"].get("nominatedNodeName", ""), victims)
        if isinstance(outcome, ScheduleResult):
            if not pod["spec"].get("nodeName"):
                differing.append(f"case {case.number}, round {number}: it fits on {outcome.node_name}, there: {real}")
            started = {"status": {"startTime": f"2025-02-0{number + 1}T00:00:00Z"}}
            cluster.send("PATCH", f"/api/v1/namespaces/{case.namespace}/pods/{name}/status", started, MERGE)
            continue
        doomed = outcome.nominated.victims if outcome.nominated else ()
        found = (outcome.message, outcome.promise or "", {each.name for each in doomed if not each.deleting})
        if real != found:
            differing.append(f"case {case.number}, round {number}:\n  there {real}\n  here  {found}")
    return differing


def test_drawn_pods_preempt_alike(cluster: Arena) -> None:
    cases = [draw_case(number) for number in range(CASES)]
    for case in cases:
        cluster.prepare(case)
    differing = [text for number in range(3) for text in play(cluster, cases, number)]
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:8])
    everybody = [each for there in cluster.pods().values() for each in there.values()]
    promised = sum("nominatedNodeName" in each["status"] for each in everybody)
    assert promised > CASES // 2, "the drawn clusters ask for too little preemption to say anything"
