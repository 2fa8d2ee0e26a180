"""Every pod tolerates an outage of its node for five minutes; results as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod

PODS = "/api/v1/namespaces/t/pods"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def outage(key: str, seconds: int = 300) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([outage(NOT_READY, 5)], [UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists"}], [UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Equal", "value": "x", "effect": "NoExecute"}], [NOT_READY]),
        ([{"key": "a", "operator": "Exists"}], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY}, {"key": UNREACHABLE}], []),
    ],
)
def test_a_pod_gets_the_tolerations_that_it_does_not_have(own: list[Any], added: list[str]) -> None:
    made = Embedded().post(PODS, a_pod(tolerations=own))
    assert made.status == 201
    assert made.body["spec"]["tolerations"] == [*own, *(outage(key) for key in added)]


def test_an_update_that_drops_the_added_tolerations_gets_them_again() -> None:
    server = Embedded()
    pod = server.post(PODS, a_pod()).body
    del pod["spec"]["tolerations"]
    updated = server.put(f"{PODS}/a", pod)
    assert updated.status == 200
    assert updated.body["spec"]["tolerations"] == [outage(NOT_READY), outage(UNREACHABLE)]
