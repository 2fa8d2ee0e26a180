"""Job kinds: the pod sets of drawn objects equal those of a plain reference, and a start and a stop of a drawn object
leave it byte for byte as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.gated_kinds import mark_templates
from headgate.admission.settings import AdmissionSettings
from headgate.jobs.framework.job_writes import start, stop
from headgate.jobs.framework.pod_set_info import start_patch
from headgate.jobs.framework.workload import PriorityClasses, new_workload
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import JobSettings
from headgate.quota.api.resource_flavor import ResourceFlavor
from unit.admission.fake_cluster_view import FakeClusterView
from unit.jobs.operators import encoded, kind_of

Object = dict[str, Any]
GATED = kind_of("LeaderWorkerSet")
FLAVORS = {
    "plain": ResourceFlavor("plain"),
    "spot": ResourceFlavor("spot", {"pool": "spot", "disk": "ssd"}, (), ({"key": "spot", "operator": "Exists"},)),
}

texts = st.sampled_from(("a", "b", "disk"))
maps: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}), st.dictionaries(texts, st.sampled_from(("x", "ssd")), max_size=2)
)
amounts = st.sampled_from(("1", "100m", "2Gi"))
counts = st.one_of(st.none(), st.integers(0, 5))


@st.composite
def drawn_templates(draw: st.DrawFn) -> Object:
    def optional(name: str, values: st.SearchStrategy[Any]) -> Object:
        return {name: draw(values)} if draw(st.booleans()) else {}

    container = {"name": "c", "image": "i", **optional("resources", st.just({"requests": {"cpu": "1"}}))}
    spec = {
        "containers": [container, *([{"name": "d"}] if draw(st.booleans()) else [])],
        **optional("nodeSelector", maps),
        **optional("tolerations", st.sampled_from(([], [{"key": "spot", "operator": "Exists"}], [{"key": "t"}]))),
        **optional("priorityClassName", st.just("")),
    }
    metadata = {**optional("labels", maps), **optional("annotations", maps), **optional("name", texts)}
    return {"spec": spec, **optional("metadata", st.just(metadata))}


def _with_counts(draw: st.DrawFn, *names: str) -> Object:
    found = {name: draw(counts) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@st.composite
def job_sets(draw: st.DrawFn) -> Object:
    jobs = []
    for name in draw(st.lists(st.sampled_from(("Leader", "b", "c-1")), min_size=1, max_size=3, unique=True)):
        spec = {"template": draw(drawn_templates()), **_with_counts(draw, "parallelism", "completions")}
        jobs.append({"name": name, **_with_counts(draw, "replicas"), "template": {"spec": spec}})
    return {"replicatedJobs": jobs, "network": {"enableDNSHostnames": True}}


@st.composite
def ray_clusters(draw: st.DrawFn) -> Object:
    groups = [
        {"groupName": name, **_with_counts(draw, "replicas", "numOfHosts"), "template": draw(drawn_templates())}
        for name in draw(st.lists(st.sampled_from(("Gpu", "cpu", "x")), max_size=3, unique=True))
    ]
    fault_tolerance: Object = {"gcsFaultToleranceOptions": {}} if draw(st.booleans()) else {}
    head = {"rayStartParams": {}, "template": draw(drawn_templates())}
    return {"headGroupSpec": head, **({"workerGroupSpecs": groups} if groups else {}), **fault_tolerance}


@st.composite
def ray_jobs(draw: st.DrawFn) -> Object:
    mode = draw(st.sampled_from((None, "K8sJobMode", "HTTPMode", "SidecarMode")))
    submitter = draw(st.one_of(st.none(), drawn_templates()))
    return {
        "rayClusterSpec": draw(ray_clusters()),
        "shutdownAfterJobFinishes": True,
        **({"submissionMode": mode} if mode else {}),
        **({"submitterPodTemplate": submitter} if submitter else {}),
    }


def training_jobs(replica_specs: str, *types: str) -> st.SearchStrategy[Object]:
    @st.composite
    def drawn(draw: st.DrawFn) -> Object:
        chosen = draw(st.lists(st.sampled_from((*types, "Extra")), min_size=1, max_size=4, unique=True))
        specs = {name: {"template": draw(drawn_templates()), **_with_counts(draw, "replicas")} for name in chosen}
        return {replica_specs: specs, "runPolicy": {"cleanPodPolicy": "None"}}

    return drawn()


@st.composite
def batch_jobs(draw: st.DrawFn) -> Object:
    return {"template": draw(drawn_templates()), **_with_counts(draw, "parallelism", "completions")}


SPECS: dict[str, st.SearchStrategy[Object]] = {
    "Job": batch_jobs(),
    "JobSet": job_sets(),
    "RayJob": ray_jobs(),
    "RayCluster": ray_clusters(),
    "PyTorchJob": training_jobs("pytorchReplicaSpecs", "Master", "Worker"),
    "TFJob": training_jobs("tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    "XGBoostJob": training_jobs("xgbReplicaSpecs", "Master", "Worker"),
    "PaddleJob": training_jobs("paddleReplicaSpecs", "Master", "Worker"),
    "JAXJob": training_jobs("jaxReplicaSpecs", "Worker"),
    "MPIJob": training_jobs("mpiReplicaSpecs", "Launcher", "Worker"),
}


def the_kind(name: str) -> JobKind:
    return JOB if name == "Job" else kind_of(name)


def an_object(name: str, spec: Object) -> Object:
    obj: Object = {
        "apiVersion": the_kind(name).kind.api_version,
        "kind": name,
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": spec,
    }
    held: Object = merged(obj, suspended(the_kind(name), is_suspended=True))
    return held


def suspended(kind: JobKind, *, is_suspended: bool) -> Object:
    patch: Any = is_suspended
    for step in reversed(kind.hold.path):
        patch = {step: patch}
    found: Object = patch
    return found


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


# -- the reference of the pod sets ---------------------------------------------------------------------------------


def _of_job(spec: Object) -> list[tuple[str, int]]:
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    return [("main", parallelism if completions is None else min(parallelism, completions))]


def _of_job_set(spec: Object) -> list[tuple[str, int]]:
    return [
        (each["name"].lower(), each.get("replicas", 1) * _of_job(each["template"]["spec"])[0][1])
        for each in spec["replicatedJobs"]
    ]


def _of_ray_cluster(spec: Object) -> list[tuple[str, int]]:
    found = [("head", 1)]
    for each in spec.get("workerGroupSpecs", []):
        hosts = each.get("numOfHosts", 1)
        found.append((each["groupName"].lower(), each.get("replicas", 1) * (hosts if hosts > 1 else 1)))
    return found


def _of_ray_job(spec: Object) -> list[tuple[str, int]]:
    has_submitter = spec.get("submissionMode", "K8sJobMode") == "K8sJobMode"
    return _of_ray_cluster(spec["rayClusterSpec"]) + ([("submitter", 1)] if has_submitter else [])


def _of_training_job(replica_specs: str, *types: str) -> Callable[[Object], list[tuple[str, int]]]:
    def found(spec: Object) -> list[tuple[str, int]]:
        given = spec[replica_specs]
        ordered = [*(each for each in types if each in given), *sorted(set(given) - set(types))]
        return [(each.lower(), given[each].get("replicas", 1)) for each in ordered]

    return found


REFERENCE: dict[str, Callable[[Object], list[tuple[str, int]]]] = {
    "Job": _of_job,
    "JobSet": _of_job_set,
    "RayJob": _of_ray_job,
    "RayCluster": _of_ray_cluster,
    "PyTorchJob": _of_training_job("pytorchReplicaSpecs", "Master", "Worker"),
    "TFJob": _of_training_job("tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    "XGBoostJob": _of_training_job("xgbReplicaSpecs", "Master", "Worker"),
    "PaddleJob": _of_training_job("paddleReplicaSpecs", "Master", "Worker"),
    "JAXJob": _of_training_job("jaxReplicaSpecs", "Worker"),
    "MPIJob": _of_training_job("mpiReplicaSpecs", "Launcher", "Worker"),
}


@pytest.mark.parametrize("name", SPECS)
@given(data=st.data())
def test_the_pod_sets_of_a_drawn_object_are_those_of_the_reference(name: str, data: st.DataObject) -> None:
    obj = an_object(name, data.draw(SPECS[name]))
    found = the_kind(name).pod_sets(obj)
    assert found.problem == ""
    assert [(each.name, each.count) for each in found.found] == REFERENCE[name](obj["spec"])


# -- start and stop ------------------------------------------------------------------------------------------------


def admitted(workload: Object, flavor: str) -> Object:
    assignments = [
        {"name": each["name"], "count": each["count"], "flavors": {"cpu": flavor}}
        for each in workload["spec"]["podSets"]
    ]
    return {**workload, "status": {"admission": {"clusterQueue": "cq", "podSetAssignments": assignments}}}


@pytest.mark.parametrize("name", SPECS)
@given(data=st.data())
def test_a_start_and_a_stop_leave_a_drawn_object_byte_for_byte_as_it_was(name: str, data: st.DataObject) -> None:
    kind, obj = the_kind(name), an_object(name, data.draw(SPECS[name]))
    workload = new_workload(kind, obj, PriorityClasses(), "")
    assert isinstance(workload, dict), workload
    workload["metadata"]["uid"] = "w"
    running = obj
    for flavor in data.draw(st.lists(st.sampled_from(tuple(FLAVORS)), min_size=1, max_size=2)):
        patch = start_patch(kind, running, admitted(workload, flavor), FLAVORS)
        if not isinstance(patch, dict):
            return  # the user's node selector contradicts the flavor
        running = written(running, start(kind, running, patch, ""))
        for each in kind.pod_sets(running).found:
            assert FLAVORS[flavor].node_labels.items() <= each.charged["spec"].get("nodeSelector", {}).items()
        for _ in range(2):  # it is suspended, then restored
            running = written(running, stop(kind, running, workload, ""))
    assert encoded(running) == encoded(obj)


def written(obj: Object, planned: Any) -> Object:
    """The object after a write, with the version that it had: the versions of servers differ."""
    changed = merged(obj, msgspec.to_builtins(planned.write.body))
    if not changed["metadata"].get("annotations"):
        changed["metadata"].pop("annotations", None)
    found: Object = changed
    return found


# -- kinds whose pods have gates -----------------------------------------------------------------------------------


@st.composite
def leader_worker_sets(draw: st.DrawFn) -> Object:
    leader = {"leaderTemplate": draw(drawn_templates())} if draw(st.booleans()) else {}
    group = {"size": draw(st.integers(1, 4)), "workerTemplate": draw(drawn_templates()), **leader}
    return {"replicas": draw(st.integers(0, 3)), "leaderWorkerTemplate": group}


def marked(obj: Object, old: Object | None = None) -> Object:
    """The object as admission leaves it."""
    jobs = JobSettings(kinds=(GATED,))
    rules = AdmissionSettings(frozenset(), suspends_jobs=True, jobs=jobs)
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(operation, "leaderworkersets", "ns", "a", obj=obj, old=old or {})
    found: Object = json.loads(json.dumps(obj))
    for each in mark_templates(GATED, request, rules, FakeClusterView()).patch:
        assert each["op"] == "add"
        *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in each["path"].split("/")[1:])
        place: Any = found
        for step in parents:
            place = place[step]
        place[last] = each["value"]
    return found


def unmarked(template: Object) -> Object:
    """The template without the keys of admission, and without maps that are empty then."""
    metadata = {
        field: kept
        for field, values in (template.get("metadata") or {}).items()
        if (kept := values if isinstance(values, str) else {k: v for k, v in values.items() if "/" not in k})
    }
    return {"spec": template["spec"], **({"metadata": metadata} if metadata else {})}


@given(spec=leader_worker_sets(), other=leader_worker_sets())
def test_marks_add_nothing_the_second_time_and_change_with_the_templates_only(spec: Object, other: Object) -> None:
    def an_object_of(spec: Object) -> Object:
        labels = {"kueue.x-k8s.io/queue-name": "lq"}
        return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "metadata": {"name": "a", "labels": labels}, "spec": spec}

    obj = an_object_of(spec)
    once = marked(obj)
    assert marked(once, once) == once
    group, after = spec["leaderWorkerTemplate"], once["spec"]["leaderWorkerTemplate"]
    names = [name for name in ("leaderTemplate", "workerTemplate") if name in group]
    assert {name: unmarked(after[name]) for name in names} == {name: unmarked(group[name]) for name in names}
    prefixes = {prefix_of(after[name]) for name in names}
    assert len(prefixes) == 1
    changed = marked(an_object_of(other))["spec"]["leaderWorkerTemplate"]
    is_same = shape_of(group) == shape_of(other["leaderWorkerTemplate"])
    assert ({prefix_of(changed["workerTemplate"])} == prefixes) is is_same


def shape_of(group: Object) -> Object:
    return {name: value if name == "size" else shape_of_template(value) for name, value in group.items()}


def shape_of_template(template: Object) -> Object:
    """The spec, the labels and the annotations: empty maps and the name do not count."""
    found = unmarked(template)
    found.get("metadata", {}).pop("name", None)
    return {key: value for key, value in found.items() if value}


def prefix_of(template: Object) -> str:
    found: str = template["metadata"]["annotations"]["headgate.dev/pod-group-prefix"]
    return found
