"""One byte of a data file changed, and what the next start makes of it: the same content, or a refusal that says so.

Content means everything that is served: objects, the past, revisions. A start that accepts the file must also be able
to go on with it: write, compact, stop, and find it all again.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from headgate.store import log_rows
from headgate.store.io.database_file import FILE, PAGE_BYTES, StoreError
from headgate.store.io.high_water_mark_file import MARK
from headgate.store.io.journal import Journal
from headgate.store.item import Compacted, Item, Revision, StoreChange
from headgate.store.memory import Store


class Outcome(msgspec.Struct):
    harmless: int = 0
    detected: int = 0

    @property
    def tried(self) -> int:
        return self.harmless + self.detected


class Wrong(AssertionError):
    """A flip that was neither harmless nor detected."""


def stage(store: Store, name: str, text: str, *, delete: bool = False) -> StoreChange:
    labels = {"app": name[:1]}
    item = Item("pods", "default", name, f"uid-{name}", store.next_revision(), labels, {"f": name}, text.encode())
    return store.stage(item, delete=delete)


def commit(store: Store, journal: Journal, superseded: Iterable[Revision] = ()) -> None:
    journal.write(log_rows.CommitBatch(store.pending(), store.oldest, list(superseded)))
    store.commit(store.applied)


def build(folder: Path) -> None:
    """A small file with everything in it: large and small rows, a past, deleted rows, free pages, several levels."""
    chance = random.Random(7)
    journal = Journal.open(folder)
    store = journal.load()
    for number in range(40):
        stage(store, f"n{number % 25}", "x" * chance.choice((10, 300, 1500, 6000)))
        if number % 7 == 0:
            commit(store, journal)
    for number in range(5):
        stage(store, f"n{number}", "gone", delete=True)
    commit(store, journal)
    commit(store, journal, log_rows.superseded(store.compact(Revision(store.committed - 15))))
    journal.close(store.committed)


def content(store: Store) -> object:
    past = store.changes("pods", store.oldest)
    assert not isinstance(past, Compacted)
    return store.committed, store.oldest, list(store.list_applied("pods", None)), list(past)


def load(folder: Path) -> tuple[Journal, Store]:
    journal = Journal.open(folder)
    return journal, journal.load()


def places(size: int, count: int | None, seed: int = 1) -> Iterator[tuple[int, int]]:
    """Positions and what to change there: ``count`` drawn ones, or one for each byte."""
    chance = random.Random(seed)
    for position in range(size) if count is None else (chance.randrange(size) for _ in range(count)):
        yield position, chance.choice((0x01, 0x80, 0xFF, 1 << chance.randrange(8)))


def try_flip(folder: Path, sound: bytes, mark: bytes, expected: object, position: int, mask: int) -> str | None:
    """``None`` if the flip was harmless, else how it was refused. Raises ``Wrong`` if it was neither."""
    path = folder / FILE
    for beside in folder.glob(FILE + "*"):
        beside.unlink()
    (folder / MARK).write_bytes(mark)
    flipped = bytearray(sound)
    flipped[position] ^= mask
    path.write_bytes(flipped)
    where = f"byte {position} (page {position // PAGE_BYTES + 1}, offset {position % PAGE_BYTES}) ^ {mask:#x}"
    try:
        journal, store = load(folder)
    except StoreError as problem:
        if "\n" in str(problem):
            raise Wrong(f"{where}: the refusal is not one line: {problem}") from problem
        return str(problem)
    try:
        if content(store) != expected:
            raise Wrong(f"{where}: other content is served, and nothing was said")
        stage(store, "late", "y" * 6000)
        stage(store, "n7", "gone", delete=True)
        commit(store, journal)
        commit(store, journal, log_rows.superseded(store.compact(store.committed)))
        after = content(store)
    finally:
        journal.close(store.committed)
    journal, store = load(folder)
    again = content(store)
    journal.close(store.committed)
    if again != after:
        raise Wrong(f"{where}: harmless at first, and then other content was served")
    return None


def run(root: Path, count: int | None, report: Callable[[int], None] = lambda done: None) -> Outcome:
    made, used = root / "made", root / "used"
    build(made)
    shutil.copytree(made, used)
    sound, mark = (made / FILE).read_bytes(), (made / MARK).read_bytes()
    journal, store = load(made)
    expected = content(store)
    journal.close(store.committed)
    outcome = Outcome()
    for position, mask in places(len(sound), count):
        if try_flip(used, sound, mark, expected, position, mask) is None:
            outcome.harmless += 1
        else:
            outcome.detected += 1
        report(outcome.tried)
    return outcome
