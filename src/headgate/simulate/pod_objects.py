"""Versions of a pod, as the API server stores them after each write: bound, without its queue gate, terminating.

Each function returns a new object and shares what did not change, so that a waiting pod takes little memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.names import GATE, GROUP_NAMES, LAPSED, STAMP
from headgate.kube import conditions
from headgate.kube.timestamps import format_time, parse_duration, parse_time

Object = dict[str, Any]

RUN_FOR: Final = "headgate.dev/run-for"
"""The annotation of simulated nodes: how long the pod runs."""
_OF_ONE_POD: Final = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_READY: Final = {"type": conditions.POD_READY, "status": "True"}


def run_seconds(pod: Object) -> float | None:
    """How long a pod of a snapshot runs; ``None``: until the end."""
    text = (pod["metadata"].get("annotations") or {}).get(RUN_FOR)
    nanos = parse_duration(text) if isinstance(text, str) else ""
    return None if isinstance(nanos, str) or nanos < 0 else nanos / 1e9


def started_s(pod: Object) -> float:
    """When the pod was bound, in seconds since 1970; 0 if it is not known."""
    status = pod.get("status") or {}
    scheduled = conditions.find(status.get("conditions"), conditions.POD_SCHEDULED) or {}
    for text in (scheduled.get("lastTransitionTime"), status.get("startTime")):
        found = parse_time(text) if isinstance(text, str) else ""
        if isinstance(found, int):
            return float(found)
    return 0.0


def belongs_to_node(pod: Object) -> bool:
    """Whether it is a pod of a DaemonSet, or a static pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(isinstance(each, dict) and each.get("kind") in ("DaemonSet", "Node") for each in owners)


def group_of(pod: Object) -> tuple[str, str] | None:
    """The namespace and name of its PodGroup."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations")
    if not annotations:
        return None
    for each in GROUP_NAMES:
        if annotations.get(each):
            return metadata["namespace"], annotations[each]
    return None


def without_node(pod: Object, scheduler_name: str) -> Object:
    """The pod as its owner creates it again."""
    metadata = {name: value for name, value in pod["metadata"].items() if name not in _OF_ONE_POD}
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in (STAMP, LAPSED)}
    spec = {name: value for name, value in pod["spec"].items() if name not in ("nodeName", "schedulingGates")}
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations, "generation": 1},
        "spec": {**spec, "schedulerName": scheduler_name},
        "status": {"phase": "Pending"},
    }


def bound(pod: Object, node_name: str, now_s: float) -> Object:
    scheduled = {"type": conditions.POD_SCHEDULED, "status": "True"}
    status = {**pod["status"], "phase": "Running", "startTime": format_time(now_s)}
    listed = conditions.with_condition(status.get("conditions"), scheduled, format_time(now_s))
    status["conditions"] = conditions.with_condition(listed, _READY, format_time(now_s))
    return {
        **pod,
        "metadata": dict(pod["metadata"]),
        "spec": {**pod["spec"], "nodeName": node_name},
        "status": status,
    }


def without_queue_gate(pod: Object, stamp: str) -> Object:
    metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
    gates = [each for each in spec.get("schedulingGates") or () if each["name"] != GATE]
    if len(gates) != len(spec.get("schedulingGates") or ()):
        metadata["generation"] = metadata.get("generation", 1) + 1
    spec.pop("schedulingGates", None)
    if gates:
        spec["schedulingGates"] = gates
    if stamp:
        metadata["annotations"] = {**metadata.get("annotations", {}), STAMP: stamp}
    return {**pod, "metadata": metadata, "spec": spec}


def without_stamp(pod: Object, stamp: str, record: Mapping[str, str]) -> Object:
    """The pod without exactly this stamp. ``record``: annotations that are written in the same patch."""
    annotations = dict(pod["metadata"].get("annotations", {}))
    if annotations.get(STAMP) != stamp:
        return pod
    del annotations[STAMP]
    return {**pod, "metadata": {**pod["metadata"], "annotations": {**annotations, **record}}}


def with_status(pod: Object, condition: Mapping[str, Any] | None, nominated_node: str | None, now_s: float) -> Object:
    status = dict(pod["status"])
    if condition is not None:
        status["conditions"] = conditions.with_condition(status.get("conditions"), condition, format_time(now_s))
    if nominated_node is not None:
        status.pop("nominatedNodeName", None)
        if nominated_node:
            status["nominatedNodeName"] = nominated_node
    return {**pod, "metadata": dict(pod["metadata"]), "status": status}


def terminating(pod: Object, until_s: float, grace_s: float, now_s: float, *, preempted: bool = False) -> Object:
    status = dict(pod["status"])
    if preempted:
        condition = {
            "type": conditions.DISRUPTION_TARGET,
            "status": "True",
            "reason": conditions.PREEMPTION_BY_SCHEDULER,
        }
        status["conditions"] = conditions.with_condition(status.get("conditions"), condition, format_time(now_s))
    metadata = {
        **pod["metadata"],
        "deletionTimestamp": format_time(until_s),
        "deletionGracePeriodSeconds": int(grace_s),
    }
    return {**pod, "metadata": metadata, "status": status}
