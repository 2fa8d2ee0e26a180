"""Converts effects of the scheduler to the bodies of patches, and to Events. Pure.

``api_dispatcher.py`` sends them through the client's writer, which adds the uid of the pod.
"""

from __future__ import annotations

from typing import Any

from headgate.capacity.names import GATE, LAPSED, STAMP
from headgate.client.io.event_recorder import EventToEmit
from headgate.kube import conditions
from headgate.kube.timestamps import format_time
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import EmitPodEvent, RemoveSchedulingGate, RemoveStamp, SetStatus

Object = dict[str, Any]


def status_patch(effect: SetStatus, now_s: float) -> Object:
    """A patch with the condition and the nominated node. The transition time changes only if the status of the
    condition changes."""
    status: Object = {}
    if effect.condition is not None:
        condition = dict(effect.condition)
        if effect.pod.scheduled is None or effect.pod.scheduled.status != condition["status"]:
            condition["lastTransitionTime"] = format_time(now_s)
        status["conditions"] = [condition]
    if effect.nominated_node is not None:
        status["nominatedNodeName"] = effect.nominated_node or None
    return {"status": status}


def disruption_patch(preemptor: PodInfo, victim: PodInfo, now_s: float) -> Object:
    """The condition DisruptionTarget of a preemption victim."""
    condition = {
        "type": conditions.DISRUPTION_TARGET,
        "status": "True",
        "reason": conditions.PREEMPTION_BY_SCHEDULER,
        "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        "observedGeneration": victim.generation,
    }
    if not victim.disruption:
        condition["lastTransitionTime"] = format_time(now_s)
    return {"status": {"conditions": [condition]}}


def gate_patch(removal: RemoveSchedulingGate) -> Object:
    """A strategic merge patch that removes the queue gate and adds the stamp. Gates merge by name, so the others stay
    in their order. It is no error if the gate is already removed."""
    body: Object = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    if removal.stamp:
        body["metadata"] = {"annotations": {STAMP: removal.stamp}}
    return body


def stamp_removal_patch(removal: RemoveStamp) -> list[Object]:
    """A JSON patch that removes the stamp, unless the pod has another stamp by then. If the promise lapsed, the patch
    also writes the record of the lapse."""
    path = _annotation_path(STAMP)
    operations: list[Object] = [{"op": "test", "path": path, "value": removal.stamp}, {"op": "remove", "path": path}]
    if removal.lapse:
        operations.append({"op": "add", "path": _annotation_path(LAPSED), "value": removal.lapse})
    return operations


def _annotation_path(name: str) -> str:
    return f"/metadata/annotations/{name.replace('/', '~1')}"


def event_of(effect: EmitPodEvent) -> EventToEmit:
    pod, reporter = effect.pod, effect.related or effect.pod
    return EventToEmit(
        _reference(pod),
        effect.reason,
        effect.message,
        effect.type,
        reporter.scheduler_name,
        effect.action,
        f"{pod.name[:200]}.{effect.reason.lower()}.{pod.uid}"[:253] if effect.once else "",
        None if effect.related is None else _reference(effect.related),
    )


def _reference(pod: PodInfo) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.revision,
    }
