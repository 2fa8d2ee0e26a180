"""Updates of jobs and of their status, compared with responses of kube-apiserver v1.35.8 (``observed/jobs.json``).

The tables below define the jobs and the changes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.kube.feature_gates import FeatureGates
from unit.apimachinery.strategy.server import Object, WriteResult, create, masked, update

OBSERVED = json.loads((Path(__file__).parent / "observed" / "jobs.json").read_text())

NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
        }
    }
}
POD_AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
PREFERENCE = {"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}
DIRECTED = {
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "schedulingGates": [{"name": "foo"}],
    "affinity": NODE_AFFINITY,
}
FAILURE_POLICY = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}]}
INDEXED = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}

# The spec and the pod spec of each job, apart from the common fields.
JOBS: dict[str, tuple[Object, Object]] = {
    "susp": ({"suspend": True}, DIRECTED),
    "run": ({}, DIRECTED),
    "plain": ({"suspend": True}, {}),
    "idx": ({"suspend": True, **INDEXED}, {"affinity": {**NODE_AFFINITY, **POD_AFFINITY}}),
    "started": ({"suspend": True}, DIRECTED),
    "pol": ({"podFailurePolicy": FAILURE_POLICY, "managedBy": "x.y/z"}, {}),
}


def _set(field: str, value: Any) -> Callable[[Object], None]:
    return lambda spec: spec.__setitem__(field, value)


def _drop(field: str) -> Callable[[Object], None]:
    return lambda spec: spec.pop(field, None)


def _pod(change: Callable[[Object], None]) -> Callable[[Object], None]:
    return lambda spec: change(spec["template"]["spec"])


def _metadata(change: Callable[[Object], None]) -> Callable[[Object], None]:
    return lambda spec: change(spec["template"]["metadata"])


def _container(change: Callable[[Object], None]) -> Callable[[Object], None]:
    return lambda spec: change(spec["template"]["spec"]["containers"][0])


def _both(spec: Object) -> None:
    spec |= {"completions": 7, "parallelism": 7}


CHANGES: dict[str, Callable[[Object], None]] = {
    "sel": _pod(_set("nodeSelector", {"z": "y"})),
    "delsel": _pod(_drop("nodeSelector")),
    "tol": _pod(_set("tolerations", [{"key": "q", "operator": "Exists"}])),
    "gates": _pod(_set("schedulingGates", [{"name": "bar"}])),
    "delgates": _pod(_drop("schedulingGates")),
    "aff": _pod(_set("affinity", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}})),
    "delaff": _pod(_drop("affinity")),
    "podaff": _pod(_set("affinity", POD_AFFINITY)),
    "affempty": _pod(_set("affinity", {})),
    "lab": _metadata(lambda metadata: metadata["labels"].__setitem__("new", "l")),
    "dellab": _metadata(lambda metadata: metadata["labels"].pop("job-name")),
    "ann": _metadata(_set("annotations", {"a": "b"})),
    "img": _container(_set("image", "y")),
    "res": _container(_set("resources", {"requests": {"cpu": "2"}})),
    "unsuspend": _set("suspend", False),
    "suspend": _set("suspend", True),
    "par": _set("parallelism", 7),
    "comp": _set("completions", 7),
    "both": _both,
    "delcomp": _drop("completions"),
    "mode": _set("completionMode", "Indexed"),
    "mode2": _set("completionMode", "NonIndexed"),
    "backoff": _set("backoffLimit", 3),
    "bpi": _set("backoffLimitPerIndex", 3),
    "mgr": _set("managedBy", "a.b/c"),
    "pfp": _set(
        "podFailurePolicy", {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
    ),
    "sp": _set("successPolicy", {"rules": [{"succeededCount": 1}]}),
    "selector": _set("selector", {"matchLabels": {"a": "b"}}),
    "ttl": _set("ttlSecondsAfterFinished", 5),
    "dl": _set("activeDeadlineSeconds", 5),
    "prp": _set("podReplacementPolicy", "Failed"),
    "manual": _set("manualSelector", True),
}


def make_job(name: str, spec: Object | None = None, pod: Object | None = None) -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **(spec or {})},
    }
    result = create(manifest)
    assert not result.is_error, result
    return result.body


def _stored(name: str) -> Object:
    job = make_job(f"a-{name}", *JOBS[name])
    return {**job, "status": {"startTime": "2024-01-01T00:00:00Z"}} if name == "started" else job


def _changed(job: Object, *changes: str) -> Object:
    changed = copy.deepcopy(job)
    for each in changes:
        CHANGES[each](changed["spec"])
    return changed


def _compare(result: WriteResult, observed: dict[str, Any]) -> None:
    if observed["code"] < 300:
        assert not result.is_error, result.problems
        if "generation" in observed:
            assert result.body["metadata"]["generation"] == observed["generation"]
    else:
        causes = [[field, reason, masked(message)] for field, reason, message in observed["causes"]]
        assert result.problems == causes


@pytest.mark.parametrize(
    ("name", "changes"), [(name, changes) for name, answers in OBSERVED["updates"].items() for changes in answers]
)
def test_an_update_of_a_job_gives_the_response_of_kube_apiserver(name: str, changes: str) -> None:
    old = _stored(name)
    _compare(update(_changed(old, *changes.split(" + ")), old), OBSERVED["updates"][name][changes])


def _conditions(*pairs: tuple[str, str]) -> list[Object]:
    time = "2024-01-01T00:00:00Z"
    return [{"type": kind, "status": status, "lastTransitionTime": time} for kind, status in pairs]


START = {"startTime": "2024-01-01T00:00:00Z"}
SUCCEEDED = _conditions(("SuccessCriteriaMet", "True"), ("Complete", "True"))
CONTRADICTION = _conditions(
    ("Failed", "True"), ("Complete", "True"), ("FailureTarget", "True"), ("SuccessCriteriaMet", "True")
)
STATUSES: dict[str, Object] = {
    "empty": {},
    "start": START,
    "active": {"active": 2, "ready": 1, **START},
    "ready>": {"active": 1, "ready": 3},
    "neg": {"active": -1, "succeeded": -1, "failed": -2, "ready": -1, "terminating": -1},
    "complete": {"conditions": SUCCEEDED, **START, "completionTime": "2024-01-02T00:00:00Z", "succeeded": 1},
    "complete-": {"conditions": _conditions(("Complete", "True"))},
    "early": {
        "conditions": SUCCEEDED,
        "startTime": "2024-01-03T00:00:00Z",
        "completionTime": "2024-01-02T00:00:00Z",
    },
    "failed": {"conditions": _conditions(("FailureTarget", "True"), ("Failed", "True")), **START, "failed": 1},
    "failed-": {
        "conditions": CONTRADICTION,
        "active": 1,
        "terminating": 1,
        "uncountedTerminatedPods": {"succeeded": ["a", "b", "a", ""], "failed": ["b"]},
    },
    "ct": {"completionTime": "2024-01-02T00:00:00Z"},
    "ct2": {"conditions": SUCCEEDED, **START, "completionTime": "2024-01-05T00:00:00Z", "succeeded": 1},
    "idx": {"completedIndexes": "0,2-3", "failedIndexes": "1"},
    "idxbad": {"completedIndexes": "2,1"},
    "idxbad2": {"completedIndexes": "a-b-c", "failedIndexes": "99"},
    "idxov": {"completedIndexes": "0-2", "failedIndexes": "1-2"},
    "idxo": {"completedIndexes": "0-0"},
    "idxx": {"completedIndexes": "x"},
    "susp": {"conditions": _conditions(("Suspended", "True")), **START},
    "resume": {"conditions": _conditions(("Suspended", "False")), "startTime": "2024-02-01T00:00:00Z"},
}
REPORTED: dict[str, Object] = {
    "plain": {},
    "idx": {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimitPerIndex": 1},
    "elastic": {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
    "sp": {
        "completionMode": "Indexed",
        "completions": 2,
        "successPolicy": {"rules": [{"succeededCount": 1}]},
    },
    "susp0": {"suspend": True, "completions": 0},
}


@pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before, answers in OBSERVED["statuses"].items() for after in answers]
)
def test_a_status_update_of_a_job_gives_the_response_of_kube_apiserver(before: str, after: str) -> None:
    name, _, report = before.partition(" ")
    old = {**make_job(f"s-{name}", REPORTED[name]), "status": STATUSES[report]}
    _compare(update({**old, "status": STATUSES[after]}, old, "status"), OBSERVED["statuses"][before][after])


def test_gates_of_a_suspended_job_that_never_started_may_change() -> None:
    old = _stored("susp")
    result = update(_changed(old, "gates"), old)
    assert result.body["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "bar"}]
    assert result.body["metadata"]["generation"] == 2


def test_gates_of_a_job_that_started_before_it_was_suspended_are_immutable() -> None:
    old = _stored("started")
    assert [problem[0] for problem in update(_changed(old, "gates"), old).problems] == ["spec.template"]


def test_resources_of_a_suspended_job_are_immutable_unless_the_gate_is_on() -> None:
    suspended = {"conditions": _conditions(("Suspended", "True"))}
    old = {**_stored("plain"), "status": suspended}
    changed = _changed(old, "res")
    assert update(changed, old).problems[0][0] == "spec.template"
    features = FeatureGates(mutable_pod_resources_for_suspended_jobs=True)
    assert not update(changed, old, features=features).is_error
    image_too = _changed(old, "res", "img")
    assert update(image_too, old, features=features).problems[0][0] == "spec.template.spec"


def test_directives_of_a_job_suspended_again_may_change_when_the_gate_is_on_and_no_pod_is_left() -> None:
    features = FeatureGates(mutable_scheduling_directives_for_suspended_jobs=True)
    quiet = {**_stored("susp"), "status": STATUSES["susp"]}
    busy = {**quiet, "status": {**STATUSES["susp"], "active": 1}}
    assert not update(_changed(quiet, "sel"), quiet, features=features).is_error
    assert update(_changed(busy, "sel"), busy, features=features).is_error


def test_a_job_gets_a_selector_and_the_labels_of_the_selector() -> None:
    job = make_job("j")
    uid = job["metadata"]["uid"]
    expected = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"] == expected
    assert job["metadata"]["labels"] == expected


def test_a_job_with_labels_keeps_them() -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"app": "a"}},
        "spec": {"template": template},
    }
    assert create(manifest).body["metadata"]["labels"] == {"app": "a"}
