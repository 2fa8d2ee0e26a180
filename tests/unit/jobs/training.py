"""A custom job kind: its definition, objects, and a controller that follows ``spec.suspend`` in a World."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embedded import Embedded
from headgate.cli.options.job_options import read_kinds
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
FILE = Path(__file__).parents[3] / "examples" / "job-kinds.yaml"
RUNS = APIResource("example.com", "v1", "trainingruns", namespaced=True)
ENDS = "example.com/ends"
"""The condition that a run gets after it has run."""
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trainingruns.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "trainingruns", "singular": "trainingrun", "kind": "TrainingRun"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
                },
            }
        ],
    },
}


def settings(**more: Any) -> JobSettings:
    kinds = read_kinds(FILE.read_bytes())
    assert isinstance(kinds, tuple), kinds
    return JobSettings(kinds=(*BUILTIN_KINDS, *kinds), **more)


def a_run(name: str, workers: int = 1, least: int = 0, queue: str = "lq", **annotations: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    part = {"template": template, "replicas": workers, **({"minReplicas": least} if least else {})}
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    named = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    return {
        "apiVersion": "example.com/v1",
        "kind": "TrainingRun",
        "metadata": {"name": name, "labels": labels, "annotations": named},
        "spec": {"suspend": True, "leader": {"template": template}, "workers": part},
    }


def status_of(run: Object) -> Object:
    """What its controller makes of it: nothing while it is suspended."""
    end = (run["metadata"].get("annotations") or {}).get(ENDS)
    conditions = (run.get("status") or {}).get("conditions") or []
    if conditions:
        return {"activePods": 0, "readyPods": 0, "conditions": conditions}
    if run["spec"].get("suspend"):
        return {"activePods": 0, "readyPods": 0}
    if end:
        return {"activePods": 0, "conditions": [{"type": end, "status": "True", "message": f"it said {end}"}]}
    has_leader = bool((run["spec"].get("leader") or {}).get("template"))
    pods = has_leader + run["spec"]["workers"].get("replicas", 1)
    return {"activePods": pods, "readyPods": pods}


class Trainer(Controller):
    """Writes straight to the server: it is a process of its own, and not under test."""

    name = "trainer"

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self._runs: dict[tuple[str, str], Object] = {}
        self._is_served = False

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._is_served = RUNS in {row.resource for row in served.by_name.values()}
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(RUNS, ALL_FIELDS),) if self._is_served else ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self._runs[place] = obj
        return (Enqueue(place),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._runs.pop((namespace, name), None)
        return ()

    def reconcile(self, key: tuple[str, str], now_s: float) -> ReconcileSteps:
        run = self._runs.get(key)
        if run is not None and status_of(run) != {k: v for k, v in (run.get("status") or {}).items() if k in _TOLD}:
            self._server.patch(RUNS.object_path(*key, "status"), {"status": status_of(run)})
        yield from ()
        return Done()


_TOLD = ("activePods", "readyPods", "conditions")
