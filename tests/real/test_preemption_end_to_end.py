"""The real kube-scheduler and `headgate run` preempt side by side, each on its own node and with its own pods.

The test compares one preemption from end to end: the conditions of the victims, the Events, the nomination, and the
binding of the pod after the victims are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.kube_scheduler import kube_scheduler
from harness.objects import priority_class
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import SchedulerProcess, create_priority_class, send, wait_for

pytestmark = pytest.mark.real

Object = dict[str, Any]

SIDES = {"kube": "default-scheduler", "ours": "by-pods"}
PATIENCE_S = 60.0


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[RealServer]:
    running = RealServer(tmp_path / "server", kube_binaries)
    yield running
    running.disconnect()
    running.stop()


@pytest.fixture
def schedulers(server: RealServer, kube_binaries: Path, tmp_path: Path) -> Iterator[list[Process]]:
    kube = Process(kube_scheduler(kube_binaries, server.kubeconfig, tmp_path), tmp_path / "kube-scheduler.log")
    # A name that does not go by queues: pods that do are not called unschedulable while their victims leave.
    flags = ("--no-leader-elect", "--scheduler-name", SIDES["ours"])
    ours = SchedulerProcess(server, tmp_path / "headgate.log", *flags)
    yield [kube, ours]
    ours.stop()
    kube.stop()


def pods_of(server: RealServer, side: str) -> dict[str, Object]:
    listed = send(server, "GET", f"/api/v1/namespaces/{side}/pods")["items"]
    return {each["metadata"]["name"]: each for each in listed}


def create(server: RealServer, side: str, name: str, cpu: str, priority: str, **more: Any) -> None:
    spec = {"nodeSelector": {"side": side}, "schedulerName": SIDES[side], "priorityClassName": priority, **more}
    pod = a_pod(name, {"cpu": cpu}, **spec)
    pod["metadata"]["namespace"] = side
    send(server, "POST", f"/api/v1/namespaces/{side}/pods", pod)


def condition_of(pod: Object, kind: str) -> Object:
    """A condition, without its times."""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == kind:
            return {key: value for key, value in each.items() if not key.endswith("Time")}
    return {}


def without_side(found: Any, pods: dict[str, Object], side: str) -> Any:
    text = json.dumps(found, sort_keys=True)
    for name, pod in pods.items():
        text = text.replace(pod["metadata"]["uid"], f"UID-{name}")
    return json.loads(text.replace(SIDES[side], "SCHEDULER").replace(f"node-{side}", "NODE"))


def about_victims(server: RealServer, side: str) -> list[Object]:
    """What Events say about pods that were preempted."""
    listed = send(server, "GET", f"/apis/events.k8s.io/v1/namespaces/{side}/events")["items"]
    found = [each for each in listed if each["reason"] == "Preempted"]
    return [
        {
            "about": each["regarding"]["name"],
            "related": each["related"]["name"],
            **{key: each.get(key) for key in ("type", "action", "note", "reportingController")},
        }
        for each in sorted(found, key=lambda each: str(each["regarding"]["name"]))
    ]


def chapter(server: RealServer, side: str) -> Any:
    pods = pods_of(server, side)
    found = {
        "victims": {name: condition_of(pod, "DisruptionTarget") for name, pod in pods.items()},
        "leaving": sorted(name for name, pod in pods.items() if pod["metadata"].get("deletionTimestamp")),
        "promised": pods["preemptor"]["status"].get("nominatedNodeName"),
        "told": condition_of(pods["preemptor"], "PodScheduled"),
        "events": about_victims(server, side),
    }
    return without_side(found, pods, side)


def test_both_schedulers_preempt_alike(server: RealServer, schedulers: list[Process]) -> None:
    for name, value in (("low", 1), ("middle", 5), ("high", 10)):
        create_priority_class(server, priority_class(name, value))
    for side in SIDES:
        send(server, "POST", "/api/v1/nodes", a_node(f"node-{side}", cpu="4", labels={"side": side}))
        send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": side}})
        for name, cpu, priority in (("small", "1", "low"), ("tiny", "500m", "low"), ("large", "2", "middle")):
            create(server, side, name, cpu, priority)

    def all_bound() -> bool:
        return all(each["spec"].get("nodeName") for side in SIDES for each in pods_of(server, side).values())

    wait_for(all_bound, schedulers[1], PATIENCE_S)
    for side in SIDES:
        create(server, side, "preemptor", "2", "high")

    def all_told() -> bool:
        return all(len(about_victims(server, side)) == 2 for side in SIDES)

    def all_promised() -> bool:
        return all(pods_of(server, side)["preemptor"]["status"].get("nominatedNodeName") for side in SIDES)

    wait_for(all_told, schedulers[1], PATIENCE_S)
    wait_for(all_promised, schedulers[1], PATIENCE_S)
    ours, theirs = chapter(server, "ours"), chapter(server, "kube")
    assert ours == theirs
    assert ours["leaving"] == ["small", "tiny"]
    assert ours["promised"] == "NODE"
    assert [each["note"] for each in ours["events"]] == ["Preempted by pod UID-preemptor on node NODE"] * 2

    # No kubelet runs: victims disappear only when the test deletes them.
    for side in SIDES:
        for name in ("small", "tiny"):
            send(server, "DELETE", f"/api/v1/namespaces/{side}/pods/{name}", {"gracePeriodSeconds": 0})
    wait_for(
        lambda: all(pods_of(server, side)["preemptor"]["spec"].get("nodeName") for side in SIDES),
        schedulers[1],
        PATIENCE_S,
    )
    ends = {
        side: without_side({n: p["spec"].get("nodeName") for n, p in pods_of(server, side).items()}, {}, side)
        for side in SIDES
    }
    assert ends["ours"] == ends["kube"]
    assert ends["ours"]["preemptor"] == "NODE"
