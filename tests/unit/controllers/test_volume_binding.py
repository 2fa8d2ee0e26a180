"""Binding of claims to static volumes, on the embedded server with a virtual clock."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.controllers.volumes import object_fields
from unit.controllers.storage_objects import (
    CLAIMS,
    SELECTED,
    VOLUMES,
    a_world,
    add_claim,
    add_class,
    add_user,
    add_volume,
    bound,
    claim_of,
    events,
    phases,
    volume_of,
)
from unit.controllers.world import World

READ_WRITE = ["ReadWriteOnce", "ReadWriteMany"]


@pytest.fixture
def world() -> World:
    return a_world()


def test_a_claim_gets_the_smallest_volume_that_is_large_enough(world: World) -> None:
    for name, size in (("small", "1Gi"), ("fits", "3Gi"), ("large", "9Gi")):
        add_volume(world, name, size)
    add_claim(world, "c", "2Gi")
    world.advance(1)
    assert bound(world) == {"c": "fits"}
    assert phases(world) == {"small": "Available", "fits": "Bound", "large": "Available"}
    claim, volume = claim_of(world, "c"), volume_of(world, "fits")
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"}}
    assert set(claim["metadata"]["annotations"]) == {object_fields.BIND_COMPLETED, object_fields.BOUND_BY_CONTROLLER}
    assert set(volume["metadata"]["annotations"]) == {object_fields.BOUND_BY_CONTROLLER}
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


def test_a_pending_claim_gets_a_new_volume(world: World) -> None:
    add_claim(world, "c")
    world.advance(1)
    assert events(world) == [("c", "FailedBinding")]
    assert claim_of(world, "c")["status"] == {"phase": "Pending"}
    add_volume(world, "v")
    world.advance(1)
    assert bound(world) == {"c": "v"}


def test_a_volume_that_does_not_match_is_not_bound(world: World) -> None:
    add_volume(world, "other-class", storageClassName="other")
    add_volume(world, "block", volumeMode="Block")
    add_volume(world, "read-only", accessModes=["ReadOnlyMany"])
    add_volume(world, "unlabelled")
    add_claim(world, "c", selector={"matchLabels": {"kind": "fast"}})
    world.advance(1)
    assert bound(world) == {}
    add_volume(world, "labelled", "5Gi", metadata={"labels": {"kind": "fast"}})
    world.advance(1)
    assert bound(world) == {"c": "labelled"}


def test_a_volume_with_fewer_access_modes_is_preferred_to_a_smaller_one(world: World) -> None:
    add_volume(world, "many", "1Gi", accessModes=READ_WRITE)
    add_volume(world, "one", "5Gi")
    add_claim(world, "c")
    world.advance(1)
    assert bound(world) == {"c": "one"}


def test_a_reserved_volume_is_bound_only_to_its_claim(world: World) -> None:
    add_volume(world, "meant", "9Gi", claim="c")
    add_volume(world, "free", "1Gi")
    for name in ("b", "c"):
        add_claim(world, name)
    world.advance(1)
    assert bound(world) == {"b": "free", "c": "meant"}
    assert "annotations" not in volume_of(world, "meant")["metadata"]


def test_a_claim_that_names_its_volume_waits_for_it(world: World) -> None:
    add_claim(world, "c", volumeName="v")
    world.advance(1)
    assert bound(world) == {}
    add_volume(world, "v")
    world.advance(1)
    assert bound(world) == {"c": "v"}
    assert set(claim_of(world, "c")["metadata"]["annotations"]) == {object_fields.BIND_COMPLETED}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"capacity": {"storage": "1Mi"}}, "requested PV is too small"),
        ({"storageClassName": "other"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
)
def test_a_named_volume_that_does_not_match_is_reported(world: World, spec: dict[str, Any], reason: str) -> None:
    add_volume(world, "v", **spec)
    add_claim(world, "c", volumeName="v")
    world.advance(1)
    assert bound(world) == {}
    assert world.emitted[-1].message == f'Cannot bind to requested volume "v": {reason}'
    assert world.emitted[-1].reason == "VolumeMismatch"


def test_a_named_volume_of_another_claim_is_not_bound(world: World) -> None:
    add_volume(world, "v", claim="other")
    add_claim(world, "c", volumeName="v")
    world.advance(1)
    assert events(world) == [("c", "FailedBinding")]
    assert world.emitted[-1].message == 'volume "v" already bound to a different claim.'


def test_a_claim_whose_volume_is_deleted_is_lost(world: World) -> None:
    add_volume(world, "v")
    add_claim(world, "c")
    world.advance(1)
    world.server.patch(f"{VOLUMES}/v", {"metadata": {"finalizers": None}})
    world.server.delete(f"{VOLUMES}/v")
    world.server.patch(f"{VOLUMES}/v", {"metadata": {"finalizers": None}})
    world.advance(1)
    assert claim_of(world, "c")["status"] == {"phase": "Lost"}
    assert events(world) == [("c", "ClaimLost")]


def test_a_claim_that_waits_for_a_pod_is_not_bound_before(world: World) -> None:
    add_class(world, "local", "kubernetes.io/no-provisioner", waits=True)
    add_volume(world, "v", storageClassName="local")
    add_claim(world, "c", on_class="local")
    world.advance(1)
    assert (bound(world), events(world)) == ({}, [("c", "WaitForFirstConsumer")])
    add_user(world, "p", "c")
    world.advance(10)
    assert events(world)[-1] == ("c", "WaitForPodScheduled")
    assert world.emitted[-1].message == "waiting for pod p to be scheduled"
    # The scheduler gives it a volume.
    ref = {"namespace": "a", "name": "c", "uid": claim_of(world, "c")["metadata"]["uid"]}
    world.server.patch(f"{VOLUMES}/v", {"spec": {"claimRef": ref}})
    world.advance(1)
    assert bound(world) == {"c": "v"}


def test_a_class_without_a_provisioner_is_reported(world: World) -> None:
    add_class(world, "local", "kubernetes.io/no-provisioner", waits=True)
    add_claim(world, "c", on_class="local")
    world.server.patch(f"{CLAIMS}/c", {"metadata": {"annotations": {SELECTED: "n"}}})
    add_claim(world, "d", on_class="missing")
    world.advance(1)
    assert {each.message for each in world.emitted} >= {
        "no volume plugin matched name: kubernetes.io/no-provisioner",
        'storageclass.storage.k8s.io "missing" not found',
    }


def test_a_claim_without_a_class_gets_a_later_default_class(world: World) -> None:
    add_claim(world, "c", on_class=None)
    world.advance(1)
    add_class(world, "std", metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}})
    world.advance(1)
    assert claim_of(world, "c")["spec"]["storageClassName"] == "std"
    assert list(bound(world)) == ["c"]


def test_a_claim_that_is_deleted_during_a_write_stays_deleted(world: World) -> None:
    """The news of its end come before the answer to the write; then a volume comes that it would have liked."""

    def refuse(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.name != "c":
            return None
        world.refuse = lambda effect: None
        answer = world.perform(effect)
        world.server.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
        world.server.delete(f"{CLAIMS}/c")
        world.deliver_all()
        return answer

    add_class(world, "theirs", "csi.example.com")
    world.refuse = refuse
    add_claim(world, "c", on_class="theirs")
    world.settle()
    assert world.server.get(f"{CLAIMS}/c").status == 404
    add_volume(world, "v", storageClassName="theirs")
    world.advance(1)
    assert phases(world) == {"v": "Available"}


@pytest.mark.parametrize("seed", range(8))
def test_with_any_failure_or_crash_every_claim_gets_its_own_volume(seed: int) -> None:
    """As many volumes as claims, and writes that fail or are lost on the way back."""
    draw = random.Random(seed)
    world = a_world()
    lost: list[EffectResponse] = []

    def refuse(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or draw.random() < 0.7:
            return None
        if draw.random() < 0.5:
            return EffectResponse(503, {}, 0.0)
        world.refuse = lambda effect: None
        lost.append(world.perform(effect))
        world.refuse = refuse
        return EffectResponse(0, {}, 0.0)

    world.refuse = refuse
    for number in range(6):
        add_volume(world, f"v{number}", f"{number + 1}Gi")
        add_claim(world, f"c{number}", f"{draw.randint(1, 6)}Gi" if number < 3 else "1Gi")
    for _ in range(12):
        world.settle(draw.choice, steps=draw.randint(1, 40))
        if draw.random() < 0.3:
            world.crash()
    world.refuse = lambda effect: None
    world.advance(120)
    volumes = {each["metadata"]["name"]: each for each in world.server.get(VOLUMES).body["items"]}
    assert len(set(bound(world).values())) == len(bound(world))
    for claim, volume in bound(world).items():
        assert volumes[volume]["spec"]["claimRef"]["name"] == claim
        assert volumes[volume]["status"]["phase"] == "Bound"
    free = [name for name, volume in volumes.items() if volume["status"]["phase"] == "Available"]
    assert len(free) + len(bound(world)) == 6
    sizes = [object_fields.capacity(volumes[name]) for name in free]
    waiting = [each for each in world.server.get(CLAIMS).body["items"] if each["status"]["phase"] == "Pending"]
    assert not sizes or all(object_fields.requested(each) > max(sizes) for each in waiting)
