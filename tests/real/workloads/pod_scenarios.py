"""Scenarios of pods without an owner."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import template
from real.workloads.scenario_cluster import WorkloadCluster, scenario

Object = dict[str, Any]


def bare(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    pod = template(name, annotations, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}


def runs_and_goes(cluster: WorkloadCluster) -> None:
    cluster.create(bare("one"))
    cluster.checkpoint("it runs", cluster.pods_are(1, "Running"))
    cluster.kubectl("get pods")
    cluster.kubectl("delete pod one")
    cluster.checkpoint("it is gone", cluster.pods_are(0))


def ends(cluster: WorkloadCluster) -> None:
    cluster.create(bare("short", {"run-for": "300ms"}, restartPolicy="Never"), bare("long", restartPolicy="Never"))
    cluster.wait(cluster.pods_are(1, "Running", app="long"), cluster.pods_are(1, "Succeeded", app="short"))
    cluster.end_pod("long", exit_code=3)
    cluster.checkpoint("both have ended", cluster.pods_are(1, "Failed", app="long"))
    cluster.kubectl("get pods")


SCENARIOS = [
    scenario("a bare pod runs and is deleted", runs_and_goes),
    scenario("bare pods end", ends),
]
