"""A real API server with a real kube-scheduler, which schedules one random cluster after another.

The nodes of a cluster are created first. When the scheduler knows these nodes and no others, all pods are created at
once. The scheduler tries them one after another; its log (`scheduler_log.py`) shows the order and when all have a
decision. Then the nodes are deleted. Bound pods stay: the scheduler ignores pods on nodes that do not exist. A pod that
failed is not tried again while its cluster exists: no event moves it out of the unschedulable pods.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.processes import Process, free_ports
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.server import JSON_TYPE
from harness.users import ALICE
from headgate.kube import api_resources
from headgate.scheduling.volumes import storage_cache
from real.placements.cases import STANDING, Case
from real.placements.profiles import PROFILES
from real.placements.scheduler_log import VERBOSITY, Attempt, Log

Object = dict[str, Any]

WAIT_S = 100
MERGE_TYPE = {"Content-Type": "application/merge-patch+json"}
HANDLED = re.compile(
    r'^scheduler_event_handling_duration_seconds_count\{event="(?:storage.k8s.io/)?(\w+)Add"\} (\d+)', re.MULTILINE
)
LAST = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1"},
        "storageClassName": "of-no-case",
        "hostPath": {"path": "/"},
    },
}
# All but Events, of which the scheduler would write one per pod: that costs as much as half a binding.
ROLE_RULES = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "update", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
]
RESOURCES = {
    "CSIDriver": storage_cache.CSI_DRIVERS,
    "CSINode": storage_cache.CSI_NODES,
    "CSIStorageCapacity": storage_cache.CAPACITIES,
    "ClusterRole": api_resources.CLUSTER_ROLES,
    "ClusterRoleBinding": api_resources.APIResource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False
    ),
    "Namespace": api_resources.NAMESPACES,
    "Node": api_resources.NODES,
    "PersistentVolume": storage_cache.VOLUMES,
    "PersistentVolumeClaim": storage_cache.CLAIMS,
    "Pod": api_resources.PODS,
    "PodDisruptionBudget": api_resources.POD_DISRUPTION_BUDGETS,
    "PriorityClass": api_resources.APIResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False),
    "ReplicaSet": api_resources.REPLICA_SETS,
    "ReplicationController": api_resources.REPLICATION_CONTROLLERS,
    "RuntimeClass": api_resources.APIResource("node.k8s.io", "v1", "runtimeclasses", namespaced=False),
    "Service": api_resources.SERVICES,
    "StatefulSet": api_resources.STATEFUL_SETS,
    "StorageClass": storage_cache.CLASSES,
}


class SchedulingResult(NamedTuple):
    """Objects as the API server showed them at first, and the attempts in their order, the first of each pod."""

    nodes: list[Object]
    pods: dict[str, Object]
    """By namespace and name."""
    turns: list[tuple[Attempt, list[Object]]]
    """After an attempt, and before the next, these pods changed."""
    around: list[Object]
    """Whatever else there is."""


class KubeSchedulerRun:
    def __init__(self, programs: Path, folder: Path) -> None:
        flags = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0")
        self._server = RealServer(folder, programs, flags=flags)
        for each in _rights():
            self.create(each)
        self._standing = [self._store(each) for each in STANDING]
        self._standing.append(self._send("GET", api_resources.NAMESPACES.object_path("", "default")))
        config, log = folder / "scheduler.yaml", folder / "kube-scheduler.log"
        config.write_text(json.dumps(self._configuration(folder)))
        log.touch()
        self.log = Log(log)
        self.played = 0
        self._storage: dict[str, list[Object]] = {}
        (port,) = free_ports(1)
        self._scheduler = Process(
            [
                *(str(programs / "kube-scheduler"), f"--config={config}", f"--vmodule={VERBOSITY}"),
                *(f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder / 'certificates'}"),
                *("--authentication-skip-lookup", "--authorization-always-allow-paths=/metrics"),
                "--feature-gates=SchedulerPopFromBackoffQ=false",
            ],
            log,
        )
        # It makes its own certificate.
        trusting = ssl._create_unverified_context()
        self._metrics = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=trusting)
        wait_for(self._is_up, self._scheduler)

    def _configuration(self, folder: Path) -> Object:
        account = yaml.safe_load(self._server.kubeconfig.read_text())
        account["users"][0]["user"]["token"] = ALICE
        kubeconfig = folder / "kubeconfig-of-scheduler"
        kubeconfig.write_text(yaml.safe_dump(account))
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": WAIT_S,
            "podMaxBackoffSeconds": WAIT_S,
            "profiles": [{"schedulerName": name, **profile} for name, profile in PROFILES.items()],
        }

    def schedule(self, case: Case) -> SchedulingResult:
        self.log.forget()
        self.played += 1
        nodes = [self.create(each) for each in case.nodes]
        names = {each["metadata"]["name"] for each in nodes}
        self.log.wait_until(lambda: self.log.nodes == names, f"to know the nodes {sorted(names)} and no others")
        pods: dict[str, Object] = {}
        turns: list[tuple[Attempt, list[Object]]] = []
        attempts = self.log.attempts
        for batch in case.batches:
            made = {_key(each): each for each in map(self.create, batch)}
            self._decide(made)
            turns += ((each, []) for name, each in attempts.items() if name in made)
            pods |= made
            if any(attempts[name].promised for name in made):
                break  # what comes now depends on how fast the victims go
            if batch is not case.batches[-1]:
                placed = [each for name, each in made.items() if attempts[name].is_bound]
                turns[-1][1].extend(self._change(placed, case.leaving, minute=len(pods)))
        self._send("DELETE", api_resources.NODES.collection_path())
        for namespace in sorted({name.partition("/")[0] for name in pods if not attempts[name].is_bound}):
            waiting = f"{api_resources.PODS.collection_path(namespace)}?fieldSelector=spec.nodeName%3D"
            self._send("DELETE", waiting, {"gracePeriodSeconds": 0})
        around = [*self._standing, *self._storage.pop(case.name)]
        return SchedulingResult(nodes, pods, turns, around)

    def _decide(self, pods: Collection[str]) -> None:
        attempts = self.log.attempts
        self.log.wait_until(
            lambda: all(name in attempts and attempts[name].is_decided for name in pods),
            f"to decide about {list(pods)}",
        )

    def _change(self, pods: Sequence[Object], leaving: Collection[str], minute: int) -> list[Object]:
        """Say when pods started, no two at the same time (the more recent are preempted first); tell some to go."""
        changed: dict[str, Object] = {}
        expected: Counter[str] = Counter()
        for second, each in enumerate(pods):
            key, name = _key(each), each["metadata"]["name"]
            path = api_resources.PODS.object_path(each["metadata"]["namespace"], name)
            status = {"startTime": f"2025-01-01T00:{minute:02}:{second:02}Z"}
            changed[key] = self._send("PATCH", f"{path}/status", {"status": status}, MERGE_TYPE)
            expected[key] += 1
            if name in leaving:
                changed[key] = self._send("DELETE", path)
                expected[key] += 1
        self.log.wait_until(lambda: expected <= self.log.updates, f"to see what became of {sorted(expected)}")
        return list(changed.values())

    def lay_out(self, cases: Sequence[Case]) -> None:
        """Make the storage of all cases, and wait until the scheduler has it."""
        before = self._handled()
        made: Counter[str] = Counter()
        for case in cases:
            self._storage[case.name] = [self._store(each) for each in case.storage]
            made.update(each["kind"] for each in case.storage)
        if not made:
            return
        # Comes behind the changes of all other volumes.
        self._store({"metadata": {"name": f"{cases[-1].name}-is-last"}, **LAST})
        made["PersistentVolume"] += 1

        def all_seen() -> bool:
            now = self._handled()
            return all(now[kind] >= before[kind] + count for kind, count in made.items())

        wait_for(all_seen, self._scheduler, 60)

    def _store(self, wanted: Object) -> Object:
        made = self.create(wanted)
        if "status" not in wanted:
            return made
        metadata = made["metadata"]
        path = RESOURCES[made["kind"]].object_path(metadata.get("namespace", ""), metadata["name"], "status")
        return self._send("PATCH", path, {"status": wanted["status"]}, MERGE_TYPE)

    def _handled(self) -> Counter[str]:
        """How many objects of each kind the scheduler has received."""
        self._metrics.request("GET", "/metrics")
        said = self._metrics.getresponse().read().decode()
        return Counter({kind: int(count) for kind, count in HANDLED.findall(said)})

    def create(self, wanted: Object) -> Object:
        collection = RESOURCES[wanted["kind"]].collection_path(wanted["metadata"].get("namespace"))
        return self._send("POST", collection, wanted)

    def _is_up(self) -> bool:
        try:
            self._handled()
            return True
        except OSError:
            self._metrics.close()
            return False

    def _send(
        self, method: str, path: str, body: Object | None = None, headers: Mapping[str, str] = JSON_TYPE
    ) -> Object:
        sent = None if body is None else json.dumps(body).encode()
        answer = self._server.request(method, path, headers, sent)
        assert answer.status in (200, 201), (method, path, body, answer)
        found: Object = answer.json()
        return found

    def stop(self) -> None:
        self._metrics.close()
        self._scheduler.stop()
        self._server.disconnect()
        self._server.stop()
        self.log.path.unlink()  # some ten kilobytes for every case


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _rights() -> Iterable[Object]:
    group = "rbac.authorization.k8s.io"
    name = {"name": "scheduler-without-events"}
    yield {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": name, "rules": ROLE_RULES}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", **name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
