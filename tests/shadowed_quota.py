"""A quota engine that decides and writes, as Kueue does, and the shadow that sees every version that it writes."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.quota.api.workload import Admission, AdmittedPodSet
from headgate.quota.effects import Admit, Evict
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.shadow.comparison import DecisionComparison
from headgate.shadow.quota_shadow import QuotaShadow
from quota_engine import Api

Wire = dict[str, Any]

PATIENCE_S = 30.0
_RESOURCES: dict[str, APIResource] = {
    "flavor": RESOURCE_FLAVORS,
    "cohort": COHORTS,
    "cluster_queue": CLUSTER_QUEUES,
    "local_queue": LOCAL_QUEUES,
    "workload": WORKLOADS,
}


class _ShownObjects(dict[tuple[str, str], Wire]):
    """Every object that is stored is shown to the shadow."""

    def __init__(self, world: ShadowedQuota) -> None:
        super().__init__()
        self._world = world

    def __setitem__(self, key: tuple[str, str], wire: Wire) -> None:
        super().__setitem__(key, wire)
        self._world.show_version(key[0], key[1], wire)


class ShadowedQuota(Api):
    """``compared``: all comparisons. The engine of ``Api`` is the other system."""

    def __init__(self, settings: QuotaSettings | None = None, patience_s: float = PATIENCE_S) -> None:
        self.compared: list[DecisionComparison] = []
        self.shadow = QuotaShadow(settings or QuotaSettings(), self.compared.append, patience_s)
        super().__init__(settings)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _ShownObjects(self) if name == "objects" else value)

    def begin(self) -> None:
        self.shadow.begin(self.now_s)

    def show_version(self, kind: str, name: str, wire: Wire) -> None:
        if kind == "namespace":
            shown = {"metadata": {"name": name, "labels": wire}}
            self.shadow.applied(NAMESPACES, shown, self.now_s)
        elif kind in _RESOURCES:
            self.shadow.applied(_RESOURCES[kind], copy.deepcopy(wire), self.now_s)

    def outcomes(self) -> dict[str, int]:
        """The comparisons since the last call, by decision and outcome."""
        found = Counter(f"{each.decision} {each.outcome}" for each in self.compared)
        self.compared.clear()
        return dict(found)

    # -- decisions that only the other makes ---------------------------------------------------------------------

    def admit(self, name: str, flavor: str = "default", queue: str = "cq", **usage: int) -> None:
        pod_set = AdmittedPodSet("main", dict.fromkeys(usage, flavor), {k: v * 1000 for k, v in usage.items()}, 1)
        self.perform([Admit(f"ns/{name}", f"uid-{name}", Admission(queue, (pod_set,)))])

    def preempt(self, name: str, preemptor: str) -> None:
        message = f"Preempted to accommodate a workload (UID: uid-{preemptor}, JobUID: UNKNOWN) due to prioritization"
        self.perform([Evict(f"ns/{name}", f"uid-{name}", "Preempted", message, "InClusterQueue", f"ns/{preemptor}")])
