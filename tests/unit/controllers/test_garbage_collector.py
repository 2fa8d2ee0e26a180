"""Garbage collection on the embedded server: which objects are deleted, in any order of events."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import EffectResponse, List
from unit.controllers.owner_fixtures import MISSING, NODES, A, B, delete, make, names, owners_of, two_namespaces
from unit.controllers.world import World, reference


@pytest.fixture
def world() -> World:
    return two_namespaces()


def test_dependents_are_deleted_in_the_background(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    delete(world, "owner")
    assert names(world) == ["child"]
    world.settle()
    assert names(world) == []


def test_dependents_are_deleted_generation_by_generation(world: World) -> None:
    last = make(world, "g0")
    for number in range(1, 8):
        last = make(world, f"g{number}", reference(last))
    delete(world, "g0", "Background")
    assert names(world.settle()) == []


def test_foreground_waits_for_the_dependents_that_block(world: World) -> None:
    owner = make(world, "owner")
    make(world, "blocks", reference(owner, block=True), finalizers=["example.com/hold"])
    make(world, "free", reference(owner, block=False))
    delete(world, "owner", "Foreground")
    world.settle()
    assert names(world) == ["blocks", "owner"]
    assert world.server.get(f"{A}/configmaps/owner").body["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.server.patch(f"{A}/configmaps/blocks", {"metadata": {"finalizers": None}})
    assert names(world.settle()) == []


def test_a_dependent_that_stops_blocking_allows_the_deletion_of_its_owner(world: World) -> None:
    owner = make(world, "owner")
    make(world, "blocks", reference(owner, block=True), finalizers=["example.com/hold"])
    delete(world, "owner", "Foreground")
    world.settle()
    free = {"metadata": {"ownerReferences": [reference(owner, block=False)]}}
    world.server.patch(f"{A}/configmaps/blocks", free)
    assert names(world.settle()) == ["blocks"]


def test_orphans_stay_and_have_no_owner(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    make(world, "far", reference(owner), path=f"{A}/secrets")
    delete(world, "owner", "Orphan")
    world.settle()
    assert names(world) == ["child"]
    assert owners_of(world, "child") == []
    assert owners_of(world, "far", f"{A}/secrets") == []


def test_a_dependent_that_was_not_observed_is_orphaned_too(world: World) -> None:
    """Its watch event does not arrive before the end of this deletion."""
    owner = make(world, "owner")
    make(world, "late", reference(owner), path=f"{A}/secrets")
    delete(world, "owner", "Orphan")
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
    no = EffectResponse(500, {"message": "a broken conversion"}, 0.0)
    world.refuse = lambda effect: no if isinstance(effect, List) and effect.resource.plural == "secrets" else None
    delete(world, "owner", "Orphan")
    world.settle()
    assert (names(world), owners_of(world, "child", f"{A}/secrets")) == ([], [])


def test_one_existing_owner_is_enough_and_absent_ones_are_removed(world: World) -> None:
    first, second = make(world, "first"), make(world, "second")
    make(world, "child", reference(first), reference(second), reference(first, uid=MISSING, name="never"))
    delete(world, "first")
    world.settle()
    assert owners_of(world, "child") == ["second"]


def test_dependents_of_an_owner_that_never_existed_are_deleted(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner, uid=MISSING, name="never"))
    assert names(world.settle()) == ["owner"]


def test_a_recreated_owner_is_another_object(world: World) -> None:
    owner = make(world, "owner")
    make(world, "child", reference(owner))
    delete(world, "owner")
    make(world, "owner")
    assert names(world.settle()) == ["owner"]


def test_an_owner_in_another_namespace_is_invalid_and_reported(world: World) -> None:
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


def test_an_owner_in_another_namespace_is_detected_in_either_order(world: World) -> None:
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


def test_a_cluster_scoped_object_with_a_namespaced_owner_is_not_deleted(world: World) -> None:
    owner = make(world, "owner")
    metadata = {"name": "n", "ownerReferences": [reference(owner), reference(owner, uid=MISSING)]}
    world.server.post(NODES, {"metadata": metadata})
    delete(world, "owner")
    world.advance(600)
    assert names(world, NODES) == ["n"]


def test_a_dependent_of_an_unserved_kind_waits_without_requests(world: World) -> None:
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


def test_two_objects_that_wait_for_each_other_are_both_deleted(world: World) -> None:
    circle(world)
    world.settle()
    delete(world, "x", "Foreground")
    delete(world, "y", "Foreground")
    assert names(world.settle()) == []


def test_an_object_that_owns_itself_can_be_deleted(world: World) -> None:
    x = make(world, "x")
    world.server.patch(f"{A}/configmaps/x", {"metadata": {"ownerReferences": [reference(x, block=True)]}})
    world.settle()
    delete(world, "x", "Foreground")
    assert names(world.settle()) == []


def test_a_reference_with_only_a_correct_uid_does_not_block_the_owner(world: World) -> None:
    owner = make(world, "owner")
    odd = reference(owner, block=True, apiVersion="example.com/v1", kind="Widget")
    make(world, "stranger", odd, path=f"{B}/configmaps")
    world.settle()
    delete(world, "owner", "Foreground")
    assert names(world.settle()) == []


def test_a_cycle_without_a_deletion_stays(world: World) -> None:
    circle(world)
    assert names(world.settle()) == ["x", "y"]


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_a_cycle_is_deleted_with_any_propagation_policy(world: World, policy: str) -> None:
    circle(world)
    world.settle()
    delete(world, "x", policy)
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
    delete(world, "top", "Foreground")
    world.settle()
    assert names(world) == ["bottom", "middle", "top"]
    assert world.server.get(f"{A}/configmaps/middle").body["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.server.patch(f"{A}/configmaps/bottom", {"metadata": {"finalizers": None}})
    assert names(world.settle()) == []


def test_a_dependent_with_the_orphan_finalizer_keeps_its_own_dependents(world: World) -> None:
    owner = make(world, "owner")
    child = make(world, "child", reference(owner), finalizers=["orphan"])
    make(world, "grandchild", reference(child))
    delete(world, "owner")
    world.settle()
    assert names(world) == ["grandchild"]
