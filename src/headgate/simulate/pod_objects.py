"""Versions of a pod, as the API server stores them after each write: bound, without its queue gate, terminating.

Each function returns a new object and shares what did not change, so that a waiting pod takes little memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.names import GATE, STAMP
from headgate.kube import conditions
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

_READY: Final = {"type": conditions.POD_READY, "status": "True"}


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
