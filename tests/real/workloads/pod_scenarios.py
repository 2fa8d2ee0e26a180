"""Stories of pods that nobody made but their user."""

from __future__ import annotations

from typing import Any

from real.workloads.manifests import template
from real.workloads.scenario_cluster import Workplace, story

Object = dict[str, Any]


def bare(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    pod = template(name, annotations, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": name}}


def runs_and_goes(place: Workplace) -> None:
    place.create(bare("one"))
    place.stop("it runs", place.pods_are(1, "Running"))
    place.kubectl("get pods")
    place.kubectl("delete pod one")
    place.stop("it is gone", place.pods_are(0))


def ends(place: Workplace) -> None:
    place.create(bare("short", {"run-for": "300ms"}, restartPolicy="Never"), bare("long", restartPolicy="Never"))
    place.wait(place.pods_are(1, "Running", app="long"), place.pods_are(1, "Succeeded", app="short"))
    place.end_pod("long", exit_code=3)
    place.stop("both have ended", place.pods_are(1, "Failed", app="long"))
    place.kubectl("get pods")


SCENARIOS = [
    story("a bare pod runs and is deleted", runs_and_goes),
    story("bare pods end", ends),
]
