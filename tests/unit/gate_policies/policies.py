"""GatePolicies and pods for tests."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

GATE = "example.com/ready"
OTHER_GATE = "example.com/other"
T0 = "2023-11-14T22:13:20Z"
"""The time at which the embedded server of tests starts."""


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "name": name}


def account(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def a_policy(name: str = "p", *gates: str, created: str = T0, uid: str = "", **spec: Any) -> Object:
    return {
        "apiVersion": "headgate.dev/v1alpha1",
        "kind": "GatePolicy",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "creationTimestamp": created, "generation": 1},
        "spec": {"gates": list(gates or (GATE,)), **spec},
    }


def a_gated_pod(name: str, *gates: str, namespace: str = "t", created: str = T0, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"schedulingGates": [{"name": each} for each in gates or (GATE,)], **spec},
    }
