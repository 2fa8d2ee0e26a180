"""Objects of unsupported kinds get one Event."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.unsupported_kinds import UnsupportedKindsController
from unit.controllers.world import World

TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}


def a_template() -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/api/v1/namespaces/a/replicationcontrollers",
            {"spec": {"replicas": 2, "selector": {"app": "a"}, "template": a_template()}},
            "use a ReplicaSet or a Deployment",
        ),
        (
            "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers",
            {
                "spec": {
                    "maxReplicas": 3,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                }
            },
            "change the replicas with kubectl scale",
        ),
    ],
)
def test_an_object_of_an_unsupported_kind_gets_one_event_with_an_alternative(path: str, body: Any, says: str) -> None:
    world = World(UnsupportedKindsController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    assert world.server.post(path, {"metadata": {"name": "x"}, **body}).status == 201
    world.settle()
    world.server.patch(f"{path}/x", {"metadata": {"labels": {"changed": "yes"}}})
    world.settle()
    (told,) = world.emitted
    assert (told.type, told.reason, told.about["name"]) == ("Warning", "NotSupported", "x")
    assert says in told.message
