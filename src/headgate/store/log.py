"""The durable form of the store: one append-only table, as SQL text and row encodings.

Each write is one row under its revision, so a commit only ever appends. The present is the newest row of each key;
older rows are the past, kept as long as watches and paged lists may ask for it, and then deleted by revision
(``superseded``). Loading is one scan in order of revision. Nothing here opens a file: ``store/shell.py`` does.

**Numbers after a crash.** A process may die with revisions handed out and not recorded. The next one therefore starts
``BLOCK`` above the last recorded revision, and records that before it serves (``start_revision``). A clean stop records
the exact number and leaves no gap.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.store.item import Change, Item, Revision

APPLICATION_ID: Final = 0x48474154  # "HGAT", in the header of the file
FORMAT: Final = 1
BLOCK: Final = 1 << 16

CREATE: Final = (
    """CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        uid TEXT NOT NULL,
        deleted INTEGER NOT NULL,
        labels BLOB NOT NULL,
        fields BLOB NOT NULL,
        data BLOB NOT NULL
    )""",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('revision', 0), ('oldest', 0), ('clean', 1)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
INSERT: Final = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
DELETE: Final = "DELETE FROM log WHERE revision = ?"
DELETE_AFTER: Final = "DELETE FROM log WHERE revision > ?"
SCAN: Final = "SELECT * FROM log ORDER BY revision"
COUNT: Final = "SELECT count(*), coalesce(max(revision), 0) FROM log"
READ_META: Final = "SELECT name, value FROM meta"
WRITE_META: Final = "UPDATE meta SET value = ? WHERE name = ?"

Row = tuple[int, str, str, str, str, int, bytes, bytes, bytes]

_NOTHING: Final[Mapping[str, str]] = {}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, str]).decode


class Batch(msgspec.Struct, frozen=True):
    """What one commit puts on disk."""

    changes: Sequence[Change]
    oldest: Revision
    superseded: Sequence[Revision]
    """Rows of the past that nothing needs any more."""


def row_of(change: Change) -> Row:
    item = change.item
    return (
        change.revision,
        item.resource,
        item.namespace,
        item.name,
        item.uid,
        int(change.deleted),
        _encode(item.labels) if item.labels else b"",
        _encode(item.fields) if item.fields else b"",
        item.data,
    )


def item_of(row: Row) -> tuple[Item, bool]:
    """The item, and whether the row says that it was deleted."""
    revision, resource, namespace, name, uid, deleted, labels, fields, data = row
    item = Item(
        resource=sys.intern(resource),
        namespace=sys.intern(namespace),
        name=name,
        uid=uid,
        revision=Revision(revision),
        labels=_decode(labels) if labels else _NOTHING,
        fields=_decode(fields) if fields else _NOTHING,
        data=data,
    )
    return item, bool(deleted)


def superseded(forgotten: Iterable[Change]) -> list[Revision]:
    """The rows that may go once these changes are no longer part of the readable past."""
    revisions: list[Revision] = []
    for change in forgotten:
        if change.previous is not None:
            revisions.append(change.previous.revision)
        if change.deleted:
            revisions.append(change.revision)
    return revisions


def start_revision(meta: Mapping[str, int], last: int) -> Revision:
    """Where a process that opens the file begins to count."""
    recorded = max(meta["revision"], last)
    return Revision(recorded if meta["clean"] else recorded + BLOCK)


def stranger(application_id: int, user_version: int, tables: int) -> str | None:
    """Why this file must not be touched, or ``None`` if it is ours or empty."""
    if application_id == 0 and user_version == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        return "is not a Headgate store: move it away, or choose another data folder"
    if user_version > FORMAT:
        return f"has format {user_version}, and this Headgate reads up to {FORMAT}: install the newer Headgate again"
    return None
