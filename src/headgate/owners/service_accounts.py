"""Every namespace has a service account called ``default``; one that is deleted comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.resource import NAMESPACES, SERVICE_ACCOUNTS, Resource
from headgate.owners.contract import Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.effects import Create

Object = dict[str, Any]

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_NAME: Final = "default"


class ServiceAccounts(Controller):
    """Keys are names of namespaces."""

    name = "service-accounts"

    def __init__(self) -> None:
        self._active: Final[set[str]] = set()
        self._present: Final[set[str]] = set()

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(NAMESPACES, frozenset({"metadata.deletionTimestamp"})),
            Interest(SERVICE_ACCOUNTS, frozenset({"metadata.deletionTimestamp"})),
        )

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
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
        return () if name in self._present else (Wake(name),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == NAMESPACES:
            self._active.discard(name)
        elif name == _NAME:
            self._present.discard(namespace)
            return (Wake(namespace),)
        return ()

    def work(self, key: str, now_s: float) -> Steps:
        if key not in self._active or key in self._present:
            return Done()
        answer = yield Create(SERVICE_ACCOUNTS, key, {"metadata": {"name": _NAME}})
        if answer.ok or answer.conflict or answer.status == 404 or answer.has_cause(NAMESPACE_TERMINATING):
            return Done()
        return Again(answer.message)
