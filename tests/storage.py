"""Builders of storage objects in wire form, and a cluster that contains them."""

from __future__ import annotations

from typing import Any

from clusters import Cluster
from headgate.kube.api_resources import APIResource
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.volumes import storage_cache

Object = dict[str, Any]
Shown = tuple[APIResource, Object]

WAITS = "WaitForFirstConsumer"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def a_claim(name: str, size: str = "1Gi", *, revision: str = "1", **more: Any) -> Shown:
    """``volume``: bound to it. ``claim``: its uid. ``on_class``, ``phase``, ``annotations``, ``deleting``; the spec."""
    annotations = dict(more.pop("annotations", {}))
    if "volume" in more:
        more["volumeName"] = more.pop("volume")
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": revision}
    metadata["annotations"] = annotations
    if "owner" in more:
        metadata["ownerReferences"] = [{"uid": more.pop("owner"), "controller": True}]
    if more.pop("deleting", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if "on_class" in more:
        more["storageClassName"] = more.pop("on_class")
    status = {"phase": more.pop("phase", "Pending")}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    return storage_cache.CLAIMS, {"metadata": metadata, "spec": spec, "status": status}


def a_volume(name: str, size: str = "1Gi", *, revision: str = "1", **more: Any) -> Shown:
    """``at``: labels of the nodes that reach it. ``claim``: whose it is. ``on_class``, ``labels``; then the spec."""
    metadata: Object = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": revision,
        "labels": more.pop("labels", {}),
    }
    metadata["annotations"] = more.pop("annotations", {})
    if "at" in more:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in more.pop("at").items()]
        more["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if "on_class" in more:
        more["storageClassName"] = more.pop("on_class")
    if "claim" in more:
        claim = more.pop("claim")
        more["claimRef"] = {"namespace": "default", "name": claim, "uid": more.pop("claim_uid", f"uid-{claim}")}
    phase = more.pop("phase", "Bound" if "claimRef" in more else "Available")
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **more}
    return storage_cache.VOLUMES, {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def a_class(name: str, provisioner: str = "kubernetes.io/no-provisioner", mode: str = WAITS, **more: Any) -> Shown:
    wire = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return storage_cache.CLASSES, wire


def a_csi_node(name: str, **limits: int) -> Shown:
    """By driver (underscores for dots) how many volumes it takes."""
    drivers = [{"name": each.replace("_", "."), "allocatable": {"count": count}} for each, count in limits.items()]
    return storage_cache.CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def a_driver(name: str, *, tells_capacity: bool) -> Shown:
    return storage_cache.CSI_DRIVERS, {"metadata": {"name": name}, "spec": {"storageCapacity": tells_capacity}}


def a_capacity(name: str, on_class: str, size: str | None = None, **more: Any) -> Shown:
    """``at``: labels of the nodes that reach it."""
    wire: Object = {"metadata": {"name": name, "namespace": "default"}, "storageClassName": on_class}
    if "at" in more:
        wire["nodeTopology"] = {"matchLabels": more.pop("at")}
    return storage_cache.CAPACITIES, {**wire, **({"capacity": size} if size else {}), **more}


def an_attachment(name: str, node: str, volume: str, driver: str) -> Shown:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return storage_cache.ATTACHMENTS, {"metadata": {"name": name}, "spec": spec}


def claims(*names: str) -> list[Object]:
    """The volumes of a pod that uses these claims."""
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]


def show(cluster: Cluster, *shown: Shown) -> list[ClusterEvent]:
    return [event for resource, wire in shown for event in cluster.cluster.applied(resource, wire)]


def hide(cluster: Cluster, shown: Shown) -> list[ClusterEvent]:
    resource, wire = shown
    return cluster.cluster.removed(resource, wire["metadata"].get("namespace") or "", wire["metadata"]["name"])


def asked(cluster: Cluster, pod: Object) -> str:
    """Where the pod would go, or why nowhere."""
    found = cluster.cycle.decide(cluster.pod(pod))
    return found.node_name if isinstance(found, ScheduleResult) else found.message
