"""Admission of kueue.x-k8s.io objects. The rules have their own tests; these test the handler and its table."""

from __future__ import annotations

from headgate.admission.admission_review import ALLOWED, AdmissionRequest
from headgate.admission.quota_kinds import validate
from headgate.admission.steps import STEPS, enabled_steps
from headgate.quota.kinds.definitions import definitions
from unit.admission.fake_cluster_view import SETTINGS, FakeClusterView
from unit.quota.kinds.manifests import a_cluster_queue, a_group, a_quota, a_workload, an_object, reserved


def test_a_valid_object_is_allowed_without_a_warning() -> None:
    queue = a_cluster_queue(a_group(("f", [a_quota()])))
    assert validate(AdmissionRequest("CREATE", "clusterqueues", obj=queue), SETTINGS, FakeClusterView()) == ALLOWED


def test_all_problems_are_in_one_response() -> None:
    queue = a_cluster_queue(a_group(("f", [a_quota(nominal="-1", lendingLimit="-2")])))
    refusal = validate(AdmissionRequest("CREATE", "clusterqueues", obj=queue), SETTINGS, FakeClusterView()).refusal
    assert refusal.startswith("[spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value")
    assert "must be nil when cohort is empty" in refusal


def test_an_update_is_compared_with_the_old_object() -> None:
    old, new = (an_object("LocalQueue", {"clusterQueue": name}) for name in "ab")
    answer = validate(
        AdmissionRequest("UPDATE", "localqueues", "default", "a", obj=new, old=old), SETTINGS, FakeClusterView()
    )
    assert (answer.refusal, answer.code) == ('spec.clusterQueue: Invalid value: "b": field is immutable', 403)


def test_a_status_is_validated_too() -> None:
    new = a_workload(status={**reserved(), "admission": None})
    asked = AdmissionRequest("UPDATE", "workloads", "default", "a", "status", obj=new, old=a_workload())
    assert "status.admission: Required value" in validate(asked, SETTINGS, FakeClusterView()).refusal


def test_a_field_without_effect_gets_a_warning() -> None:
    queue = a_cluster_queue(admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    answer = validate(AdmissionRequest("CREATE", "clusterqueues", obj=queue), SETTINGS, FakeClusterView())
    assert (answer.refusal, len(answer.warnings)) == ("", 1)


def test_every_validated_kind_is_matched_in_the_stored_version() -> None:
    steps = [step for step in STEPS if step.handle is validate]
    asked = {f"{step.resource.plural}.{step.resource.group}" for step in steps}
    there = {each["metadata"]["name"] for each in definitions(with_older=True)}
    assert there - asked == {"workloadpriorityclasses.kueue.x-k8s.io"}  # any value will do
    assert {step.resource.version for step in steps} == {"v1beta2"}
    assert set(steps) <= set(enabled_steps(SETTINGS))
