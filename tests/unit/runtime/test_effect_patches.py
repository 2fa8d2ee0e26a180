"""Effects of the scheduler as patches and Events."""

from __future__ import annotations

from typing import Any

from clusters import a_pod
from headgate.capacity.names import GATE, STAMP
from headgate.runtime.scheduler.effect_patches import event_of, gate_patch, stamp_removal_patch, status_patch
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import EmitPodEvent, RemoveSchedulingGate, RemoveStamp, SetStatus

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def pod_of(name: str, **status: Any) -> PodInfo:
    pod = read_pod(a_pod(name, schedulerName="ours", status=status), ShapeTable())
    assert isinstance(pod, PodInfo), pod
    return pod


def test_the_transition_time_changes_only_with_the_status_of_the_condition() -> None:
    new = status_patch(SetStatus(pod_of("a"), UNSCHEDULABLE), 0.0)
    assert new == {"status": {"conditions": [{**UNSCHEDULABLE, "lastTransitionTime": "1970-01-01T00:00:00Z"}]}}
    known = pod_of("a", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}])
    assert status_patch(SetStatus(known, UNSCHEDULABLE), 0.0) == {"status": {"conditions": [UNSCHEDULABLE]}}


def test_a_nomination_is_set_removed_or_left_alone() -> None:
    nominations = ("n", "", None)
    patches = [status_patch(SetStatus(pod_of("a"), None, node), 0.0)["status"] for node in nominations]
    assert patches == [{"nominatedNodeName": "n"}, {"nominatedNodeName": None}, {}]


def test_one_patch_removes_the_gate_and_writes_the_stamp() -> None:
    gates = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    assert gate_patch(RemoveSchedulingGate(pod_of("a"), "")) == gates
    stamped = {**gates, "metadata": {"annotations": {STAMP: "s"}}}
    assert gate_patch(RemoveSchedulingGate(pod_of("a"), "s")) == stamped


def test_only_the_stamp_that_is_meant_is_removed() -> None:
    test, remove = stamp_removal_patch(RemoveStamp(pod_of("a"), "s"))
    assert (test["op"], test["value"], remove["op"]) == ("test", "s", "remove")
    assert test["path"] == remove["path"] == "/metadata/annotations/headgate.dev~1admitted"


def test_an_event_that_occurs_once_has_a_name_of_its_own() -> None:
    pod = pod_of("a")
    event = event_of(EmitPodEvent(pod, "Normal", "Scheduled", "Binding", "bound"))
    assert (event.name, event.component, event.related) == ("", "ours", None)
    assert event_of(EmitPodEvent(pod, "Normal", "Held", "Waiting", "x", once=True)).name == f"a.held.{pod.uid}"
