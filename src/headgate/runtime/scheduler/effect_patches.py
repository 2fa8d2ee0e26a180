"""Effects of the scheduler as patches and Events: the bodies of their requests. Pure.

``api_dispatcher.py`` sends them through the client's writer, which adds the uid of the pod.
"""

from __future__ import annotations

from typing import Any

from headgate.capacity.names import GATE, STAMP
from headgate.client.io.event_recorder import EventToEmit
from headgate.kube import conditions
from headgate.kube.timestamps import format_time
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import EmitPodEvent, RemoveSchedulingGate, RemoveStamp, SetStatus

Object = dict[str, Any]


def status_patch(effect: SetStatus, now_s: float) -> Object:
    """The condition and the nomination. The transition time changes only with the status of the condition."""
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
    """Gates merge by name, so other gates stay in their order. A gate that is already removed is no error."""
    body: Object = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    if removal.stamp:
        body["metadata"] = {"annotations": {STAMP: removal.stamp}}
    return body


def stamp_operations(removal: RemoveStamp) -> list[Object]:
    """A JSON patch that removes this stamp and no later one."""
    path = f"/metadata/annotations/{STAMP.replace('/', '~1')}"
    return [{"op": "test", "path": path, "value": removal.stamp}, {"op": "remove", "path": path}]


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
