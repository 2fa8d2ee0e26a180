"""The garbage collector with races, rejections, recreated objects and crashes, and its cost."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get, Patch
from headgate.controllers.garbage_collector.controller import GarbageCollector
from unit.controllers.owner_fixtures import MISSING, A, delete, make, names, owners_of, two_namespaces
from unit.controllers.world import World, reference


@pytest.fixture
def world() -> World:
    return two_namespaces()


def test_a_new_owner_prevents_the_deletion(world: World) -> None:
    owner, other = make(world, "owner"), make(world, "other")
    make(world, "child", reference(owner))
    delete(world, "owner")
    saved: list[Effect] = []

    def save(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Delete) and not saved:
            saved.append(effect)
            world.server.patch(f"{A}/configmaps/child", {"metadata": {"ownerReferences": [reference(other)]}})
        return None

    world.refuse = save
    world.advance(60)
    assert saved
    assert names(world) == ["child", "other"]


def test_an_object_that_changes_all_the_time_is_deleted(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    delete(world, "owner")

    def shake(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Delete):
            patched = world.server.patch(f"{A}/configmaps/child", {"data": {"n": str(len(world.requests))}})
            assert patched.status == 200
        return None

    world.refuse = shake
    assert names(world.settle()) == []


def test_a_new_object_with_the_name_of_a_dependent_is_not_deleted(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    world.settle()
    delete(world, "owner")
    world.deliver_all()
    delete(world, "child")
    make(world, "child")
    assert names(world.settle()) == ["child"]


def test_a_rejected_request_is_retried(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    delete(world, "owner")
    down = EffectResponse(500, {"message": "not now"}, 0.0)
    world.refuse = lambda effect: down if isinstance(effect, Get) else None
    world.advance(1)
    assert names(world) == ["child"]
    world.refuse = lambda effect: None
    world.advance(60)
    assert names(world) == []


def test_a_kind_that_is_no_longer_served_does_not_prove_that_its_objects_are_deleted(world: World) -> None:
    """A path that is not served answers 404, too."""
    owner = make(world, "owner", path=f"{A}/secrets")
    make(world, "child", reference(owner, uid=MISSING))
    unserved = EffectResponse(404, {"reason": "NotFound", "details": {}}, 0.0)
    world.refuse = lambda effect: unserved if isinstance(effect, Get) and effect.resource.plural == "secrets" else None
    world.advance(60)
    assert names(world) == ["child"]


def test_kinds_without_strategic_merge_patch_get_merge_patches(world: World) -> None:
    first, second = make(world, "first"), make(world, "second")
    make(world, "child", reference(first), reference(second))
    no = EffectResponse(415, {"reason": "UnsupportedMediaType"}, 0.0)
    world.refuse = lambda effect: no if isinstance(effect, Patch) and effect.how == "strategic" else None
    delete(world, "first")
    world.settle()
    assert owners_of(world, "child") == ["second"]
    delete(world, "second", "Orphan")
    world.settle()
    assert (names(world), owners_of(world, "child")) == (["child"], [])


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("after", range(12))
def test_a_crash_after_any_request_is_completed_by_the_next_process(world: World, policy: str, after: int) -> None:
    owner = make(world, "owner")
    for name in ("one", "two"):
        child = make(world, name, reference(owner, block=True))
        make(world, f"{name}-child", reference(child, block=True))
    world.settle()
    delete(world, "owner", policy)
    world.requests.clear()

    class Killed(Exception):
        pass

    def kill(effect: Effect) -> EffectResponse | None:
        if len(world.requests) >= after * 5:
            raise Killed
        return None

    world.refuse = kill
    try:
        world.settle()
    except Killed:
        world.refuse = lambda effect: None
        world.crash().settle()
    expected = [] if policy != "Orphan" else ["one", "one-child", "two", "two-child"]
    assert names(world) == expected


def test_writes_that_change_nothing_of_interest_cost_nothing(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    world.settle()
    world.requests.clear()
    for number in range(5):
        world.server.patch(f"{A}/configmaps/child", {"data": {"n": str(number)}})
    world.settle()
    assert world.requests == []


def test_deleted_objects_are_dropped_from_memory(world: World) -> None:
    (collector,) = world.controllers
    assert isinstance(collector, GarbageCollector)
    before = len(collector.graph)
    owner = make(world, "owner")
    for number in range(20):
        make(world, f"c{number}", reference(owner, block=True), reference(owner, name="odd", uid=MISSING))
    world.settle()
    delete(world, "owner", "Foreground")
    world.settle()
    assert len(collector.graph) == before
    assert collector.graph.is_without_edges()
