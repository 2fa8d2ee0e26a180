"""The cluster state that plugins may read besides the pod: the nodes with their pods, and other API objects.

Each group of other objects is an event handler in its own module: it declares the resources it watches, stores them,
and returns the events that may wake waiting pods. :meth:`Cluster.add_event_handler` adds one. ``runtime/scheduler/``
watches the API server; the node matrix holds the pods that have a node.
"""

from __future__ import annotations

from collections.abc import Collection

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cluster.disruption_budgets import DisruptionBudgets
from headgate.scheduling.cluster.event_handlers import ResourceEventHandlers
from headgate.scheduling.cluster.namespace_labels import NamespaceLabels
from headgate.scheduling.cluster.ongoing_preemptions import OngoingPreemptions
from headgate.scheduling.cluster.pod_selectors import PodSelectors
from headgate.scheduling.cluster.terminating_pods import TerminatingPods
from headgate.scheduling.cluster.victim_rules import VictimRule
from headgate.scheduling.framework.interface import ResourceEventHandler
from headgate.scheduling.framework.plugin_timers import ProfileTimers
from headgate.scheduling.volumes.storage_cache import StorageCache


class Cluster:
    def __init__(
        self,
        capacity: int = 64,
        waiting_labels: Collection[str] = (),
        waiting_schedulers: Collection[str] = (),
        timers: ProfileTimers | None = None,
    ) -> None:
        """``capacity``: the initial number of rows of the node matrix. Pods with one of ``waiting_labels``, and pods of
        ``waiting_schedulers``, wait for terminating pods (``terminating_pods.py``). ``timers``: for plugins that are
        event handlers."""
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
        self._handlers = ResourceEventHandlers(timers or ProfileTimers())
        for handler in self.event_handlers:
            self._handlers.add(handler, needed=True)
        self.watchers = self._handlers.watchers
        self.watched = self._handlers.watched
        self.applied = self._handlers.applied
        self.removed = self._handlers.removed

    def add_event_handler(self, handler: ResourceEventHandler, *, needed: bool = False) -> None:
        """Pass events of the handler's resources to it. Plugins with ``watched`` are event handlers, too. ``needed``:
        built-in parts of the scheduler read these resources (see :attr:`needed`)."""
        self._handlers.add(handler, needed=needed)

    @property
    def needed(self) -> frozenset[APIResource]:
        """The resources that built-in plugins and queues read. Only external plugins need other watched resources."""
        return self._handlers.needed
