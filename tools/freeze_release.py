#!/usr/bin/env python3
"""Runs a release of Headgate on a real control plane, and writes what it leaves there into a folder of tests/releases:

    git archive COMMIT | tar x -C TREE && make -C TREE setup
    .venv/bin/python tools/freeze_release.py TREE tests/releases/v0.2.0

Two replicas run under the service account of the release's own examples (`deployment.yaml` in the folder), a team's
objects are created (`tests/releases/team*.yaml` and examples of the release), and the replicas are stopped.
`tests/releases/frozen.py` restores the objects.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness.installed_cluster import InstalledCluster
from harness.process_kubelet import run_on_host
from harness.real_server import HOW_TO_GET_THEM, binaries
from releases.frozen import APPLIED, DEFINITIONS, IMAGE, TEAM, TEAM_WAITS, applied_files

Object = dict[str, Any]
Objects = dict[str, dict[str, Object]]

PODS = "/api/v1/namespaces/default/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
LEASES = "leases.coordination.k8s.io"
OF_THE_CLUSTER = frozenset(
    (
        *("events", "endpoints", "componentstatuses", "nodes", "configmaps", "serviceaccounts", "services"),
        *("namespaces", "replicasets.apps", "deployments.apps", "apiservices.apiregistration.k8s.io"),
        *("endpointslices.discovery.k8s.io", "events.events.k8s.io", "ipaddresses.networking.k8s.io"),
        *("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
        *("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
    )
)
"""Kinds whose objects the cluster makes, or users apply from files."""
WORKLOAD_COUNT = 4
"""Of two Jobs, of a pod, and one that belongs to no job."""
QUIET_S = 3.0
PATIENCE_S = 60.0


def objects(cluster: InstalledCluster) -> Objects:
    """By resource, then by namespace and name."""
    found: Objects = {}
    for resource in cluster.typed("api-resources", "--verbs=list", "-o", "name").split():
        if resource not in OF_THE_CLUSTER:
            said = json.loads(cluster.typed("get", resource, "-A", "-o", "json", "--show-managed-fields"))
            found[resource] = {
                f"{each['metadata'].get('namespace', '')}/{each['metadata']['name']}": each for each in said["items"]
            }
    return found


def run_release(cluster: InstalledCluster, tree: Path, folder: Path) -> None:
    """Until its replicas have done all that the team's objects ask for."""
    for file in applied_files(folder):
        cluster.typed("apply", "-f", str(file))
    program = str(tree / ".venv" / "bin" / "headgate")
    subprocess.run([program, "install-crds", "--kubeconfig", str(cluster.server.kubeconfig)], check=True, timeout=60)
    cluster.typed("apply", "-f", str(folder / "deployment.yaml"))
    cluster.kubelet.wait_until_ready(2, PATIENCE_S)
    cluster.until("v1beta1 is served", lambda: "kueue.x-k8s.io/v1beta1" in cluster.typed("api-versions"))
    for file in (TEAM, tree / "examples" / "kueue" / "v1beta1.yaml", tree / "examples" / "quota-jobs.yaml"):
        cluster.until(f"{file.name} is applied", partial(_applies, cluster, file))
    cluster.until("pods and a Job run", lambda: {"running", "gang-0", "gang-1"} <= bound(cluster))
    cluster.until("a Job runs", lambda: any(name.startswith(("first-", "second-")) for name in bound(cluster)))
    cluster.until("a pod has a stamp", lambda: "schedulingGates" not in (cluster.get(f"{PODS}/promised") or {})["spec"])
    cluster.typed("apply", "-f", str(TEAM_WAITS))
    cluster.until("all have Workloads", lambda: len((cluster.get(WORKLOADS) or {})["items"]) == WORKLOAD_COUNT)
    wait_until_quiet(cluster)


def _applies(cluster: InstalledCluster, file: Path) -> bool:
    return cluster.kubectl("apply", "-f", str(file)).exit == 0


def bound(cluster: InstalledCluster) -> set[str]:
    items = (cluster.get(PODS) or {})["items"]
    return {each["metadata"]["name"] for each in items if each["spec"].get("nodeName")}


def wait_until_quiet(cluster: InstalledCluster) -> None:
    """Statuses are written a moment after what they report."""
    deadline_s = time.monotonic() + PATIENCE_S
    before: Objects = {}
    while (now := {**objects(cluster), LEASES: {}}) != before:
        assert time.monotonic() < deadline_s, "objects still change"
        before = now
        time.sleep(QUIET_S)


def stop_release(cluster: InstalledCluster) -> None:
    cluster.typed("scale", "deployment", "-n", "headgate-system", "headgate-run", "--replicas=0")
    replicas = cluster.kubelet.processes()
    cluster.until("the replicas have ended", lambda: not any(each.process.running() for each in replicas))


def freeze(tree: Path, folder: Path) -> None:
    programs = binaries()
    if programs is None:
        raise SystemExit(f"the real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
    for name in APPLIED:
        shutil.copy(tree / "examples" / f"{name}-rights.yaml", folder)
    with tempfile.TemporaryDirectory() as place:
        cluster = InstalledCluster(
            Path(place), programs, partial(run_on_host, releases={IMAGE: tree / ".venv" / "bin" / "headgate"})
        )
        try:
            before = objects(cluster)
            run_release(cluster, tree, folder)
            stop_release(cluster)
            after = objects(cluster)
        finally:
            cluster.stop()
    stored = {
        resource: [_lasting(each) for key, each in sorted(found.items()) if key not in before.get(resource, {})]
        for resource, found in sorted(after.items())
    }
    kept = {resource: found for resource, found in stored.items() if found}
    (folder / "definitions.yaml").write_text(_yaml({DEFINITIONS: kept.pop(DEFINITIONS)}))
    (folder / "stored.yaml").write_text(_yaml(kept))
    print({resource: len(found) for resource, found in stored.items() if found})


def _yaml(objects_by_resource: dict[str, list[Object]]) -> str:
    return yaml.dump(objects_by_resource, Dumper=yaml.CSafeDumper, width=1000)


def _lasting(obj: Object) -> Object:
    """As in etcd: the revision is not part of the object."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}


if __name__ == "__main__":
    freeze(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
