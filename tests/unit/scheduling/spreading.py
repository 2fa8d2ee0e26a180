"""Short builders of clusters, pods and constraints for tests of topology spreading."""

from __future__ import annotations

from typing import Any

from clusters import Cluster, a_node, a_pod
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NAME = "PodTopologySpread"
ONLY_SPREAD: Object = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME, "weight": 1}]}}
WEB = {"app": "web"}


def in_zone(name: str, zone: str | None, **more: Any) -> Object:
    labels = {HOSTNAME: name, **({} if zone is None else {ZONE: zone}), **more.pop("labels", {})}
    return a_node(name, labels=labels, **more)


def spread(key: str = ZONE, *, soft: bool = False, **more: Any) -> Object:
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": WEB},
        **more,
    }


def web(name: str, *constraints: Object, **more: Any) -> Object:
    return a_pod(name, labels=more.pop("labels", WEB), topologySpreadConstraints=list(constraints), **more)


def cluster(*nodes: Object, **profile: Any) -> Cluster:
    return Cluster(*nodes, plugins=ONLY_SPREAD, **profile)


def feasible(cluster: Cluster, pod: Object) -> list[str]:
    return sorted(cluster.cycle.scores(cluster.pod(pod)))


def scores(cluster: Cluster, pod: Object) -> dict[str, int]:
    return cluster.cycle.scores(cluster.pod(pod))


def apply(
    cluster: Cluster, resource: APIResource, name: str, selector: Object | None, namespace: str = "default"
) -> None:
    wire = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
    assert list(cluster.cluster.applied(resource, wire)) == []


def owned(pod: Object, kind: str, name: str) -> Object:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    pod["metadata"]["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": name, "controller": True}]
    return pod
