"""Garbage collection on the embedded server: what goes, what stays, in which order news comes."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.owners.collector import Collector
from headgate.owners.effects import Answer, Delete, Effect, Get, List, Patch
from unit.owners.world import Object, World, config_map, reference

A = "/api/v1/namespaces/a"
B = "/api/v1/namespaces/b"
NODES = "/api/v1/nodes"
MISSING = "00000000-dead-4000-8000-000000000000"


@pytest.fixture
def world() -> World:
    world = World(Collector)
    for name in ("a", "b"):
        world.server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return world.settle()


def make(world: World, name: str, *owners: Object, path: str = f"{A}/configmaps", **metadata: Any) -> Object:
    answer = world.server.post(path, config_map(name, *owners, **metadata))
    assert answer.status == 201, answer.body
    made: Object = answer.body
    return made


def drop(world: World, name: str, policy: str | None = None, path: str = f"{A}/configmaps") -> None:
    body = None if policy is None else {"propagationPolicy": policy}
    assert world.server.delete(f"{path}/{name}", body).status == 200


def names(world: World, path: str = f"{A}/configmaps") -> list[str]:
    return sorted(item["metadata"]["name"] for item in world.server.get(path).body["items"])


def owners_of(world: World, name: str, path: str = f"{A}/configmaps") -> list[str]:
    metadata = world.server.get(f"{path}/{name}").body["metadata"]
    return [each["name"] for each in metadata.get("ownerReferences") or ()]


def test_dependents_go_in_the_background(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    drop(world, "owner")
    assert names(world) == ["child"]
    world.settle()
    assert names(world) == []


def test_a_family_goes_generation_by_generation(world: World) -> None:
    last = make(world, "g0")
    for number in range(1, 8):
        last = make(world, f"g{number}", reference(last))
    drop(world, "g0", "Background")
    assert names(world.settle()) == []


def test_foreground_waits_for_the_dependents_that_block(world: World) -> None:
    owner = make(world, "owner")
    make(world, "blocks", reference(owner, block=True), finalizers=["example.com/hold"])
    make(world, "free", reference(owner, block=False))
    drop(world, "owner", "Foreground")
    world.settle()
    assert names(world) == ["blocks", "owner"]
    assert world.server.get(f"{A}/configmaps/owner").body["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.server.patch(f"{A}/configmaps/blocks", {"metadata": {"finalizers": None}})
    assert names(world.settle()) == []


def test_a_dependent_that_stops_blocking_lets_its_owner_go(world: World) -> None:
    owner = make(world, "owner")
    make(world, "blocks", reference(owner, block=True), finalizers=["example.com/hold"])
    drop(world, "owner", "Foreground")
    world.settle()
    free = {"metadata": {"ownerReferences": [reference(owner, block=False)]}}
    world.server.patch(f"{A}/configmaps/blocks", free)
    assert names(world.settle()) == ["blocks"]


def test_orphans_stay_and_have_no_owner(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    make(world, "far", reference(owner), path=f"{A}/secrets")
    drop(world, "owner", "Orphan")
    world.settle()
    assert names(world) == ["child"]
    assert owners_of(world, "child") == []
    assert owners_of(world, "far", f"{A}/secrets") == []


def test_a_dependent_that_nobody_has_heard_of_is_orphaned_all_the_same(world: World) -> None:
    """Its watch is late: for ever, as far as this deletion goes."""
    owner = make(world, "owner")
    make(world, "late", reference(owner), path=f"{A}/secrets")
    drop(world, "owner", "Orphan")
    world.settle(
        lambda options: min(
            options, key=lambda each: getattr(each, "resource", None) is not None and each.resource.plural == "secrets"
        )
    )
    assert names(world) == []
    assert names(world, f"{A}/secrets") == ["late"]
    assert owners_of(world, "late", f"{A}/secrets") == []


def test_a_kind_that_cannot_be_listed_does_not_keep_every_owner_waiting(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner), path=f"{A}/secrets")
    world.settle()
    no = Answer(500, {"message": "a broken conversion"}, 0.0)
    world.refuse = lambda effect: no if isinstance(effect, List) and effect.resource.plural == "secrets" else None
    drop(world, "owner", "Orphan")
    world.settle()
    assert (names(world), owners_of(world, "child", f"{A}/secrets")) == ([], [])


def test_one_living_owner_is_enough_and_dead_ones_are_struck_off(world: World) -> None:
    first, second = make(world, "first"), make(world, "second")
    make(world, "child", reference(first), reference(second), reference(first, uid=MISSING, name="never"))
    drop(world, "first")
    world.settle()
    assert owners_of(world, "child") == ["second"]


def test_an_owner_that_never_was_takes_its_dependents_along(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner, uid=MISSING, name="never"))
    assert names(world.settle()) == ["owner"]


def test_an_owner_made_again_under_its_name_is_somebody_else(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    drop(world, "owner")
    make(world, "owner")
    assert names(world.settle()) == ["owner"]


def test_an_owner_in_another_namespace_is_no_owner_and_people_are_told(world: World) -> None:
    owner = make(world, "owner")
    world.settle()
    make(world, "child", reference(owner), path=f"{B}/configmaps")
    world.settle()
    assert names(world, f"{B}/configmaps") == []
    assert names(world) == ["owner"]
    (told,) = world.emitted
    assert (told.type, told.reason) == ("Warning", "OwnerRefInvalidNamespace")
    uid = owner["metadata"]["uid"]
    assert told.message == (
        f'ownerRef [v1/ConfigMap, namespace: b, name: owner, uid: {uid}] does not exist in namespace "b"'
    )
    assert told.about["name"] == "child"


def test_an_owner_in_another_namespace_is_found_out_in_either_order(world: World) -> None:
    owner = make(world, "owner", path=f"{A}/secrets")
    make(world, "child", reference(owner), path=f"{B}/configmaps")
    world.settle()
    assert names(world, f"{B}/configmaps") == []
    assert [each.reason for each in world.emitted] == ["OwnerRefInvalidNamespace"]


def test_cluster_scoped_owners_have_dependents_everywhere(world: World) -> None:
    node = world.server.post(NODES, {"metadata": {"name": "n"}}).body
    make(world, "one", reference(node))
    make(world, "two", reference(node), path=f"{B}/configmaps")
    world.server.post(NODES, {"metadata": {"name": "m", "ownerReferences": [reference(node)]}})
    world.server.delete(f"{NODES}/n")
    world.settle()
    assert names(world) == names(world, f"{B}/configmaps") == names(world, NODES) == []


def test_a_cluster_scoped_object_with_an_owner_in_a_namespace_is_left_alone(world: World) -> None:
    owner = make(world, "owner")
    metadata = {"name": "n", "ownerReferences": [reference(owner), reference(owner, uid=MISSING)]}
    world.server.post(NODES, {"metadata": metadata})
    drop(world, "owner")
    world.advance(600)
    assert names(world, NODES) == ["n"]


def test_an_owner_of_a_kind_that_is_not_served_is_waited_for_at_no_cost(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner, apiVersion="example.com/v1", kind="Widget"))
    world.settle()
    world.requests.clear()
    world.advance(3600)
    assert names(world) == ["child", "owner"]
    assert world.requests == []


def test_an_owner_named_by_another_version_is_that_owner(world: World) -> None:
    scaler = {
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    }
    path = "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers"
    owner = world.server.post(path, scaler).body
    make(world, "child", reference(owner, apiVersion="autoscaling/v1"))
    world.settle()
    assert names(world) == ["child"]
    world.server.delete(f"{path}/h")
    assert names(world.settle()) == []


def test_two_that_wait_for_each_other_by_command_both_go(world: World) -> None:
    circle(world)
    world.settle()
    drop(world, "x", "Foreground")
    drop(world, "y", "Foreground")
    assert names(world.settle()) == []


def test_one_that_owns_itself_can_go(world: World) -> None:
    x = make(world, "x")
    world.server.patch(f"{A}/configmaps/x", {"metadata": {"ownerReferences": [reference(x, block=True)]}})
    world.settle()
    drop(world, "x", "Foreground")
    assert names(world.settle()) == []


def test_whoever_only_knows_the_uid_of_an_owner_does_not_hold_it_up(world: World) -> None:
    owner = make(world, "owner")
    odd = reference(owner, block=True, apiVersion="example.com/v1", kind="Widget")
    make(world, "stranger", odd, path=f"{B}/configmaps")
    world.settle()
    drop(world, "owner", "Foreground")
    assert names(world.settle()) == []


def test_a_circle_that_nobody_breaks_lives(world: World) -> None:
    circle(world)
    assert names(world.settle()) == ["x", "y"]


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_a_circle_that_is_broken_goes_by_any_way(world: World, policy: str) -> None:
    circle(world)
    world.settle()
    drop(world, "x", policy)
    world.settle()
    assert names(world) == (["y"] if policy == "Orphan" else [])


def circle(world: World) -> None:
    x = make(world, "x")
    y = make(world, "y", reference(x, block=True))
    world.server.patch(f"{A}/configmaps/x", {"metadata": {"ownerReferences": [reference(y, block=True)]}})


def test_foreground_reaches_grandchildren_before_children(world: World) -> None:
    top = make(world, "top")
    middle = make(world, "middle", reference(top, block=True))
    make(world, "bottom", reference(middle, block=True), finalizers=["example.com/hold"])
    drop(world, "top", "Foreground")
    world.settle()
    assert names(world) == ["bottom", "middle", "top"]
    assert world.server.get(f"{A}/configmaps/middle").body["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.server.patch(f"{A}/configmaps/bottom", {"metadata": {"finalizers": None}})
    assert names(world.settle()) == []


def test_a_dependent_with_the_orphan_finalizer_keeps_its_own_dependents(world: World) -> None:
    owner = make(world, "owner")
    child = make(world, "child", reference(owner), finalizers=["orphan"])
    make(world, "grandchild", reference(child))
    drop(world, "owner")
    world.settle()
    assert names(world) == ["grandchild"]


def test_a_new_owner_that_comes_meanwhile_saves_it(world: World) -> None:
    owner, other = make(world, "owner"), make(world, "other")
    make(world, "child", reference(owner))
    drop(world, "owner")
    saved: list[Effect] = []

    def save(effect: Effect) -> Answer | None:
        if isinstance(effect, Delete) and not saved:
            saved.append(effect)
            world.server.patch(f"{A}/configmaps/child", {"metadata": {"ownerReferences": [reference(other)]}})
        return None

    world.refuse = save
    world.advance(60)
    assert saved
    assert names(world) == ["child", "other"]


def test_an_object_that_never_stands_still_does_not_escape(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    drop(world, "owner")

    def shake(effect: Effect) -> Answer | None:
        if isinstance(effect, Delete):
            patched = world.server.patch(f"{A}/configmaps/child", {"data": {"n": str(len(world.requests))}})
            assert patched.status == 200
        return None

    world.refuse = shake
    assert names(world.settle()) == []


def test_a_namesake_of_a_dependent_is_not_hit(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    world.settle()
    drop(world, "owner")
    world.hear_all()
    drop(world, "child")
    make(world, "child")
    assert names(world.settle()) == ["child"]


def test_a_server_that_refuses_is_asked_again(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    drop(world, "owner")
    down = Answer(500, {"message": "not now"}, 0.0)
    world.refuse = lambda effect: down if isinstance(effect, Get) else None
    world.advance(1)
    assert names(world) == ["child"]
    world.refuse = lambda effect: None
    world.advance(60)
    assert names(world) == []


def test_a_kind_that_vanished_is_no_proof_that_its_objects_are_gone(world: World) -> None:
    """A path that is not served answers 404, too."""
    owner = make(world, "owner", path=f"{A}/secrets")
    make(world, "child", reference(owner, uid=MISSING))
    unserved = Answer(404, {"reason": "NotFound", "details": {}}, 0.0)
    world.refuse = lambda effect: unserved if isinstance(effect, Get) and effect.resource.plural == "secrets" else None
    world.advance(60)
    assert names(world) == ["child"]


def test_kinds_without_strategic_patches_are_patched_otherwise(world: World) -> None:
    first, second = make(world, "first"), make(world, "second")
    make(world, "child", reference(first), reference(second))
    no = Answer(415, {"reason": "UnsupportedMediaType"}, 0.0)
    world.refuse = lambda effect: no if isinstance(effect, Patch) and effect.how == "strategic" else None
    drop(world, "first")
    world.settle()
    assert owners_of(world, "child") == ["second"]
    drop(world, "second", "Orphan")
    world.settle()
    assert (names(world), owners_of(world, "child")) == (["child"], [])


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("after", range(12))
def test_a_process_that_dies_after_any_request_is_finished_by_the_next(world: World, policy: str, after: int) -> None:
    owner = make(world, "owner")
    for name in ("one", "two"):
        child = make(world, name, reference(owner, block=True))
        make(world, f"{name}-child", reference(child, block=True))
    world.settle()
    drop(world, "owner", policy)
    world.requests.clear()

    class Killed(Exception):
        pass

    def kill(effect: Effect) -> Answer | None:
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


def test_what_is_gone_is_forgotten(world: World) -> None:
    (collector,) = world.controllers
    assert isinstance(collector, Collector)
    before = len(collector.graph)
    owner = make(world, "owner")
    for number in range(20):
        make(world, f"c{number}", reference(owner, block=True), reference(owner, name="odd", uid=MISSING))
    world.settle()
    drop(world, "owner", "Foreground")
    world.settle()
    assert len(collector.graph) == before
    assert collector.graph.is_without_edges()
