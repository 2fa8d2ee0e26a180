"""Lists in each output format, and what a watch appends to a list."""

from __future__ import annotations

import json

import yaml

from headgate.cli.options.listing import Listing, Table, changed_lines, listing_text

COLUMNS = ("NAME", "WAITING", "AGE", "SHARE")


def a_listing(*rows: tuple[str, str, str, str]) -> Listing:
    table = Table(COLUMNS, rows, tuple(f"queue/{row[0]}" if row[0] else "" for row in rows), wide=1)
    return Listing((table,), {"queues": [row[0] for row in rows]}, remarks=("as of resourceVersion 7",))


BEFORE = a_listing(("a", "1", "3s", "0.5"), ("b", "0", "4s", "0"))


def test_a_table_hides_its_wide_columns() -> None:
    assert listing_text(BEFORE, "table").splitlines() == [
        "NAME   WAITING   AGE",
        "a      1         3s",
        "b      0         4s",
        "",
        "as of resourceVersion 7",
    ]
    assert listing_text(BEFORE, "wide").splitlines()[1] == "a      1         3s    0.5"


def test_documents_and_names_are_printed_alone() -> None:
    assert json.loads(listing_text(BEFORE, "json")) == {"queues": ["a", "b"]}
    assert yaml.safe_load(listing_text(BEFORE, "yaml")) == {"queues": ["a", "b"]}
    assert listing_text(BEFORE, "name") == "queue/a\nqueue/b"


def test_rows_without_a_name_belong_to_the_row_above() -> None:
    listing = a_listing(("a", "1", "3s", ""), ("", "2", "", ""), ("b", "0", "4s", ""))
    assert listing_text(listing, "name") == "queue/a\nqueue/b"
    now = a_listing(("a", "1", "9s", ""), ("", "3", "", ""), ("b", "0", "9s", ""))
    assert [line.split() for line in changed_lines(listing, now, "table")] == [["3"]]


def test_new_changed_and_deleted_rows_are_appended() -> None:
    now = a_listing(("a", "2", "5s", "0.5"), ("c", "7", "0s", "0"))
    assert list(changed_lines(BEFORE, now, "table")) == [
        "a      2         5s",
        "c      7         0s",
        "b      0         4s   (deleted)",
    ]


def test_a_change_of_ages_or_of_hidden_order_appends_nothing() -> None:
    now = a_listing(("b", "0", "9s", "0"), ("a", "1", "8s", "0.5"))
    assert list(changed_lines(BEFORE, now, "table")) == []


def test_the_first_rows_of_a_table_come_with_its_header() -> None:
    assert next(changed_lines(a_listing(), BEFORE, "table")).startswith("NAME")


def test_a_watch_prints_json_lines_yaml_documents_and_new_names() -> None:
    now = a_listing(("a", "2", "5s", "0.5"), ("c", "7", "0s", "0"))
    assert list(changed_lines(BEFORE, now, "json")) == ['{"queues":["a","c"]}']
    assert list(changed_lines(BEFORE, BEFORE, "json")) == []
    (document,) = changed_lines(BEFORE, now, "yaml")
    assert document.startswith("---\nqueues:")
    assert list(changed_lines(BEFORE, now, "name")) == ["queue/c"]
