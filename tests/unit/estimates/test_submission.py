"""Objects before they are submitted: defaults, validation, what admission changes or refuses, and bad documents."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import schemas
from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME
from headgate.estimates.submission import (
    SubmissionError,
    SubmittedObject,
    SubmittedObjects,
    missing_class,
    pods_of_template,
    priorities_of,
    with_priority,
)
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.kube.api_resources import NAMESPACES
from headgate.kube.schema import Schemas

NOW_S = 1_700_000_000.0
SPEC = {"schedulerName": "headgate", "containers": [{"name": "main", "image": "job"}]}
TABLES = Schemas.load(schemas.read())


def read(*documents: Any, suspends_jobs: bool = True) -> list[SubmittedObject]:
    cache = AdmissionCache()
    cache.applied(NAMESPACES, {"metadata": {"name": "default", "labels": {}}})
    settings = AdmissionSettings(frozenset({"headgate"}), suspends_jobs=suspends_jobs)
    reader = SubmittedObjects(TABLES, settings, cache, BUILTIN_KINDS, "default", NOW_S)
    return [reader.read(each, f"document {number}") for number, each in enumerate(documents, 1)]


def a_pod(spec: dict[str, Any] = SPEC, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


def test_the_webhooks_gate_is_named_as_a_change() -> None:
    (found,) = read(a_pod(annotations={OPT_IN: "true", QUEUE_NAME: "q"}))
    assert found.obj["spec"]["schedulingGates"] == [{"name": GATE}]
    assert any("schedulingGates" in each and GATE in each for each in found.changes), found.changes
    assert (found.role, found.refusal, found.title) == ("pod", "", "Pod default/p")


def test_a_job_with_a_queue_is_suspended() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "train-", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}},
    }
    (found,) = read(job)
    assert found.obj["spec"]["suspend"] is True
    assert any("spec.suspend = true" in each for each in found.changes)
    assert found.obj["spec"]["parallelism"] == 1, "a default of the API server"
    assert found.obj["metadata"]["name"].startswith("train-")


def test_an_invalid_pod_is_refused_as_the_api_server_refuses_it() -> None:
    (found,) = read(a_pod({"containers": []}))
    assert "spec.containers: Required value" in found.refusal
    (unknown,) = read(a_pod({**SPEC, "nodeNam": "x"}))
    assert 'unknown field "spec.nodeNam"' in unknown.refusal


def test_an_admission_handler_refuses_with_its_own_words() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    (found,) = read({**queue, "spec": {"capability": {"cpu": "-1"}}})
    assert found.refusal
    (fine,) = read({**queue, "spec": {"capability": {"cpu": "1"}}})
    assert (fine.refusal, fine.role) == ("", "cluster")


def test_kinds_without_a_part_in_queueing_are_named_as_such() -> None:
    (found,) = read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert found.role == "other"
    (same_name,) = read({"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "c"}})
    assert same_name.role == "other"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("text", "document 1: it is not an object but str"),
        ({"kind": "Pod"}, "document 1: it has no apiVersion"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "has no metadata.name and no metadata.generateName"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": 1}}},
            "metadata.labels must be texts",
        ),
    ],
)
def test_a_bad_document_is_reported_with_its_place(document: Any, problem: str) -> None:
    with pytest.raises(SubmissionError, match=problem):
        read(document)


def test_pods_get_the_priority_of_their_class_or_of_the_default() -> None:
    classes = [
        {"metadata": {"name": "high"}, "value": 100},
        {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True},
    ]
    priorities = priorities_of(classes)
    assert with_priority(a_pod({"priorityClassName": "high"}), priorities)["spec"]["priority"] == 100
    assert with_priority(a_pod({}), priorities)["spec"]["priority"] == 5
    assert missing_class({"priorityClassName": "none"}, priorities) == "no PriorityClass with name none was found"
    assert not missing_class({"priorityClassName": "high"}, priorities)


def test_an_owner_makes_pods_of_its_template() -> None:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
    }
    made = pods_of_template(owner, {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}, 2, {})
    assert [each["metadata"]["name"] for each in made] == ["j-0", "j-1"]
    assert made[0]["metadata"]["ownerReferences"][0]["name"] == "j"
    assert made[0]["metadata"]["labels"] == {"a": "b"}
