"""The real kube-scheduler and Headgate's volume plugins on the same random storage: the same condition for each pod.

Bound pods, and everything that they and the waiting pods use, exist before kube-scheduler starts. No pod is bound
(`random_volumes.py` says why), so all conditions are about the same cluster. Headgate's plugins see the same objects
from the API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster
from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.volumes import storage_cache
from real.random_volumes import RandomStorage, draw
from real.test_volumes import outcome_of

pytestmark = pytest.mark.real

Object = dict[str, Any]

PODS = 150
SEED = 3
"""With this one every reason is given at least once."""
MERGE = "application/merge-patch+json"
STORAGE = "/apis/storage.k8s.io/v1"
PLACES = {
    "nodes": "/api/v1/nodes",
    "csi_nodes": f"{STORAGE}/csinodes",
    "drivers": f"{STORAGE}/csidrivers",
    "classes": f"{STORAGE}/storageclasses",
    "capacities": f"{STORAGE}/namespaces/default/csistoragecapacities",
    "claims": "/api/v1/namespaces/default/persistentvolumeclaims",
    "volumes": "/api/v1/persistentvolumes",
    "attachments": f"{STORAGE}/volumeattachments",
    "running": "/api/v1/namespaces/default/pods",
}
KNOWN = {
    "csi_nodes": storage_cache.CSI_NODES,
    "drivers": storage_cache.CSI_DRIVERS,
    "classes": storage_cache.CLASSES,
    "capacities": storage_cache.CAPACITIES,
    "claims": storage_cache.CLAIMS,
    "volumes": storage_cache.VOLUMES,
    "attachments": storage_cache.ATTACHMENTS,
}


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[RealServer]:
    flags = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0")
    running = RealServer(tmp_path / "server", kube_binaries, flags=flags)
    yield running
    running.disconnect()
    running.stop()


def make(server: RealServer, storage: RandomStorage) -> None:
    uids: dict[str, str] = {}
    for kind, path in PLACES.items():
        for each in getattr(storage, kind):
            ref = each.get("spec", {}).get("claimRef") if kind == "volumes" else None
            if ref is not None and int(ref["name"][1:]) % 2:
                ref["uid"] = uids[ref["name"]]
            made = send(server, "POST", path, each)
            name = made["metadata"]["name"]
            uids[name] = made["metadata"]["uid"]
            if kind in ("claims", "volumes") and each["status"]:
                send(server, "PATCH", f"{path}/{name}/status", {"status": each["status"]}, MERGE)
            if kind == "claims" and "finalizers" in each["metadata"]:
                send(server, "DELETE", f"{path}/{name}")


def as_shown(server: RealServer) -> Cluster:
    ours = Cluster(preempts=True)
    for node in send(server, "GET", PLACES["nodes"])["items"]:
        ours.apply(node)
    for kind, resource in KNOWN.items():
        for each in send(server, "GET", PLACES[kind])["items"]:
            ours.cluster.applied(resource, each)
    for each in send(server, "GET", PLACES["running"])["items"]:
        ours.matrix.pod_applied(ours.pod(each))
    return ours


def words_of(cluster: Cluster, pod: Object) -> str:
    found = cluster.cycle.place(cluster.pod(pod))
    return found.node_name if isinstance(found, ScheduleResult) else found.message


def test_pods_get_the_same_condition_for_random_storage(
    server: RealServer, kube_binaries: Path, tmp_path: Path
) -> None:
    storage = draw(SEED, PODS)
    make(server, storage)
    ours = as_shown(server)
    command = kube_scheduler(kube_binaries, server.kubeconfig, tmp_path)
    scheduler = Process(command, tmp_path / "kube-scheduler.log")
    try:
        made = {each["metadata"]["name"]: send(server, "POST", PLACES["running"], each) for each in storage.pods}

        def all_told() -> dict[str, str] | None:
            pods = send(server, "GET", PLACES["running"])["items"]
            found = {each["metadata"]["name"]: outcome_of(each) for each in pods if each["metadata"]["name"] in made}
            return found if all(found.values()) else None

        theirs: dict[str, str] = wait_for(all_told, scheduler, 60.0)
    finally:
        scheduler.stop()
    said = {name: words_of(ours, wire) for name, wire in made.items()}
    differing = {name: (text, theirs[name]) for name, text in said.items() if text != theirs[name]}
    assert not differing
    reasons = Counter(reason for text in said.values() for reason in REASONS if reason in text)
    assert set(reasons) == set(REASONS), reasons


REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) had no available volume zone",
    "node(s) had no available disk",
    "ReadWriteOncePod access mode already in-use by another pod",
    "node(s) exceed max volume count",
    "pod has unbound immediate PersistentVolumeClaims",
    "node(s) didn't match pod affinity rules",
    "waiting for ephemeral volume controller",
    "is being deleted",
    "bound to non-existent persistentvolume",
    "persistentvolumeclaim",
)
