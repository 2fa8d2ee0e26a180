"""Selectors of Services and of the controllers that own pods. An event handler of ``scheduling/cluster/cluster.py``.

Default topology spreading counts the pods that a pod's Services and its controller select. Services are indexed by one
label of their selector, so a lookup costs the number of the pod's labels and not the number of Services. These objects
wake no pods; events of the selected pods do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.kube.api_resources import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, APIResource
from headgate.kube.labels import Requirement, Selector, from_label_selector, from_set
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ClusterEvent

Object = Mapping[str, Any]
Label = tuple[str, str]

_KINDS: Final = {
    REPLICATION_CONTROLLERS: "ReplicationController",
    REPLICA_SETS: "ReplicaSet",
    STATEFUL_SETS: "StatefulSet",
}


class PodSelectors:
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = dict.fromkeys(
        (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS), ("spec.selector",)
    )

    def __init__(self) -> None:
        self._namespaces: dict[str, _NamespaceSelectors] = {}

    def applied(self, resource: APIResource, obj: Object, /) -> Iterable[ClusterEvent]:
        metadata = obj["metadata"]
        selector = (obj.get("spec") or {}).get("selector")
        selectors = self._namespaces.setdefault(metadata.get("namespace") or "", _NamespaceSelectors())
        if resource == SERVICES:
            selectors.set_service(metadata["name"], selector or {})
        else:
            selectors.set_owner((_KINDS[resource], metadata["name"]), _requirements(resource, selector))
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        selectors = self._namespaces.get(namespace)
        if selectors is not None:
            if resource == SERVICES:
                selectors.set_service(name, {})
            else:
                selectors.set_owner((_KINDS[resource], name), None)
            if selectors.is_empty:
                del self._namespaces[namespace]
        return ()

    def of(self, pod: PodInfo) -> Selector | None:
        """One selector with the requirements of all Services that select the pod and of its controller; ``None`` if
        there are none."""
        selectors = self._namespaces.get(pod.namespace)
        return None if selectors is None else selectors.selector_of(pod)


def _requirements(resource: APIResource, selector: Object | None) -> tuple[Requirement, ...]:
    # A replication controller's selector is a plain mapping. A selector that selects nothing adds nothing here.
    parsed = from_set(selector or {}) if resource == REPLICATION_CONTROLLERS else from_label_selector(selector)
    return parsed.requirements


class _NamespaceSelectors:
    def __init__(self) -> None:
        self._services: dict[str, Mapping[str, str]] = {}
        self._by_label: dict[Label, dict[str, Mapping[str, str]]] = {}
        self._owners: dict[tuple[str, str], tuple[Requirement, ...]] = {}
        self._cache: dict[tuple[tuple[str, str] | None, tuple[str, ...]], Selector | None] = {}
        """Merged selectors by owner and services; cleared when a service or owner changes."""

    @property
    def is_empty(self) -> bool:
        return not self._services and not self._owners

    def set_service(self, name: str, selector: Mapping[str, str]) -> None:
        """A Service without a selector selects nothing."""
        old = self._services.get(name)
        if (old or {}) == selector:
            return
        self._cache.clear()
        if old is not None:
            label = min(old.items())
            del self._by_label[label][name]
            if not self._by_label[label]:
                del self._by_label[label]
            del self._services[name]
        if selector:
            self._services[name] = selector
            self._by_label.setdefault(min(selector.items()), {})[name] = selector

    def set_owner(self, owner: tuple[str, str], requirements: tuple[Requirement, ...] | None) -> None:
        if self._owners.get(owner) == requirements:
            return
        self._cache.clear()
        if requirements is None:
            del self._owners[owner]
        else:
            self._owners[owner] = requirements

    def selector_of(self, pod: PodInfo) -> Selector | None:
        labels, by_label = pod.labels, self._by_label
        services = [
            name
            for label in labels.items()
            if label in by_label
            for name, selector in by_label[label].items()
            if selector.items() <= labels.items()
        ]
        owner = pod.owner if pod.owner in self._owners else None
        key = (owner, tuple(sorted(services)))
        if key not in self._cache:
            self._cache[key] = self._merge(*key)
        return self._cache[key]

    def _merge(self, owner: tuple[str, str] | None, services: tuple[str, ...]) -> Selector | None:
        """One selector with the requirements of the Services and of the owner."""
        labels: dict[str, str] = {}
        for name in services:
            labels |= self._services[name]
        found = list(from_set(labels).requirements)
        for each in self._owners[owner] if owner is not None else ():
            if owner is not None and owner[0] == _KINDS[REPLICATION_CONTROLLERS]:
                found = [other for other in found if other.key != each.key]
            if each not in found:
                found.append(each)
        return (
            Selector(tuple(sorted(found, key=lambda each: (each.key, each.operator, each.values)))) if found else None
        )
