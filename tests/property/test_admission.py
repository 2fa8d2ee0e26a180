"""Admission on random objects: nothing raises, the input is not changed, and a patched object is not patched again."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.settings import AdmissionSettings
from headgate.admission.steps import all_steps
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchError
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import DEPLOYMENTS, JOBS, NAMESPACES, STATEFUL_SETS
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.kinds.names import LOCAL_QUEUES
from queued_objects import (
    ADMISSION_GATED,
    GROUP,
    GROUP_NAME,
    MANAGED,
    PARENT,
    PRIORITY,
    QUEUE,
    RETRIABLE,
    ROLE,
    SCHEDULING_GATED,
    TOTAL,
)

Object = dict[str, Any]

SOUND, ALL = (
    AdmissionSettings(
        frozenset(), suspends_jobs=True, features=FeatureGates(scheduling_gated_by=True), jobs=JobSettings(each)
    )
    for each in (False, True)
)
STEPS = [step for step in all_steps(SOUND) if step.for_kueue_queues]
WORDS = st.sampled_from(
    ["", "true", "false", "lq", "a.io/b", "a.io/b,c.io/d", "A b", "0", "3", "statefulset", "x" * 70]
)
KEYS = st.sampled_from(
    [QUEUE, PRIORITY, MANAGED, GROUP_NAME, TOTAL, RETRIABLE, PARENT, ROLE, SCHEDULING_GATED, ADMISSION_GATED]
    + [f"{GROUP}/{each}" for each in ("max-exec-time-seconds", "prebuilt-workload-name", "job-min-parallelism")]
    + [f"{GROUP}/{each}" for each in ("job-completions-equal-parallelism", "elastic-job", "podset-required-topology")]
)
MAPS = st.dictionaries(KEYS, WORDS, max_size=4)
OWNERS = st.sampled_from(
    [
        [],
        [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}],
        [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "2", "controller": True}],
        [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "3", "controller": True}],
        [{"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "4", "controller": True}],
    ]
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={
        "labels": MAPS,
        "annotations": MAPS,
        "ownerReferences": OWNERS,
        "finalizers": st.sampled_from([[], ["x"], [MANAGED]]),
        "deletionTimestamp": st.just("2026-01-01T00:00:00Z"),
    },
)
GATES = st.sampled_from([[], [{"name": "x.io/y"}], [{"name": f"{GROUP}/admission"}]])
CONTAINERS = st.sampled_from([[], [{"name": "c"}], [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]])
POD = {"containers": CONTAINERS, "schedulingGates": GATES, "nodeName": st.just("n"), "priority": st.just(3)}
SPEC = st.fixed_dictionaries(
    {},
    optional={
        **POD,
        "suspend": st.booleans(),
        "parallelism": st.integers(0, 4),
        "completions": st.integers(0, 4),
        "replicas": st.integers(0, 4),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "template": st.fixed_dictionaries(
            {}, optional={"metadata": METADATA, "spec": st.fixed_dictionaries({}, optional=POD)}
        ),
    },
)
SERVED = st.fixed_dictionaries(
    {"metadata": METADATA, "spec": SPEC},
    optional={"status": st.fixed_dictionaries({}, optional={"readyReplicas": st.integers(0, 2), "phase": WORDS})},
)
"""As an API server lets them through."""


def a_book() -> AdmissionCache:
    book = AdmissionCache()
    book.applied(NAMESPACES, {"metadata": {"name": "ns", "labels": {"kubernetes.io/metadata.name": "ns"}}})
    book.applied(LOCAL_QUEUES, {"metadata": {"name": "default", "namespace": "with-default"}})
    book.applied(NAMESPACES, {"metadata": {"name": "with-default", "labels": {}}})
    for namespace in ("ns", "with-default"):
        queued = {QUEUE: "lq"}
        book.applied(JOBS, {"metadata": {"name": "j", "namespace": namespace, "uid": "1", "labels": queued}})
        book.applied(STATEFUL_SETS, {"metadata": {"name": "s", "namespace": namespace, "uid": "2"}, "spec": {}})
        book.applied(DEPLOYMENTS, {"metadata": {"name": "d", "namespace": namespace, "uid": "3"}})
    return book


BOOK = a_book()
POLICIES = st.sampled_from([SOUND, ALL])
NAMES = st.sampled_from(["ns", "with-default", "unknown", "kube-system"])


def patched(obj: Object, patch: tuple[Object, ...]) -> Object:
    made = apply_json_patch(copy.deepcopy(obj), list(patch), strict_decoding=True)
    assert not isinstance(made, PatchError), made
    found: Object = made.value
    return found


@given(st.sampled_from(STEPS), POLICIES, NAMES, SERVED, SERVED, st.booleans())
def test_admission_is_idempotent(
    step: Any, settings: AdmissionSettings, namespace: str, new: Object, old: Object, is_new: bool
) -> None:
    operation = "CREATE" if is_new and "CREATE" in step.operations else step.operations[-1]
    before = msgspec.json.encode([new, old])
    request = AdmissionRequest(
        operation,
        step.resource.plural,
        namespace,
        "a",
        subresource=step.subresource,
        obj=new,
        old={} if operation == "CREATE" else old,
    )
    answer = step.handle(request, settings, BOOK)
    assert msgspec.json.encode([new, old]) == before
    assert not (answer.refusal and answer.patch)
    if answer.patch:
        again = step.handle(msgspec.structs.replace(request, obj=patched(new, answer.patch)), settings, BOOK)
        assert (again.patch, again.refusal) == ((), "")
