"""Builders of nodes and pods in wire form, and a scheduling cycle of a profile over them."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.scheduling.cache.node import NodeInfo, read_node
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.cluster import cluster as surroundings
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.framework.interface import CyclePlugins, ReservePlugin
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.profile import new_framework
from headgate.scheduling.queue.nominator import Nominator

Object = dict[str, Any]

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def a_node(name: str, *, taints: list[Object] | None = None, **more: Any) -> Object:
    """``cpu``, ``memory``, ``pods`` by keyword, other amounts in ``allocatable``; labels, images, ``cordoned`` too."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **more.pop("allocatable", {})}
    amounts |= {key: more.pop(key) for key in ("cpu", "memory", "pods") if key in more}
    spec: Object = {"taints": taints} if taints else {}
    if more.pop("cordoned", False):
        spec["unschedulable"] = True
    labels = more.pop("labels", {})
    images = [{"names": list(names), "sizeBytes": size} for names, size in more.pop("images", ())]
    assert not more, more
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "images": images},
    }


def a_pod(name: str, requests: Object | None = None, **spec: Any) -> Object:
    """One container with these requests, unless ``containers`` says otherwise; the rest is the specification."""
    labels = spec.pop("labels", {})
    status = spec.pop("status", {})
    containers = spec.pop("containers", None) or [
        {"name": "main", "image": spec.pop("image", "app"), "resources": {"requests": requests or {}}}
    ]
    if "ports" in spec:
        containers[0]["ports"] = spec.pop("ports")
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": containers, **spec},
        "status": status,
    }


def node_of(wire: Object) -> NodeInfo:
    found = read_node(wire)
    assert isinstance(found, NodeInfo), found
    return found


def a_framework(cluster: surroundings.Cluster, **profile: Any) -> Framework:
    """The plugins of a profile as a configuration document would have it; without more, the default profile."""
    read = parse_configuration({**HEADER, "profiles": [profile]})
    assert isinstance(read, KubeSchedulerConfiguration), [str(each) for each in read]
    return new_framework(read.profiles[0], cluster)


class Cluster:
    """A node matrix and a scheduling cycle over it, driven by wire objects; ``profile`` as in a configuration document.
    Only if ``preempts`` is set, PostFilter plugins run for a pod that fits on no node."""

    def __init__(
        self,
        *nodes: Object,
        cycle_plugins: CyclePlugins | None = None,
        percentage: int = 100,
        preempts: bool = False,
        **profile: Any,
    ) -> None:
        self.shapes = ShapeTable()
        self.cluster = surroundings.Cluster(capacity=2)
        self.matrix = self.cluster.matrix
        for each in nodes:
            self.matrix.node_applied(node_of(each))
        self.reserving: tuple[ReservePlugin, ...] = ()
        if cycle_plugins is None:
            framework = a_framework(self.cluster, **profile)
            cycle_plugins, self.reserving = framework.cycle_plugins, framework.binding_plugins["reserve"]
            cycle_plugins = cycle_plugins if preempts else msgspec.structs.replace(cycle_plugins, post_filters=())
        self.nominator: Nominator[PodInfo] = Nominator()
        self.cycle = SchedulingCycle(self.matrix, cycle_plugins, percentage, self.nominator)

    def apply(self, wire: Object) -> None:
        self.matrix.node_applied(node_of(wire))

    def pod(self, wire: Object) -> PodInfo:
        found = read_pod(wire, self.shapes)
        assert isinstance(found, PodInfo), found
        return found

    def bind(self, wire: Object, node: str) -> PodInfo:
        """A pod that the API server shows on a node."""
        bound = self.pod({**wire, "spec": {**wire["spec"], "nodeName": node}})
        self.matrix.pod_applied(bound)
        return bound
