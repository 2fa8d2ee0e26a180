"""The file does not grow without limit, and shrinks when objects are deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headgate.store.io.committer import Committer
from headgate.store.io.database_file import FILE
from headgate.store.io.journal import Journal
from headgate.store.item import Revision
from headgate.store.retention import RetentionLimits
from torture import byte_flips

KEYS = 30


def total_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{FILE}*") if not path.name.endswith("-shm"))


def test_the_file_reaches_a_plateau_during_writes_and_compactions(fast_folder: Path) -> None:
    measured: list[int] = []

    async def work() -> None:
        journal = Journal.open(fast_folder)
        store = journal.load()
        committer = Committer(store, journal, limits=RetentionLimits(max_changes=300))
        for number in range(120 * KEYS):
            change = byte_flips.stage(store, f"n{number % KEYS}", f"{number:06}" * (200 + number % 700))
            if number % 10 == 9:
                await committer.flush(change.revision)
            if number % (2 * KEYS) == 0:
                committer.tick(0.0)
            if number % KEYS == 0:
                measured.append(total_size(fast_folder))
        await committer.close()

    asyncio.run(work())
    assert len(measured) == 120
    assert max(measured[80:]) <= 1.1 * max(measured[20:40]), measured


def test_a_file_that_became_empty_shrinks(fast_folder: Path) -> None:
    journal = Journal.open(fast_folder)
    store = journal.load()
    for number in range(1500):
        byte_flips.stage(store, f"n{number}", "x" * 15_000)
    byte_flips.commit(store, journal)
    journal.checkpoint()
    full = total_size(fast_folder)
    for number in range(1500):
        byte_flips.stage(store, f"n{number}", "gone", delete=True)
    byte_flips.commit(store, journal)
    compacted = store.compact(Revision(store.committed))
    superseded = {change.previous.revision for change in compacted if change.previous is not None}
    byte_flips.commit(store, journal, sorted(superseded | {change.revision for change in compacted if change.deleted}))
    for _ in range(5):
        journal.checkpoint()
    assert total_size(fast_folder) < full / 2
    journal.close(store.committed)
