"""Which rows of a damaged store can still be read, and which cannot.

SQLite gives up on a file that is cut short, or at the first page that makes no sense. Here the tree of the log is
walked page by page (``store/sqlite_btree.py``), with every sound frame of the write-ahead file on top, also those that
SQLite drops. Where a page cannot be read, the keys that it held are known from its neighbours; rows with such keys are
then looked for on every leaf page of both files. A row counts only if it matches its checksum. Pure.
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
_NAMED: Final = 20


class SalvagedRows(msgspec.Struct, frozen=True):
    rows: Sequence[log_rows.StoredRow]
    """What is sound, in order of revision."""
    head: LogHead | None
    """The newest head, if it can be read."""
    lost: Sequence[str]
    """What is known to be lost; empty if every row that the head knows of is there."""

    @property
    def last(self) -> Revision:
        """The highest number that is known to be used."""
        newest = self.rows[-1].item.revision if self.rows else Revision(0)
        return max(newest, self.head.revision) if self.head is not None else newest


def collect(data: Buffer, written_ahead: WALContents, page_bytes: int, last: Revision | None) -> SalvagedRows:
    """Everything that can be read; rows above ``last`` were refused, and are left out."""
    pages = Pages(data, {each.page: each.content for each in written_ahead.images}, page_bytes)
    known = _head(pages)
    table = _log(pages, written_ahead.doubtful)
    reader = log_rows.RowReader()
    rows: dict[int, log_rows.StoredRow] = {}
    damaged: list[UnreadableKeyRange] = []
    for key, row in table.rows.items():
        stored = _sound(reader, key, row)
        if stored is not None:
            rows[key] = stored
        else:
            damaged.append(
                UnreadableKeyRange(key - 1, key, f"{log_rows.describe((key, *row[1:]))} does not match its checksum")
            )
    gaps = [*damaged, *table.gaps]
    if gaps and not _complete(rows.values(), known):
        spans = merged_gaps(gaps)
        for key, row in _on_leaves(pages, data, written_ahead, page_bytes):
            if key not in rows and is_within(spans, key):
                stored = _sound(reader, key, row)
                if stored is not None:
                    rows[key] = stored
    lost = [] if _complete(rows.values(), known) else list(_lost(rows, known, gaps))
    kept = [rows[key] for key in sorted(rows) if last is None or key <= last]
    return SalvagedRows(kept, known, lost)


def _head(pages: Pages) -> LogHead | None:
    try:
        return head_of(pages)
    except UnreadablePage:
        return None


def _log(pages: Pages, doubtful: frozenset[int]) -> TableRows:
    try:
        table = log_of(pages, doubtful)
    except UnreadablePage:
        return TableRows({}, (_EVERYTHING,))
    if any(not 0 < page <= pages.count for page in doubtful):  # a frame does not even say which page it held
        return TableRows(
            table.rows, (*table.gaps, msgspec.structs.replace(_EVERYTHING, what="a commit cannot be read"))
        )
    return table


def _sound(reader: log_rows.RowReader, key: int, row: Row) -> log_rows.StoredRow | None:
    return reader.read((key, *row[1:])) if len(row) == _COLUMNS else None


def _on_leaves(pages: Pages, data: Buffer, written_ahead: WALContents, page_bytes: int) -> Iterator[tuple[int, Row]]:
    for image in reversed(written_ahead.images):
        yield from rows_on_leaf(pages, image.content, image.page)
    for number in range(1, len(data) // page_bytes + 1):
        yield from rows_on_leaf(pages, data[(number - 1) * page_bytes : number * page_bytes], number)


def merged_gaps(gaps: Sequence[UnreadableKeyRange]) -> list[tuple[int, int]]:
    """The gaps without what they share, in order."""
    spans: list[tuple[int, int]] = []
    for above, upto in sorted((gap.above, gap.upto) for gap in gaps):
        if spans and above <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(upto, spans[-1][1]))
        else:
            spans.append((above, upto))
    return spans


def is_within(spans: Sequence[tuple[int, int]], key: int) -> bool:
    at = bisect_left(spans, (key,)) - 1  # the last one that begins below the key
    return at >= 0 and key <= spans[at][1]


def _complete(rows: Iterable[log_rows.StoredRow], known: LogHead | None) -> bool:
    return known is not None and LogTotals().plus(each.checksum for each in rows) == known.tally


def _lost(
    rows: dict[int, log_rows.StoredRow], known: LogHead | None, gaps: Sequence[UnreadableKeyRange]
) -> Iterator[str]:
    """One line that counts, and one for each gap that was not filled."""
    if known is not None and known.tally.rows > len(rows):
        yield f"{known.tally.rows - len(rows)} of {known.tally.rows} rows cannot be read"
    highest = known.revision if known is not None else max(rows, default=0)
    told = 0
    for gap in sorted(gaps, key=lambda each: (each.above, each.upto)):
        first, end = max(gap.above + 1, 1), min(gap.upto, highest)
        while first <= end and first in rows:
            first += 1
        while first <= end and end in rows:
            end -= 1
        if first > end:
            continue
        told += 1
        if told <= _NAMED:
            where = f"revision {first}" if first == end else f"revisions {first} to {end}"
            yield f"{where}: {gap.what}"
    if told > _NAMED:
        yield f"and {told - _NAMED} more places"
