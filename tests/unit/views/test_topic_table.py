"""The rows of a topic, and the changes since a revision."""

from __future__ import annotations

from headgate.views.rows import OverviewRow
from headgate.views.topic_table import TopicTable


def test_changes_since_a_revision_are_the_newest_state_of_each_changed_row() -> None:
    table: TopicTable[OverviewRow] = TopicTable()
    table.put("a", OverviewRow("a", 1), 1)
    table.put("b", OverviewRow("b", 1), 2)
    table.put("a", OverviewRow("a", 2), 3)
    changes = table.changes_since(2)
    assert changes is not None
    assert (changes.upserts, changes.removed, changes.revision) == ((OverviewRow("a", 2),), (), 3)


def test_a_row_that_stays_equal_is_no_change() -> None:
    table: TopicTable[OverviewRow] = TopicTable()
    assert table.put("a", OverviewRow("a", 1), 1)
    assert not table.put("a", OverviewRow("a", 1), 2)
    assert table.revision == 1


def test_a_removed_row_is_reported_and_a_new_one_of_the_same_key_is_not_removed() -> None:
    table: TopicTable[OverviewRow] = TopicTable()
    table.put("a", OverviewRow("a"), 1)
    table.put("a", None, 2)
    assert table.changes_since(1).removed == ("a",)  # type: ignore[union-attr]
    table.put("a", OverviewRow("a"), 3)
    changes = table.changes_since(1)
    assert changes is not None
    assert (changes.upserts, changes.removed) == ((OverviewRow("a"),), ())


def test_a_reader_that_is_too_far_behind_has_to_read_all_rows() -> None:
    table: TopicTable[OverviewRow] = TopicTable(max_removed=1)
    for revision, key in enumerate(("a", "b"), 1):
        table.put(key, OverviewRow(key), revision)
    table.put("a", None, 3)
    table.put("b", None, 4)
    assert table.changes_since(2) is None
    assert table.changes_since(3).removed == ("b",)  # type: ignore[union-attr]
