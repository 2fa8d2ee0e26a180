"""The finalizers of queues, flavors and admission checks in use."""

from __future__ import annotations

from headgate.controllers.framework.effects import Effect, Patch
from kueue_builders import Wire, a_cluster_queue, a_flavor
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.quota.controller.test_quota_controller import API, a_world, add, admitted, finish, put, status

IN_USE = "kueue.x-k8s.io/resource-in-use"
CHECKS = f"{API}/admissionchecks"


def found(world: World, path: str) -> Wire | None:
    answer = world.server.get(f"{API}/{path}")
    return answer.body if answer.status == 200 else None


def finalizers(world: World, path: str) -> list[str]:
    obj = found(world, path)
    assert obj is not None
    kept: list[str] = obj["metadata"].get("finalizers") or []
    return kept


def delete(world: World, path: str) -> None:
    assert world.server.delete(f"{API}/{path}").status == 200
    world.advance(1)


def test_queues_and_flavors_get_a_finalizer_and_local_queues_do_not() -> None:
    world = a_world()
    assert finalizers(world, "clusterqueues/cq") == [IN_USE]
    assert finalizers(world, "resourceflavors/default") == [IN_USE]
    assert finalizers(world, "namespaces/ns/localqueues/lq") == []


def test_other_finalizers_are_kept() -> None:
    world = a_world()
    both = {"metadata": {"finalizers": ["example.com/mine", IN_USE]}}
    assert world.server.patch(f"{API}/clusterqueues/cq", both).status == 200
    delete(world, "clusterqueues/cq")
    assert finalizers(world, "clusterqueues/cq") == ["example.com/mine"]


def test_an_unused_queue_is_deleted_at_once() -> None:
    world = a_world()
    delete(world, "clusterqueues/cq")
    assert found(world, "clusterqueues/cq") is None


def test_a_deleted_queue_admits_no_workload_and_stays_until_the_last_one_ends() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    delete(world, "clusterqueues/cq")
    add(world, "b")
    world.advance(2)
    queue = found(world, "clusterqueues/cq")
    assert queue is not None
    assert queue["status"]["conditions"][0]["reason"] == "Terminating"
    assert queue["status"]["admittedWorkloads"] == 1
    assert admitted(world) == ["a"]
    assert not status(world, "b").get("admission")
    finish(world, "a")
    world.advance(1)
    assert found(world, "clusterqueues/cq") is None
    assert admitted(world) == ["a"], "what is finished stays what it was"


def test_a_flavor_is_deleted_when_no_queue_names_it() -> None:
    world = a_world()
    put(world, "clusterqueues", a_cluster_queue("other", {"default": {"cpu": 1}}))
    world.advance(1)
    delete(world, "resourceflavors/default")
    delete(world, "clusterqueues/cq")
    assert found(world, "resourceflavors/default") is not None
    delete(world, "clusterqueues/other")
    assert found(world, "resourceflavors/default") is None


def test_an_admission_check_is_deleted_when_no_queue_names_it() -> None:
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "look"}}
    world = a_world(admissionChecksStrategy={"admissionChecks": [{"name": "look"}]})
    assert world.server.post(CHECKS, {**check, "spec": {"controllerName": "example.com/c"}}).status == 201
    world.advance(1)
    assert finalizers(world, "admissionchecks/look") == [IN_USE]
    delete(world, "admissionchecks/look")
    assert found(world, "admissionchecks/look") is not None
    assert world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"admissionChecksStrategy": None}}).status == 200
    world.advance(1)
    assert found(world, "admissionchecks/look") is None


def test_concurrent_writes_do_not_keep_a_queue_forever() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    delete(world, "clusterqueues/cq")
    finish(world, "a")
    world.server.patch(f"{API}/clusterqueues/cq", {"metadata": {"labels": {"a": "b"}}})
    world.advance(5)
    assert found(world, "clusterqueues/cq") is None


def test_a_crash_at_any_write_neither_keeps_nor_loses_a_queue() -> None:
    def story(world: CrashingWorld) -> None:
        add(world, "a")
        world.advance(2)
        world.server.delete(f"{API}/clusterqueues/cq")
        world.advance(2)
        finish(world, "a")
        world.advance(5)

    def holds_while_used(world: World) -> None:
        if "a" in admitted(world) and not any(
            each["type"] == "Finished" for each in status(world, "a").get("conditions") or ()
        ):
            assert found(world, "clusterqueues/cq") is not None

    def make() -> CrashingWorld:
        world = a_world()
        world.check = holds_while_used
        return world

    def look(title: str, world: CrashingWorld) -> None:
        assert found(world, "clusterqueues/cq") is None, title

    run_with_crashes(make, story, look)


def test_a_flavor_that_is_deleted_before_the_response_to_its_finalizer_is_removed() -> None:
    world = a_world()
    put(world, "resourceflavors", a_flavor("spare"))
    deletions = iter(["spare"])

    def overtake(effect: Effect) -> bool:
        is_guard = isinstance(effect, Patch) and effect.name == "spare"
        return is_guard and any(
            world.server.delete(f"{API}/resourceflavors/{each}").status == 200 for each in deletions
        )

    world.watch_is_first = overtake
    world.advance(2)
    assert found(world, "resourceflavors/spare") is None
