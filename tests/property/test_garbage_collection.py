"""Random owners and dependents, random deletions, events in any order, crashes: the right objects remain.

The reference is slow and obvious: an object is gone if a client deleted it, or if it names owners and all of them are
gone. It repeats this for all objects until nothing changes.
"""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from headgate.controllers.garbage_collector.controller import GarbageCollector
from unit.controllers.world import Object, World, config_map, reference

NAMESPACES = ("a", "b")
KINDS = ("configmaps", "secrets", "nodes")
MISSING = "00000000-dead-4000-8000-{:012d}"
UNSERVED = {"apiVersion": "example.com/v1", "kind": "Widget"}


class Family:
    """The objects of a cluster as a test knows them, by uid."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self.objects: dict[str, Object] = {}
        self.deleted: set[str] = set()

    def make(self) -> None:
        kind = self.dice.choice(KINDS)
        namespace = "" if kind == "nodes" else self.dice.choice(NAMESPACES)
        name = f"o{self.dice.randrange(12)}"  # names are used again
        owners = self.draw_owners(namespace, self.dice.choice((0, 0, 1, 1, 1, 2, 3)))
        answer = self.world.server.post(path(kind, namespace), config_map(name, *owners))
        assert answer.status in (201, 409)
        if answer.status == 201:
            self.objects[answer.body["metadata"]["uid"]] = answer.body

    def draw_owners(self, namespace: str, count: int) -> list[Object]:
        owners = list({each["uid"]: each for each in (self.draw_reference() for _ in range(count))}.values())
        if can_be_judged(namespace, owners):
            return owners
        # It will never be deleted, so objects that wait for it wait without end; the reference does not model that.
        return [{**each, "blockOwnerDeletion": False} for each in owners]

    def draw_reference(self) -> Object:
        block = self.dice.choice((True, False, None))
        if not self.objects or self.dice.random() < 0.08:
            uid = MISSING.format(self.dice.randrange(3))
            return {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": uid}
        owner = self.dice.choice(list(self.objects.values()))
        changes: dict[str, str] = {}
        if self.dice.random() < 0.08:
            changes = self.dice.choice(({"name": "wrong"}, {"kind": "Secret"}, UNSERVED))
        return reference(owner, block=block, **changes)

    def adopt(self) -> None:
        """Gives an object other owners; cycles arise in this way."""
        living = [uid for uid in self.objects if self.stored(uid) is not None]
        if not living:
            return
        obj = self.objects[self.dice.choice(living)]
        owners = self.draw_owners(obj["metadata"].get("namespace", ""), self.dice.choice((0, 1, 2)))
        body = {"metadata": {"ownerReferences": owners, "uid": obj["metadata"]["uid"]}}
        answer = self.world.server.patch(object_path(obj), body)
        assert answer.status in (200, 404, 409), answer.body
        if answer.status == 200:
            self.objects[obj["metadata"]["uid"]] = answer.body

    def delete(self, policies: tuple[str, ...]) -> None:
        if not self.objects:
            return
        obj = self.dice.choice(list(self.objects.values()))
        uid = obj["metadata"]["uid"]
        body = {"propagationPolicy": self.dice.choice(policies), "preconditions": {"uid": uid}}
        if self.world.server.delete(object_path(obj), body).status == 200:
            self.deleted.add(uid)

    def stored(self, uid: str) -> Object | None:
        answer = self.world.server.get(object_path(self.objects[uid]))
        same = answer.status == 200 and answer.body["metadata"]["uid"] == uid
        return answer.body if same else None

    # -- the reference ---------------------------------------------------------------------------------------------

    def must_remain(self) -> dict[str, set[str]]:
        """The uids of the objects that stay, each with the uids of the owners that it still names."""
        gone = set(self.deleted)
        while True:
            doomed = {uid for uid, obj in self.objects.items() if uid not in gone and self.is_doomed(obj, gone)}
            if not doomed:
                break
            gone |= doomed
        return {uid: self.kept_owners(obj, gone) for uid, obj in self.objects.items() if uid not in gone}

    def is_doomed(self, obj: Object, gone: set[str]) -> bool:
        owners = obj["metadata"].get("ownerReferences") or []
        if not owners or not can_be_judged(obj["metadata"].get("namespace", ""), owners):
            return False
        return not any(self.is_owner(obj, each, gone) for each in owners)

    def kept_owners(self, obj: Object, gone: set[str]) -> set[str]:
        owners = obj["metadata"].get("ownerReferences") or []
        judged = can_be_judged(obj["metadata"].get("namespace", ""), owners)
        return {each["uid"] for each in owners if not judged or self.is_owner(obj, each, gone)}

    def is_owner(self, obj: Object, named: Object, gone: set[str]) -> bool:
        owner = self.objects.get(named["uid"])
        if owner is None or named["uid"] in gone:
            return False
        metadata = owner["metadata"]
        if (named["kind"], named["name"]) != (owner["kind"], metadata["name"]):
            return False
        return metadata.get("namespace", "") in ("", obj["metadata"].get("namespace", ""))

    def remaining(self) -> dict[str, set[str]]:
        found = {uid: self.stored(uid) for uid in self.objects}
        return {uid: named_by(obj) for uid, obj in found.items() if obj is not None}


def can_be_judged(namespace: str, owners: list[Object]) -> bool:
    """Not with an owner of a kind that is not served, and not cluster-scoped with a namespaced owner."""
    return all(each["kind"] != "Widget" and (namespace or each["kind"] == "Node") for each in owners)


def path(kind: str, namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{kind}" if namespace else f"/api/v1/{kind}"


def object_path(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{path(obj['kind'].lower() + 's', metadata.get('namespace', ''))}/{metadata['name']}"


def named_by(obj: Object) -> set[str]:
    return {each["uid"] for each in obj["metadata"].get("ownerReferences") or []}


def a_world() -> World:
    world = World(GarbageCollector, kinds=KINDS)
    for name in NAMESPACES:
        world.server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return world


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40))
def test_whatever_the_order_of_news_what_must_remain_remains(seed: int, size: int) -> None:
    dice = random.Random(seed)
    world = a_world()
    family = Family(world, dice)

    def choose(options: Any) -> Any:
        return dice.choice(options)

    for _ in range(size):
        family.make()
        if dice.random() < 0.3:
            family.delete(("Background", "Foreground"))
        if dice.random() < 0.4:
            world.settle(choose, steps=dice.randrange(30))
        if dice.random() < 0.03:
            world.crash()
    world.settle(choose)
    world.advance(3600)
    assert family.remaining() == family.must_remain()


@settings(max_examples=40)  # an example is up to 30 changes, each followed to rest on a server
@given(seed=st.integers(0, 2**32), size=st.integers(1, 30))
@example(seed=4442, size=11)  # an object that could not be decided, until its owners changed
def test_owners_that_change_are_followed(seed: int, size: int) -> None:
    """The collector finishes its work after every change, so that the reference can follow."""
    dice = random.Random(seed)
    world = a_world()
    family = Family(world, dice)
    for _ in range(size):
        dice.choice((family.make, family.make, family.adopt, lambda: family.delete(("Background", "Foreground"))))()
        world.settle(dice.choice)
        world.advance(1000)
        expected = family.must_remain()
        assert family.remaining() == expected
        family.deleted |= set(family.objects) - set(expected)
        for uid in expected:
            stored = family.stored(uid)
            assert stored is not None
            family.objects[uid] = stored


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 25))
def test_orphans_are_never_lost(seed: int, size: int) -> None:
    """An object whose owners were all deleted with orphaning stays, however late the watch events arrive."""
    dice = random.Random(seed)
    world = a_world()
    family = Family(world, dice)
    for _ in range(size):
        name, namespace = f"o{len(family.objects)}", dice.choice(NAMESPACES)
        living = [obj for obj in family.objects.values() if obj["metadata"]["namespace"] == namespace]
        living = [obj for obj in living if obj["metadata"]["uid"] not in family.deleted]
        owners = [reference(each) for each in dice.sample(living, min(len(living), dice.randrange(3)))]
        kind = dice.choice(("configmaps", "secrets"))
        made = world.server.post(path(kind, namespace), config_map(name, *owners)).body
        family.objects[made["metadata"]["uid"]] = made
        if dice.random() < 0.4:
            family.delete(("Orphan",))
        if dice.random() < 0.5:
            world.settle(dice.choice, steps=dice.randrange(20))
    world.settle(dice.choice)
    world.advance(3600)
    stay = set(family.objects) - family.deleted
    assert family.remaining() == {uid: named_by(family.objects[uid]) - family.deleted for uid in stay}
