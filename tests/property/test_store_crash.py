"""A crash at any named point of any commit, in any mix of writes, deletes, failures and compactions."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.store import log_rows
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.item import Compacted, Item, ItemPage, Revision
from headgate.store.memory import Store

MEMORY = Path("/dev/shm")  # there a sync costs nothing
Snapshot = tuple[list[Item], list[Item]]

steps = st.lists(
    st.tuples(st.just("write"), st.sampled_from("abcd"))
    | st.tuples(st.sampled_from(("commit", "fail", "fail late", "compact")), st.just("")),
    max_size=25,
)


def listed(store: Store, at: Revision | None = None) -> list[Item]:
    page = store.page("pods", None, at=at)
    assert isinstance(page, ItemPage)
    return list(page.items)


@settings(max_examples=25, deadline=None)  # an example copies and opens a journal at every point of every commit
@given(script=steps, partial=st.integers(0, 3))
@example(script=[("write", "a"), ("fail late", ""), ("commit", ""), ("write", "b"), ("commit", "")], partial=0)
def test_every_copy_of_the_file_is_the_state_before_or_after_the_commit_in_progress(
    script: list[tuple[str, str]], partial: int
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as temporary:
        run(Path(temporary), script, partial)


def run(root: Path, script: list[tuple[str, str]], partial: int) -> None:
    source = root / "source"
    copies: list[Path] = []
    failing: list[str] = []

    def probe(point: str) -> None:
        copies.append(root / f"copy-{len(copies)}")
        shutil.copytree(source, copies[-1])
        if point in failing:
            raise sqlite3.OperationalError("disk I/O error")

    journal = Journal.open(source, probe)
    store = journal.load()
    checked = 0
    for verb, name in script:
        before = listed(store)
        if verb == "write":
            present = store.read_applied("pods", "", name)
            item = Item("pods", "", name, "u", store.next_revision(), {}, {}, f"{store.next_revision()}".encode())
            store.stage(item, delete=present is not None and int(present.data) % 3 == 0)
            continue
        gone: list[Revision] = []
        if verb == "compact":
            gone = log_rows.superseded(store.compact(Revision(store.committed - 1)))[:partial]
        failing[:] = {"fail": ["written"], "fail late": ["committed"]}.get(verb, [])
        try:
            journal.write(log_rows.CommitBatch(store.pending(), store.oldest, gone))
            applied = list(store.list_applied("pods", None))
            store.commit(store.applied)
        except CommitFailed:
            applied = list(store.list_applied("pods", None))
            store.rollback()
        for copy in copies[checked:]:  # once a write was answered with an error, no later copy has it
            check(copy, before, applied)
        checked = len(copies)
    final = listed(store)
    journal.close(store.committed)
    check(source, final)


def check(folder: Path, *allowed: list[Item]) -> None:
    journal = Journal.open(folder)
    store = journal.load()
    journal.close(store.committed)
    present = listed(store)
    assert present in allowed
    history = store.changes("pods", store.oldest)
    assert not isinstance(history, Compacted)
    # The past that is left leads to the present: undoing it and doing it again changes nothing.
    world = {item.name: item for item in listed(store, store.oldest)}
    for change in history:
        assert world.get(change.item.name) == change.previous
        if change.deleted:
            del world[change.item.name]
        else:
            world[change.item.name] = change.item
    assert sorted(world.values(), key=lambda item: item.name) == present
