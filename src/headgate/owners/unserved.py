"""Kinds that the server stores and nobody looks after: each object is told so by an Event, once.

Whoever applies one and waits finds the reason where people look first, in ``kubectl describe`` and ``get events``. What
is not looked after is in the table; a kind that gets a controller leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.kube.resource import HORIZONTAL_POD_AUTOSCALERS, REPLICATION_CONTROLLERS, Resource
from headgate.kube.schema import GroupVersionKind
from headgate.owners.contract import Controller, Done, Interest, Steps, Wake
from headgate.owners.effects import Emit
from headgate.owners.families.pods import about

Object = dict[str, Any]

_COMPONENT: Final = "headgate-controllers"
_REASON: Final = "NotSupported"


class _Row(msgspec.Struct, frozen=True):
    kind: GroupVersionKind
    message: str


_ROWS: Final = {
    REPLICATION_CONTROLLERS: _Row(
        GroupVersionKind("", "v1", "ReplicationController"),
        "nobody makes the pods of a ReplicationController here: use a ReplicaSet or a Deployment",
    ),
    HORIZONTAL_POD_AUTOSCALERS: _Row(
        GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"),
        "nobody measures simulated pods, so nothing is scaled: change the replicas with kubectl scale",
    ),
}


class _Told(msgspec.Struct, frozen=True):
    resource: Resource
    uid: str


class Unserved(Controller):
    name = "unserved"

    def __init__(self) -> None:
        self._waiting: Final[dict[_Told, Object]] = {}
        self._told: Final[set[str]] = set()

    def interests(self) -> Iterable[Interest]:
        return [Interest(resource, frozenset({"metadata.creationTimestamp"})) for resource in _ROWS]

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        key = _Told(resource, obj["metadata"]["uid"])
        if key.uid in self._told:
            return ()
        self._waiting[key] = obj
        return (Wake(key),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        self._waiting.pop(_Told(resource, uid), None)
        self._told.discard(uid)
        return ()

    def work(self, key: _Told, now_s: float) -> Steps:
        obj = self._waiting.pop(key, None)
        if obj is not None:
            row = _ROWS[key.resource]
            self._told.add(key.uid)
            yield Emit(about(obj, row.kind), "Warning", _REASON, row.message, _COMPONENT)
        return Done()
