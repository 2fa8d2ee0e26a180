"""The fields of pods that the scheduler and the gate controller watch are all that they read of a pod."""

from __future__ import annotations

from typing import Any

import msgspec

from clusters import a_pod
from headgate.capacity.api.task import ANNOTATIONS, TaskInfo
from headgate.capacity.names import GATE, OPT_IN
from headgate.client.field_decoder import decoder
from headgate.runtime.gates import runner as gates
from headgate.runtime.scheduler import runner as scheduler
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.gates.capacity_objects import task_of

_TIME = "2026-01-01T00:00:00Z"
_CONTAINER = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}


def a_full_pod() -> dict[str, Any]:
    """No field that :class:`PodInfo` has is at its default. The container is being resized."""
    pod = a_pod(
        "p",
        labels={"app": "a"},
        containers=[_CONTAINER],
        schedulerName="ours",
        priority=5,
        priorityClassName="high",
        schedulingGates=[{"name": GATE}],
        nodeName="n",
        preemptionPolicy="Never",
        terminationGracePeriodSeconds=7,
        activeDeadlineSeconds=100,
        status={
            "phase": "Succeeded",
            "startTime": _TIME,
            "nominatedNodeName": "m",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
            ],
            "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
        },
    )
    owner = {"controller": True, "name": "o"}
    pod["metadata"] |= {
        "resourceVersion": "9",
        "generation": 3,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "annotations": {OPT_IN: "true"},
        "ownerReferences": [
            {**owner, "apiVersion": "apps/v1", "kind": "ReplicaSet"},
            {**owner, "apiVersion": "apps/v1", "kind": "DaemonSet"},
        ],
    }
    return pod


def read(obj: Any) -> PodInfo:
    pod = read_pod(obj, ShapeTable(), ANNOTATIONS)
    assert isinstance(pod, PodInfo), pod
    return pod


def read_watched(*fields: str) -> PodInfo:
    """The pod as it is read if these fields are watched."""
    return read(decoder(fields)(msgspec.json.encode(a_full_pod())))


def differences(one: PodInfo, other: PodInfo) -> set[str]:
    return {name for name in PodInfo.__struct_fields__ if getattr(one, name) != getattr(other, name)}


def test_the_pod_of_these_tests_has_a_value_in_every_field() -> None:
    bare = {"metadata": {"name": "", "uid": ""}}
    assert differences(read(a_full_pod()), read(bare)) == set(PodInfo.__struct_fields__)


def test_the_scheduler_watches_all_that_it_reads() -> None:
    found = read_watched(*scheduler._POD_FIELDS, "metadata.annotations")
    assert differences(found, read(a_full_pod())) <= {"shape"}  # another table has other shapes
    assert found.shape.requests == read(a_full_pod()).shape.requests


def test_the_gate_controller_watches_all_that_it_reads() -> None:
    """Nothing that a queue decides depends on labels or on the nominated node."""
    whole, found = read(a_full_pod()), read_watched(*gates._POD_FIELDS)
    assert differences(found, whole) <= {"shape", "labels", "nominated_node"}
    assert found.started_s == whole.started_s
    task: TaskInfo = task_of(found)
    assert task == task_of(whole)
