"""Keeps a service account ``default`` in every namespace; a deleted one is created again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.controllers.framework.effects import Create
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.kube.api_resources import NAMESPACES, SERVICE_ACCOUNTS, APIResource

Object = dict[str, Any]

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_NAME: Final = "default"


class ServiceAccountsController(Controller):
    """Keys are names of namespaces."""

    name = "service-accounts"

    def __init__(self) -> None:
        self._active: Final[set[str]] = set()
        self._present: Final[set[str]] = set()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(NAMESPACES, frozenset({"metadata.deletionTimestamp"})),
            WatchSpec(SERVICE_ACCOUNTS, frozenset({"metadata.deletionTimestamp"})),
        )

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        metadata = obj["metadata"]
        if resource == SERVICE_ACCOUNTS:
            if metadata["name"] == _NAME:
                self._present.add(metadata["namespace"])
            return ()
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            self._active.discard(name)
            return ()
        self._active.add(name)
        return () if name in self._present else (Enqueue(name),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == NAMESPACES:
            self._active.discard(name)
        elif name == _NAME:
            self._present.discard(namespace)
            return (Enqueue(namespace),)
        return ()

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        if key not in self._active or key in self._present:
            return Done()
        response = yield Create(SERVICE_ACCOUNTS, key, {"metadata": {"name": _NAME}})
        if response.ok or response.conflict or response.status == 404 or response.has_cause(NAMESPACE_TERMINATING):
            return Done()
        return RequeueWithBackoff(response.message)
