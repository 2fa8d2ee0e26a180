"""The model of Karpenter against the real one: random sets of pods, and the nodes that each adds for them.

The pods wait for NodePools that do not exist yet. When the pools are created, one pass of Karpenter plans for each set
as a whole, as the model does. No scheduler runs: the test writes the conditions of the pods. The kubelets are KWOK's,
so only the model is part of Headgate.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters import a_pod
from harness.karpenter import POOLS, SHAPES, STORY, TYPE, Karpenter, Kwok, all_bought, create_pool
from harness.real_server import RealServer
from harness.scheduler_process import create_pod, patch_pod, pods, send, wait_for
from headgate.kube import quantity
from headgate.kube.resource_amounts import units
from headgate.nodes.autoscalers import karpenter as models
from headgate.nodes.autoscalers.model import AddMachine
from headgate.nodes.autoscalers.node_claims import NodePool

pytestmark = pytest.mark.real

Object = dict[str, Any]
Machines = Counter[tuple[str, int]]
SETS = 24
MOST_MACHINES = 12
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def server(
    kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("karpenter-model")
    server = RealServer(folder / "server", kube_binaries)
    karpenter = Karpenter(server, karpenter_binaries, folder / "karpenter")
    kwok = Kwok(server, karpenter_binaries, folder)
    try:
        yield server
    finally:
        kwok.stop()
        karpenter.stop()
        server.disconnect()
        server.stop()


def drawn_pods(draw: random.Random, scenario: str) -> Iterator[tuple[Object, Object]]:
    """Pods, and the status that their scheduler would give them."""
    for number in range(draw.randint(1, 9)):
        requests = {"cpu": draw.choice(["250m", "500m", "900m", "1", "1500m", "2", "3", "5"])}
        if draw.random() < 0.5:
            requests["memory"] = draw.choice(["1Gi", "3Gi", "6Gi"])
        pod = a_pod(f"{scenario}-{number}", requests, schedulerName="nobody", nodeSelector={STORY: scenario})
        if draw.random() < 0.1:
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "its", "uid": "its", "controller": True}
            pod["metadata"]["ownerReferences"] = [owner]
        reasons = ["Unschedulable"] * 6 + ["SchedulingGated", "WaitingForQueue", "SchedulerError"]
        said = {"type": "PodScheduled", "status": "False", "reason": draw.choice(reasons)}
        status: Object = {"conditions": [said]}
        if draw.random() < 0.1:
            status["nominatedNodeName"] = "somewhere"
        yield pod, status


def planned(scenario: str, waiting: list[Object]) -> Machines:
    """What the model buys for these pods."""
    shapes = tuple(msgspec.structs.replace(shape, labels={STORY: scenario}) for shape in SHAPES)
    model = models.Karpenter([NodePool(scenario, shapes)])
    for pod in waiting:
        model.pod_applied(pod, 0.0)
    model.synced(0.0)
    asked = {f"default/{pod['metadata']['name']}": pod for pod in waiting}
    out: Machines = Counter()
    for effect in model.due(1.0):
        if isinstance(effect, AddMachine):
            out[effect.node["metadata"]["labels"][TYPE], sum(milli_cpu(asked[key]) for key in effect.pods)] += 1
    return out


def milli_cpu(pod: Object) -> int:
    return units("cpu", quantity.amount(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]))


def had(server: RealServer) -> dict[str, Machines]:
    """What Karpenter bought for them, by scenario."""
    return {scenario: Counter(map(read, claims)) for scenario, claims in all_bought(server).items()}


def read(claim: Object) -> tuple[str, int]:
    asked = quantity.amount(claim["spec"]["resources"]["requests"]["cpu"])
    return claim["metadata"]["labels"].get(TYPE, ""), units("cpu", asked)


def test_the_model_buys_the_machines_that_karpenter_buys(server: RealServer) -> None:
    draw = random.Random(4710)
    stories = [f"drawn-{number}" for number in range(SETS)]
    for scenario in stories:
        for pod, status in drawn_pods(draw, scenario):
            create_pod(server, pod)
            set_status(server, pod["metadata"]["name"], status)
    waiting = {name: pod for name, pod in pods(server).items() if name.startswith("drawn-")}
    of_story = {
        scenario: [pod for pod in waiting.values() if pod["spec"]["nodeSelector"][STORY] == scenario]
        for scenario in stories
    }
    wanted = {scenario: planned(scenario, of_story[scenario]) for scenario in stories}
    assert sum(map(Counter.total, wanted.values())) > SETS  # sets of several machines: there is something to get wrong
    for together in few_machines_at_a_time(wanted):
        for scenario in together:
            create_pool(server, scenario, SHAPES)
        wait_for(lambda: all(is_ready(pool) for pool in send(server, "GET", POOLS)["items"]))
        poked = next(iter(waiting))  # a change makes Karpenter plan for all pods
        patch_pod(server, poked, {"metadata": {"annotations": {"example.com/pool": together[0]}}})
        wait_for(partial(is_bought, server, {scenario: wanted[scenario] for scenario in together}))
    assert is_bought(server, wanted)
    wait_for(lambda: all(is_started(claim) for claims in all_bought(server).values() for claim in claims))


def test_kp_6_an_idle_machine_stays_while_a_pod_that_would_fit_is_called_unschedulable(server: RealServer) -> None:
    """What the model says, and why a queue's pods must not be called so: here the real one does it."""
    for scenario in ("kept", "gone"):
        create_pool(server, scenario, consolidate_after="0s")
        make_unschedulable(server, scenario)
    wait_for(lambda: all(map(is_started, all_bought(server).get("gone", []) + all_bought(server).get("kept", []))))
    say(server, "gone", "SchedulingGated")
    wait_for(lambda: "gone" not in all_bought(server), limit_s=120.0)
    assert len(all_bought(server)["kept"]) == 1


def is_bought(server: RealServer, wanted: dict[str, Machines]) -> bool:
    found = had(server)
    return all(found.get(scenario, Counter()) == machines for scenario, machines in wanted.items())


def few_machines_at_a_time(wanted: dict[str, Machines]) -> Iterator[list[str]]:
    """Among machines with as many pods Karpenter prefers any, as soon as it plans more than a dozen."""
    together: list[str] = []
    for scenario, machines in wanted.items():
        if sum(wanted[each].total() for each in together) + machines.total() > MOST_MACHINES:
            yield together
            together = []
        together.append(scenario)
    yield together


def make_unschedulable(server: RealServer, name: str) -> None:
    create_pod(server, a_pod(name, {"cpu": "1"}, schedulerName="nobody", nodeSelector={STORY: name}))
    say(server, name, "Unschedulable")
    wait_for(lambda: len(all_bought(server).get(name, ())) == 1)


def say(server: RealServer, name: str, reason: str) -> None:
    set_status(server, name, {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]})


def set_status(server: RealServer, name: str, status: Object) -> None:
    send(server, "PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": status}, STRATEGIC)


def is_started(claim: Object) -> bool:
    return "Initialized" in true_conditions(claim)


def is_ready(pool: Object) -> bool:
    return "Ready" in true_conditions(pool)


def true_conditions(obj: Object) -> set[str]:
    return {each["type"] for each in obj.get("status", {}).get("conditions") or () if each["status"] == "True"}
