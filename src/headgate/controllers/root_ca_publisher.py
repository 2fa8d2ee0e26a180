"""Keeps a ConfigMap ``kube-root-ca.crt`` with the API server's CA in every namespace; a changed one is restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.controllers.framework.effects import Create, Get, Replace
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.service_accounts import NAMESPACE_TERMINATING
from headgate.kube.api_resources import CONFIG_MAPS, NAMESPACES, APIResource

Object = dict[str, Any]

_NAME: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)


class RootCACertPublisher(Controller):
    """Keys are names of namespaces; ``bundle`` is the CA certificate in PEM."""

    name = "root-certificates"

    def __init__(self, bundle: str) -> None:
        self._data: Final = {_KEY: bundle}
        self._active: Final[set[str]] = set()
        self._is_correct: Final[dict[str, bool]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(NAMESPACES, frozenset({"metadata.deletionTimestamp"})),
            WatchSpec(CONFIG_MAPS, frozenset({"metadata.annotations", "data"}), f"metadata.name={_NAME}"),
        )

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        metadata = obj["metadata"]
        if resource == CONFIG_MAPS:
            namespace = metadata["namespace"]
            self._is_correct[namespace] = self._has_bundle(obj)
            return () if self._is_correct[namespace] else (Enqueue(namespace),)
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            self._active.discard(name)
            return ()
        self._active.add(name)
        return () if self._is_correct.get(name) else (Enqueue(name),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == NAMESPACES:
            self._active.discard(name)
            return ()
        self._is_correct.pop(namespace, None)
        return (Enqueue(namespace),)

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        if key not in self._active or self._is_correct.get(key):
            return Done()
        response = yield Get(CONFIG_MAPS, key, _NAME)
        if response.missing:
            metadata = {"name": _NAME, "annotations": {_ANNOTATION: _DESCRIPTION}}
            response = yield Create(CONFIG_MAPS, key, {"metadata": metadata, "data": self._data})
            settled = response.conflict or response.status == 404 or response.has_cause(NAMESPACE_TERMINATING)
            return Done() if response.ok or settled else RequeueWithBackoff(response.message)
        if response.ok and not self._has_bundle(response.body):
            metadata = response.body["metadata"]
            annotations = {**(metadata.get("annotations") or {}), _ANNOTATION: _DESCRIPTION}
            obj = {**response.body, "metadata": {**metadata, "annotations": annotations}, "data": self._data}
            response = yield Replace(CONFIG_MAPS, key, _NAME, obj)
        return Done() if response.ok else RequeueWithBackoff(response.message)

    def _has_bundle(self, obj: Object) -> bool:
        described = (obj["metadata"].get("annotations") or {}).get(_ANNOTATION)
        return obj.get("data") == self._data and bool(described)
