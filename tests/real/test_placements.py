"""The real kube-scheduler and our cycle on the same drawn clusters: who fits where, why not, and what is best.

Each case draws nodes and pods from its number. The pods go to a real API server one by one, kube-scheduler decides, and
our cycle is asked the same about the same objects. It must agree whether there is a place, on the counted reasons to
the letter, and its best score must be that of the node that was chosen (kube-scheduler breaks ties by chance); then the
real choice is taken over, so that the next pod meets the same cluster on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any, NamedTuple

import pytest
import yaml

from clusters import Cluster, a_node, a_pod
from harness.processes import Process
from harness.real import RealServer
from harness.server import JSON_TYPE
from headgate.scheduling.contract import Placement, Unplaced

pytestmark = pytest.mark.real

Object = dict[str, Any]

CASES = 24
PATIENCE_S = 60.0
PODS = "/api/v1/namespaces/default/pods"
GPU = "example.com/gpu"
MB = 1024 * 1024


class Decided(NamedTuple):
    node: str
    message: str


class Scheduler:
    """A real kube-scheduler beside a real API server. Preemption and devices, which would add to messages, are off."""

    def __init__(self, server: RealServer, programs: Path, folder: Path) -> None:
        self._server = server
        config, off = folder / "scheduler.yaml", [{"name": "DefaultPreemption"}, {"name": "DynamicResources"}]
        written = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(server.kubeconfig), "qps": 1000, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": off}}}],
        }
        config.write_text(yaml.safe_dump(written))
        command = [str(programs / "kube-scheduler"), f"--config={config}", "--secure-port=0"]
        self.process = Process(command, folder / "kube-scheduler.log")

    def send(self, method: str, path: str, body: Object | None = None) -> Object:
        sent = None if body is None else json.dumps(body).encode()
        answer = self._server.request(method, path, JSON_TYPE, sent)
        assert answer.status in (200, 201), (method, path, answer)
        found: Object = answer.json()
        return found

    def decide(self, pod: Object) -> tuple[Object, Decided]:
        """Create a pod and wait until it has a node or a reason."""
        created = self.send("POST", PODS, pod)
        deadline_s = monotonic() + PATIENCE_S
        while True:
            now = self.send("GET", f"{PODS}/{pod['metadata']['name']}")
            conditions = {each["type"]: each for each in now["status"].get("conditions") or ()}
            said = conditions.get("PodScheduled", {})
            if now["spec"].get("nodeName"):
                return created, Decided(now["spec"]["nodeName"], "")
            if said.get("status") == "False":
                assert said["reason"] == "Unschedulable", said
                self.remove(pod)
                return created, Decided("", said["message"])
            assert monotonic() < deadline_s, self.process.tail(15)
            sleep(0.02)

    def remove(self, pod: Object) -> None:
        self.send("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    def know_nodes(self, prefix: str, count: int) -> None:
        """Wait until the scheduler has seen just so many nodes: pods and nodes come on watches of their own."""
        deadline_s = monotonic() + PATIENCE_S
        for attempt in range(10_000):
            probe = a_pod(f"{prefix}-probe-{attempt}", {"cpu": "1000"})
            _, said = self.decide(probe)
            if said.message.startswith(f"0/{count} nodes are available"):
                return
            assert monotonic() < deadline_s, said
            sleep(0.02)


@pytest.fixture(scope="module")
def scheduler(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    folder = tmp_path_factory.mktemp("placements")
    server = RealServer(folder, kube_binaries)
    running = Scheduler(server, kube_binaries, folder)
    anchor = a_node("anchor", cpu="0", pods="0")  # without any node, pods are told nothing
    running.send("POST", "/api/v1/nodes", anchor)
    yield running
    running.process.stop()
    server.disconnect()
    server.stop()


def draw_node(draw: Random, name: str) -> Object:
    effects = ["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]
    taints = {
        (key, effect): {"key": key, "value": "v", "effect": effect}
        for key, effect in ((draw.choice("kl"), draw.choice(effects)) for _ in range(draw.choice([0, 0, 1, 2])))
    }
    images = [(("app:latest",), 300 * MB), (("web:1", "web:2"), 900 * MB)]
    return a_node(
        name,
        cpu=draw.choice(["1", "1500m", "4"]),
        memory=draw.choice(["1Gi", "3Gi", "1000001k"]),
        pods=str(draw.choice([1, 3, 10])),
        labels={key: draw.choice(["x", "y", "7"]) for key in ("zone", "disk") if draw.random() < 0.7},
        taints=list(taints.values()),
        cordoned=draw.random() < 0.1,
        images=[each for each in images if draw.random() < 0.4],
        allocatable={GPU: str(draw.randrange(3))} if draw.random() < 0.4 else {},
    )


def draw_container(draw: Random, name: str) -> Object:
    requests = {
        "cpu": draw.choice(["0", "100m", "500m", "1"]),
        "memory": draw.choice(["0", "100Mi", "700Mi"]),
        GPU: draw.choice(["1", "2"]),
    }
    asked = {key: value for key, value in requests.items() if draw.random() < (0.15 if key == GPU else 0.7)}
    limits = {GPU: asked[GPU]} if GPU in asked else {}
    ports: list[Object] = []
    if name == "c0" and draw.random() < 0.3:  # one pod cannot have a port twice
        ports = [{"containerPort": 1, "hostPort": draw.choice([80, 81])}]
        if draw.random() < 0.4:
            ports[0]["hostIP"] = draw.choice(["127.0.0.1", "10.0.0.1"])
    return {
        "name": name,
        "image": draw.choice(["app", "web:1", "gone"]),
        "resources": {"requests": asked, "limits": limits},
        "ports": ports,
    }


def draw_term(draw: Random) -> Object:
    expressions = [
        {"key": "zone", "operator": "In", "values": draw.sample(["x", "y", "7"], 2)},
        {"key": "disk", "operator": "NotIn", "values": [draw.choice("xy")]},
        {"key": "disk", "operator": "Exists"},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "Gt", "values": ["6"]},
    ]
    return {"matchExpressions": draw.sample(expressions, draw.choice([1, 1, 2]))}


def draw_pod(draw: Random, name: str, nodes: list[str]) -> Object:
    spec: Object = {"containers": [draw_container(draw, f"c{i}") for i in range(draw.choice([1, 1, 2]))]}
    if draw.random() < 0.2:
        spec["initContainers"] = [draw_container(draw, "i")]
        if draw.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draw.random() < 0.4:
        spec["tolerations"] = [draw.choice([{"key": "k", "operator": "Exists"}, {"operator": "Exists"}])]
    if draw.random() < 0.3:
        spec["nodeSelector"] = {"zone": draw.choice(["x", "y"])}
    rules: Object = {}
    if draw.random() < 0.3:
        terms = [draw_term(draw) for _ in range(draw.choice([1, 2]))]
        if draw.random() < 0.3:
            field = {"key": "metadata.name", "operator": "In", "values": [draw.choice(nodes)]}
            terms = [{"matchFields": [field]}]
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.random() < 0.3:
        wishes = [{"weight": draw.randint(1, 100), "preference": draw_term(draw)} for _ in range(2)]
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = wishes
    if rules:
        spec["affinity"] = {"nodeAffinity": rules}
    return a_pod(name, **spec)


@pytest.mark.parametrize("case", range(CASES))
def test_a_drawn_cluster_is_filled_alike(scheduler: Scheduler, case: int) -> None:
    draw = Random(case)
    names = [f"case-{case}-{letter}" for letter in "abcdef"[: draw.randint(2, 6)]]
    nodes = [scheduler.send("POST", "/api/v1/nodes", draw_node(draw, name)) for name in names]
    cluster = Cluster(*nodes, scheduler.send("GET", "/api/v1/nodes/anchor"))
    scheduler.know_nodes(f"case-{case}", len(nodes) + 1)
    placed: list[Object] = []
    for i in range(10):
        wire, real = scheduler.decide(draw_pod(draw, f"case-{case}-{i}", names))
        pod = cluster.pod(wire)
        ours, scores = cluster.cycle.decide(pod), cluster.cycle.scores(pod)
        if real.node:
            placed.append(wire)
            assert isinstance(ours, Placement), (wire, real, ours)
            assert scores.get(real.node) == max(scores.values()), (wire, real, scores)
            cluster.bind(wire, real.node)
        else:
            assert isinstance(ours, Unplaced), (wire, real, ours)
            assert ours.message == real.message
    for each in placed:
        scheduler.remove(each)
    for name in names:
        scheduler.send("DELETE", f"/api/v1/nodes/{name}")
