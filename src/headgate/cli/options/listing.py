"""What a command that prints a list has found, and its text in each output format.

A command makes a :class:`Listing`; this module writes it. A listing that is watched is compared with the one before
(:func:`changed_lines`), without the columns that change by themselves. ``cli/wiring/list_runner.py`` prints both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.cli.options.query_options import JSON, NAME, WIDE, YAML
from headgate.cli.options.yaml_output import dump
from headgate.terminal.safe_text import one_line

VOLATILE: Final = frozenset({"AGE", "EXEC TIME", "EXPECTED START IN"})
"""Columns that change with the time."""
_GAP: Final = "   "


class Table(msgspec.Struct, frozen=True):
    """``names``: TYPE/NAME of each row, empty for a row that belongs to the row above it. ``wide``: how many of the
    last columns are shown with ``-o wide`` only."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: tuple[str, ...] = ()
    wide: int = 0

    def shown(self, is_wide: bool) -> list[tuple[str, ...]]:
        end = len(self.columns) if is_wide else len(self.columns) - self.wide
        return [self.columns[:end], *(row[:end] for row in self.rows)]


class Listing(msgspec.Struct, frozen=True):
    """``document``: what ``-o json`` and ``-o yaml`` print. ``remarks``: lines below the tables. ``complaints``: what
    could not be read; it is written to standard error, as is ``nothing``, the text for a list without rows."""

    tables: tuple[Table, ...]
    document: Any
    remarks: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    nothing: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(table.rows for table in self.tables)


def listing_text(listing: Listing, output: str, *, compact: bool = False) -> str:
    """``compact``: a JSON document in one line, as a watch prints it."""
    if output == JSON:
        return json_text(listing.document, compact=compact)
    if output == YAML:
        return ("---\n" if compact else "") + yaml_text(listing.document)
    if output == NAME:
        return "\n".join(dict.fromkeys(name for table in listing.tables for name in table.names if name))
    blocks = [table_text(table.shown(output == WIDE)) for table in listing.tables if table.rows]
    return "\n\n".join([*blocks, *(["\n".join(listing.remarks)] if any(listing.remarks) else [])])


def json_text(document: Any, *, compact: bool = False) -> str:
    encoded = msgspec.json.encode(document)
    return (encoded if compact else msgspec.json.format(encoded)).decode()


def yaml_text(document: Any) -> str:
    return dump(msgspec.to_builtins(document)).rstrip("\n")


def document_text(document: Any, output: str) -> str:
    """A document of a command with :func:`output_option`."""
    return yaml_text(document) if output == YAML else json_text(document)


def table_text(rows: Sequence[tuple[str, ...]], widths: Sequence[int] = ()) -> str:
    """The first row is the header. ``widths``: of the columns, at least."""
    rows = [tuple(map(one_line, row)) for row in rows]
    least = [*widths, *([0] * (len(rows[0]) - len(widths)))]
    found = [max(width, *map(len, column)) for width, column in zip(least, zip(*rows, strict=True), strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, found, strict=True)).rstrip() for row in rows
    )


def changed_lines(before: Listing, now: Listing, output: str) -> Iterator[str]:
    """The rows that are new or have changed, and those that are gone; in JSON and YAML the whole document."""
    if output in (JSON, YAML):
        if msgspec.json.encode(before.document) != msgspec.json.encode(now.document):
            yield listing_text(now, output, compact=True)
        return
    if output == NAME:
        known = {name for table in before.tables for name in table.names}
        yield from dict.fromkeys(name for table in now.tables for name in table.names if name and name not in known)
        return
    earlier = {table.columns: table for table in before.tables}
    for table in now.tables:
        old = earlier.get(table.columns)
        old_rows = {} if old is None else _keyed_rows(old)
        new_rows = _keyed_rows(table)
        shown = Table(table.columns, tuple(new_rows.values()), wide=table.wide).shown(output == WIDE)
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        if not old_rows and table.rows:
            yield table_text(shown)
            continue
        for key, row in new_rows.items():
            if _lasting(table, row) != _lasting(table, old_rows.get(key)):
                yield table_text([row[: len(widths)]], widths)
        for key, row in old_rows.items():
            if key not in new_rows:
                yield f"{table_text([row[: len(widths)]], widths)}{_GAP}(deleted)"


def _keyed_rows(table: Table) -> dict[tuple[str, ...], tuple[str, ...]]:
    """By the name of the row that it belongs to, by its number below that row, and by its first cells: objects of
    several namespaces may have one name."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    names = table.names or tuple(row[0] for row in table.rows)
    last, number, first = "", 0, ""
    for name, row in zip(names, table.rows, strict=True):
        last, number, first = (name, 0, row[0]) if name else (last, number + 1, first)
        key: tuple[str, ...] = (last, str(number), first)
        while key in found:
            key = (*key, "")
        found[key] = row
    return found


def _lasting(table: Table, row: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if row is None:
        return None
    return tuple(cell for column, cell in zip(table.columns, row, strict=True) if column not in VOLATILE)
