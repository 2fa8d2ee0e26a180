"""The decisions of examples/controllers/shrink_queued_jobs.py: one step from every state that a Job can show."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).parents[3] / "examples" / "controllers" / "shrink_queued_jobs.py"
_spec = importlib.util.spec_from_file_location("shrink_queued_jobs", _FILE)
assert _spec is not None
assert _spec.loader is not None
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)

Object = dict[str, Any]
CREATED, CREATED_S = "2026-01-01T00:00:00Z", 1767225600.0
OPTIONS = {"example.com/shrink-after": "300", "example.com/shrink-to": '{"cpu": "1"}'}
ACTIVE, INACTIVE = {"spec": {"active": True}}, {"spec": {"active": False}}
RESERVED = {**ACTIVE, "status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}


def a_job(annotations: Object | None = None, suspend: bool = True, labels: Object | None = None) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": "8", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}
    return {
        "metadata": {"annotations": annotations or {}, "creationTimestamp": CREATED, "labels": labels or {}},
        "spec": {"suspend": suspend, "template": {"spec": {"containers": [container]}}},
    }


def step(job: Object, workload: Object | None = None, waited_s: float = 1000.0) -> Any:
    return example.next_step(job, workload, CREATED_S + waited_s)


def test_a_job_that_waits_too_long_is_deactivated_and_not_before() -> None:
    assert step(a_job(OPTIONS), ACTIVE, 100.0) == 200.0
    assert step(a_job(OPTIONS), ACTIVE, 300.0) == {
        "metadata": {
            "annotations": {"example.com/shrinking": "true"},
            "labels": {"kueue.x-k8s.io/deactivate": "true"},
        }
    }


def test_an_inactive_job_gets_its_requests_and_waits_again_in_one_patch() -> None:
    made = step(a_job({**OPTIONS, "example.com/shrinking": "true"}), INACTIVE)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/activate": "true"}
    assert made["metadata"]["annotations"] == {"example.com/shrinking": None, "example.com/shrunk": "true"}


@pytest.mark.parametrize(
    ("job", "workload"),
    [
        (a_job(), ACTIVE),
        (a_job({**OPTIONS, "example.com/shrink-after": "soon"}), ACTIVE),
        (a_job({**OPTIONS, "example.com/shrink-to": "[1]"}), ACTIVE),
        (a_job(OPTIONS), None),
        (a_job(OPTIONS), RESERVED),
        (a_job({**OPTIONS, "example.com/shrunk": "true"}), ACTIVE),
        (a_job({**OPTIONS, "example.com/shrinking": "true"}), ACTIVE),
        (a_job({**OPTIONS, "example.com/shrinking": "true"}, labels={"kueue.x-k8s.io/deactivate": "true"}), INACTIVE),
        (a_job(OPTIONS, suspend=False), RESERVED),
    ],
)
def test_a_job_that_did_not_ask_or_is_being_processed_or_has_quota_is_left_alone(
    job: Object, workload: Object | None
) -> None:
    assert step(job, workload) is None


def test_a_job_that_was_admitted_first_keeps_its_requests_and_loses_the_note() -> None:
    running = a_job({**OPTIONS, "example.com/shrinking": "true"}, suspend=False)
    assert step(running, RESERVED) == {"metadata": {"annotations": {"example.com/shrinking": None}}}
