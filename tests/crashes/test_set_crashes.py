"""StatefulSets and DaemonSets whose controller crashes at any write: the final state is correct."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from embedded import Embedded, all_schemas
from headgate.controllers.daemon_sets.controller import DaemonSetController
from headgate.controllers.daemon_sets.placement import target_of
from headgate.controllers.deployments.template_hash import TemplateHash
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.ownership.pods import is_active
from headgate.controllers.stateful_sets.controller import StatefulSetController
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.kubelet import Kubelet
from unit.controllers.world import World

Object = dict[str, Any]
APPS, CORE = "/apis/apps/v1/namespaces/a", "/api/v1/namespaces/a"
LABELS = {"app": "x"}
NODES = ["n0", "n1", "n2"]


def mortal(*makers: Callable[[Embedded], Controller], judge: Callable[[World], None]) -> CrashingWorld:
    server = Embedded(namespace="a")
    for name in NODES:
        server.post("/api/v1/nodes", {"metadata": {"name": name}})
    world = CrashingWorld(*((lambda make=make: make(server)) for make in makers), server=server)
    world.check = judge
    return world


def template(image: str) -> Object:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}


def active(world: World) -> list[Object]:
    return [pod for pod in world.server.get(f"{CORE}/pods").body["items"] if is_active(pod)]


def images(world: World) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in active(world)]


def revisions(world: World) -> list[int]:
    return sorted(each["revision"] for each in world.server.get(f"{APPS}/controllerrevisions").body["items"])


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_stateful_set_is_complete_after_a_crash_at_any_write(policy: str) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": 3,
        "serviceName": "db",
        "podManagementPolicy": policy,
        "selector": {"matchLabels": LABELS},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": storage}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "revisionHistoryLimit": 0,
    }

    def scenario(world: CrashingWorld) -> None:
        body = {"metadata": {"name": "db"}, "spec": {**spec, "template": template("v1")}}
        assert world.server.post(f"{APPS}/statefulsets", body).status == 201
        world.advance(20)
        world.server.patch(f"{APPS}/statefulsets/db", {"spec": {"replicas": 2, "template": template("v2")}})
        world.advance(60)

    def at_most_three(world: World) -> None:
        assert len(world.server.get(f"{CORE}/pods").body["items"]) <= 3

    def look(name: str, world: CrashingWorld) -> None:
        assert sorted(pod["metadata"]["name"] for pod in active(world)) == ["db-0", "db-1"], name
        assert images(world) == ["v2", "v2"], name
        assert revisions(world) == [2], name
        claims = world.server.get(f"{CORE}/persistentvolumeclaims").body["items"]
        assert [each["metadata"]["name"] for each in claims] == ["data-db-0", "data-db-1", "data-db-2"], name
        assert all(each["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet" for each in claims), name
        status = world.server.get(f"{APPS}/statefulsets/db").body["status"]
        assert (status["readyReplicas"], status["updatedReplicas"], status["observedGeneration"]) == (2, 2, 2), name

    def make() -> CrashingWorld:
        return mortal(lambda server: StatefulSetController(), Kubelet, judge=at_most_three)

    assert len(run_with_crashes(make, scenario, look)) > 20


@pytest.mark.parametrize("limits", [{"maxUnavailable": 1}, {"maxUnavailable": 0, "maxSurge": 1}])
def test_a_daemon_set_is_complete_after_a_crash_at_any_write(limits: Object) -> None:
    hashed, numbers = TemplateHash(all_schemas()), count()
    spec = {
        "selector": {"matchLabels": LABELS},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits},
        "revisionHistoryLimit": 0,
    }

    def scenario(world: CrashingWorld) -> None:
        body = {"metadata": {"name": "log"}, "spec": {**spec, "template": template("v1")}}
        assert world.server.post(f"{APPS}/daemonsets", body).status == 201
        world.advance(20)
        world.server.patch(f"{APPS}/daemonsets/log", {"spec": {"template": template("v2")}})
        world.advance(60)

    def one_to_a_node(world: World) -> None:
        nodes = [target_of(pod) for pod in active(world)]
        assert max(map(nodes.count, nodes), default=0) <= 1 + limits.get("maxSurge", 0)

    def daemon_sets(server: Embedded) -> Controller:
        return DaemonSetController(lambda: f"{next(numbers):05}", hashed)

    def look(name: str, world: CrashingWorld) -> None:
        assert sorted(str(target_of(pod)) for pod in active(world)) == NODES, name
        assert images(world) == ["v2"] * 3, name
        assert revisions(world) == [2], name
        status = world.server.get(f"{APPS}/daemonsets/log").body["status"]
        assert (status["numberAvailable"], status["updatedNumberScheduled"]) == (3, 3), name

    def make() -> CrashingWorld:
        return mortal(daemon_sets, Kubelet, judge=one_to_a_node)

    assert len(run_with_crashes(make, scenario, look)) > 15
