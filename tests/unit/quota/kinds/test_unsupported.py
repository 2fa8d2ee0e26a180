"""Unsupported features are rejected by the name of the field."""

from __future__ import annotations

from typing import Any

import pytest

from unit.quota.kinds.manifests import a_cluster_queue, a_pod_set, a_workload, an_object, problems, reserved

Object = dict[str, Any]

TOPOLOGY = {"required": "rack"}
ASKED = [
    (an_object("ResourceFlavor", {"nodeLabels": {"a": "b"}, "topologyName": "t"}), "spec.topologyName"),
    (
        a_cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}),
        "spec.concurrentAdmissionPolicy",
    ),
    (an_object("AdmissionCheck", {"controllerName": "kueue.x-k8s.io/multikueue"}), "spec.controllerName"),
    (an_object("AdmissionCheck", {"controllerName": "kueue.x-k8s.io/provisioning-request"}), "spec.controllerName"),
    (a_workload(a_pod_set(topologyRequest=TOPOLOGY)), "spec.podSets[0].topologyRequest"),
    (a_workload(preemptionGates=[{"name": "g"}]), "spec.preemptionGates"),
    (
        a_workload(annotations={"kueue.x-k8s.io/elastic-job": "true"}),
        "metadata.annotations[kueue.x-k8s.io/elastic-job]",
    ),
    (
        a_workload(annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "default/a"}),
        "metadata.annotations[kueue.x-k8s.io/workload-slice-replacement-for]",
    ),
    (a_workload(status={"clusterName": "far"}), "status.clusterName"),
    (a_workload(status={"nominatedClusterNames": ["far"]}), "status.nominatedClusterNames"),
]


@pytest.mark.parametrize(("obj", "field"), ASKED, ids=[field for _, field in ASKED])
def test_an_unsupported_field_is_rejected_by_name(obj: Object, field: str) -> None:
    (problem,) = problems(obj)
    assert problem.startswith(f"{field}: Forbidden: ")
    assert "not supported" in problem


@pytest.mark.parametrize(("obj", "field"), ASKED, ids=[field for _, field in ASKED])
def test_an_object_with_an_unsupported_field_can_lose_its_finalizers(obj: Object, field: str) -> None:
    assert problems({**obj, "metadata": {**obj["metadata"], "finalizers": []}}, obj) == []


def test_an_assigned_topology_is_rejected() -> None:
    status = reserved()
    status["admission"]["podSetAssignments"][0]["topologyAssignment"] = {"levels": ["rack"], "slices": []}
    assert problems(a_workload(status=status)) == [
        "status.admission.podSetAssignments[0].topologyAssignment: Forbidden: topology-aware scheduling is not"
        " supported"
    ]


def test_a_workload_with_elastic_job_false_is_accepted() -> None:
    assert problems(a_workload(annotations={"kueue.x-k8s.io/elastic-job": "false"})) == []
