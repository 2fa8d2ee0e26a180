"""The admission plugins of the API server, for objects that are not submitted yet.

The plugins are those of the embedded server: NamespaceLifecycle, LimitRanger, ServiceAccount, Priority, RuntimeClass.
They read the listed objects of a cluster and the earlier objects of the same file. A plugin is left out if the objects
that it reads could not be listed. ``submission.py`` runs them before and after Headgate's own admission handlers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes
from headgate.apiserver.admission_plugins.plugin_table import builtin
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube.api_resources import (
    LIMIT_RANGES,
    NAMESPACES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    APIResource,
)

Object = dict[str, Any]

READ: Final[Mapping[APIResource, str]] = {
    NAMESPACES: "NamespaceLifecycle",
    SERVICE_ACCOUNTS: "ServiceAccount",
    LIMIT_RANGES: "LimitRanger",
    RUNTIME_CLASSES: "RuntimeClass",
    POD_PRIORITY_CLASSES: "Priority",
}
"""What the plugins read, with the plugin that needs it."""
_DEFAULT_ACCOUNT: Final = "default"
_USER: Final = "headgate-explain"
_BY_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"


class _ReadObjects:
    """The objects that plugins look up (``ObjectLister``), by resource and namespace."""

    def __init__(self, objects: Mapping[APIResource, Sequence[Object]]) -> None:
        self._objects: dict[str, dict[str, dict[str, Object]]] = {}
        for resource in READ:
            for each in objects.get(resource, ()):
                self.add(resource, each)

    def add(self, resource: APIResource, obj: Object) -> None:
        metadata = obj["metadata"]
        namespace = (metadata.get("namespace") or "") if resource.namespaced else ""
        self._objects.setdefault(_name_of(resource), {}).setdefault(namespace, {})[metadata["name"]] = obj

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        found = self._objects.get(resource, {}).get(namespace, {}).get(name)
        if found is None and (resource, name) == (SERVICE_ACCOUNTS.plural, _DEFAULT_ACCOUNT):
            return {"metadata": {"namespace": namespace, "name": name}}  # a controller creates it in every namespace
        return found

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        found = self.get(resource, namespace, name)
        return None if found is None else found["metadata"].get("labels") or {}

    def list(self, resource: str, namespace: str | None) -> Iterable[Object]:
        by_namespace = self._objects.get(resource, {})
        if namespace is not None:
            return tuple(by_namespace.get(namespace, {}).values())
        return tuple(each for named in by_namespace.values() for each in named.values())


class ServerAdmission:
    """``objects``: the present objects of the resources in :data:`READ`; a resource that is missing there could not be
    listed."""

    def __init__(self, objects: Mapping[APIResource, Sequence[Object]]) -> None:
        self._plugins = builtin(frozenset(plugin for resource, plugin in READ.items() if resource not in objects))
        self._read = _ReadObjects(objects)

    def add(self, resource: APIResource, obj: Object) -> None:
        """An object of the file, which later objects may need."""
        if resource in READ:
            self._read.add(resource, obj)

    def mutate(self, resource: APIResource, obj: Object) -> tuple[Object, tuple[str, ...], str]:
        """The changed object, what was set, and why it would be refused (empty if it would not)."""
        changed = dict(obj)
        refusal = self._plugins.mutate(_attributes(resource, obj), changed, None, self._read)
        before, after = (_annotations(each).get(_BY_LIMIT_RANGER, "") for each in (obj, changed))
        return changed, (after,) if after != before else (), "" if refusal is None else refusal.message

    def validate(self, resource: APIResource, obj: Object) -> str:
        """Why it would be refused; empty if it would not."""
        refusal = self._plugins.validate(_attributes(resource, obj), dict(obj), None, self._read)
        return "" if refusal is None else refusal.message


def _annotations(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def _attributes(resource: APIResource, obj: Object) -> AdmissionAttributes:
    metadata = obj["metadata"]
    return AdmissionAttributes(
        operation="CREATE",
        resource=api_errors.GroupResource(resource.group, resource.plural),
        kind=str(obj["kind"]),
        subresource="",
        namespace=(metadata.get("namespace") or "") if resource.namespaced else "",
        name=metadata["name"],
        user=_USER,
        dry_run=True,
    )


def _name_of(resource: APIResource) -> str:
    return str(api_errors.GroupResource(resource.group, resource.plural))
