"""The controller of GatePolicies when it dies at every write: each overdue gate is lifted, each overdue pod deleted."""

from __future__ import annotations

from typing import Any

from headgate.gate_policies.controller import GatePolicyController
from headgate.gate_policies.metrics import GatePolicyMetrics
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.gate_policies.policies import OTHER_GATE
from unit.gate_policies.policy_world import PODS, POLICIES, a_server, create_pod, create_policy

LIFTED, DELETED, KEPT = "example.com/lifted", "example.com/deleted", "example.com/kept"


def make() -> CrashingWorld:
    return CrashingWorld(lambda: GatePolicyController(GatePolicyMetrics()), server=a_server())


def scenario(world: CrashingWorld) -> None:
    create_policy(world.server, "lifting", LIFTED, maxAge="1h", onMaxAge="Lift", liftedBy=[])
    create_policy(world.server, "deleting", DELETED, maxAge="1h", onMaxAge="Delete")
    create_policy(world.server, "telling", KEPT, maxAge="1h")
    world.advance(5)
    for number in range(2):
        create_pod(world.server, f"lifted-{number}", LIFTED, OTHER_GATE)
        create_pod(world.server, f"deleted-{number}", DELETED)
        create_pod(world.server, f"kept-{number}", KEPT)
    world.advance(3700)
    world.advance(60)


def inspect(title: str, world: CrashingWorld) -> dict[str, Any]:
    pods = {
        each["metadata"]["name"]: [gate["name"] for gate in each["spec"].get("schedulingGates", ())]
        for each in world.server.get(PODS).body["items"]
    }
    statuses = {
        each["metadata"]["name"]: (
            each["status"]["pods"],
            each["status"]["overduePods"],
            [(condition["type"], condition["status"]) for condition in each["status"]["conditions"]],
        )
        for each in world.server.get(POLICIES).body["items"]
    }
    return {"pods": pods, "statuses": statuses}


def test_a_crash_at_any_write_leads_to_the_same_pods_and_statuses() -> None:
    results = run_with_crashes(make, scenario, inspect)
    undisturbed, *others = results.values()
    assert undisturbed["pods"] == {
        **{f"lifted-{number}": [OTHER_GATE] for number in range(2)},
        **{f"kept-{number}": [KEPT] for number in range(2)},
    }
    assert undisturbed["statuses"]["telling"][:2] == (2, 2)
    assert len(others) >= 20
    for title, result in results.items():
        assert result == undisturbed, title
