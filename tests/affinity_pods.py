"""Builders of pods with affinity and anti-affinity to other pods."""

from __future__ import annotations

from typing import Any

from clusters import Cluster, a_pod
from headgate.kube.api_resources import NAMESPACES
from headgate.scheduling.framework.interface import ScheduleResult

Object = dict[str, Any]

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str = "zone", **more: Any) -> Object:
    """Pods of an app, in the same domain of a topology key."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def weighted(weight: int, wanted: Object) -> Object:
    return {"weight": weight, "podAffinityTerm": wanted}


def app(name: str, kind: str = "", namespace: str = "default", **rules: Any) -> Object:
    """A pod of the app ``kind``; ``near``, ``apart``, ``likes``, ``dislikes`` are lists of terms."""
    wanted: Object = {}
    for rule, where, listed in (
        ("near", "podAffinity", REQUIRED),
        ("apart", "podAntiAffinity", REQUIRED),
        ("likes", "podAffinity", PREFERRED),
        ("dislikes", "podAntiAffinity", PREFERRED),
    ):
        if rule in rules:
            wanted.setdefault(where, {})[listed] = rules.pop(rule)
    pod = a_pod(name, labels={"app": kind} if kind else {}, **({"affinity": wanted} if wanted else {}), **rules)
    pod["metadata"]["namespace"] = namespace
    return pod


def only_affinity(*nodes: Object, **args: Any) -> Cluster:
    """A cluster where nothing but affinity between pods decides."""
    enabled = [{"name": name} for name in ("PrioritySort", "DefaultBinder", "InterPodAffinity")]
    return Cluster(
        *nodes,
        plugins={"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}},
        pluginConfig=[{"name": "InterPodAffinity", "args": args}],
    )


def label(cluster: Cluster, namespace: str, **labels: str) -> None:
    cluster.cluster.applied(NAMESPACES, {"metadata": {"name": namespace, "labels": labels}})


def scores(cluster: Cluster, pod: Object) -> dict[str, int]:
    return cluster.cycle.scores(cluster.pod(pod))


def message_for(cluster: Cluster, pod: Object) -> str:
    """Where the pod would go, or why nowhere."""
    found = cluster.cycle.decide(cluster.pod(pod))
    return found.node_name if isinstance(found, ScheduleResult) else found.message


def feasible_nodes(cluster: Cluster, pod: Object) -> list[str]:
    return sorted(scores(cluster, pod))
