"""Reads tables from the pages of an SQLite file, without SQLite.

SQLite refuses a truncated file, and it changes the files when it opens them after a crash. The functions of this module
only read bytes, which ``store/io/high_water_mark_file.py`` provides. The server reads the head in this way before
SQLite opens the file, and every readable row of a damaged file. The format: https://sqlite.org/fileformat2.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import Final

import msgspec

Buffer = bytes | mmap
Value = int | float | bytes | None
Row = tuple[Value, ...]

USER_VERSION_AT: Final = 60
APPLICATION_ID_AT: Final = 68

_LEAF: Final = 0x0D
_INTERIOR: Final = 0x05
_FILE_HEADER_BYTES: Final = 100
_SCHEMA_ROOT: Final = 1
_MAX_DEPTH: Final = 20
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_SHORT: Final = Struct(">H")
_LONG: Final = Struct(">I")
_REAL: Final = Struct(">d")
_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class UnreadablePage(Exception):
    """These bytes are not a valid page of SQLite."""


class Pages:
    """The pages as a reader sees them: a page of the write-ahead file replaces that of the database file."""

    def __init__(self, data: Buffer, wal_pages: Mapping[int, bytes], page_bytes: int) -> None:
        self._data: Final = data
        self._wal_pages: Final = wal_pages
        self.page_bytes: Final = page_bytes
        self.count: Final = max(len(data) // page_bytes, max(wal_pages, default=0))

    def page(self, number: int) -> bytes:
        wal_page = self._wal_pages.get(number)
        if wal_page is not None:
            return wal_page
        start = (number - 1) * self.page_bytes
        if number < 1 or start + self.page_bytes > len(self._data):
            raise UnreadablePage(f"page {number} is not there")
        return self._data[start : start + self.page_bytes]


class UnreadableKeyRange(msgspec.Struct, frozen=True):
    """A part of a table that could not be read: keys greater than ``above`` and up to ``upto``."""

    above: int
    upto: int
    problem: str


class TableRows(msgspec.Struct, frozen=True):
    """The readable rows of one table, and the key ranges that could not be read."""

    rows: Mapping[int, Row]
    """The rows by their keys."""
    gaps: tuple[UnreadableKeyRange, ...]


def root_pages(pages: Pages) -> dict[bytes, int]:
    """The root page of each table in the file. Raises ``UnreadablePage``."""
    found: dict[bytes, int] = {}
    schema = read_table(pages, _SCHEMA_ROOT)
    if schema.gaps:
        raise UnreadablePage(schema.gaps[0].problem)
    for row in schema.rows.values():
        if len(row) != 5 or not isinstance(row[1], bytes) or not isinstance(row[3], int):
            raise UnreadablePage("the list of tables is malformed")
        found[row[1]] = row[3]
    return found


def read_table(pages: Pages, root: int, doubtful: frozenset[int] = frozenset()) -> TableRows:
    """All readable rows in the tree below ``root``. The keys below an invalid page are a gap.

    ``doubtful``: pages that may have a newer version, which is lost. They are read, but their keys are a gap, too.
    """
    rows: dict[int, Row] = {}
    gaps: list[UnreadableKeyRange] = []
    seen: set[int] = set()
    todo = [(root, _LOWEST, _HIGHEST, 0)]
    while todo:
        number, above, upto, depth = todo.pop()
        try:
            if number in seen or depth > _MAX_DEPTH:
                raise UnreadablePage(f"page {number} is in the tree twice")
            seen.add(number)
            if number in doubtful:
                gaps.append(UnreadableKeyRange(above, upto, f"page {number} may be an older version"))
            page = pages.page(number)
            if page[_start(number)] == _INTERIOR:
                children = _children(page, number, above, upto)
                todo.extend((child, low, high, depth + 1) for child, low, high in reversed(children))
            else:
                rows.update(_cells(pages, page, number, gaps, above, upto))  # rows before a problem are kept
        except (UnreadablePage, StructError, IndexError) as problem:
            gaps.append(UnreadableKeyRange(above, upto, str(problem) or f"page {number} is malformed"))
    return TableRows(rows, tuple(gaps))


def rows_on_leaf(pages: Pages, page: bytes, number: int) -> Iterator[tuple[int, Row]]:
    """The readable rows of one page; none if it is not a leaf of a table."""
    try:
        yield from _cells(pages, page, number, [], _LOWEST, _HIGHEST)
    except (UnreadablePage, StructError, IndexError):
        return


def _start(number: int) -> int:
    """Where the header of a page begins: page 1 begins with the header of the file."""
    return _FILE_HEADER_BYTES if number == 1 else 0


def _pointers(page: bytes, number: int, header_bytes: int) -> list[int]:
    start = _start(number)
    (count,) = _SHORT.unpack_from(page, start + 3)
    first = start + header_bytes
    if first + 2 * count > len(page):
        raise UnreadablePage(f"page {number} is malformed")
    return [_SHORT.unpack_from(page, first + 2 * index)[0] for index in range(count)]


def _children(page: bytes, number: int, above: int, upto: int) -> list[tuple[int, int, int]]:
    """The child pages of an interior page, each with the bounds of its keys."""
    found: list[tuple[int, int, int]] = []
    low = above
    for offset in _pointers(page, number, 12):
        (child,) = _LONG.unpack_from(page, offset)
        key, _ = _varint(page, offset + 4)
        if not low <= key <= upto:
            raise UnreadablePage(f"page {number} is out of order")
        found.append((child, low, key))
        low = key
    (last,) = _LONG.unpack_from(page, _start(number) + 8)
    found.append((last, low, upto))
    return found


def _cells(
    pages: Pages, page: bytes, number: int, gaps: list[UnreadableKeyRange], above: int, upto: int
) -> Iterator[tuple[int, Row]]:
    """The rows of a leaf page with their keys. A malformed row is added to ``gaps``; a malformed page raises an
    exception."""
    if page[_start(number)] != _LEAF:
        raise UnreadablePage(f"page {number} is malformed")
    before = above
    for offset in _pointers(page, number, 8):
        size, key_offset = _varint(page, offset)
        key, payload_offset = _varint(page, key_offset)
        if not before < key <= upto:
            raise UnreadablePage(f"page {number} is out of order")
        before = key
        try:
            yield key, _record(_payload(pages, page, payload_offset, size))
        except (UnreadablePage, StructError, IndexError):
            gaps.append(UnreadableKeyRange(key - 1, key, f"row {key} on page {number} is malformed"))


def _payload(pages: Pages, page: bytes, offset: int, size: int) -> bytes:
    """The bytes of a row, which may continue on a chain of overflow pages."""
    usable = pages.page_bytes
    max_local = usable - 35
    if size <= max_local:
        if size < 0 or offset + size > len(page):
            raise UnreadablePage("a row reaches beyond its page")
        return page[offset : offset + size]
    if size > pages.count * usable:
        raise UnreadablePage("a row is longer than the file")
    min_local = (usable - 12) * 32 // 255 - 23
    local = min_local + (size - min_local) % (usable - 4)
    local = local if local <= max_local else min_local
    (next_page,) = _LONG.unpack_from(page, offset + local)
    parts, missing = [page[offset : offset + local]], size - local
    while missing > 0:
        overflow = pages.page(next_page)
        (next_page,) = _LONG.unpack_from(overflow, 0)
        parts.append(overflow[4 : 4 + missing])
        missing -= len(parts[-1])
    return b"".join(parts)


def _record(payload: bytes) -> Row:
    """The columns of a row: a header with their types, then their values."""
    header_bytes, offset = _varint(payload, 0)
    serial_types: list[int] = []
    while offset < header_bytes:
        serial_type, offset = _varint(payload, offset)
        serial_types.append(serial_type)
    values: list[Value] = []
    offset = header_bytes
    for serial_type in serial_types:
        value, size = _value(payload, offset, serial_type)
        values.append(value)
        offset += size
    if offset != len(payload):
        raise UnreadablePage("a row has another length than it says")
    return tuple(values)


def _value(payload: bytes, offset: int, serial_type: int) -> tuple[Value, int]:
    if serial_type >= 12:
        size = (serial_type - 12) // 2
        if offset + size > len(payload):
            raise UnreadablePage("a value reaches beyond its row")
        return payload[offset : offset + size], size
    if serial_type in _INTEGER_BYTES:
        size = _INTEGER_BYTES[serial_type]
        return int.from_bytes(payload[offset : offset + size], "big", signed=True), size
    if serial_type == 7:
        return _REAL.unpack_from(payload, offset)[0], 8
    if serial_type in (8, 9):
        return serial_type - 8, 0
    if serial_type == 0:
        return None, 0
    raise UnreadablePage("a value has a type that does not exist")


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """An integer in SQLite's variable-length format, and the offset after it."""
    value = 0
    for index in range(8):
        byte = data[offset + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return _signed(value), offset + index + 1
    return _signed(value << 8 | data[offset + 8]), offset + 9


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
