"""PodDisruptionBudgets: how many more pods may be disrupted. An event handler of ``scheduling/cluster/cluster.py``.

The scheduler reads the status of a budget, which the disruption controller maintains: the allowed disruptions, and the
pods whose disruption has begun. Preemption may violate a budget, but prefers nodes with the fewest violations. An empty
selector selects no pod, as in kube-scheduler. Budgets wake no pods, because they never keep a pod from a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS, APIResource
from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ClusterEvent


class DisruptionBudget(msgspec.Struct, frozen=True):
    selector: Selector
    allowed: int
    disrupted_pods: frozenset[str]
    """Names of pods whose eviction the API server has already counted (``status.disruptedPods``)."""

    def covers(self, pod: PodInfo) -> bool:
        """Whether the eviction of this pod counts against the budget."""
        return bool(pod.labels) and self.selector.matches(pod.labels) and pod.name not in self.disrupted_pods


class DisruptionBudgets:
    watched: Final[Mapping[APIResource, tuple[str, ...]]] = {
        POD_DISRUPTION_BUDGETS: ("spec.selector", "status.disruptionsAllowed", "status.disruptedPods")
    }

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, DisruptionBudget]] = {}
        self.ignored_objects: dict[str, str] = {}
        """Why a budget is ignored, by ``namespace/name``."""
        self.version = 0
        """Increases with every change of a budget."""

    def violations(self, pods: Sequence[PodInfo]) -> tuple[bool, ...]:
        """For each pod, whether a budget would be violated if the pods were evicted in this order."""
        remaining: dict[tuple[str, str], int] = {}
        found: list[bool] = []
        for pod in pods:
            violates = False
            for name, budget in self._by_namespace.get(pod.namespace, {}).items():
                if budget.covers(pod):
                    key = (pod.namespace, name)
                    remaining[key] = remaining.get(key, budget.allowed) - 1
                    violates = violates or remaining[key] < 0
            found.append(violates)
        return tuple(found)

    def applied(self, resource: APIResource, obj: Mapping[str, Any], /) -> Iterable[ClusterEvent]:
        namespace, name = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
        budget = _read(obj)
        if isinstance(budget, str):
            self.removed(resource, namespace, name)
            self.ignored_objects[f"{namespace}/{name}"] = budget
            return ()
        self.ignored_objects.pop(f"{namespace}/{name}", None)
        budgets = self._by_namespace.setdefault(namespace, {})
        if budgets.get(name) != budget:
            budgets[name] = budget
            self.version += 1
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        self.ignored_objects.pop(f"{namespace}/{name}", None)
        budgets = self._by_namespace.get(namespace, {})
        if budgets.pop(name, None) is not None:
            self.version += 1
            if not budgets:
                del self._by_namespace[namespace]
        return ()


def _read(obj: Mapping[str, Any]) -> DisruptionBudget | str:
    """The budget, or a text that says why it cannot be read."""
    try:
        status = obj.get("status") or {}
        selector = from_label_selector((obj.get("spec") or {}).get("selector"))
        return DisruptionBudget(
            NOTHING if selector.is_everything else selector,
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )
    except (AttributeError, TypeError, ValueError) as error:
        return f"the budget cannot be read: {error!r}"
