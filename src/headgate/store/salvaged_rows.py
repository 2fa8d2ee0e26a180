"""Which rows of a damaged store can still be read, and which cannot.

SQLite stops at a truncated file and at the first invalid page. This module reads the B-tree of the log page by page
(``store/sqlite_btree.py``) and applies every valid frame of the write-ahead file, also those that SQLite drops. If a
page cannot be read, its parent page still has the range of its keys; rows with such keys are then searched on every
leaf page of both files. A row is kept only if it matches its checksum. This module does no I/O.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from headgate.store import log_rows
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals
from headgate.store.sqlite_btree import Buffer, Pages, Row, TableRows, UnreadableKeyRange, UnreadablePage, rows_on_leaf
from headgate.store.sqlite_contents import head_of, log_of
from headgate.store.sqlite_wal import WALContents

_EVERYTHING: Final = UnreadableKeyRange(-(1 << 63), (1 << 63) - 1, "the tables cannot be found")
_COLUMNS: Final = 10
_MAX_LISTED_GAPS: Final = 20


class SalvagedRows(msgspec.Struct, frozen=True):
    rows: Sequence[log_rows.StoredRow]
    """The rows that match their checksum, in order of revision."""
    head: LogHead | None
    """The newest head, if it can be read."""
    lost: Sequence[str]
    """What is lost, as far as known; empty if all rows that the head counts were found."""

    @property
    def last(self) -> Revision:
        """The highest revision that is known to be issued."""
        newest = self.rows[-1].item.revision if self.rows else Revision(0)
        return max(newest, self.head.revision) if self.head is not None else newest


def collect(data: Buffer, wal: WALContents, page_bytes: int, last_revision: Revision | None) -> SalvagedRows:
    """All rows that can be read, except those above ``last_revision``, whose commit was answered with an error."""
    pages = Pages(data, {each.page: each.content for each in wal.images}, page_bytes)
    head = _head(pages)
    table = _log_table(pages, wal.doubtful)
    reader = log_rows.RowReader()
    rows: dict[int, log_rows.StoredRow] = {}
    damaged: list[UnreadableKeyRange] = []
    for key, row in table.rows.items():
        stored = _verified(reader, key, row)
        if stored is not None:
            rows[key] = stored
        else:
            damaged.append(
                UnreadableKeyRange(key - 1, key, f"{log_rows.describe((key, *row[1:]))} does not match its checksum")
            )
    gaps = [*damaged, *table.gaps]
    if gaps and not _complete(rows.values(), head):
        spans = merged_gaps(gaps)  # older pages of the files may still have rows in the gaps
        for key, row in _leaf_rows(pages, data, wal, page_bytes):
            if key not in rows and is_within(spans, key):
                stored = _verified(reader, key, row)
                if stored is not None:
                    rows[key] = stored
    lost = [] if _complete(rows.values(), head) else list(_lost(rows, head, gaps))
    kept = [rows[key] for key in sorted(rows) if last_revision is None or key <= last_revision]
    return SalvagedRows(kept, head, lost)


def _head(pages: Pages) -> LogHead | None:
    try:
        return head_of(pages)
    except UnreadablePage:
        return None


def _log_table(pages: Pages, doubtful: frozenset[int]) -> TableRows:
    try:
        table = log_of(pages, doubtful)
    except UnreadablePage:
        return TableRows({}, (_EVERYTHING,))
    if any(not 0 < page <= pages.count for page in doubtful):  # the page number of a frame is damaged
        return TableRows(
            table.rows, (*table.gaps, msgspec.structs.replace(_EVERYTHING, problem="a commit cannot be read"))
        )
    return table


def _verified(reader: log_rows.RowReader, key: int, row: Row) -> log_rows.StoredRow | None:
    return reader.read((key, *row[1:])) if len(row) == _COLUMNS else None


def _leaf_rows(pages: Pages, data: Buffer, wal: WALContents, page_bytes: int) -> Iterator[tuple[int, Row]]:
    for image in reversed(wal.images):
        yield from rows_on_leaf(pages, image.content, image.page)
    for number in range(1, len(data) // page_bytes + 1):
        yield from rows_on_leaf(pages, data[(number - 1) * page_bytes : number * page_bytes], number)


def merged_gaps(gaps: Sequence[UnreadableKeyRange]) -> list[tuple[int, int]]:
    """The gaps as disjoint ranges, in order."""
    spans: list[tuple[int, int]] = []
    for above, upto in sorted((gap.above, gap.upto) for gap in gaps):
        if spans and above <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(upto, spans[-1][1]))
        else:
            spans.append((above, upto))
    return spans


def is_within(spans: Sequence[tuple[int, int]], key: int) -> bool:
    index = bisect_left(spans, (key,)) - 1  # the last range that begins below the key
    return index >= 0 and key <= spans[index][1]


def _complete(rows: Iterable[log_rows.StoredRow], head: LogHead | None) -> bool:
    """Whether these are all rows that the head counts."""
    return head is not None and LogTotals().plus(each.checksum for each in rows) == head.totals


def _lost(
    rows: dict[int, log_rows.StoredRow], head: LogHead | None, gaps: Sequence[UnreadableKeyRange]
) -> Iterator[str]:
    """One line with the number of lost rows, and one for each gap that was not filled."""
    if head is not None and head.totals.rows > len(rows):
        yield f"{head.totals.rows - len(rows)} of {head.totals.rows} rows cannot be read"
    highest = head.revision if head is not None else max(rows, default=0)
    count = 0
    for gap in sorted(gaps, key=lambda each: (each.above, each.upto)):
        first, end = max(gap.above + 1, 1), min(gap.upto, highest)
        while first <= end and first in rows:
            first += 1
        while first <= end and end in rows:
            end -= 1
        if first > end:
            continue
        count += 1
        if count <= _MAX_LISTED_GAPS:
            where = f"revision {first}" if first == end else f"revisions {first} to {end}"
            yield f"{where}: {gap.problem}"
    if count > _MAX_LISTED_GAPS:
        yield f"and {count - _MAX_LISTED_GAPS} more ranges"
