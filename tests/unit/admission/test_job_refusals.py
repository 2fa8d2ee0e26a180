"""What a job in a queue must not contain: an update may keep what the job contains already, and add nothing."""

from __future__ import annotations

import pytest

from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.jobs import validate
from headgate.admission.settings import AdmissionSettings
from kueue_builders import Wire
from unit.admission.fake_cluster_view import FakeClusterView
from unit.jobs.operators import an_object, kind_of, settings


def a_cluster(queue: str, *, scales: bool) -> Wire:
    body = an_object("a", "RayCluster", queue=queue)
    body["spec"]["enableInTreeAutoscaling"] = scales
    return body


def is_rejected(old: Wire | None, new: Wire, *, manages_all: bool) -> bool:
    jobs = settings("RayCluster", manages_all=manages_all)
    rules = AdmissionSettings(frozenset(), suspends_jobs=True, jobs=jobs)
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(operation, "rayclusters", "ns", "a", obj=new, old=old or {})
    found = validate(kind_of("RayCluster"), request, rules, FakeClusterView())
    return "only as an elastic job" in found.refusal


@pytest.mark.parametrize("manages_all", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "rejected"),
    [
        (None, a_cluster("lq", scales=True), True),
        (None, a_cluster("lq", scales=False), False),
        (a_cluster("lq", scales=True), a_cluster("lq", scales=True), False),
        (a_cluster("lq", scales=False), a_cluster("lq", scales=True), True),
    ],
)
def test_a_write_is_rejected_for_what_it_adds(manages_all: bool, old: Wire | None, new: Wire, rejected: bool) -> None:
    assert is_rejected(old, new, manages_all=manages_all) is rejected


def test_an_object_without_a_queue_is_rejected_only_if_all_objects_wait() -> None:
    body = a_cluster("", scales=True)
    assert not is_rejected(None, body, manages_all=False)
    assert is_rejected(None, body, manages_all=True)
    assert not is_rejected(body, body, manages_all=True)
