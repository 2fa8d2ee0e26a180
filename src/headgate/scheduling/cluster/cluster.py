"""The cluster state that plugins may read besides the pod: the nodes with their pods, and other API objects.

Each group of other objects is an event handler in its own module: it declares the resources it watches, stores them,
and returns the events that may wake waiting pods. :meth:`Cluster.add_event_handler` adds one. ``runtime/scheduler/``
watches the API server; the node matrix holds the pods that have a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cluster.disruption_budgets import DisruptionBudgets
from headgate.scheduling.cluster.namespace_labels import NamespaceLabels
from headgate.scheduling.cluster.ongoing_preemptions import OngoingPreemptions
from headgate.scheduling.cluster.pod_selectors import PodSelectors
from headgate.scheduling.cluster.terminating_pods import TerminatingPods
from headgate.scheduling.cluster.victim_rules import VictimRule
from headgate.scheduling.framework import result_checks
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import ResourceEventHandler
from headgate.scheduling.framework.plugin_timers import ERROR, SUCCESS, ProfileTimers
from headgate.scheduling.volumes.storage_cache import StorageCache

Object = Mapping[str, Any]


class Cluster:
    def __init__(
        self,
        capacity: int = 64,
        waiting_labels: Collection[str] = (),
        waiting_schedulers: Collection[str] = (),
        timers: ProfileTimers | None = None,
    ) -> None:
        """Pods with one of ``waiting_labels``, and pods of ``waiting_schedulers``, wait for terminating pods
        (``terminating_pods.py``). ``timers``: for plugins that are event handlers."""
        self._timers = timers or ProfileTimers()
        self.matrix = NodeMatrix(capacity)
        self.namespaces = NamespaceLabels()
        self.disruption_budgets = DisruptionBudgets()
        self.ongoing_preemptions = OngoingPreemptions()
        self.terminating_pods = TerminatingPods(waiting_labels, waiting_schedulers)
        self.victim_rules: dict[str, VictimRule] = {}
        self.pod_selectors = PodSelectors()
        self.storage = StorageCache()
        self.event_handlers: tuple[ResourceEventHandler, ...] = (
            self.namespaces,
            self.disruption_budgets,
            self.pod_selectors,
            self.storage,
        )
        self._handlers: dict[APIResource, list[ResourceEventHandler]] = {}
        for handler in self.event_handlers:
            self.add_event_handler(handler)
        self._needed = frozenset(self._handlers)

    def add_event_handler(self, handler: ResourceEventHandler, *, needed: bool = False) -> None:
        """Plugins with ``watched`` are event handlers, too."""
        for resource in handler.watched:
            self._handlers.setdefault(resource, []).append(handler)
        if needed:
            self._needed |= frozenset(handler.watched)

    @property
    def needed(self) -> frozenset[APIResource]:
        """The resources that built-in plugins and queues read. Only external plugins need other watched resources."""
        return self._needed

    def watchers(self, resource: APIResource) -> list[str]:
        """The names of the plugins that receive the resource."""
        names = (getattr(handler, "name", "") for handler in self._handlers.get(resource, ()))
        return sorted({name for name in names if name})

    def watched(self) -> dict[APIResource, frozenset[str]]:
        """The fields that the handlers read, by resource; an empty set means all fields."""
        return {
            resource: frozenset(field for handler in handlers for field in handler.watched[resource])
            if all(handler.watched[resource] for handler in handlers)
            else frozenset()
            for resource, handlers in self._handlers.items()
        }

    def applied(self, resource: APIResource, wire: Object) -> list[ClusterEvent]:
        """An object was created or updated."""
        return self._notify(resource, "applied", lambda part: part.applied(resource, wire))

    def removed(self, resource: APIResource, namespace: str, name: str) -> list[ClusterEvent]:
        return self._notify(resource, "removed", lambda part: part.removed(resource, namespace, name))

    def _notify(
        self, resource: APIResource, method: str, call: Callable[[ResourceEventHandler], Iterable[ClusterEvent]]
    ) -> list[ClusterEvent]:
        """Call all handlers of the resource. A plugin that fails does not affect the other handlers."""
        found: list[ClusterEvent] = []
        handler: Any
        for handler in self._handlers[resource]:
            if result_checks.is_built_in(handler):
                found += call(handler)
                continue
            timer = self._timers.timer(handler.name, method)
            began_s = timer.begin()
            status = SUCCESS
            try:
                found += result_checks.cluster_events(call(handler))
            except BaseException as error:
                status = ERROR
                self._timers.failures.failed(handler, method, error, f"a change of {resource.plural}")
            if began_s is not None:
                timer.end(began_s, status)
        return found
