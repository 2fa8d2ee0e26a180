"""What is said about a Deployment: how many pods wait, and for what."""

from __future__ import annotations

from typing import Any

from headgate.runtime.inspection.deployments import describe_deployment

Wire = dict[str, Any]


def a_deployment(replicas: int = 2, conditions: list[Wire] | None = None, **spec: Any) -> Wire:
    metadata = {"namespace": "ns", "name": "web", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"replicas": replicas, **spec}, "status": {"conditions": conditions or []}}


def a_pod(name: str, node: str = "", ready: bool = False, gate: str = "", message: str = "") -> Wire:
    conditions: list[Wire] = [{"type": "Ready", "status": "True"}] if ready else []
    if message:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message})
    spec = {**({"nodeName": node} if node else {}), "schedulingGates": [{"name": gate}] if gate else []}
    return {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": {"conditions": conditions}}


def test_pods_that_wait_for_the_same_are_one_group() -> None:
    pods = [a_pod("a", "n", ready=True), a_pod("b", gate="x"), a_pod("c", gate="x"), a_pod("d", message="no nodes")]
    found = describe_deployment(a_deployment(4), pods)
    assert found.summary == "3 of its 4 pods have no node; 1 of 4 wanted pods are ready"
    assert [(each.pods, each.gates, each.message) for each in found.waiting] == [
        (("b", "c"), ("x",), ""),
        (("d",), (), "no nodes"),
    ]


def test_a_deployment_that_runs_or_wants_nothing_is_not_held() -> None:
    assert describe_deployment(a_deployment(1), [a_pod("a", "n", ready=True)]).summary == (
        "all 1 pods are ready: nothing holds it"
    )
    assert describe_deployment(a_deployment(0), []).summary == "it wants no pods: spec.replicas is 0"
    starting = describe_deployment(a_deployment(1), [a_pod("a", "n")])
    assert starting.summary == "all its pods have nodes; 0 of 1 are ready"


def test_pods_that_cannot_be_created_are_a_fact() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    found = describe_deployment(a_deployment(2, [failure], paused=True), [])
    assert found.summary == "it has 0 pods and wants 2; 0 are ready"
    assert [each.partition(":")[0] for each in found.facts] == [
        "it is paused (spec.paused)",
        "pods cannot be created (FailedCreate)",
    ]
