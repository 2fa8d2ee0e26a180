"""Statuses of containers that an update of the status changes."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.validation.pod.status import validate_pod_status_update
from headgate.kube.feature_gates import DEFAULTS
from unit.apimachinery.validation.pod.pods import make_pod


def with_statuses(state: dict[str, Any]) -> dict[str, Any]:
    status = {"name": "e", "image": "i", "imageID": "", "state": state}
    return {**make_pod(metadata={"resourceVersion": "1"}), "status": {"ephemeralContainerStatuses": [status] * 200}}


def test_many_statuses_of_one_container_give_a_bounded_number_of_errors() -> None:
    before, after = with_statuses({"terminated": {"exitCode": 1}}), with_statuses({"running": {}})
    errors = validate_pod_status_update(after, before, DEFAULTS)
    assert len(errors) == 10_000
    assert "may not be transitioned to non-terminated state" in str(errors[0])
