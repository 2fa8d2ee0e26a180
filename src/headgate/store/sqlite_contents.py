"""A store as its files have it, read without SQLite: which format, and the head that SQLite would find.

Pure; the bytes come from ``store/io/high_water_mark_file.py`` and ``store/io/salvage.py``.
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
    roots,
)

_NUMBER_BYTES = 4


class FileFormat(msgspec.Struct, frozen=True):
    application_id: int
    user_version: int


def format_of(pages: Pages) -> FileFormat | None:
    """What the header of the file says; ``None`` if there is none."""
    try:
        page = pages.page(1)
    except UnreadablePage:
        return None
    return FileFormat(_number(page, APPLICATION_ID_AT), _number(page, USER_VERSION_AT))


def head_of(pages: Pages) -> LogHead | None:
    """The head, or ``None`` if it is not what was written. Raises ``UnreadablePage`` if there is no such table."""
    table = _table(pages, b"head")
    return None if table.gaps else log_head.read(keyed(table))


def log_of(pages: Pages, doubtful: frozenset[int]) -> TableRows:
    """What can be read of the log. Raises ``UnreadablePage`` if its place is not known."""
    return _table(pages, b"log", doubtful)


def _table(pages: Pages, name: bytes, doubtful: frozenset[int] = frozenset()) -> TableRows:
    found = roots(pages)
    if name not in found:
        raise UnreadablePage(f"there is no table {name.decode()}")
    return read_table(pages, found[name], doubtful)


def keyed(table: TableRows) -> Sequence[Row]:
    """The rows with their keys, which SQLite leaves out of the stored row."""
    return [(key, *row[1:]) for key, row in sorted(table.rows.items())]


def _number(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + _NUMBER_BYTES], "big", signed=True)
