"""Owners and pods on the embedded server: own writes count at once; late and lost events change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from embedded import Embedded
from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Patch
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.ownership import pods
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key, OwnerKind, OwnershipCache
from headgate.controllers.ownership.dependents import create_dependents, delete_dependents, resolve_unconfirmed
from headgate.kube.api_resources import PODS, REPLICA_SETS, APIResource
from headgate.kube.schema import GroupVersionKind
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.kubelet import Kubelet
from unit.controllers.world import World

Object = dict[str, Any]
KIND = GroupVersionKind("apps", "v1", "ReplicaSet")
SETS_PATH, PODS_PATH = "/apis/apps/v1/namespaces/a/replicasets", "/api/v1/namespaces/a/pods"


class Simple(Controller):
    """As many pods as the set wants, and nothing else."""

    name = "simple"

    def __init__(self, numbers: Iterable[int]) -> None:
        self.family = OwnershipCache(OwnerKind(KIND, REPLICA_SETS, PODS, "simple"))
        self._numbers = iter(numbers)

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(REPLICA_SETS, ALL_FIELDS), WatchSpec(PODS, pods.FIELDS)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        heard = self.family.dependent_applied if resource == PODS else self.family.owner_applied
        return map(Enqueue, heard(obj))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        heard = self.family.dependent_removed if resource == PODS else self.family.owner_removed
        return map(Enqueue, heard(namespace, name, uid))

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return map(Enqueue, self.family.synced(revision) if resource == PODS else ())

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        owner = self.family.owner(key)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return Done()
        problem = (yield from resolve_unconfirmed(self.family, owner)) or (yield from claim(self.family, key))
        if problem is not None:
            return RequeueWithBackoff(problem)
        mine = self.family.dependents(owner["metadata"]["uid"])
        active = [pod for uid, pod in mine.items() if pods.is_active(pod) and not self.family.is_terminating(uid)]
        missing = owner["spec"]["replicas"] - len(active)
        prefix = pods.prefix_of(key[1])
        bodies = [
            pods.pod_from_template(
                owner["spec"]["template"], owner, KIND, pods.generated_name(prefix, f"{number:05d}"), prefix=prefix
            )
            for _, number in zip(range(missing), self._numbers, strict=False)
        ]
        made = yield from create_dependents(self.family, owner, bodies)
        problem = made.problem or (yield from delete_dependents(self.family, owner, active[: max(-missing, 0)]))
        return Done() if problem is None else RequeueWithBackoff(problem)


@pytest.fixture
def world() -> World:
    numbers = count(1)
    world = World(lambda: Simple(numbers))
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    return world


def add_set(world: World, replicas: int = 3, name: str = "web") -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    answer = world.server.post(SETS_PATH, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.body
    added: Object = answer.body
    return added


def add_pod(world: World, name: str, **labels: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert world.server.post(PODS_PATH, {"metadata": {"name": name, "labels": labels}, "spec": spec}).status == 201


def there(world: World) -> list[Object]:
    found: list[Object] = world.server.get(PODS_PATH).body["items"]
    return found


def owners(world: World) -> dict[str, list[str]]:
    references = {pod["metadata"]["name"]: pod["metadata"].get("ownerReferences") or [] for pod in there(world)}
    return {name: [each["name"] for each in found] for name, found in references.items()}


def test_pods_are_created_in_growing_batches_with_events(world: World) -> None:
    add_set(world, 7)
    world.settle()
    assert len(there(world)) == 7
    assert [each.reason for each in world.emitted] == ["SuccessfulCreate"] * 7
    assert all(each["metadata"]["generateName"] == "web-" for each in there(world))


def test_a_late_watch_creates_no_more_pods(world: World) -> None:
    add_set(world)
    for number in range(5):
        world.settle(delayed=[PODS])
        world.server.patch(f"{SETS_PATH}/web", {"metadata": {"labels": {"n": str(number)}}})
    assert len(there(world)) == 3
    assert len(there(world.settle())) == 3


def a_family() -> tuple[OwnershipCache, Object]:
    family = OwnershipCache(OwnerKind(KIND, REPLICA_SETS, PODS, "simple"))
    owner = {"metadata": {"namespace": "a", "name": "web", "uid": "w", "resourceVersion": "1"}}
    assert family.owner_applied(owner) == [("a", "web")]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
    metadata = {"namespace": "a", "name": "p", "uid": "p", "resourceVersion": "5", "ownerReferences": [reference]}
    return family, {"metadata": metadata}


def test_a_pod_whose_deletion_is_observed_before_the_response_to_its_creation_stays_deleted() -> None:
    family, pod = a_family()
    family.dependent_applied(pod)
    assert family.dependent_removed("a", "p", "p") == [("a", "web")]
    family.observe_write(pod)
    assert family.dependents("w") == {}


def test_late_events_do_not_restore_a_pod_that_the_server_reported_missing() -> None:
    family, pod = a_family()
    family.observe_write(pod)
    family.deletion_confirmed("p")
    assert family.dependent_applied({"metadata": {**pod["metadata"], "resourceVersion": "7"}}) == []
    assert family.dependents("w") == {}


def test_a_pod_that_was_created_and_deleted_between_watches_is_replaced(world: World) -> None:
    add_set(world, 1)
    world.settle(delayed=[PODS])
    (pod,) = there(world)
    world.server.delete(f"{PODS_PATH}/{pod['metadata']['name']}")
    world.break_watch(PODS)
    (other,) = there(world.settle())
    assert other["metadata"]["uid"] != pod["metadata"]["uid"]


@pytest.mark.parametrize("kind", [Create, Delete])
def test_a_write_with_a_lost_response_is_resolved(world: World, kind: type[Effect]) -> None:
    losses = iter([True, True])
    world.loses_response = lambda effect: isinstance(effect, kind) and next(losses, False)
    add_set(world, 2)
    assert len(there(world.advance(5))) == 2
    world.server.patch(f"{SETS_PATH}/web", {"spec": {"replicas": 1}})
    assert len(there(world.advance(5))) == 1
    assert next(losses, None) is None, "nothing was lost"


def test_excess_pods_are_deleted_once_however_late_the_watch(world: World) -> None:
    add_set(world, 5)
    world.settle()
    world.server.patch(f"{SETS_PATH}/web", {"spec": {"replicas": 2}})
    for number in range(4):
        world.settle(delayed=[PODS])
        world.server.patch(f"{SETS_PATH}/web", {"metadata": {"labels": {"n": str(number)}}})
    assert len(there(world.settle())) == 2
    assert [method for method, _ in world.requests].count("DELETE") == 3


def test_matching_orphans_are_adopted_and_other_pods_released(world: World) -> None:
    add_pod(world, "meant", app="web")
    add_pod(world, "other", app="db")
    add_set(world, 1)
    assert owners(world.settle()) == {"meant": ["web"], "other": []}
    world.server.patch(f"{PODS_PATH}/meant", {"metadata": {"labels": {"app": "db"}}})
    world.settle()
    assert owners(world) == {"meant": [], "other": [], "web-00001": ["web"]}
    add_set(world, 2, "db")
    assert owners(world.settle())["meant"] == ["db"]


def test_no_pod_is_adopted_by_a_deleted_owner(world: World) -> None:
    add_set(world, 1)
    world.deliver_all()
    world.server.delete(f"{SETS_PATH}/web")
    add_pod(world, "late", app="web")
    world.settle(delayed=[REPLICA_SETS])
    assert owners(world)["late"] == []


def test_a_rejection_stops_the_batches_and_is_reported_once(world: World) -> None:
    full = EffectResponse(403, {"message": "exceeded quota"}, 0.0)
    world.refuse = lambda effect: full if isinstance(effect, Create) else None
    add_set(world, 100)
    world.settle()
    assert [(each.reason, each.message) for each in world.emitted] == [
        ("FailedCreate", "Error creating: exceeded quota")
    ]
    world.refuse = lambda effect: None
    world.advance(1)
    assert len(there(world)) == 100


@pytest.mark.parametrize("lost", [Patch, Delete])
def test_a_failed_write_is_retried(world: World, lost: type[Effect]) -> None:
    add_pod(world, "meant", app="web")
    failures = iter([EffectResponse(503, {"message": "busy"}, 0.0)])
    world.refuse = lambda effect: next(failures, None) if isinstance(effect, lost) else None
    add_set(world, 1)
    world.advance(1)
    world.server.patch(f"{SETS_PATH}/web", {"spec": {"replicas": 0}})
    assert there(world.advance(1)) == []


def test_after_a_crash_everything_is_known_from_lists(world: World) -> None:
    add_set(world, 3)
    world.settle()
    before = [each["metadata"]["uid"] for each in there(world)]
    world.crash().settle()
    assert [each["metadata"]["uid"] for each in there(world)] == before


def test_a_crash_at_any_write_does_not_change_the_result() -> None:
    def never_six(world: World) -> None:
        assert len([pod for pod in there(world) if pods.is_active(pod)]) <= 5

    def make() -> CrashingWorld:
        server, numbers = Embedded(namespace="a"), count(1)
        world = CrashingWorld(lambda: Simple(numbers), lambda: Kubelet(server), server=server)
        world.check = never_six
        return world

    def story(world: CrashingWorld) -> None:
        add_pod(world, "orphan", app="web")
        add_set(world, 5)
        world.advance(10)
        world.server.patch(f"{SETS_PATH}/web", {"spec": {"replicas": 2}})
        world.advance(60)

    def look(title: str, world: CrashingWorld) -> None:
        assert list(owners(world).values()) == [["web"], ["web"]], title

    assert len(run_with_crashes(make, story, look)) > 15
