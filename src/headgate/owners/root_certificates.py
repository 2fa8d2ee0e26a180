"""Every namespace has a ConfigMap ``kube-root-ca.crt`` that tells pods whom to trust; a changed one is put right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.resource import CONFIG_MAPS, NAMESPACES, Resource
from headgate.owners.contract import Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.effects import Create, Get, Replace
from headgate.owners.service_accounts import NAMESPACE_TERMINATING

Object = dict[str, Any]

_NAME: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)


class RootCertificates(Controller):
    """Keys are names of namespaces; ``bundle`` is the certificate of the authority in PEM."""

    name = "root-certificates"

    def __init__(self, bundle: str) -> None:
        self._data: Final = {_KEY: bundle}
        self._active: Final[set[str]] = set()
        self._right: Final[dict[str, bool]] = {}

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(NAMESPACES, frozenset({"metadata.deletionTimestamp"})),
            Interest(CONFIG_MAPS, frozenset({"metadata.annotations", "data"}), f"metadata.name={_NAME}"),
        )

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        metadata = obj["metadata"]
        if resource == CONFIG_MAPS:
            namespace = metadata["namespace"]
            self._right[namespace] = self._is_right(obj)
            return () if self._right[namespace] else (Wake(namespace),)
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            self._active.discard(name)
            return ()
        self._active.add(name)
        return () if self._right.get(name) else (Wake(name),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == NAMESPACES:
            self._active.discard(name)
            return ()
        self._right.pop(namespace, None)
        return (Wake(namespace),)

    def work(self, key: str, now_s: float) -> Steps:
        if key not in self._active or self._right.get(key):
            return Done()
        answer = yield Get(CONFIG_MAPS, key, _NAME)
        if answer.missing:
            metadata = {"name": _NAME, "annotations": {_ANNOTATION: _DESCRIPTION}}
            answer = yield Create(CONFIG_MAPS, key, {"metadata": metadata, "data": self._data})
            settled = answer.conflict or answer.status == 404 or answer.has_cause(NAMESPACE_TERMINATING)
            return Done() if answer.ok or settled else Again(answer.message)
        if answer.ok and not self._is_right(answer.body):
            metadata = answer.body["metadata"]
            notes = {**(metadata.get("annotations") or {}), _ANNOTATION: _DESCRIPTION}
            obj = {**answer.body, "metadata": {**metadata, "annotations": notes}, "data": self._data}
            answer = yield Replace(CONFIG_MAPS, key, _NAME, obj)
        return Done() if answer.ok else Again(answer.message)

    def _is_right(self, obj: Object) -> bool:
        described = (obj["metadata"].get("annotations") or {}).get(_ANNOTATION)
        return obj.get("data") == self._data and bool(described)
