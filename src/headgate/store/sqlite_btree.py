"""Reads tables from the pages of an SQLite file, without SQLite.

SQLite refuses a file as a whole if it is cut short, and repairs what a crash left as soon as it opens it. The functions
here read bytes and change nothing: the head before SQLite may touch the file, and every readable row of a damaged file.
The format: https://sqlite.org/fileformat2.html. Pure; the bytes come from ``store/io/database_file.py``.
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
_DEEPEST: Final = 20
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_SHORT: Final = Struct(">H")
_LONG: Final = Struct(">I")
_REAL: Final = Struct(">d")
_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class UnreadablePage(Exception):
    """These bytes are not what SQLite would have written."""


class Pages:
    """The pages of a file as a reader sees them: those of the database file under those of the write-ahead file."""

    def __init__(self, data: Buffer, newer: Mapping[int, bytes], page_bytes: int) -> None:
        self._data: Final = data
        self._newer: Final = newer
        self.page_bytes: Final = page_bytes
        self.count: Final = max(len(data) // page_bytes, max(newer, default=0))

    def page(self, number: int) -> bytes:
        newer = self._newer.get(number)
        if newer is not None:
            return newer
        start = (number - 1) * self.page_bytes
        if number < 1 or start + self.page_bytes > len(self._data):
            raise UnreadablePage(f"page {number} is not there")
        return self._data[start : start + self.page_bytes]


class UnreadableKeyRange(msgspec.Struct, frozen=True):
    """A part of a table that could not be read: the keys between two bounds, the upper one included."""

    above: int
    upto: int
    what: str


class TableRows(msgspec.Struct, frozen=True):
    """What could be read of one table."""

    rows: Mapping[int, Row]
    """By key."""
    gaps: tuple[UnreadableKeyRange, ...]


def roots(pages: Pages) -> dict[bytes, int]:
    """The root page of each table in the file. Raises ``UnreadablePage``."""
    found: dict[bytes, int] = {}
    schema = read_table(pages, _SCHEMA_ROOT)
    if schema.gaps:
        raise UnreadablePage(schema.gaps[0].what)
    for row in schema.rows.values():
        if len(row) != 5 or not isinstance(row[1], bytes) or not isinstance(row[3], int):
            raise UnreadablePage("the list of tables makes no sense")
        found[row[1]] = row[3]
    return found


def read_table(pages: Pages, root: int, doubtful: frozenset[int] = frozenset()) -> TableRows:
    """All rows that the tree below ``root`` leads to. A page that makes no sense costs the keys below it.

    Pages that are ``doubtful`` may have been written again since: they are read, and their keys are named all the same.
    """
    rows: dict[int, Row] = {}
    gaps: list[UnreadableKeyRange] = []
    seen: set[int] = set()
    todo = [(root, _LOWEST, _HIGHEST, 0)]
    while todo:
        number, above, upto, depth = todo.pop()
        try:
            if number in seen or depth > _DEEPEST:
                raise UnreadablePage(f"page {number} stands in the tree twice")
            seen.add(number)
            if number in doubtful:
                gaps.append(UnreadableKeyRange(above, upto, f"page {number} may be an older one"))
            page = pages.page(number)
            if page[_start(number)] == _INTERIOR:
                children = _children(page, number, above, upto)
                todo.extend((child, low, high, depth + 1) for child, low, high in reversed(children))
            else:
                rows.update(_cells(pages, page, number, gaps, above, upto))  # what comes before a problem stays
        except (UnreadablePage, StructError, IndexError) as problem:
            gaps.append(UnreadableKeyRange(above, upto, str(problem) or f"page {number} makes no sense"))
    return TableRows(rows, tuple(gaps))


def rows_on_leaf(pages: Pages, page: bytes, number: int) -> Iterator[tuple[int, Row]]:
    """What can be read on one page, wherever it stands; nothing if it is no leaf of a table."""
    try:
        yield from _cells(pages, page, number, [], _LOWEST, _HIGHEST)
    except (UnreadablePage, StructError, IndexError):
        return


def _start(number: int) -> int:
    return _FILE_HEADER_BYTES if number == 1 else 0


def _pointers(page: bytes, number: int, header_bytes: int) -> list[int]:
    start = _start(number)
    (count,) = _SHORT.unpack_from(page, start + 3)
    first = start + header_bytes
    if first + 2 * count > len(page):
        raise UnreadablePage(f"page {number} makes no sense")
    return [_SHORT.unpack_from(page, first + 2 * index)[0] for index in range(count)]


def _children(page: bytes, number: int, above: int, upto: int) -> list[tuple[int, int, int]]:
    """The pages below an interior page, each with the bounds of its keys."""
    found: list[tuple[int, int, int]] = []
    low = above
    for at in _pointers(page, number, 12):
        (child,) = _LONG.unpack_from(page, at)
        key, _ = _varint(page, at + 4)
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
    if page[_start(number)] != _LEAF:
        raise UnreadablePage(f"page {number} makes no sense")
    before = above
    for at in _pointers(page, number, 8):
        size, at_key = _varint(page, at)
        key, at_payload = _varint(page, at_key)
        if not before < key <= upto:
            raise UnreadablePage(f"page {number} is out of order")
        before = key
        try:
            yield key, _record(_payload(pages, page, at_payload, size))
        except (UnreadablePage, StructError, IndexError):
            gaps.append(UnreadableKeyRange(key - 1, key, f"row {key} on page {number} makes no sense"))


def _payload(pages: Pages, page: bytes, at: int, size: int) -> bytes:
    """The bytes of a row: on the page, and the rest on a chain of others."""
    usable = pages.page_bytes
    most = usable - 35
    if size <= most:
        if size < 0 or at + size > len(page):
            raise UnreadablePage("a row reaches beyond its page")
        return page[at : at + size]
    if size > pages.count * usable:
        raise UnreadablePage("a row is longer than the file")
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    local = local if local <= most else least
    (following,) = _LONG.unpack_from(page, at + local)
    parts, missing = [page[at : at + local]], size - local
    while missing > 0:
        overflow = pages.page(following)
        (following,) = _LONG.unpack_from(overflow, 0)
        parts.append(overflow[4 : 4 + missing])
        missing -= len(parts[-1])
    return b"".join(parts)


def _record(payload: bytes) -> Row:
    header_bytes, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < header_bytes:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    at = header_bytes
    for kind in kinds:
        value, size = _value(payload, at, kind)
        values.append(value)
        at += size
    if at != len(payload):
        raise UnreadablePage("a row has another length than it says")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind >= 12:
        size = (kind - 12) // 2
        if at + size > len(payload):
            raise UnreadablePage("a value reaches beyond its row")
        return payload[at : at + size], size
    if kind in _INTEGER_BYTES:
        size = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at : at + size], "big", signed=True), size
    if kind == 7:
        return _REAL.unpack_from(payload, at)[0], 8
    if kind in (8, 9):
        return kind - 8, 0
    if kind == 0:
        return None, 0
    raise UnreadablePage("a value has a type that does not exist")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return _signed(value), at + index + 1
    return _signed(value << 8 | data[at + 8]), at + 9


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
