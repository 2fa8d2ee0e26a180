"""A kind that is held by a value of a field (``examples/job-kinds/paused-service.yaml``): its definition, objects, and
a controller in a World."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embedded import Embedded
from headgate.cli.options.job_options import read_kinds
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import APIResource
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.fixtures import a_world
from unit.jobs.operators import a_template
from unit.jobs.queue_fixtures import create

Object = dict[str, Any]
EXAMPLES = Path(__file__).parents[3] / "examples" / "job-kinds"
SERVERS = APIResource("example.com", "v1", "modelservers", namespaced=True)
PATH = SERVERS.collection_path("ns")
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCHEMA = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "modelservers.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "modelservers", "singular": "modelserver", "kind": "ModelServer"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": _SCHEMA},
            }
        ],
    },
}


def the_kind() -> JobKind:
    kinds = read_kinds((EXAMPLES / "paused-service.yaml").read_bytes())
    assert isinstance(kinds, tuple), kinds
    return kinds[0]


def a_server_world(cpu: int = 2, **more: Any) -> CrashingWorld:
    kinds = JobSettings(kinds=(*BUILTIN_KINDS, the_kind()))
    return a_world(cpu, settings=kinds, crds=[DEFINITION], more=[ModelServers], **more)


def a_model_server(name: str, replicas: int = 1, least: int = 0, priority: str = "", **spec: Any) -> Object:
    workers = {"template": a_template(), "replicas": replicas, **({"minReplicas": least} if least else {})}
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    roles = {"Workers": workers, "router": {"template": a_template()}}
    return {
        "apiVersion": "example.com/v1",
        "kind": "ModelServer",
        "metadata": {"name": name, "labels": labels},
        "spec": {"roles": roles, **spec},
    }


def add(world: CrashingWorld, name: str, **more: Any) -> Object:
    body = create(world.server, PATH, a_model_server(name, **more))
    world.server.epoch_s += 1
    return body


def the(world: CrashingWorld, name: str) -> Object:
    found: Object = world.server.get(f"{PATH}/{name}").body
    return found


def is_running(world: CrashingWorld, name: str) -> bool:
    return bool(the(world, name)["spec"]["runState"] == "Running")


class ModelServers(Controller):
    """Writes straight to the server: it is a process of its own, and not under test."""

    name = "model servers"

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self._objects: dict[tuple[str, str], Object] = {}
        self._is_served = False

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._is_served = SERVERS in {row.resource for row in served.by_name.values()}
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(SERVERS, ALL_FIELDS),) if self._is_served else ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self._objects[place] = obj
        return (Enqueue(place),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._objects.pop((namespace, name), None)
        return ()

    def reconcile(self, key: tuple[str, str], now_s: float) -> ReconcileSteps:
        found = self._objects.get(key)
        if found is not None:
            runs = found["spec"].get("runState") != "Halted"
            counts = {name: each.get("replicas", 1) * runs for name, each in found["spec"]["roles"].items()}
            roles = {name: {"pods": count, "ready": count} for name, count in counts.items()}
            if (found.get("status") or {}).get("roles") != roles:
                self._server.patch(SERVERS.object_path(*key, "status"), {"status": {"roles": roles}})
        yield from ()
        return Done()
