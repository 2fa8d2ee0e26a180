"""Emits one Event on each object of a kind that the server stores and no controller handles.

A user who applies such an object and waits finds the reason in ``kubectl describe`` and ``kubectl get events``. The
table lists these kinds; a kind that gets a controller is removed from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import EmitEvent
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.api_resources import HORIZONTAL_POD_AUTOSCALERS, REPLICATION_CONTROLLERS, APIResource
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

_COMPONENT: Final = "headgate-controllers"
_REASON: Final = "NotSupported"


class _Row(msgspec.Struct, frozen=True):
    kind: GroupVersionKind
    message: str


_ROWS: Final = {
    REPLICATION_CONTROLLERS: _Row(
        GroupVersionKind("", "v1", "ReplicationController"),
        "no controller here creates the pods of a ReplicationController: use a ReplicaSet or a Deployment",
    ),
    HORIZONTAL_POD_AUTOSCALERS: _Row(
        GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"),
        "simulated pods have no metrics, so nothing is scaled: change the replicas with kubectl scale",
    ),
}


class _UnsupportedObject(msgspec.Struct, frozen=True):
    resource: APIResource
    uid: str


class UnsupportedKindsController(Controller):
    name = "unsupported-kinds"

    def __init__(self) -> None:
        self._waiting: Final[dict[_UnsupportedObject, Object]] = {}
        self._reported: Final[set[str]] = set()

    def watches(self) -> Iterable[WatchSpec]:
        return [WatchSpec(resource, frozenset({"metadata.creationTimestamp"})) for resource in _ROWS]

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        key = _UnsupportedObject(resource, obj["metadata"]["uid"])
        if key.uid in self._reported:
            return ()
        self._waiting[key] = obj
        return (Enqueue(key),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._waiting.pop(_UnsupportedObject(resource, uid), None)
        self._reported.discard(uid)
        return ()

    def reconcile(self, key: _UnsupportedObject, now_s: float) -> ReconcileSteps:
        obj = self._waiting.pop(key, None)
        if obj is not None:
            row = _ROWS[key.resource]
            self._reported.add(key.uid)
            yield EmitEvent(object_reference(obj, row.kind), "Warning", _REASON, row.message, _COMPONENT)
        return Done()
