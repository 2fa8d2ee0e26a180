"""The format, the head and the log of a store, read from its files without SQLite.

This module does no I/O; the bytes come from ``store/io/high_water_mark_file.py`` and ``store/io/salvage.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.store import log_head
from headgate.store.log_head import LogHead
from headgate.store.sqlite_btree import (
    APPLICATION_ID_AT,
    USER_VERSION_AT,
    Pages,
    Row,
    TableRows,
    UnreadablePage,
    read_table,
    root_pages,
)

_NUMBER_BYTES = 4


class FileFormat(msgspec.Struct, frozen=True):
    application_id: int
    user_version: int


def format_of(pages: Pages) -> FileFormat | None:
    """The format in the header of the file; ``None`` if there is no header."""
    try:
        page = pages.page(1)
    except UnreadablePage:
        return None
    return FileFormat(_integer(page, APPLICATION_ID_AT), _integer(page, USER_VERSION_AT))


def head_of(pages: Pages) -> LogHead | None:
    """The head, or ``None`` if it does not match its seal. Raises ``UnreadablePage`` if there is no such table."""
    table = _table(pages, b"head")
    return None if table.gaps else log_head.read(rows_with_keys(table))


def log_of(pages: Pages, doubtful: frozenset[int]) -> TableRows:
    """The readable rows of the log. Raises ``UnreadablePage`` if its root page is not known."""
    return _table(pages, b"log", doubtful)


def _table(pages: Pages, name: bytes, doubtful: frozenset[int] = frozenset()) -> TableRows:
    found = root_pages(pages)
    if name not in found:
        raise UnreadablePage(f"there is no table {name.decode()}")
    return read_table(pages, found[name], doubtful)


def rows_with_keys(table: TableRows) -> Sequence[Row]:
    """The rows with their keys, which SQLite leaves out of the stored row."""
    return [(key, *row[1:]) for key, row in sorted(table.rows.items())]


def _integer(page: bytes, offset: int) -> int:
    return int.from_bytes(page[offset : offset + _NUMBER_BYTES], "big", signed=True)
