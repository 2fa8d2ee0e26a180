"""Labels of namespaces, for terms with a namespace selector. An event handler of ``scheduling/cluster/cluster.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.labels import Selector
from headgate.scheduling.framework.cluster_events import ClusterEvent

Labels = Mapping[str, str]

_NO_LABELS: Final[Labels] = MappingProxyType({})


class NamespaceLabels:
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {NAMESPACES: ("metadata.labels",)}

    def __init__(self) -> None:
        self._labels: dict[str, Labels] = {}
        self.version = 0
        """Increases when a namespace is added, removed or relabelled."""
        self._versions: dict[str, int] = {}
        self._selected: dict[Selector, frozenset[str]] = {}

    def labels(self, name: str) -> Labels:
        """The labels of a namespace; empty if it is unknown."""
        return self._labels.get(name, _NO_LABELS)

    def version_of(self, name: str) -> int:
        """The version in which a namespace was added or relabelled; 0 if it is unknown."""
        return self._versions.get(name, 0)

    def selected(self, selector: Selector) -> frozenset[str]:
        """The names of the namespaces that a selector matches."""
        found = self._selected.get(selector)
        if found is None:
            found = frozenset(name for name, labels in self._labels.items() if selector.matches(labels))
            self._selected[selector] = found
        return found

    def applied(self, resource: APIResource, obj: Mapping[str, Any], /) -> Iterable[ClusterEvent]:
        metadata = obj["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        if self._labels.get(name) != labels:
            self._labels[name] = labels
            self._increment_version()
            self._versions[name] = self.version
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        if self._labels.pop(name, None) is not None:
            del self._versions[name]
            self._increment_version()
        return ()

    def _increment_version(self) -> None:
        self.version += 1
        self._selected.clear()
