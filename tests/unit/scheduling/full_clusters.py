"""Short builders of full clusters and of pods that preempt."""

from __future__ import annotations

from typing import Any

from clusters import Cluster, a_pod
from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.interface import Unplaced

Object = dict[str, Any]


def a_cluster(*nodes: Object, **profile: Any) -> Cluster:
    return Cluster(*nodes, preempts=True, **profile)


def run_pod(cluster: Cluster, name: str, node: str, cpu: str = "1", priority: int = 0, **more: Any) -> PodInfo:
    """A pod on a node; ``started`` is the second of a minute, ``labels``, ``deleting`` and ``conditions`` as wanted."""
    started, deleting = more.pop("started", None), more.pop("deleting", False)
    status: Object = {"conditions": more.pop("conditions", [])}
    if started is not None:
        status["startTime"] = f"2026-01-01T00:00:{started:02}Z"
    wire = a_pod(name, {"cpu": cpu}, priority=priority, status=status, labels=more.pop("labels", {}), **more)
    if deleting:
        wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return cluster.bind(wire, node)


def try_to_place(cluster: Cluster, wire: Object) -> Unplaced:
    found = cluster.cycle.place(cluster.pod(wire))
    assert isinstance(found, Unplaced), found
    return found


def preempt(cluster: Cluster, cpu: str = "1", priority: int = 10, **spec: Any) -> tuple[str, list[str]]:
    """The nominated node and the victims."""
    found = try_to_place(cluster, a_pod("p", {"cpu": cpu}, priority=priority, **spec))
    assert found.nominated is not None, found.message
    assert found.promise == found.nominated.node_name
    return found.nominated.node_name, [each.name for each in found.nominated.victims]


def add_budget(cluster: Cluster, allowed: int, selector: Object | None, **status: Any) -> None:
    wire = {
        "metadata": {"name": f"pdb{cluster.cluster.disruption_budgets.version}", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    assert list(cluster.cluster.applied(POD_DISRUPTION_BUDGETS, wire)) == []


WEB = {"matchLabels": {"app": "web"}}
