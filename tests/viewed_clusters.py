"""Wire objects of small clusters for the views, and views that are fed with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import TOPICS, Row

Wire = dict[str, Any]
NOW_S = 1_700_000_000.0
ORDER = (
    *(NAMESPACES, QUEUES, POD_GROUPS, RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS),
    *(GATE_POLICIES, NODES, PODS),
)


def a_pod(
    name: str,
    cpu: str = "1",
    queue: str = "",
    group: str = "",
    gates: Iterable[str] = (GATE,),
    node: str = "",
    namespace: str = "ns",
    scheduler: str = "headgate",
    phase: str = "Pending",
    at_s: float = 0.0,
    uid: str = "",
    conditions: Iterable[Wire] = (),
    labels: Mapping[str, str] | None = None,
    **metadata: Any,
) -> Wire:
    annotations = {OPT_IN: "true"} if GATE in gates or node else {}
    annotations |= {QUEUE_NAME: queue} if queue else {}
    annotations |= {GROUP_NAMES[0]: group} if group else {}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"u-{namespace}-{name}",
            "creationTimestamp": format_time(NOW_S + at_s),
            "annotations": annotations,
            "labels": dict(labels or {}),
            **metadata,
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "schedulingGates": [{"name": each} for each in gates],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase, "conditions": list(conditions)},
    }


def a_node(name: str, cpu: str = "8", ready: bool = True, **spec: Any) -> Wire:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "uid": f"u-{name}"},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [condition]},
    }


def a_policy(name: str, *gates: str, lifters: Iterable[str] = ()) -> Wire:
    subjects = [{"kind": "User", "name": each} for each in lifters]
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "creationTimestamp": format_time(0), "generation": 1},
        "spec": {"gates": list(gates), **({"liftedBy": subjects} if subjects else {})},
    }


class ViewedCluster:
    """``objects``: what the API shows, by resource and key. Every change is given to ``views``."""

    def __init__(self) -> None:
        self.views = ClusterViews()
        self.objects: dict[tuple[APIResource, str], Wire] = {}
        self.now_s = NOW_S

    def put(self, resource: APIResource, *found: Wire) -> None:
        for obj in found:
            self.objects[resource, key_of(obj)] = obj
            self.views.applied(resource, obj, self.now_s)

    def remove(self, resource: APIResource, key: str) -> None:
        metadata = self.objects.pop((resource, key))["metadata"]
        namespace = metadata.get("namespace", "")
        self.views.removed(resource, namespace, metadata["name"], metadata.get("uid", ""), self.now_s)

    def flush(self) -> ClusterViews:
        self.views.flush(self.now_s)
        return self.views

    def rebuilt(self) -> ClusterViews:
        """Views of the same objects that were built at once."""
        views = ClusterViews()
        for resource in ORDER:
            for (each, _), obj in self.objects.items():
                if each == resource:
                    views.applied(resource, obj, self.now_s)
        views.flush(self.now_s)
        return views


def key_of(obj: Wire) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def all_rows(views: ClusterViews) -> dict[str, dict[str, Row]]:
    return {topic: {row.key: row for row in views.rows(topic)} for topic in TOPICS}
