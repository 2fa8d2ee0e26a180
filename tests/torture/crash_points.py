"""A crash at every named point of the store's work, each time it is reached: the state is dropped, and the file read.

Eight writers put, change and delete objects of their own while the past is compacted and checkpoints are made. Wherever
the store says where it is, the folder is copied as a killed process would leave it, together with what writers had been
answered and watchers had seen by then. Each copy is then opened, and must hold all of that and nothing that contradicts
it.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from pathlib import Path

import msgspec

from headgate.store.io.backup import BackupProgress, back_up
from headgate.store.io.committer import Committer
from headgate.store.io.database_file import FILE, PAGE_BYTES
from headgate.store.io.journal import Journal
from headgate.store.item import Compacted, Item, ItemPage, Revision, StoreChange
from headgate.store.memory import Store
from headgate.store.retention import RetentionLimits
from torture import byte_flips

WRITERS = 8
HALFWAY = "halfway through a checkpoint"
POINTS = (
    "begun",
    "compacted",
    "written",
    "committed",
    "marking",
    "marked",
    "answering",
    "checkpointing",
    HALFWAY,
    "checkpointed",
)
BACKUP_POINTS = ("copied some", "copied", "verified")


class Snapshot(msgspec.Struct, frozen=True):
    point: str
    copy: Path
    answered: dict[str, StoreChange]
    """The last write to each key whose response its writer has received."""
    seen: tuple[StoreChange, ...]
    """What watchers were given."""
    oldest: Revision
    issued: Revision


class Recorder:
    """Copies the folder at every point, with what had been promised by then."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self._root = root
        self.snapshots: list[Snapshot] = []
        self.answered: dict[str, StoreChange] = {}
        self.seen: list[StoreChange] = []
        self.store: Store | None = None

    def probe(self, point: str) -> None:
        if self.store is None:
            return
        # First what was promised, then the files: a promise made in between may be on disk, but need not be.
        answered, seen = dict(self.answered), tuple(self.seen)
        oldest, issued = self.store.oldest, Revision(self.store.next_revision() - 1)
        copy = self._root / f"copy-{len(self.snapshots)}"
        shutil.copytree(self.folder, copy)
        self.snapshots.append(Snapshot(point, copy, answered, seen, oldest, issued))
        if point == "checkpointing":
            half = self._root / f"{copy.name}-halfway"
            shutil.copytree(copy, half)
            if move_some_pages(half, random.Random(len(self.snapshots)).random()):
                self.snapshots.append(Snapshot(HALFWAY, half, answered, seen, oldest, issued))


def move_some_pages(folder: Path, share: float) -> bool:
    """Does by hand the first part of a checkpoint: the newest pages go into the database file in their order."""
    wal, step = (folder / f"{FILE}-wal").read_bytes(), PAGE_BYTES + 24
    pages: dict[int, bytes] = {}
    for at in range(32, len(wal) - step + 1, step):
        pages[int.from_bytes(wal[at : at + 4], "big")] = wal[at + 24 : at + step]
    moved = sorted(pages)[: round(share * len(pages))]
    with (folder / FILE).open("r+b") as file:
        for number in moved:
            file.seek((number - 1) * PAGE_BYTES)
            file.write(pages[number])
    return bool(moved)


def run(root: Path, writes: int, seed: int = 1) -> Counter[str]:
    """Crashes at each point that eight writers reach with so many writes each; returns how often each point was."""
    root.mkdir(exist_ok=True)
    recorder = Recorder(root)
    asyncio.run(_work(recorder, writes, seed))
    for snapshot in recorder.snapshots:
        check(snapshot)
    return Counter(snapshot.point for snapshot in recorder.snapshots)


async def _work(recorder: Recorder, writes: int, seed: int) -> None:
    journal = Journal.open(recorder.folder, recorder.probe)
    store = recorder.store = journal.load()
    committer = Committer(store, journal, publish=recorder.seen.extend, limits=RetentionLimits(max_changes=60))

    async def writer(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        for count in range(writes):
            name = f"w{number}-{chance.randrange(4)}"
            delete = store.read_applied("pods", "default", name) is not None and chance.random() < 0.25
            change = byte_flips.stage(store, name, f"{count}" * chance.choice((1, 50, 3000)), delete=delete)
            await committer.flush(change.revision)
            recorder.answered[name] = change
            if chance.random() < 0.05:
                committer.tick(float(count))

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))
    await committer.close()


def run_backup(root: Path, rows: int = 2500) -> Counter[str]:
    """Crashes during a backup, while writes and checkpoints go on between its steps."""
    root.mkdir(exist_ok=True)
    recorder = Recorder(root)
    journal = Journal.open(recorder.folder, recorder.probe)
    store = journal.load()
    for number in range(rows):
        byte_flips.stage(store, f"n{number}", "before")
    byte_flips.commit(store, journal)
    recorder.store = store

    def disturb(point: str) -> None:
        recorder.probe(point)
        change = byte_flips.stage(store, f"n{len(recorder.seen)}", point)
        byte_flips.commit(store, journal)
        recorder.seen.append(change)
        recorder.answered[change.item.name] = change
        journal.checkpoint()

    target = root / "copy.db"
    back_up(recorder.folder, target, BackupProgress(probe_point=disturb))
    recorder.store = None
    journal.close(store.committed)
    for snapshot in recorder.snapshots:
        check(snapshot)
    return Counter(snapshot.point for snapshot in recorder.snapshots)


def check(snapshot: Snapshot) -> None:
    journal, store = byte_flips.load(snapshot.copy)
    journal.close(store.committed)
    shutil.rmtree(snapshot.copy)
    where = f"at {snapshot.point}"
    assert store.next_revision() > snapshot.issued, f"{where}: a number would be handed out again"
    assert store.oldest <= snapshot.oldest, f"{where}: more of the past is gone than was told"
    for name, change in snapshot.answered.items():
        found = store.read("pods", "default", name)
        if change.deleted:
            assert found is None or found.revision > change.revision, f"{where}: a deletion was lost"
        elif found is None:
            assert deleted_after(store, change), f"{where}: an answered write was lost"
        else:
            assert found == change.item or found.revision > change.revision, f"{where}: an answered write was lost"
    history = {change.revision: change for change in past(store)}
    for change in snapshot.seen:
        if change.revision > store.oldest:
            assert history.get(change.revision) == change, f"{where}: what a watcher saw is gone"
    assert present(store) == replayed(store), f"{where}: the past does not lead to the present"


def past(store: Store) -> list[StoreChange]:
    changes = store.changes("pods", store.oldest)
    assert not isinstance(changes, Compacted)
    return list(changes)


def deleted_after(store: Store, change: StoreChange) -> bool:
    return any(
        later.deleted and later.item.name == change.item.name and later.revision > change.revision
        for later in past(store)
    )


def present(store: Store, at: Revision | None = None) -> dict[str, Item]:
    page = store.page("pods", None, at=at)
    assert isinstance(page, ItemPage)
    return {item.name: item for item in page.items}


def replayed(store: Store) -> dict[str, Item]:
    """The state at the oldest revision, and then every change on it."""
    world = present(store, store.oldest)
    for change in past(store):
        assert world.get(change.item.name) == change.previous
        if change.deleted:
            del world[change.item.name]
        else:
            world[change.item.name] = change.item
    return world
