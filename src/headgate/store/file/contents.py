"""A store as its files have it, read without SQLite: which format, and the head that SQLite would find.

Pure; the bytes come from ``store/mark/shell.py`` and ``store/salvage/shell.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.store import head
from headgate.store.file.btree import (
    APPLICATION_ID_AT,
    USER_VERSION_AT,
    Pages,
    Row,
    Table,
    Unreadable,
    read_table,
    roots,
)
from headgate.store.head import Head

_NUMBER_BYTES = 4


class Format(msgspec.Struct, frozen=True):
    application_id: int
    user_version: int


def format_of(pages: Pages) -> Format | None:
    """What the header of the file says; ``None`` if there is none."""
    try:
        page = pages.page(1)
    except Unreadable:
        return None
    return Format(_number(page, APPLICATION_ID_AT), _number(page, USER_VERSION_AT))


def head_of(pages: Pages) -> Head | None:
    """The head, or ``None`` if it is not what was written. Raises ``Unreadable`` if there is no such table."""
    table = _table(pages, b"head")
    return None if table.gaps else head.read(keyed(table))


def log_of(pages: Pages, doubtful: frozenset[int]) -> Table:
    """What can be read of the log. Raises ``Unreadable`` if its place is not known."""
    return _table(pages, b"log", doubtful)


def _table(pages: Pages, name: bytes, doubtful: frozenset[int] = frozenset()) -> Table:
    found = roots(pages)
    if name not in found:
        raise Unreadable(f"there is no table {name.decode()}")
    return read_table(pages, found[name], doubtful)


def keyed(table: Table) -> Sequence[Row]:
    """The rows with their keys, which SQLite leaves out of the stored row."""
    return [(key, *row[1:]) for key, row in sorted(table.rows.items())]


def _number(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + _NUMBER_BYTES], "big", signed=True)
