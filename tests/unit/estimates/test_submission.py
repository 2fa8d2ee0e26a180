"""Objects before they are submitted: defaults, validation, what admission changes or refuses, and bad documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headgate import schemas
from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME
from headgate.estimates.server_admission import ServerAdmission
from headgate.estimates.submission import (
    SubmissionError,
    SubmittedObject,
    SubmittedObjects,
    pods_of_template,
    priorities_of,
    with_priority,
)
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES, SERVICE_ACCOUNTS, APIResource
from headgate.kube.schema import Schemas

NOW_S = 1_700_000_000.0
SPEC = {"schedulerName": "headgate", "containers": [{"name": "main", "image": "job"}]}
TABLES = Schemas.load(schemas.read())


DEFAULT_NAMESPACE: dict[str, Any] = {"metadata": {"name": "default"}}
PRESENT: dict[APIResource, list[dict[str, Any]]] = {
    NAMESPACES: [DEFAULT_NAMESPACE],
    SERVICE_ACCOUNTS: [],
    RUNTIME_CLASSES: [],
    LIMIT_RANGES: [],
    POD_PRIORITY_CLASSES: [],
}


def read(
    *documents: Any, suspends_jobs: bool = True, present: Mapping[APIResource, Sequence[dict[str, Any]]] = PRESENT
) -> list[SubmittedObject]:
    reader = a_reader(suspends_jobs=suspends_jobs, present=present)
    return [reader.read(each, f"document {number}") for number, each in enumerate(documents, 1)]


def a_reader(
    *, suspends_jobs: bool = True, present: Mapping[APIResource, Sequence[dict[str, Any]]] = PRESENT
) -> SubmittedObjects:
    cache = AdmissionCache()
    cache.applied(NAMESPACES, {"metadata": {"name": "default", "labels": {}}})
    settings = AdmissionSettings(frozenset({"headgate"}), suspends_jobs=suspends_jobs)
    return SubmittedObjects(TABLES, settings, cache, ServerAdmission(present), BUILTIN_KINDS, "default", NOW_S)


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


def test_pods_of_an_owner_are_in_line_in_the_order_of_their_numbers() -> None:
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n", "uid": "u"}}
    owner["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    names = [each["metadata"]["name"] for each in pods_of_template(owner, {"spec": SPEC}, 101, {})]
    assert names == sorted(names), "queues sort pods of one age by name"
    assert len(set(names)) == 101


@pytest.mark.parametrize(
    ("metadata", "spec", "problem"),
    [
        ({"namespace": "nowhere"}, {}, 'namespaces "nowhere" not found'),
        ({}, {"serviceAccountName": "nope"}, 'serviceaccount "nope" not found'),
        ({}, {"runtimeClassName": "nope"}, 'RuntimeClass "nope" not found'),
        ({}, {"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        ({}, {"priority": 7}, "the integer value of priority (7)"),
    ],
)
def test_a_pod_is_refused_by_the_plugins_of_the_api_server(
    metadata: dict[str, Any], spec: dict[str, Any], problem: str
) -> None:
    (found,) = read(a_pod({**SPEC, **spec}, **metadata))
    assert problem in found.refusal


def test_what_the_plugins_need_may_be_in_the_file() -> None:
    found = read(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own", "namespace": "new"}},
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "fast"},
            "handler": "fast",
            "overhead": {"podFixed": {"cpu": "1"}},
        },
        a_pod({**SPEC, "serviceAccountName": "own", "runtimeClassName": "fast"}, namespace="new"),
    )
    assert [each.refusal for each in found] == [""] * 4
    assert found[3].obj["spec"]["overhead"] == {"cpu": "1"}


def test_a_limit_range_sets_requests_and_refuses() -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}, "max": {"cpu": "2"}}]},
    }
    large = {**SPEC, "containers": [{"name": "main", "image": "job", "resources": {"limits": {"cpu": "3"}}}]}
    _, small, refused = read(limits, a_pod(), a_pod(large, name="large"))
    assert small.obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert any("LimitRanger plugin set: cpu request" in each for each in small.changes), small.changes
    assert "maximum cpu usage per Container is 2, but limit is 3" in refused.refusal


def test_a_plugin_whose_objects_could_not_be_listed_refuses_nothing() -> None:
    listed = {resource: held for resource, held in PRESENT.items() if resource != SERVICE_ACCOUNTS}
    (found,) = read(a_pod({**SPEC, "serviceAccountName": "unknown"}), present=listed)
    assert found.refusal == ""


def test_a_name_is_taken_by_an_earlier_object_that_is_not_refused() -> None:
    first, second = read(a_pod(), a_pod())
    assert (first.refusal, "it exists already" in second.refusal) == ("", True)
    invalid, valid = read(a_pod({"containers": []}), a_pod())
    assert (bool(invalid.refusal), valid.refusal) == (True, "")
    generated = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": SPEC}
    assert [each.refusal for each in read(generated, generated)] == ["", ""]


def test_a_version_that_is_not_served_is_refused() -> None:
    (found,) = read({"apiVersion": "batch/v1beta1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}})
    assert "does not serve batch/v1beta1, kind Job; use batch/v1" in found.refusal


def test_a_cron_job_makes_a_job_in_its_queue() -> None:
    template = {"spec": {**SPEC, "restartPolicy": "Never"}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    cron_job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "0 1 * * *",
            "jobTemplate": {"metadata": {"labels": labels}, "spec": {"template": template}},
        },
    }
    reader = a_reader()
    found = reader.read(cron_job, "document 1")
    assert (found.role, found.refusal) == ("cron", "")
    job = reader.job_of(found)
    assert job is not None
    assert (job.role, job.refusal, job.obj["spec"]["suspend"]) == ("job", "", True)
    assert (
        reader.job_of(
            reader.read(
                {**cron_job, "metadata": {"name": "off"}, "spec": {**cron_job["spec"], "suspend": True}}, "document 2"
            )
        )
        is None
    )


def test_objects_that_are_not_looked_at_have_a_note() -> None:
    volcano, other, unknown = read(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
        {"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "y", "labels": {"kueue.x-k8s.io/queue-name": "q"}}},
    )
    assert "does not support jobs of batch.volcano.sh" in volcano.note
    assert "not known to have a part in queueing" in other.note
    assert "names LocalQueue q" in unknown.note
