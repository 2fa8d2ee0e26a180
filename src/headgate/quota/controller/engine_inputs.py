"""What the quota engine reads: the kinds to watch, and which call of the engine an event of each kind is.

``quota_controller.py`` and the shadow of another quota controller (``shadow/quota_shadow.py``) feed their engines in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, WatchSpec
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, PODS, RUNTIME_CLASSES, APIResource
from headgate.quota import effects
from headgate.quota.api.admission_checks import is_check_active
from headgate.quota.engine import QuotaEngine
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

Object = dict[str, Any]
Effects = list[effects.Effect]

_WATCHED: Final = (RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS)


_POD_DEFAULTS: Final = {LIMIT_RANGES: frozenset({"spec.limits"}), RUNTIME_CLASSES: frozenset({"overhead"})}
"""The kinds from which the API server adds requests to pods when they are created, with the fields that are read."""


_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec",
        "status.phase",
        "status.containerStatuses",
        "status.initContainerStatuses",
        "status.conditions",
    }
)
"""The fields that determine how much quota a pod uses on its node, and until when."""


class EngineInputs:
    """``applied`` and ``removed``: the calls of the engine, by resource. Pods are not in them, because they have no
    effects; ``WORKLOADS`` is only in ``removed``, because its callers look at each version of a Workload first."""

    def __init__(self, engine: QuotaEngine, *, watches_pods: bool) -> None:
        self._engine = engine
        self._watches_pods = watches_pods
        self._served: frozenset[APIResource] = frozenset()
        self.applied: Final[Mapping[APIResource, Callable[[Object, float], Effects]]] = {
            RESOURCE_FLAVORS: engine.flavor_applied,
            CLUSTER_QUEUES: engine.cluster_queue_applied,
            COHORTS: engine.cohort_applied,
            LOCAL_QUEUES: engine.local_queue_applied,
            ADMISSION_CHECKS: self._check_applied,
            NAMESPACES: self._namespace_applied,
            LIMIT_RANGES: engine.limit_range_applied,
            RUNTIME_CLASSES: engine.runtime_class_applied,
        }
        self.removed: Final[Mapping[APIResource, Callable[[str, float], Effects]]] = {
            RESOURCE_FLAVORS: engine.flavor_removed,
            CLUSTER_QUEUES: engine.cluster_queue_removed,
            COHORTS: engine.cohort_removed,
            LOCAL_QUEUES: engine.local_queue_removed,
            WORKLOADS: engine.workload_removed,
            ADMISSION_CHECKS: engine.check_removed,
            NAMESPACES: engine.namespace_removed,
            LIMIT_RANGES: engine.limit_range_removed,
            RUNTIME_CLASSES: engine.runtime_class_removed,
        }

    def discovered(self, served: DiscoveredKinds) -> None:
        """Called again when more kinds are served."""
        known = frozenset((*_WATCHED, *_POD_DEFAULTS))
        self._served = frozenset(row.resource for row in served.by_name.values()) & known

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [WatchSpec(resource, ALL_FIELDS) for resource in _WATCHED if resource in self._served]
        defaults = [WatchSpec(each, fields) for each, fields in _POD_DEFAULTS.items() if each in self._served]
        pods = [WatchSpec(PODS, _POD_FIELDS)] if self._watches_pods else []
        return [*kinds, *defaults, *pods, WatchSpec(NAMESPACES, frozenset({"metadata.labels"}))]

    def _check_applied(self, obj: Object, now_s: float) -> Effects:
        return self._engine.check_applied(obj["metadata"]["name"], is_check_active(obj), now_s)

    def _namespace_applied(self, obj: Object, now_s: float) -> Effects:
        metadata = obj["metadata"]
        return self._engine.namespace_applied(metadata["name"], metadata.get("labels") or {}, now_s)
