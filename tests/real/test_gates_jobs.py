"""Gates and other scheduling directives in the template of a job: they may change while it is suspended and new."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import DEPLOYMENTS, JOBS, deployment, job
from harness.request_cases import Case, Step, case, cases_of, get, patch, post
from harness.server_pair import ServerPair
from real.gate_cases import BOTH_PARTS, NEAR, gates

pytestmark = pytest.mark.real

J = f"{JOBS}/j"


def job_change(sentence: str, before: dict[str, Any], change: Any, *between: Step) -> Case:
    return case(
        sentence, post(JOBS, before).named("made"), *between, patch(J, {"spec": {"template": {"spec": change}}}), get(J)
    )


NEW_GATES = {"schedulingGates": gates("one", "two")}
STARTED = patch(f"{J}/status", {"status": {"startTime": "2020-01-01T00:00:00Z", "active": 1}})
JOB_RULES = [
    job_change("the gates of a running job's template may not change", job("j"), NEW_GATES),
    job_change("the gates of a suspended job's template may change", job("j", suspend=True), NEW_GATES),
    job_change(
        "the gates of a suspended job's template may go",
        job("j", {"schedulingGates": gates("x")}, suspend=True),
        {"schedulingGates": None},
    ),
    job_change("the gates of a job that has started may not change", job("j", suspend=True), NEW_GATES, STARTED),
    job_change(
        "the gates may change while the job resumes",
        job("j", suspend=True),
        NEW_GATES,
        patch(J, {"spec": {"suspend": True}}),
    ),
    case(
        "the gates may change in the update that resumes the job",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"suspend": False, "template": {"spec": NEW_GATES}}}),
        get(J),
    ),
    job_change(
        "the selector of a suspended job's template may change", job("j", suspend=True), {"nodeSelector": {"a": "b"}}
    ),
    job_change("the selector of a running job's template may not change", job("j"), {"nodeSelector": {"a": "b"}}),
    job_change("the affinity of a suspended job's template may change", job("j", suspend=True), BOTH_PARTS),
    job_change(
        "the pod affinity of a suspended job's template may not change", job("j", suspend=True), {"affinity": NEAR}
    ),
    job_change(
        "the tolerations of a suspended job's template may change",
        job("j", suspend=True),
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    ),
    job_change(
        "the image of a suspended job's template may not change",
        job("j", suspend=True),
        {"containers": [{"name": "main", "image": "new"}]},
    ),
    case(
        "the labels of a suspended job's template may change",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"template": {"metadata": {"labels": {"new": "x"}, "annotations": {"a": "b"}}}}}),
        get(J),
    ),
    case(
        "a bad gate in a suspended job's template is refused",
        post(JOBS, job("j", suspend=True)),
        patch(J, {"spec": {"template": {"spec": {"schedulingGates": gates("", "x")}}}}),
    ),
    case(
        "the gates of a cron job's template may change",
        post(
            "/apis/batch/v1/namespaces/{ns}/cronjobs",
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "c"},
                "spec": {"schedule": "@daily", "jobTemplate": {"spec": job("x")["spec"]}},
            },
        ),
        patch(
            "/apis/batch/v1/namespaces/{ns}/cronjobs/c",
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": NEW_GATES}}}}},
        ),
    ),
    case(
        "the gates of a deployment's template may change",
        post(DEPLOYMENTS, deployment("d")),
        patch(f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": NEW_GATES}}}),
        patch(
            f"{DEPLOYMENTS}/d",
            {"spec": {"template": {"spec": {"schedulingGates": [{"$patch": "delete", "name": "one"}]}}}},
            "strategic",
        ),
    ),
]
CASES = cases_of(JOB_RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_gate_keeps_its_rules(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
