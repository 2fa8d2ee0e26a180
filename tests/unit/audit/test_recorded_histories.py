"""The audit of a recording finds what the audit of the history itself finds, with and without names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate.audit.auditor import AuditResult, audit
from headgate.recording.changes import RecordedChange, ResourceSynced, SessionEnded, SessionStarted
from headgate.recording.history import ordered_changes, survey
from headgate.recording.io.recording_file import RecordingReader, RecordingWriter
from headgate.recording.name_hashing import NameHasher
from headgate.recording.pruning import prune
from headgate.recording.resources import BY_NAME
from unit.audit.drawn_histories import draw
from unit.audit.harms import HARMS, renumbered, with_tail
from unit.audit.test_harms import SETTINGS

HARMED = tuple(HARMS)[::6]


def record(path: Path, history: Sequence[RecordedChange], hasher: NameHasher | None = None) -> None:
    writer = RecordingWriter(path, hashed=hasher is not None)
    table, start_s = writer.table, history[0].at_s
    writer.add([table.record_notice(SessionStarted(start_s, "1", hasher is not None, tuple(BY_NAME)))])
    writer.add(table.record_notice(ResourceSynced(start_s, name, 1)) for name in BY_NAME)
    for change in history:
        obj = prune(change.resource, change.object)
        obj = obj if hasher is None else hasher.hash_object(obj)
        metadata, at_s = obj["metadata"], change.at_s
        if change.deleted:
            key = metadata.get("namespace", ""), metadata["name"]
            writer.add(table.record_deletion(change.resource, *key, at_s, change.revision))
        else:
            writer.add(table.record_state(change.resource, obj, at_s, observed=True))
        writer.flush()
    writer.add([table.record_notice(SessionEnded(history[-1].at_s))])
    writer.close()


def audit_file(path: Path) -> AuditResult:
    reader = RecordingReader(path)
    found = survey(reader.events)
    assert found.uncertain == ((0, 1),)
    return audit(ordered_changes(reader.events, found), SETTINGS, found.to_s)


def shape(result: AuditResult) -> list[tuple[str, int, bool]]:
    return [(each.rule, each.revision, each.certain) for each in result.findings]


@pytest.mark.parametrize("name", HARMED)
def test_a_recording_is_judged_as_the_history_that_it_recorded(name: str, tmp_path: Path) -> None:
    mutated = next(
        found
        for seed in range(60)
        if (found := HARMS[name].mutate(draw(seed, 45), random.Random(seed))) is not None
        and audit(with_tail(renumbered(found)), SETTINGS).findings
    )
    history = with_tail(renumbered(mutated))
    expected = audit(history, SETTINGS)
    record(tmp_path / "plain.hgr", history)
    plain = audit_file(tmp_path / "plain.hgr")
    assert plain.findings == expected.findings
    assert plain.bill == expected.bill
    record(tmp_path / "hashed.hgr", history, NameHasher(b"k" * 32))
    hashed = audit_file(tmp_path / "hashed.hgr")
    assert sorted(shape(hashed)) == sorted(shape(expected))
    assert len(hashed.bill.wasted) == len(expected.bill.wasted)
    assert sum(each.cost for each in hashed.bill.quota) == pytest.approx(sum(each.cost for each in expected.bill.quota))


def test_a_recording_is_smaller_than_its_changes(tmp_path: Path) -> None:
    history = draw(1, 200)
    record(tmp_path / "a.hgr", history)
    writer = RecordingWriter(tmp_path / "b.hgr", hashed=False)
    for change in history:
        if not change.deleted:
            writer.add(
                writer.table.record_state(change.resource, prune(change.resource, change.object), 1, observed=True)
            )
    writer.close()
    assert (tmp_path / "b.hgr").stat().st_size < 60 * len(history)
