"""Receives the watch events of a cluster for the views, as a controller that reconciles nothing.

``runtime/controller_manager.py`` runs it with a read-only transport. A resource that may not be listed is left out; the
caller says so with ``ClusterViews.set_missing_rights``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    WatchSpec,
)
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.views.cluster_views import ClusterViews

Object = dict[str, Any]

_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "spec",
        "status.phase",
        "status.startTime",
        "status.conditions",
        "status.containerStatuses",
        "status.initContainerStatuses",
    }
)
_NODE_FIELDS: Final = frozenset({"metadata.labels", "spec.unschedulable", "status.allocatable", "status.conditions"})
_OPTIONAL: Final = (QUEUES, POD_GROUPS, GATE_POLICIES)


class ViewsController(Controller):
    """``changed`` is called after each event, ``left_out`` are resources that may not be listed."""

    name = "views"

    def __init__(
        self, views: ClusterViews, changed: Callable[[], None], left_out: frozenset[APIResource] = frozenset()
    ) -> None:
        self._views: Final = views
        self._changed: Final = changed
        self._left_out: Final = left_out
        self._served: frozenset[APIResource] = frozenset()
        self._synced: Final[set[APIResource]] = set()

    @property
    def is_synced(self) -> bool:
        """Whether all lists have been delivered."""
        return bool(self._served) and {each.resource for each in self.watches()} <= self._synced

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        self._views.quota.discovered(served)
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        wanted = [WatchSpec(each, ALL_FIELDS) for each in _OPTIONAL if each in self._served]
        wanted += [WatchSpec(NODES, _NODE_FIELDS), WatchSpec(PODS, _POD_FIELDS)]
        wanted += [WatchSpec(NAMESPACES, frozenset({"metadata.annotations", "metadata.labels"}))]
        wanted += self._views.quota.watches()
        return [each for each in wanted if each.resource not in self._left_out]

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        self._views.applied(resource, obj, now_s)
        self._changed()
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._views.removed(resource, namespace, name, uid, now_s)
        self._changed()
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self._synced.add(resource)
        self._changed()
        return ()

    def reconcile(self, key: Any, now_s: float) -> ReconcileSteps:
        yield from ()
        return Done()
