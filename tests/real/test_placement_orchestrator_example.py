"""The orchestrator of examples/controllers on both servers, with the rights of its file, its sample, and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.scheduler_process import send
from harness.server import Server
from real.example_controllers import (
    PODS,
    ExampleController,
    delete_pods,
    documents,
    finish,
    gated_pod,
    gates,
    reasons,
    running,
)

pytestmark = pytest.mark.real

GATE, FOREIGN = "example.com/placement", "example.com/other"
ZONE = "topology.kubernetes.io/zone"
MERGE = "application/merge-patch+json"
NODES = "/api/v1/nodes"
LISTED = ("/api/v1/pods?limit=1", "/api/v1/nodes?limit=1")
NOT_IN_MAINTENANCE = {"key": "example.com/maintenance", "operator": "DoesNotExist"}


@pytest.fixture(scope="module", params=["embedded_server", "real_server"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """With two zones: two CPUs in zone-a, three in zone-b, where a larger node is in maintenance."""
    found: Server = request.getfixturevalue(request.param)
    nodes = [
        a_node("placement-1", "zone-a", "2"),
        a_node("placement-2", "zone-b", "3"),
        a_node("placement-3", "zone-b", "64", **{"example.com/maintenance": "today"}),
        a_node("placement-4", "zone-c", "64", ready="False"),
    ]
    for node in nodes:
        send(found, "POST", NODES, node)
    yield found
    for node in nodes:
        send(found, "DELETE", f"{NODES}/{node['metadata']['name']}")


@pytest.fixture
def controller(server: Server, tmp_path: Path) -> Iterator[ExampleController]:
    """It is gone when a test ends, and so are its pods."""
    yield from running(server, tmp_path, "placement-orchestrator", LISTED)
    delete_pods(server)


def a_node(name: str, zone: str, cpu: str, ready: str = "True", **labels: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "labels": {ZONE: zone, **labels}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "100"}, "conditions": conditions},
    }


def pod(server: Server, name: str) -> dict[str, Any]:
    return send(server, "GET", f"{PODS}/{name}")


def zone(server: Server, name: str) -> str | None:
    """The zone of a pod that has lost the gate."""
    spec = pod(server, name)["spec"]
    is_gated = {"name": GATE} in spec.get("schedulingGates", [])
    found: str | None = None if is_gated else spec["nodeSelector"][ZONE]
    return found


def terms(server: Server, name: str) -> list[Any]:
    required = pod(server, name)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[Any] = required["nodeSelectorTerms"]
    return found


def test_the_pods_of_the_sample_are_constrained_or_get_an_event_that_says_why_not(
    server: Server, controller: ExampleController
) -> None:
    for sample in documents("placement-orchestrator-sample.yaml"):
        send(server, "POST", PODS, sample)
    controller.until(lambda: zone(server, "anywhere") == "zone-b")
    assert terms(server, "anywhere") == [{"matchExpressions": [NOT_IN_MAINTENANCE]}]
    controller.until(lambda: "the most free CPU, 3" in reasons(server, "anywhere").get("Placed", ""))
    controller.until(lambda: zone(server, "on-fast-disks") == "zone-b")
    disks = [{"key": "disk", "operator": "In", "values": [kind]} for kind in ("ssd", "nvme")]
    assert terms(server, "on-fast-disks") == [{"matchExpressions": [disk, NOT_IN_MAINTENANCE]} for disk in disks]
    refusal = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    controller.until(lambda: refusal in reasons(server, "contradictory").get("PlacementRefused", ""))
    refused = pod(server, "contradictory")["spec"]
    assert (gates(server, "contradictory"), refused["nodeSelector"]) == ([GATE], {ZONE: "zone-a"})
    assert "affinity" not in refused  # one write: all of it or nothing
    changed = {"metadata": {"annotations": {"example.com/zone": "zone-a"}}}
    send(server, "PATCH", f"{PODS}/contradictory", changed, MERGE)
    controller.until(lambda: zone(server, "contradictory") == "zone-a")


def test_a_burst_of_pods_is_spread_and_the_next_pod_waits_for_capacity(
    server: Server, controller: ExampleController
) -> None:
    controller.proxy.resume_watches(pause_s=0.05)  # all pods are seen before the first own write
    names = [f"burst-{number}" for number in range(5)]
    for name in names:
        send(server, "POST", PODS, gated_pod(name, FOREIGN, GATE, requests={"cpu": "1"}))
    controller.until(lambda: all(zone(server, name) for name in names))
    assert [zone(server, name) for name in names] == ["zone-b", "zone-a", "zone-b", "zone-a", "zone-b"]
    assert [gates(server, name) for name in names] == [[FOREIGN]] * 5
    send(server, "POST", PODS, gated_pod("late", GATE, requests={"cpu": "1"}))
    controller.until(lambda: "no zone has a node" in reasons(server, "late").get("WaitingForRoom", ""))
    finish(server, "burst-1")
    controller.until(lambda: zone(server, "late") == "zone-a")
    assert controller.patches() == dict.fromkeys((*names, "late"), 1)


def test_the_constraints_that_a_pod_has_are_kept_and_decide_its_zone(
    server: Server, controller: ExampleController
) -> None:
    expression = {"key": ZONE, "operator": "NotIn", "values": ["zone-b"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}, {}]
            }
        }
    }
    send(server, "POST", PODS, gated_pod("elsewhere", GATE, affinity=affinity, requests={"cpu": "1"}))
    controller.until(lambda: zone(server, "elsewhere") == "zone-a")
    assert terms(server, "elsewhere") == [{"matchExpressions": [expression, NOT_IN_MAINTENANCE]}, {}]


def test_an_orchestrator_that_is_killed_during_its_write_counts_it_when_it_starts_again(
    server: Server, controller: ExampleController
) -> None:
    controller.lose_response("/pods/one")
    send(server, "POST", PODS, gated_pod("one", GATE, requests={"cpu": "2500m"}))
    controller.until(lambda: zone(server, "one") == "zone-b")  # performed, and the orchestrator does not know it
    controller.kill()
    send(server, "POST", PODS, gated_pod("two", GATE, requests={"cpu": "1"}))
    controller.start()
    controller.until(lambda: zone(server, "two") == "zone-a")
    assert controller.patches() == {"one": 1, "two": 1}


def test_a_pod_that_another_client_changes_meanwhile_is_decided_again(
    server: Server, controller: ExampleController
) -> None:
    controller.proxy.refuse("PATCH", "/pods/changed")
    send(server, "POST", PODS, gated_pod("changed", GATE))
    controller.until(lambda: controller.proxy.refused_bodies)
    controller.proxy.hold_watches()
    send(server, "PATCH", f"{PODS}/changed", {"spec": {"nodeSelector": {"disk": "ssd"}}}, MERGE)
    controller.proxy.allow()
    controller.until(lambda: "default/changed: zone zone-b: conflict" in controller.log())
    send(server, "PATCH", f"{PODS}/changed", {"metadata": {"annotations": {"example.com/zone": "zone-x"}}}, MERGE)
    controller.proxy.resume_watches()
    controller.until(lambda: zone(server, "changed") == "zone-x")
    assert pod(server, "changed")["spec"]["nodeSelector"] == {"disk": "ssd", ZONE: "zone-x"}
