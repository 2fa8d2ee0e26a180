"""The real kube-scheduler and `headgate run` at the same time, each with equal pods and storage.

A real kube-controller-manager binds volumes to claims; the test creates volumes of dynamic classes, as a driver would.
In the end every pod has the same node or the same message, and the storage objects are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import SchedulerProcess, send, wait_for
from harness.server import JSON_TYPE
from real.volume_scenarios import NODES, csi_nodes, pods, storage

pytestmark = pytest.mark.real

Object = dict[str, Any]

SIDES = {"kube": "default-scheduler", "ours": "headgate"}
SELECTED = "volume.kubernetes.io/selected-node"
HANDED_OVER = "volume.kubernetes.io/storage-provisioner"
VOLUMES = "/api/v1/persistentvolumes"
PATIENCE_S = 60.0
PLACED = {
    *("here", "wide", "small", "given", "zonal", "fits", "zoned", "solo", "first", "pair", "disk", "first-too"),
}


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[RealServer]:
    running = RealServer(tmp_path / "server", kube_binaries)
    yield running
    running.disconnect()
    running.stop()


def volume_binder(server: RealServer, programs: Path, folder: Path) -> Process:
    command = [str(programs / "kube-controller-manager"), f"--kubeconfig={server.kubeconfig}", "--secure-port=0"]
    command += ["--controllers=persistentvolume-binder-controller", "--leader-elect=false"]
    command += [f"--flex-volume-plugin-dir={folder}", "--pvclaimbinder-sync-period=1s"]
    return Process(command, folder / "controllers.log")


def claims_of(server: RealServer, side: str) -> dict[str, Object]:
    listed = send(server, "GET", f"/api/v1/namespaces/{side}/persistentvolumeclaims")["items"]
    return {each["metadata"]["name"]: each for each in listed}


def pods_of(server: RealServer, side: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in send(server, "GET", f"/api/v1/namespaces/{side}/pods")["items"]}


def is_settled(server: RealServer) -> bool:
    """The binder has looked at everything: volumes that were given are bound, the lost claim is found out."""
    phases = {each["metadata"]["name"]: each["status"].get("phase") for each in send(server, "GET", VOLUMES)["items"]}
    bound = ("here", "away", "zoned", "solo", "first", "second", "given")
    return all(
        phase == ("Bound" if name.rpartition("-")[0] in bound else "Available") for name, phase in phases.items()
    ) and all(claims_of(server, side)["lost"]["status"]["phase"] == "Lost" for side in SIDES)


def make_volumes(server: RealServer, side: str) -> None:
    """What a driver does for claims that were given a node and handed to it, unless it has been done."""
    for name, claim in claims_of(server, side).items():
        if {SELECTED, HANDED_OVER} - set(claim["metadata"].get("annotations") or ()) or claim["spec"].get("volumeName"):
            continue
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "claimRef": {"namespace": side, "name": name, "uid": claim["metadata"]["uid"]},
            "csi": {"driver": "made", "volumeHandle": name},
        }
        body = {"metadata": {"name": f"made-{name}-{side}"}, "spec": spec}
        made = server.request("POST", VOLUMES, JSON_TYPE, json.dumps(body).encode())
        assert made.status in (201, 409), made


def outcome_of(pod: Object) -> str:
    """Its node, or what its condition says; nothing while it is undecided."""
    conditions = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    said = conditions.get("PodScheduled") or {}
    return str(pod["spec"].get("nodeName") or said.get("message") or "")


def end_of(server: RealServer, side: str) -> dict[str, str]:
    """What became of every pod, and of the storage around."""
    found = {name: outcome_of(pod) for name, pod in pods_of(server, side).items()}
    for volume in send(server, "GET", VOLUMES)["items"]:
        name, _, whose = volume["metadata"]["name"].rpartition("-")
        if whose == side:
            ref = volume["spec"].get("claimRef") or {}
            marks = sorted(volume["metadata"].get("annotations") or {})
            found[f"volume {name}"] = f"{volume['status']['phase']} {ref.get('name')} {marks}"
    for name, claim in claims_of(server, side).items():
        annotations = claim["metadata"].get("annotations") or {}
        bound_to = f"{claim['status']['phase']} {claim['spec'].get('volumeName')}"
        found[f"claim {name}"] = f"{bound_to} {annotations.get(SELECTED)} {sorted(annotations)}"
    return {name: text.replace(f"-{side}", "-SIDE").replace(f"{side}/", "SIDE/") for name, text in found.items()}


def test_both_schedulers_do_the_same_with_volumes(server: RealServer, kube_binaries: Path, tmp_path: Path) -> None:
    for node in NODES:
        send(server, "POST", "/api/v1/nodes", node)
    for path, made in csi_nodes(list(SIDES)):
        send(server, "POST", path, made)
    for side in SIDES:
        send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": side}})
        for path, made in storage(side):
            send(server, "POST", path, made)
        send(server, "DELETE", f"/api/v1/namespaces/{side}/persistentvolumeclaims/leaving")
    processes: list[Process] = [volume_binder(server, kube_binaries, tmp_path)]
    try:
        wait_for(lambda: is_settled(server), processes[0], PATIENCE_S)
        processes.append(
            Process(kube_scheduler(kube_binaries, server.kubeconfig, tmp_path), tmp_path / "kube-scheduler.log")
        )
        processes.append(SchedulerProcess(server, tmp_path / "headgate.log", "--no-leader-elect"))
        for number in range(2):
            wanted = {side: pods(side, scheduler)[number] for side, scheduler in SIDES.items()}
            for side, listed in wanted.items():
                for pod in listed:
                    send(server, "POST", f"/api/v1/namespaces/{side}/pods", pod)

            def all_decided() -> bool:
                for side in SIDES:
                    make_volumes(server, side)
                return all(outcome_of(pod) for side in SIDES for pod in pods_of(server, side).values())

            wait_for(all_decided, processes[-1], PATIENCE_S)
        ours, theirs = end_of(server, "ours"), end_of(server, "kube")
        assert ours.keys() == theirs.keys()
        assert not {name: (text, theirs[name]) for name, text in ours.items() if text != theirs[name]}
        # Both sides may be wrong together about what the scenario is about.
        assert {name for name in ours if ours[name] in ("n1", "n2", "n3")} == PLACED
    finally:
        for each in processes:
            each.stop()
