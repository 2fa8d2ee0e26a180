from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.recording.changes import (
    Notice,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
    WatchProblem,
)
from headgate.recording.records import (
    DeletionRecord,
    DeltaRecord,
    InvalidRecord,
    RecordTable,
    decode_records,
    encode_records,
)
from unit.recording.histories import MAPS, an_object


@given(st.lists(st.tuples(st.integers(0, 3), MAPS, st.booleans(), st.booleans()), max_size=12))
@settings(max_examples=100)
def test_every_state_is_read_as_it_was_written(steps: list[tuple[int, Any, bool, bool]]) -> None:
    writer, reader, expected = RecordTable(), RecordTable(), []
    records = []
    for number, (which, spec, deletes, renews) in enumerate(steps, 1):
        name = f"pod-{which}"
        if deletes:
            found = list(writer.record_deletion("pods", "ns", name, number, number))
        else:
            uid = f"uid-{random.Random(number).random()}" if renews else ""
            obj = an_object(name, number, uid, spec=spec)
            found = list(writer.record_state("pods", obj, number, observed=True))
            expected += [obj] if found else []
        records += found
    read = [reader.read(each) for each in decode_records(encode_records(records))]
    assert [each.object for each in read if isinstance(each, RecordedChange) and not each.deleted] == expected
    assert len(reader) == len(writer)
    assert sorted(reader.names_of("pods")) == sorted(writer.names_of("pods"))


def test_a_state_that_differs_in_its_revision_only_is_left_out() -> None:
    table = RecordTable()
    assert len(list(table.record_state("pods", an_object("a", 1, spec={"x": 1}), 1.0, observed=True))) == 1
    assert list(table.record_state("pods", an_object("a", 2, spec={"x": 1}), 2.0, observed=True)) == []
    (record,) = table.record_state("pods", an_object("a", 3, spec={"x": 2}), 3.0, observed=True)
    assert isinstance(record, DeltaRecord)
    changed = {"metadata": [1, {"resourceVersion": [0, "3"]}, []], "spec": [1, {"x": [0, 2]}, []]}
    assert record.delta == [1, changed, []]


def test_an_object_of_the_same_name_and_another_uid_is_a_deletion_and_a_new_object() -> None:
    table = RecordTable()
    list(table.record_state("pods", an_object("a", 1), 1.0, observed=True))
    records = list(table.record_state("pods", an_object("a", 5, "other"), 2.0, observed=True))
    assert isinstance(records[0], DeletionRecord)
    assert len(records) == 2
    assert len(table) == 1


def test_times_never_go_back() -> None:
    table = RecordTable()
    list(table.record_state("pods", an_object("a", 1), 10.0, observed=True))
    (record,) = table.record_state("pods", an_object("a", 2, spec={}), 5.0, observed=True)
    assert record.at_ms == 10_000


def test_a_change_in_a_gap_keeps_its_uncertainty() -> None:
    table, reader = RecordTable(), RecordTable()
    records = [*table.record_state("pods", an_object("a", 1), 10.0, observed=True)]
    records += table.record_state("pods", an_object("a", 9, spec={}), 100.0, observed=False, gap_s=80.0)
    records += table.record_deletion("pods", "ns", "a", 120.0, 0, gap_s=15.0)
    first, second, third = (reader.read(each) for each in records)
    assert isinstance(first, RecordedChange)
    assert isinstance(second, RecordedChange)
    assert isinstance(third, RecordedChange)
    assert (first.observed, first.earliest_s) == (True, 10.0)
    assert (second.observed, second.earliest_s, second.at_s) == (False, 20.0, 100.0)
    assert (third.deleted, third.observed, third.revision, third.earliest_s) == (True, False, 0, 105.0)


@pytest.mark.parametrize(
    "notice",
    [
        SessionStarted(1.5, "1.0", True, ("pods", "nodes"), ("events",)),
        SessionEnded(2.5),
        ResourceSynced(3.5, "pods", 77),
        ResourceAbsent(4.5, "cohorts.kueue.x-k8s.io"),
        WatchProblem(5.5, "pods", "returned 503"),
    ],
    ids=lambda notice: type(notice).__name__,
)
def test_a_notice_is_read_as_it_was_written(notice: Notice) -> None:
    (record,) = decode_records(encode_records([RecordTable().record_notice(notice)]))
    assert RecordTable().read(record) == notice


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91\x92\xa1z\x01", b"\x91\x93\xa1x\x01\x05", b"\x80"])
def test_records_of_another_form_are_refused(payload: bytes) -> None:
    table = RecordTable()
    with pytest.raises(InvalidRecord):
        list(map(table.read, decode_records(payload)))


def test_a_record_about_an_unknown_object_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="object 5"):
        RecordTable().read(DeltaRecord(1, 5, [0, {}], True))
