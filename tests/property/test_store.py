"""The store against a model that keeps a full copy of the state per revision."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.store.item import Compacted, Item, ItemPage, Revision, StoreChange
from headgate.store.memory import Store

RESOURCES: Final = ("pods", "nodes")
# "a-b" sorts before "a" in the storage of a real cluster; "" is the namespace of cluster-scoped objects.
NAMESPACES: Final = ("", "a", "a-b", "b")
NAMES: Final = ("n", "n-1", "n.x", "o", "p")

World = dict[tuple[str, str, str], Item]

resources = st.sampled_from(RESOURCES)
namespaces = st.sampled_from(NAMESPACES)
names = st.sampled_from(NAMES)


def listed(world: World, resource: str, namespace: str | None) -> list[Item]:
    found = [item for (kind, ns, _), item in world.items() if kind == resource and namespace in (None, ns)]
    return sorted(found, key=lambda item: f"{item.namespace}/{item.name}")


class StoreAgainstWorlds(RuleBasedStateMachine):
    """``worlds[r]`` is everything as it was when revision ``r`` became visible."""

    @initialize()
    def begin(self) -> None:
        self.store = Store()
        self.worlds: dict[int, World] = {0: {}}
        self.changes: list[StoreChange] = []
        self.applied: World = {}
        self.staged: list[StoreChange] = []
        self.oldest = 0
        self.issued = 0
        self.counter = 0

    @property
    def committed(self) -> int:
        return max(self.worlds)

    @property
    def long_past(self) -> bool:
        """Compaction waits for some history: a store that forgets at once has no past to get wrong."""
        return self.store.history_count > 8

    def write(self, resource: str, namespace: str, name: str, *, delete: bool) -> None:
        revision = self.store.next_revision()
        assert revision == self.issued + 1
        self.issued = revision
        self.counter += 1
        item = Item(resource, namespace, name, "uid", revision, {}, {}, f"{self.counter}".encode())
        previous = self.applied.get((resource, namespace, name))
        change = self.store.stage(item, delete=delete)
        assert change == StoreChange(revision, item, previous, delete)
        self.staged.append(change)
        if delete:
            del self.applied[resource, namespace, name]
        else:
            self.applied[resource, namespace, name] = item

    @rule(resource=resources, namespace=namespaces, name=names)
    def put(self, resource: str, namespace: str, name: str) -> None:
        self.write(resource, namespace, name, delete=False)

    @rule(writes=st.lists(st.tuples(resources, namespaces, names), min_size=1, max_size=8))
    def put_and_delete_and_commit(self, writes: list[tuple[str, str, str]]) -> None:
        """Every second write to a key deletes it."""
        for key in writes:
            self.write(*key, delete=key in self.applied)
        self.publish(len(self.staged))

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.applied)))
        self.write(*key, delete=True)

    @precondition(lambda self: self.staged)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.publish(data.draw(st.integers(1, len(self.staged))))

    def publish(self, count: int) -> None:
        visible, self.staged = self.staged[:count], self.staged[count:]
        assert list(self.store.commit(visible[-1].revision)) == visible
        for change in visible:
            world = dict(self.worlds[self.committed])
            key = (change.item.resource, change.item.namespace, change.item.name)
            if change.deleted:
                del world[key]
            else:
                world[key] = change.item
            self.worlds[change.revision] = world
            self.changes.append(change)

    @rule()
    def rollback(self) -> None:
        assert list(self.store.rollback()) == self.staged
        self.staged = []
        self.applied = dict(self.worlds[self.committed])

    @precondition(lambda self: self.long_past)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        upto = data.draw(st.integers(self.oldest - 1, self.oldest + 4) | st.integers(0, self.committed + 2))
        target = min(upto, self.committed)
        expected = [change for change in self.changes if self.oldest < change.revision <= target]
        assert list(self.store.compact(Revision(upto))) == expected
        self.oldest = max(self.oldest, target)

    @precondition(lambda self: self.long_past)
    @rule(changes=st.integers(0, 10), size=st.integers(0, 20))
    def compact_to_limits(self, changes: int, size: int) -> None:
        self.compact_exactly(self.store.compaction_target(changes, size))
        assert self.store.history_count <= changes
        assert self.store.history_bytes <= size

    def compact_exactly(self, upto: Revision) -> None:
        self.store.compact(upto)
        self.oldest = max(self.oldest, upto)

    def at(self, revision: int) -> World:
        return self.worlds[max(known for known in self.worlds if known <= revision)]

    @rule(data=st.data(), resource=resources, namespace=st.none() | namespaces, limit=st.integers(0, 4))
    def pages_at_a_revision_are_the_list_of_that_revision(
        self, data: st.DataObject, resource: str, namespace: str | None, limit: int
    ) -> None:
        revision = Revision(data.draw(st.integers(self.oldest, self.committed) | st.integers(0, self.committed)))
        expected = listed(self.at(revision), resource, namespace)
        after: tuple[str, str] | None = None
        found: list[Item] = []
        while True:
            page = self.store.page(resource, namespace, at=revision, after=after, limit=limit)
            if revision < self.oldest:
                assert page == Compacted(Revision(self.oldest))
                return
            assert isinstance(page, ItemPage)
            assert page.revision == revision
            found.extend(page.items)
            assert page.remaining == len(expected) - len(found)
            assert page.more == (page.remaining > 0)
            if not page.more:
                break
            after = (page.items[-1].namespace, page.items[-1].name)
        assert found == expected

    @rule(data=st.data(), resource=resources, namespace=namespaces, name=names, limit=st.integers(0, 4))
    def a_page_may_start_after_a_key_that_is_gone(
        self, data: st.DataObject, resource: str, namespace: str, name: str, limit: int
    ) -> None:
        revision = Revision(data.draw(st.integers(self.oldest, self.committed)))
        page = self.store.page(resource, None, at=revision, after=(namespace, name), limit=limit)
        assert isinstance(page, ItemPage)
        later = [
            i for i in listed(self.at(revision), resource, None) if f"{i.namespace}/{i.name}" > f"{namespace}/{name}"
        ]
        assert list(page.items) == (later[:limit] if limit else later)
        assert page.remaining == len(later) - len(page.items)

    @rule(data=st.data(), resource=resources)
    def changes_since(self, data: st.DataObject, resource: str) -> None:
        since = Revision(data.draw(st.integers(0, self.committed + 1)))
        found = self.store.changes(resource, since)
        if since < self.oldest:
            assert found == Compacted(Revision(self.oldest))
        else:
            expected = [c for c in self.changes if c.revision > since and c.item.resource == resource]
            assert not isinstance(found, Compacted)
            assert list(found) == expected

    @invariant()
    def both_heads_are_right(self) -> None:
        assert self.store.committed == self.committed
        assert self.store.applied == (self.staged[-1].revision if self.staged else self.committed)
        assert list(self.store.pending()) == self.staged
        assert self.store.oldest == self.oldest
        world = self.worlds[self.committed]
        for resource in RESOURCES:
            assert self.store.count(resource) == sum(kind == resource for kind, _, _ in world)
            assert list(self.store.list_applied(resource, None)) == listed(self.applied, resource, None)

    @rule(resource=resources, namespace=namespaces)
    def objects_and_namespaces_are_found(self, resource: str, namespace: str) -> None:
        world = self.worlds[self.committed]
        assert list(self.store.list_applied(resource, namespace)) == listed(self.applied, resource, namespace)
        for name in NAMES:
            key = (resource, namespace, name)
            assert self.store.read(*key) == world.get(key)
            assert self.store.read_applied(*key) == self.applied.get(key)


TestStoreAgainstWorlds = StoreAgainstWorlds.TestCase
TestStoreAgainstWorlds.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_write_with_a_wrong_revision_is_refused() -> None:
    store = Store()
    with pytest.raises(ValueError, match="the next one is 1"):
        store.stage(Item("pods", "a", "n", "u", Revision(2), {}, {}, b"{}"))
