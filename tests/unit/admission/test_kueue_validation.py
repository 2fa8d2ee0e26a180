"""Validation of jobs, pods and owners of pods in Kueue's queues, on the embedded server: every message."""

from __future__ import annotations

import pytest

from embedded import Embedded
from headgate.kube.feature_gates import FeatureGates
from headgate.store import Store
from kueue_admission_cases import CASES, KINDS, DoorCase
from queued_objects import ADMISSION_GATED, SCHEDULING_GATED, collection, queued
from unit.admission.test_kueue_admission import a_server, made

ON = FeatureGates(scheduling_gated_by=True)


@pytest.fixture(scope="module")
def server() -> Embedded:
    return a_server(features=ON)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_rule_is_reported_with_its_message(case: DoorCase, server: Embedded) -> None:
    name = f"case-{CASES.index(case)}"
    answer = server.post(collection(case.kind), {**case.body, "metadata": {**case.body["metadata"], "name": name}})
    for suffix, change in case.changes:
        made(answer)
        answer = server.patch(f"{collection(case.kind)}/{name}{suffix}", change)
    if not case.refusal:
        made(answer)
    else:
        assert answer.status == 403
        assert answer.body["message"].endswith(case.refusal)


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_feature_gates_off_the_annotations_are_not_validated(kind: str) -> None:
    server = a_server(features=FeatureGates(admission_gated_by=False, scheduling_gated_by=False))
    bad = {SCHEDULING_GATED: "not a domain", ADMISSION_GATED: "nor, this"}
    made(server.post(collection(kind), queued(kind, annotations=bad)))
    other = {"metadata": {"annotations": {SCHEDULING_GATED: "x", ADMISSION_GATED: "y"}}}
    made(server.patch(f"{collection(kind)}/a", other))


@pytest.mark.parametrize("kind", KINDS)
def test_existing_problems_do_not_block_another_change(kind: str) -> None:
    store = Store()
    before = a_server(features=FeatureGates(admission_gated_by=False), suspends_jobs=False, store=store)
    bad = queued(kind, queue="Not_A_Name", annotations={SCHEDULING_GATED: "not a domain", ADMISSION_GATED: "nor, this"})
    made(before.post(collection(kind), bad))
    later = a_server(features=ON, store=store)
    made(later.patch(f"{collection(kind)}/a", {"metadata": {"annotations": {"other": "x"}}}))


def test_all_problems_are_reported_at_once(server: Embedded) -> None:
    annotations = {SCHEDULING_GATED: "x", ADMISSION_GATED: "y"}
    refused = server.post(collection("Job"), queued("Job", queue="Q", annotations=annotations))
    told = refused.body["message"]
    assert told.count("Invalid value") == 3


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_with_a_default_queue_the_queue_name_cannot_be_removed(kind: str) -> None:
    server = a_server(default_queue=True)
    made(server.post(collection(kind), queued(kind)))
    refused = server.patch(f"{collection(kind)}/a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
    assert refused.body["message"].endswith(
        'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "":'
        " queue-name must not be empty in namespace with default queue"
    )


def test_a_managed_pod_with_an_owner_gets_a_warning() -> None:
    server = a_server()
    job = made(server.post(collection("Job"), queued("Job", queue="")))
    answer = server.post(collection("Pod"), queued("Pod", owner=job, labels={"kueue.x-k8s.io/managed": "true"}))
    assert "pod owner is managed by kueue" in answer.warnings[0]


def test_a_gate_restored_by_a_rollback_is_removed_with_a_warning(server: Embedded) -> None:
    made(server.post(collection("Deployment"), queued("Deployment", "undone")))
    template = queued("Deployment", "undone", cpu="2")["spec"]["template"]["spec"]
    body = {"metadata": {"annotations": {SCHEDULING_GATED: "example.com/a"}}, "spec": {"template": {"spec": template}}}
    done = server.patch(f"{collection('Deployment')}/undone", body)
    assert SCHEDULING_GATED not in (made(done)["metadata"].get("annotations") or {})
    assert "cannot be added after creation and was left out" in str(done.headers)


def test_an_existing_invalid_gate_in_a_template_does_not_block_another_change() -> None:
    store = Store()
    before = a_server(features=FeatureGates(admission_gated_by=False), suspends_jobs=False, store=store)
    bad = queued("Deployment", template={"annotations": {SCHEDULING_GATED: "not a domain"}})
    made(before.post(collection("Deployment"), bad))
    later = a_server(features=ON, store=store)
    made(later.patch(f"{collection('Deployment')}/a", {"spec": {"replicas": 2}}))
