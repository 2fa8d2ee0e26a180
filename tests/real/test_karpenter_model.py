"""The model of Karpenter against the real one: drawn sets of pods, and which machines each of them buys for them.

The pods wait for pools that do not exist yet. When those are there, one pass of Karpenter plans for each set as a
whole, which is what the model is asked about. Nobody schedules the pods: their conditions are the test's.
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
from harness.karpenter import POOLS, SHAPES, STORY, TYPE, Karpenter, Kubelets, bought, create_pool
from harness.real import RealServer
from harness.scheduling import create_pod, patch_pod, pods, send, wait_for
from headgate.kube import quantity
from headgate.kube.amounts import units
from headgate.nodes.models import karpenter
from headgate.nodes.models.claims import Pool
from headgate.nodes.models.contract import Buy

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
    process = Karpenter(server, karpenter_binaries, folder / "karpenter")
    try:
        with Kubelets(server):
            yield server
    finally:
        process.stop()
        server.disconnect()
        server.stop()


def drawn_pods(draw: random.Random, story: str) -> Iterator[tuple[Object, Object]]:
    """Pods, and the status that their scheduler would give them."""
    for number in range(draw.randint(1, 9)):
        requests = {"cpu": draw.choice(["250m", "500m", "900m", "1", "1500m", "2", "3", "5"])}
        if draw.random() < 0.5:
            requests["memory"] = draw.choice(["1Gi", "3Gi", "6Gi"])
        pod = a_pod(f"{story}-{number}", requests, schedulerName="nobody", nodeSelector={STORY: story})
        if draw.random() < 0.1:
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "its", "uid": "its", "controller": True}
            pod["metadata"]["ownerReferences"] = [owner]
        reasons = ["Unschedulable"] * 6 + ["SchedulingGated", "WaitingForQueue", "SchedulerError"]
        said = {"type": "PodScheduled", "status": "False", "reason": draw.choice(reasons)}
        status: Object = {"conditions": [said]}
        if draw.random() < 0.1:
            status["nominatedNodeName"] = "somewhere"
        yield pod, status


def planned(story: str, waiting: list[Object]) -> Machines:
    """What the model buys for these pods."""
    shapes = tuple(msgspec.structs.replace(shape, labels={STORY: story}) for shape in SHAPES)
    model = karpenter.Karpenter([Pool(story, shapes)])
    for pod in waiting:
        model.pod_applied(pod, 0.0)
    model.synced(0.0)
    asked = {f"default/{pod['metadata']['name']}": pod for pod in waiting}
    out: Machines = Counter()
    for effect in model.due(1.0):
        if isinstance(effect, Buy):
            out[effect.node["metadata"]["labels"][TYPE], sum(milli_cpu(asked[key]) for key in effect.pods)] += 1
    return out


def milli_cpu(pod: Object) -> int:
    return units("cpu", quantity.amount(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]))


def had(server: RealServer, story: str) -> Machines:
    """What Karpenter bought for them."""
    found = bought(server, story)
    asked = (quantity.amount(claim["spec"]["resources"]["requests"]["cpu"]) for claim in found)
    types = (claim["metadata"]["labels"].get(TYPE, "") for claim in found)
    return Counter((kind, units("cpu", cpu)) for kind, cpu in zip(types, asked, strict=True))


def test_the_model_buys_the_machines_that_karpenter_buys(server: RealServer) -> None:
    draw = random.Random(4710)
    stories = [f"drawn-{number}" for number in range(SETS)]
    for story in stories:
        for pod, status in drawn_pods(draw, story):
            made = create_pod(server, pod)
            path = f"/api/v1/namespaces/default/pods/{made['metadata']['name']}/status"
            send(server, "PATCH", path, {"status": status}, STRATEGIC)
    waiting = pods(server)
    of_story = {
        story: [pod for pod in waiting.values() if pod["spec"]["nodeSelector"][STORY] == story] for story in stories
    }
    wanted = {story: planned(story, of_story[story]) for story in stories}
    assert sum(map(Counter.total, wanted.values())) > SETS  # sets of several machines: there is something to get wrong
    for together in few_machines_at_a_time(wanted):
        for story in together:
            create_pool(server, story, SHAPES)
        wait_for(lambda: all(is_ready(pool) for pool in send(server, "GET", POOLS)["items"]))
        poked = next(iter(waiting))  # whoever changes makes Karpenter plan for all
        patch_pod(server, poked, {"metadata": {"annotations": {"example.com/pool": together[0]}}})
        wait_for(partial(is_bought, server, {story: wanted[story] for story in together}))
    assert {story: had(server, story) for story in stories} == wanted


def is_bought(server: RealServer, wanted: dict[str, Machines]) -> bool:
    return all(had(server, story) == machines for story, machines in wanted.items())


def few_machines_at_a_time(wanted: dict[str, Machines]) -> Iterator[list[str]]:
    """Among machines with as many pods Karpenter prefers any, as soon as it plans more than a dozen."""
    together: list[str] = []
    for story, machines in wanted.items():
        if sum(wanted[each].total() for each in together) + machines.total() > MOST_MACHINES:
            yield together
            together = []
        together.append(story)
    yield together


def is_ready(pool: Object) -> bool:
    conditions = pool.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
