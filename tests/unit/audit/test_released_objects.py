"""Jobs and pods that an uninstallation released may run without an admission; others are findings."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.audit.quota_judge import QuotaJudge
from headgate.jobs.names import ADMISSION_GATE, POD_GROUP_NAME, QUEUE_NAME, RELEASED


def _metadata(mark: str) -> dict[str, Any]:
    annotations = {RELEASED: mark} if mark else {}
    return {"name": "a", "namespace": "ns", "uid": "u", "labels": {QUEUE_NAME: "lq"}, "annotations": annotations}


@pytest.mark.parametrize(
    ("mark", "rules"), [("u", []), ("", ["runs-without-admission"]), ("other", ["runs-without-admission"])]
)
def test_a_job_that_runs_without_an_admission(mark: str, rules: list[str]) -> None:
    judge = QuotaJudge()
    judge.take("jobs", "MODIFIED", {"metadata": _metadata(mark), "spec": {"suspend": False}})
    assert [each.rule for each in judge.findings] == rules


@pytest.mark.parametrize(("mark", "rules"), [("u", []), ("", ["gate-lifted-before-admission"])])
def test_a_pod_whose_gate_is_removed_without_an_admission(mark: str, rules: list[str]) -> None:
    judge = QuotaJudge()
    gates = {"schedulingGates": [{"name": ADMISSION_GATE}]}
    judge.take("pods", "ADDED", {"metadata": _metadata(""), "spec": gates})
    judge.take("pods", "MODIFIED", {"metadata": _metadata(mark), "spec": {}})
    assert [each.rule for each in judge.findings] == rules


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_the_workload_of_a_pod_is_that_of_its_group(field: str) -> None:
    judge = QuotaJudge()
    judge.take("workloads", "ADDED", _an_admitted_workload("g"))
    metadata = _metadata("")
    metadata[field] = {**metadata[field], POD_GROUP_NAME: "g"}
    judge.take("pods", "ADDED", {"metadata": metadata, "spec": {"schedulingGates": [{"name": ADMISSION_GATE}]}})
    judge.take("pods", "MODIFIED", {"metadata": metadata, "spec": {}})
    assert judge.findings == []


def _an_admitted_workload(name: str) -> dict[str, Any]:
    admitted = [{"type": each, "status": "True"} for each in ("QuotaReserved", "Admitted")]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": "w"},
        "spec": {"podSets": [], "queueName": "lq"},
        "status": {"admission": {"clusterQueue": "cq", "podSetAssignments": []}, "conditions": admitted},
    }
