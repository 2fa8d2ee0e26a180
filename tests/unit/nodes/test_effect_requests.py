"""Effects of hollow kubelets as requests."""

from __future__ import annotations

import msgspec
import pytest

from headgate.nodes import effects
from headgate.nodes.effect_requests import create_lease, request_for


@pytest.mark.parametrize(
    ("effect", "method", "path", "body"),
    [
        (effects.CreateNode({"kind": "Node"}), "POST", "/api/v1/nodes", {"kind": "Node"}),
        (
            effects.PatchNodeStatus("n", "u", {"x": 1}),
            "PATCH",
            "/api/v1/nodes/n/status",
            {"metadata": {"uid": "u"}, "status": {"x": 1}},
        ),
        (
            effects.PatchNodeTaints("n", "u", [{"key": "k"}]),
            "PATCH",
            "/api/v1/nodes/n",
            {"metadata": {"uid": "u"}, "spec": {"taints": [{"key": "k"}]}},
        ),
        (effects.DeleteNode("n", "u"), "DELETE", "/api/v1/nodes/n", {"preconditions": {"uid": "u"}}),
        (
            effects.DeletePod("ns", "p", "u"),
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
        ),
    ],
)
def test_a_hollow_kubelet_writes_under_its_own_name(
    effect: effects.Effect, method: str, path: str, body: object
) -> None:
    request = request_for(effect)
    assert (request.method, request.path, msgspec.json.decode(request.body)) == (method, path, body)
    assert request.headers["user-agent"] == "headgate-nodes"


def test_a_lease_is_renewed_by_a_patch_and_created_with_the_same_body() -> None:
    renewal = effects.RenewLease("n", "u", 0.0, 40)
    renewed, created = request_for(renewal), create_lease(renewal)
    assert (renewed.method, created.method) == ("PATCH", "POST")
    assert renewed.path == f"{created.path}/n"
    assert renewed.body == created.body
    assert created.headers["user-agent"] == "headgate-nodes"
