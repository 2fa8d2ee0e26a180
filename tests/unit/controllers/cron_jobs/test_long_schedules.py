"""A schedule is bounded: a longer one is refused, and one that is already stored starts no Job."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.validation.workloads.cron_job import validate_cron_job_create, validate_cron_job_update
from headgate.controllers.cron_jobs.controller import CronJobController
from headgate.controllers.framework.effects import EmitEvent
from headgate.controllers.framework.reconcile import Done
from headgate.kube import cron
from headgate.kube.api_resources import CRON_JOBS
from headgate.kube.cron import MAX_SCHEDULE_CHARACTERS
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.time_zones import find_zone

LONG = "0," * 600_000 + "0 0 1 1 *"


def cron_job(schedule: str, **metadata: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "containers": [{"name": "c", "image": "i"}]}
    job = {"template": {"metadata": {}, "spec": pod}, "completionMode": "NonIndexed"}
    spec = {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": {"spec": job}}
    return {"metadata": {"name": "c", "namespace": "a", "uid": "u", **metadata}, "spec": spec}


def problems(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    errors = (
        validate_cron_job_create(obj, FeatureGates(), None)
        if old is None
        else validate_cron_job_update(obj, old, FeatureGates(), None)
    )
    return [each.body for each in errors if each.path == "spec.schedule"]


def test_a_long_schedule_is_refused() -> None:
    longest = "," * (MAX_SCHEDULE_CHARACTERS - 9) + "0 0 1 1 *"
    assert problems(cron_job(longest)) == []
    for given in (f",{longest}", LONG):
        assert problems(cron_job(given)) == ["Too long: may not be more than 4096 bytes"]
        assert problems(cron_job(given), cron_job(longest)) == ["Too long: may not be more than 4096 bytes"]


def test_an_object_that_has_a_long_schedule_already_can_be_changed() -> None:
    assert problems(cron_job(LONG, finalizers=[]), cron_job(LONG, finalizers=["a/b"])) == []


def test_the_controller_does_not_parse_a_long_schedule_that_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(cron, "_field", lambda text, bounds: parsed.append(text))
    controller = CronJobController(find_zone)
    stored = cron_job(LONG, creationTimestamp="2023-11-14T22:13:20Z", resourceVersion="1")
    list(controller.applied(CRON_JOBS, stored, 0.0))
    steps = controller.reconcile(("a", "c"), 1_700_000_000.0)
    event = next(steps)
    assert isinstance(event, EmitEvent)
    assert (event.type, event.reason) == ("Warning", "UnparseableSchedule")
    assert event.message.endswith(" : a schedule has at most 4096 characters, found 1200009")
    assert len(event.message) < 2 * MAX_SCHEDULE_CHARACTERS
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == Done()
    assert parsed == []
