"""The store in memory: every object at every recent revision, with an applied head and a committed head.

A writer *stages* a write: the write is then *applied*, and the next writer sees it. Readers and watches see a write
only after it is *committed*; ``store/io/committer.py`` commits it after the bytes are on disk. If the disk write fails,
all staged writes are rolled back, because later writes may have been computed from the lost ones. One thread uses a
store. A writer that checks a resourceVersion reads the object with ``read_applied`` and stages the write before any
other code runs.

**Revisions of lost writes.** ``rollback`` does not reuse revisions: a process issues each revision once. After a crash,
``store/log_head.py`` starts the next process with a gap above the last recorded revision. The revision of a lost write
therefore never belongs to another write. A caller that builds a response from ``read_applied`` must wait until the
revision of that item is committed before it sends the response. Otherwise the response may show a write that is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final

from headgate.store.item import MAX_ITEM_BYTES, Compacted, Item, ItemPage, Revision, StoreChange, key_of
from headgate.store.resource_history import ResourceHistory, key_range

_EMPTY: Final = ResourceHistory()


class Store:
    """Objects in memory. No method blocks, and no method writes to the disk."""

    def __init__(self, *, revision: int = 0, oldest: int = 0) -> None:
        self._histories: dict[str, ResourceHistory] = {}
        self._staged: deque[StoreChange] = deque()
        self._staged_by_key: dict[str, dict[str, StoreChange]] = {}  # resource -> key -> the newest staged change
        self._history: deque[StoreChange] = deque()  # the committed changes of all resources that are not compacted
        self._history_bytes = 0
        self._committed = Revision(revision)
        self._issued = Revision(revision)  # the highest revision that this store has issued
        self._oldest = Revision(oldest)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Revision:
        """The newest revision that readers may see."""
        return self._committed

    @property
    def applied(self) -> Revision:
        """The newest revision that writers see."""
        return self._staged[-1].revision if self._staged else self._committed

    @property
    def oldest(self) -> Revision:
        """The oldest revision that can still be read, or watched from."""
        return self._oldest

    @property
    def history_count(self) -> int:
        return len(self._history)

    @property
    def history_bytes(self) -> int:
        """Bytes of states in the history that are not current any more."""
        return self._history_bytes

    def count(self, resource: str) -> int:
        """How many committed objects the resource has."""
        return len(self._history_of(resource).items)

    def resources(self) -> Sequence[str]:
        """The resources that have committed objects, sorted."""
        return sorted(name for name, history in self._histories.items() if history.items)

    # -- for writers -----------------------------------------------------------------------------------------------

    def next_revision(self) -> Revision:
        """The revision that the item of the next ``stage`` must have."""
        return Revision(self._issued + 1)

    def read_applied(self, resource: str, namespace: str, name: str) -> Item | None:
        """One object as the next writer sees it: with staged writes."""
        key = key_of(namespace, name)
        staged = self._staged_by_key.get(resource)
        if staged and (change := staged.get(key)) is not None:
            return None if change.deleted else change.item
        return self._history_of(resource).items.get(key)

    def list_applied(self, resource: str, namespace: str | None) -> Iterable[Item]:
        """All objects of a resource (of one namespace), in list order, as the next writer sees them: with staged
        writes.

        The result is lazy: it must be consumed before the next ``commit``.
        """
        history, staged = self._history_of(resource), self._staged_by_key.get(resource)
        if staged:
            return _merge_staged(history.sorted_items(namespace), staged, namespace)
        return history.sorted_items(namespace) if history.items else ()

    def staged(self, resource: str) -> Iterable[StoreChange]:
        """The newest staged change of every object of the resource that has one."""
        return self._staged_by_key.get(resource, {}).values()

    def stage(self, item: Item, *, delete: bool = False) -> StoreChange:
        """Applies one write. ``item.revision`` must be ``next_revision()``."""
        if item.revision != self._issued + 1:
            raise ValueError(f"the item has revision {item.revision}, but the next one is {self._issued + 1}")
        if len(item.data) > MAX_ITEM_BYTES:
            # A commit contains many writes and fails as a whole, so one write that would fail must not be staged.
            raise ValueError(f"an object has {len(item.data)} bytes; the log accepts at most {MAX_ITEM_BYTES}")
        previous = self.read_applied(item.resource, item.namespace, item.name)
        if delete and previous is None:
            key = key_of(item.namespace, item.name)
            raise ValueError(f"{item.resource} {key} cannot be deleted: it does not exist")
        change = StoreChange(revision=item.revision, item=item, previous=previous, deleted=delete)
        self._issued = item.revision
        self._staged.append(change)
        self._staged_by_key.setdefault(item.resource, {})[key_of(item.namespace, item.name)] = change
        return change

    def pending(self) -> Sequence[StoreChange]:
        """All staged changes, oldest first."""
        return tuple(self._staged)

    def commit(self, upto: Revision) -> Sequence[StoreChange]:
        """Commits every staged write up to and including ``upto``; returns the changes that became visible."""
        visible: list[StoreChange] = []
        while self._staged and self._staged[0].revision <= upto:
            change = self._staged.popleft()
            self._publish(change)
            self._unstage(change)
            visible.append(change)
        return visible

    def rollback(self) -> Sequence[StoreChange]:
        """Drops every staged write and returns them. Their revisions are not issued again."""
        lost = tuple(self._staged)
        self._staged.clear()
        self._staged_by_key.clear()
        return lost

    # -- for readers -----------------------------------------------------------------------------------------------

    def read(self, resource: str, namespace: str, name: str) -> Item | None:
        """The committed state of one object."""
        return self._history_of(resource).items.get(key_of(namespace, name))

    def page(
        self,
        resource: str,
        namespace: str | None,
        *,
        at: Revision | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 0,
    ) -> ItemPage | Compacted:
        """Committed objects in list order.

        ``at``: the revision; ``None`` is the newest. ``after``: the namespace and name that the first object must
        follow. ``limit``: zero means all objects.
        """
        revision = self._committed if at is None else at
        if revision > self._committed:
            raise ValueError(f"revision {revision} is not committed yet; the newest is {self._committed}")
        if revision < self._oldest:
            return Compacted(self._oldest)
        return self._history_of(resource).page(namespace, revision, after, limit)

    def newest(self, resource: str) -> Revision:
        """The revision of the last committed change of a resource; 0 if there never was one."""
        return self._history_of(resource).newest

    def changes(self, resource: str, since: Revision, limit: int = 0) -> Sequence[StoreChange] | Compacted:
        """Committed changes of a resource with a revision above ``since``, oldest first; a limit of zero means all."""
        if since < self._oldest:
            return Compacted(self._oldest)
        return self._history_of(resource).changes(since, limit)

    # -- history ---------------------------------------------------------------------------------------------------

    def compact(self, upto: Revision) -> Sequence[StoreChange]:
        """Drops the changes up to ``upto`` from the history; returns them. The state at ``upto`` stays readable."""
        target = min(upto, self._committed)
        compacted: list[StoreChange] = []
        while self._history and self._history[0].revision <= target:
            change = self._history.popleft()
            self._history_bytes -= _retained_bytes(change)
            self._histories[change.item.resource].drop_oldest_change()
            compacted.append(change)
        self._oldest = max(self._oldest, target)
        return compacted

    def compaction_target(self, max_changes: int, max_bytes: int) -> Revision:
        """The revision to compact to so that the history is within the limits; ``oldest`` if it already is."""
        count, size, revision = len(self._history), self._history_bytes, self._oldest
        for change in self._history:
            if count <= max_changes and size <= max_bytes:
                break
            count, size, revision = count - 1, size - _retained_bytes(change), change.revision
        return revision

    def restore(self, writes: Iterable[tuple[Item, bool]]) -> Sequence[StoreChange]:
        """Loads recorded writes in order, each with whether it is a delete. Only for a store that has no objects yet.

        Returns the changes before ``oldest``: they are applied, but not kept in the history.
        """
        compacted: list[StoreChange] = []
        for item, deleted in writes:
            history = self._histories.get(item.resource)
            if history is None:
                history = self._histories[item.resource] = ResourceHistory()
            in_history = item.revision > self._oldest
            change = history.restore(item, deleted=deleted, in_history=in_history)
            if in_history:
                self._append_history(change)
            else:
                compacted.append(change)
        for history in self._histories.values():
            history.sort_keys()
        return compacted

    # -- private ---------------------------------------------------------------------------------------------------

    def _history_of(self, resource: str) -> ResourceHistory:
        return self._histories.get(resource, _EMPTY)

    def _publish(self, change: StoreChange) -> None:
        """Makes a change visible to readers and watches."""
        resource = change.item.resource
        history = self._histories.get(resource)
        if history is None:
            history = self._histories[resource] = ResourceHistory()
        history.publish(change)
        self._append_history(change)

    def _append_history(self, change: StoreChange) -> None:
        self._history.append(change)
        self._history_bytes += _retained_bytes(change)
        self._committed = max(self._committed, change.revision)
        self._issued = max(self._issued, self._committed)

    def _unstage(self, change: StoreChange) -> None:
        """Removes a committed change from ``_staged_by_key``, unless a newer staged change of the object is there."""
        resource = change.item.resource
        staged = self._staged_by_key[resource]
        key = key_of(change.item.namespace, change.item.name)
        if staged[key] is change:
            del staged[key]
            if not staged:
                del self._staged_by_key[resource]


def _merge_staged(committed: Iterator[Item], staged: dict[str, StoreChange], namespace: str | None) -> Iterator[Item]:
    """The committed items with the staged changes applied."""
    first, last = key_range(namespace)
    updated = sorted(
        (
            change.item
            for key, change in staged.items()
            if not change.deleted and first < key and (not last or key < last)
        ),
        key=_key,
    )
    return merge((item for item in committed if _key(item) not in staged), updated, key=_key)


def _key(item: Item) -> str:
    return key_of(item.namespace, item.name)


def _retained_bytes(change: StoreChange) -> int:
    """The bytes that are in memory only because of this entry of the history."""
    before = len(change.previous.data) if change.previous is not None else 0
    return before + (len(change.item.data) if change.deleted else 0)
