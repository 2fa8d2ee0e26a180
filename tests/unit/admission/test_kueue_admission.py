"""Admission of jobs, pods and owners of pods for Kueue's queues, on the embedded server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from embedded import Embedded, Reply
from headgate.admission.settings import AdmissionSettings
from headgate.cli.embedded.admission import own_admission
from headgate.jobs.settings import FRAMEWORKS, MANAGED_NAMESPACES, JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.labels import Selector, parse_selector
from headgate.quota.kinds.definitions import definitions
from headgate.store import Store
from queued_objects import (
    GATE,
    GROUP,
    GROUP_NAME,
    MANAGED,
    PARENT,
    PRIORITY,
    QUEUE,
    ROLE,
    TOTAL,
    Wire,
    collection,
    gates,
    queued,
)
from unit.jobs import training

OWNERS = ("Deployment", "ReplicaSet", "StatefulSet")
DEFAULT: Wire = {
    "apiVersion": f"{GROUP}/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "default"},
    "spec": {"clusterQueue": "cq"},
}


def a_server(settings: JobSettings | None = None, *, default_queue: bool = False, **changed: Any) -> Embedded:
    store = changed.pop("store", None) or Store()
    features = changed.pop("features", FeatureGates())
    rules = AdmissionSettings(frozenset(), suspends_jobs=True, features=features, jobs=settings or JobSettings())
    rules = msgspec.structs.replace(rules, **changed)
    server = Embedded(namespace="ns", store=store, features=features, guests=own_admission(rules, store))
    for each in definitions(with_older=False):  # in a store that was used before they are there
        server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
    if default_queue:
        made(server.post(f"/apis/{GROUP}/v1beta2/namespaces/ns/localqueues", DEFAULT))
    return server


def made(reply: Reply) -> Wire:
    assert reply.status in (200, 201), reply.body
    found: Wire = reply.body
    return found


def create(server: Embedded, kind: str, *args: Any, **more: Any) -> Wire:
    return made(server.post(collection(kind), queued(kind, *args, **more)))


def labels_of(obj: Wire) -> Wire:
    found: Wire = obj["metadata"].get("labels") or {}
    return found


def annotations_of(obj: Wire) -> Wire:
    found: Wire = obj["metadata"].get("annotations") or {}
    return found


# -- who waits -----------------------------------------------------------------------------------------------------


def test_a_job_with_a_queue_is_created_suspended() -> None:
    server = a_server()
    assert create(server, "Job")["spec"]["suspend"] is True
    assert create(server, "Job", "b", queue="")["spec"]["suspend"] is False


def test_a_pod_with_a_queue_gets_gate_labels_finalizer_and_role() -> None:
    pod = create(a_server(), "Pod", schedulingGates=[{"name": "example.com/first"}])
    assert gates(pod) == ["example.com/first", GATE]
    assert labels_of(pod) == {QUEUE: "lq", MANAGED: "true"}
    assert pod["metadata"]["finalizers"] == [MANAGED]
    assert len(annotations_of(pod)[ROLE]) == 8


def test_a_pod_without_a_queue_is_not_changed() -> None:
    pod = create(a_server(), "Pod", queue="")
    assert (gates(pod), labels_of(pod), annotations_of(pod)) == ([], {}, {})
    assert "finalizers" not in pod["metadata"]


def test_a_pod_with_a_queue_is_rejected_if_it_cannot_be_gated() -> None:
    features = FeatureGates(pod_scheduling_readiness=False, queue_allocation_gate=False)
    server = a_server(features=features)
    answer = server.post(collection("Pod"), queued("Pod"))
    assert answer.status == 403
    assert "leave PodSchedulingReadiness on" in answer.body["message"]
    assert gates(create(server, "Pod", queue="")) == []


@pytest.mark.parametrize("kind", OWNERS)
def test_owners_of_pods_get_a_marked_template(kind: str) -> None:
    owner = create(a_server(), kind, labels={PRIORITY: "high"})
    template = owner["spec"]["template"]
    assert annotations_of(template) == {PARENT: kind.lower()}
    assert labels_of(template) == {"app": "a", QUEUE: "lq", PRIORITY: "high", MANAGED: "true"}


@pytest.mark.parametrize("kind", OWNERS)
def test_owners_of_pods_without_a_queue_are_not_changed(kind: str) -> None:
    assert labels_of(create(a_server(), kind, queue="")["spec"]["template"]) == {"app": "a"}


@pytest.mark.parametrize("kind", OWNERS)
def test_the_gate_of_an_owner_is_never_copied_to_its_template(kind: str) -> None:
    server = a_server(features=FeatureGates(scheduling_gated_by=True))
    held = {f"{GROUP}/scheduling-gated-by": "example.com/gate", f"{GROUP}/admission-gated-by": "example.com/gate"}
    assert annotations_of(create(server, kind, annotations=held)["spec"]["template"]) == {PARENT: kind.lower()}


def test_a_pod_of_a_suspending_parent_is_gated_without_a_finalizer() -> None:
    pod = create(a_server(), "Pod", annotations={PARENT: "deployment"}, labels={MANAGED: "true"})
    assert gates(pod) == [GATE]
    assert "finalizers" not in pod["metadata"]
    assert set(annotations_of(pod)) == {PARENT, ROLE}


def test_the_pods_of_a_stateful_set_are_one_group_of_its_size() -> None:
    server = a_server()
    owner = create(server, "StatefulSet", replicas=3)
    template = owner["spec"]["template"]["metadata"]
    pod = create(server, "Pod", "a-0", owner=owner, labels=template["labels"], annotations=template["annotations"])
    told = annotations_of(pod)
    assert gates(pod) == [GATE]
    assert told[GROUP_NAME].startswith("statefulset-a-")
    assert told[TOTAL] == "3"
    assert told[f"{GROUP}/pod-group-fast-admission"] == told[f"{GROUP}/pod-group-serving"] == "true"


def test_a_pod_of_an_unknown_stateful_set_is_rejected_until_it_is_known() -> None:
    server = a_server()
    owner = create(server, "StatefulSet")
    stranger = {**owner, "metadata": {**owner["metadata"], "uid": "another"}}
    refused = server.post(collection("Pod"), queued("Pod", "a-0", owner=stranger, annotations={PARENT: "statefulset"}))
    assert refused.status == 403
    assert 'the StatefulSet "a" that it waits for is not known' in refused.body["message"]


def test_a_stateful_set_with_zero_replicas_gives_no_group_size() -> None:
    server = a_server()
    owner = create(server, "StatefulSet", replicas=0)
    refused = server.post(collection("Pod"), queued("Pod", "a-0", owner=owner, annotations={PARENT: "statefulset"}))
    assert 'how many replicas the StatefulSet "a" has is not known yet' in refused.body["message"]


# -- who belongs to somebody that waits ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Job", *OWNERS])
def test_pods_of_a_managed_owner_are_not_managed_themselves(kind: str) -> None:
    server = a_server()
    pod = create(server, "Pod", "p", owner=create(server, kind))
    assert (gates(pod), labels_of(pod)) == ([], {QUEUE: "lq"})


def test_the_pods_of_a_deployment_are_gated_by_their_template_and_not_by_their_ancestors() -> None:
    server = a_server()
    deployment = create(server, "Deployment")
    template = deployment["spec"]["template"]["metadata"]
    body = queued("ReplicaSet", owner=deployment, labels=template["labels"], template=template)
    replicas = made(server.post(collection("ReplicaSet"), body))
    assert replicas["spec"]["template"]["metadata"]["annotations"] == {PARENT: "deployment"}
    pod = create(server, "Pod", owner=replicas, labels=template["labels"], annotations=template["annotations"])
    assert gates(pod) == [GATE]
    assert "finalizers" not in pod["metadata"]


def test_a_queue_in_the_template_of_a_deployment_queues_its_pods_one_by_one() -> None:
    """Its ReplicaSet keeps the template it was given: another one would be made without end."""
    server = a_server()
    template = {"labels": {QUEUE: "lq"}}
    deployment = create(server, "Deployment", queue="", template=template)
    replicas = create(server, "ReplicaSet", owner=deployment, template=template)
    assert replicas["spec"]["template"]["metadata"] == deployment["spec"]["template"]["metadata"]
    pod = create(server, "Pod", owner=replicas)
    assert gates(pod) == [GATE]
    assert pod["metadata"]["finalizers"] == [MANAGED]


def test_a_pod_whose_owner_is_deleted_cannot_bypass_quota() -> None:
    server = a_server()
    job = create(server, "Job")
    ghost = {**job, "metadata": {**job["metadata"], "name": "gone"}}
    refused = server.post(collection("Pod"), queued("Pod", owner=ghost))
    assert refused.status == 403
    text = "whether it waits in a queue cannot be said yet: Job ns/gone, which controls it, is not known"
    assert text in refused.body["message"]


def test_a_pod_with_an_owner_of_an_unknown_kind_has_no_managed_ancestor() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Robot", "metadata": {"name": "r", "uid": "1"}}
    assert gates(create(a_server(), "Pod", owner=owner)) == [GATE]


# -- which namespaces, default queues, and everybody ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Job", "Pod", *OWNERS])
def test_nothing_is_queued_in_an_unmanaged_namespace(kind: str) -> None:
    selector = parse_selector("team=blue")
    assert not isinstance(selector, str)
    server = a_server(JobSettings(namespaces=selector))
    body = queued(kind, labels={f"{GROUP}/max-exec-time-seconds": "never"})
    as_it_came = made(server.post(collection(kind), body))
    assert set(labels_of(as_it_came)) == {QUEUE, f"{GROUP}/max-exec-time-seconds"}
    server.patch("/api/v1/namespaces/ns", {"metadata": {"labels": {"team": "blue"}}})
    waiting = create(server, kind, "b")
    assert gates(waiting) == [GATE] if kind == "Pod" else waiting != as_it_came


@pytest.mark.parametrize("kind", ["Pod", *OWNERS])
def test_a_kind_whose_framework_is_not_enabled_is_left_as_it_came(kind: str) -> None:
    framework = {"Pod": "pod", "StatefulSet": "statefulset"}.get(kind, "deployment")
    body = queued(kind)
    others = a_server(JobSettings(frameworks=frozenset(FRAMEWORKS) - {framework}))
    assert set(labels_of(made(others.post(collection(kind), body)))) == {QUEUE}
    assert PARENT not in str(others.get(f"{collection(kind)}/a").body)
    enabled = made(a_server(JobSettings(frameworks=frozenset({framework}))).post(collection(kind), body))
    assert gates(enabled) == [GATE] if kind == "Pod" else PARENT in str(enabled)


@pytest.mark.parametrize("selector", [MANAGED_NAMESPACES, Selector()])
def test_system_namespaces_are_exempt(selector: Selector) -> None:
    server = a_server(JobSettings(manages_all=True, namespaces=selector))
    made(server.post("/api/v1/namespaces", {"metadata": {"name": "kube-system"}}))
    pod = made(server.post(collection("Pod", "kube-system"), queued("Pod")))
    assert gates(pod) == []


@pytest.mark.parametrize("kind", ["Job", "Pod", *OWNERS])
def test_a_default_queue_is_used_for_all_new_objects(kind: str) -> None:
    server = a_server(default_queue=True)
    assert labels_of(create(server, kind, queue=""))[QUEUE] == "default"
    assert labels_of(create(server, kind, "b"))[QUEUE] == "lq"


def test_dependents_of_an_owner_without_a_queue_do_not_get_the_default_queue() -> None:
    server = a_server()
    owner = create(server, "Deployment", queue="")
    made(server.post(f"/apis/{GROUP}/v1beta2/namespaces/ns/localqueues", DEFAULT))
    assert QUEUE not in labels_of(create(server, "ReplicaSet", "a-1", owner=owner, queue=""))


def test_an_update_does_not_add_the_default_queue_to_an_older_object() -> None:
    server = a_server()
    create(server, "Deployment", queue="")
    made(server.post(f"/apis/{GROUP}/v1beta2/namespaces/ns/localqueues", DEFAULT))
    scaled = made(server.patch(f"{collection('Deployment')}/a", {"spec": {"replicas": 2}}))
    assert QUEUE not in labels_of(scaled)
    assert QUEUE not in labels_of(scaled["spec"]["template"])


@pytest.mark.parametrize("kind", ["Job", "Pod", *OWNERS])
def test_with_manage_all_objects_without_a_queue_are_held(kind: str) -> None:
    owner = create(a_server(JobSettings(manages_all=True)), kind, queue="")
    match kind:
        case "Job":
            assert owner["spec"]["suspend"] is True
        case "Pod":
            assert gates(owner) == [GATE]
        case _:
            assert annotations_of(owner["spec"]["template"]) == {PARENT: kind.lower()}
    assert QUEUE not in labels_of(owner)


def test_with_manage_all_a_pod_with_a_node_is_not_changed() -> None:
    server = a_server(JobSettings(manages_all=True))
    assert gates(create(server, "Pod", queue="", nodeName="n")) == []
    assert server.post(collection("Pod"), queued("Pod", "b", nodeName="n")).status == 422


def test_a_queue_that_is_added_later_marks_the_template() -> None:
    server = a_server()
    create(server, "Deployment", queue="")
    sent = made(server.patch(f"{collection('Deployment')}/a", {"metadata": {"labels": {QUEUE: "lq"}}}))
    assert labels_of(sent["spec"]["template"])[QUEUE] == "lq"
    moved = made(server.patch(f"{collection('Deployment')}/a", {"metadata": {"labels": {QUEUE: "other"}}}))
    assert labels_of(moved["spec"]["template"])[QUEUE] == "other"


@pytest.mark.parametrize("kind", ["Job", "Pod", *OWNERS])
def test_without_the_jobs_integration_nothing_is_changed(kind: str) -> None:
    server = a_server(suspends_jobs=False)
    bad = queued(kind, annotations={f"{GROUP}/admission-gated-by": "not a domain"})
    came_in = made(server.post(collection(kind), bad))
    assert set(labels_of(came_in)) == {QUEUE}


def test_a_dry_run_shows_the_changes_and_reinvocation_adds_none() -> None:
    server = a_server()
    shown = made(server.post(collection("Pod"), queued("Pod"), dryRun="All"))
    assert gates(shown) == [GATE]
    again = {key: shown[key] for key in ("apiVersion", "kind", "spec")}
    kept = {key: shown["metadata"][key] for key in ("name", "labels", "annotations", "finalizers")}
    pod = made(server.post(collection("Pod"), {**again, "metadata": kept}))
    assert gates(pod) == [GATE]
    assert pod["metadata"]["finalizers"] == [MANAGED]


# -- kinds that a file describes -----------------------------------------------------------------------------------


def a_training_server(**more: Any) -> Embedded:
    server = a_server(training.settings(), **more)
    made(server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", training.DEFINITION))
    return server


def test_a_job_of_a_custom_kind_is_created_suspended() -> None:
    server, path = a_training_server(default_queue=True), training.RUNS.collection_path("ns")
    assert made(server.post(path, training.a_run("a")))["spec"]["suspend"] is True
    sent = made(server.post(path, training.a_run("b", queue="")))
    assert (sent["spec"]["suspend"], labels_of(sent)[QUEUE]) == (True, "default")


def test_a_job_of_a_custom_kind_is_validated_like_others() -> None:
    server, path = (
        a_training_server(features=FeatureGates(scheduling_gated_by=True)),
        training.RUNS.collection_path("ns"),
    )
    gated = training.a_run("a")
    gated["metadata"]["annotations"] = {f"{GROUP}/scheduling-gated-by": "not a domain"}
    assert "must be a domain-prefixed path" in server.post(path, gated).body["message"]
    made(server.post(path, training.a_run("b")))
    added = {"metadata": {"annotations": {f"{GROUP}/scheduling-gated-by": "example.com/gate"}}}
    assert "cannot be added after creation" in server.patch(f"{path}/b", added).body["message"]
    moved = {"metadata": {"labels": {QUEUE: "other"}}, "spec": {"suspend": False}}
    assert "field is immutable" in server.patch(f"{path}/b", moved).body["message"]


def test_dependents_of_a_custom_job_are_not_managed_themselves() -> None:
    server = a_training_server()
    run = made(server.post(training.RUNS.collection_path("ns"), training.a_run("a")))
    assert gates(create(server, "Pod", "p", owner=run)) == []
    assert create(server, "Job", "j", owner=run)["spec"]["suspend"] is False
