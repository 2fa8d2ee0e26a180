"""The durable form of the store: one append-only table, as SQL text and row encodings.

Each write is one row under its revision, so a commit only ever appends. The present is the newest row of each key;
older rows are the past, kept as long as watches and paged lists may ask for it, and then deleted by revision
(``superseded``). Loading is one scan in order of revision. Every row carries a checksum of all that it says; what the
rows say together is sealed in the one row of ``store/log_head.py``. Nothing here opens a file:
``store/io/database_file.py`` does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from struct import Struct
from struct import error as StructError
from typing import Any, Final

import msgspec

from headgate.store.item import Item, Revision, StoreChange

CREATE: Final = """CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        checksum INTEGER NOT NULL,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        uid TEXT NOT NULL,
        deleted INTEGER NOT NULL,
        labels BLOB NOT NULL,
        fields BLOB NOT NULL,
        data BLOB NOT NULL
    )"""
INSERT: Final = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
CHECKSUM: Final = "SELECT checksum FROM log WHERE revision = ?"
DELETE: Final = "DELETE FROM log WHERE revision = ?"
CHECKSUMS_AFTER: Final = "SELECT checksum FROM log WHERE revision > ?"
DELETE_AFTER: Final = "DELETE FROM log WHERE revision > ?"
SCAN: Final = "SELECT * FROM log ORDER BY revision"
SCAN_BACKWARDS: Final = "SELECT * FROM log ORDER BY revision DESC"

Row = tuple[int, int, str, str, str, str, int, bytes, bytes, bytes]

_NUMBERS: Final = Struct(">QQ6I")
_FIRST_64_BITS: Final = Struct(">q24x")
_NOTHING: Final[Mapping[str, str]] = {}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, str]).decode


class CommitBatch(msgspec.Struct, frozen=True):
    """What one commit puts on disk."""

    changes: Sequence[StoreChange]
    oldest: Revision
    superseded: Sequence[Revision]
    """Rows of the past that nothing needs any more."""


class StoredRow(msgspec.Struct, frozen=True, gc=False):
    """One row that was read and found to be what was written."""

    item: Item
    deleted: bool
    checksum: int


def row_of(item: Item, deleted: bool) -> Row:
    labels = _encode(item.labels) if item.labels else b""
    fields = _encode(item.fields) if item.fields else b""
    checksum = _checksum(
        item.revision,
        deleted,
        item.resource.encode(),
        item.namespace.encode(),
        item.name.encode(),
        item.uid.encode(),
        labels,
        fields,
        item.data,
    )
    return (
        item.revision,
        checksum,
        item.resource,
        item.namespace,
        item.name,
        item.uid,
        int(deleted),
        labels,
        fields,
        item.data,
    )


class RowReader:
    """Reads rows as they come from the file, texts as bytes. Label sets that are equal are kept once."""

    def __init__(self) -> None:
        self._labels: Final[dict[bytes, Mapping[str, str]]] = {b"": _NOTHING}

    def read(self, raw: Sequence[Any]) -> StoredRow | None:
        """What the row says, or ``None`` if that is not what was written."""
        revision, checksum, resource, namespace, name, uid, deleted, labels, fields, data = raw
        try:
            found = _checksum(revision, deleted, resource, namespace, name, uid, labels, fields, data)
        except (TypeError, StructError):  # a damaged row may hold anything anywhere
            return None
        if found != checksum:
            return None
        known = self._labels.get(labels)
        if known is None:
            known = self._labels[labels] = _decode(labels)
        item = Item(
            resource=sys.intern(resource.decode()),
            namespace=sys.intern(namespace.decode()),
            name=name.decode(),
            uid=uid.decode(),
            revision=Revision(revision),
            labels=known,
            fields=_decode(fields) if fields else _NOTHING,
            data=data,
        )
        return StoredRow(item, bool(deleted), checksum)


def describe(raw: Sequence[Any]) -> str:
    """Names a damaged row as well as it can still be named."""
    revision, _, *names = raw[:5]
    resource, namespace, name = (each.decode(errors="replace") if isinstance(each, bytes) else "?" for each in names)
    text = f"{resource} {namespace}/{name}" if namespace else f"{resource} {name}"
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return f"row {revision} ({shown[:200]})"


def superseded(forgotten: Iterable[StoreChange]) -> list[Revision]:
    """The rows that may go once these changes are no longer part of the readable past."""
    revisions: list[Revision] = []
    for change in forgotten:
        if change.previous is not None:
            revisions.append(change.previous.revision)
        if change.deleted:
            revisions.append(change.revision)
    return revisions


def _checksum(
    revision: int,
    deleted: int,
    resource: bytes,
    namespace: bytes,
    name: bytes,
    uid: bytes,
    labels: bytes,
    fields: bytes,
    data: bytes,
) -> int:
    """64 bits over everything the row says; the lengths keep a byte from moving to the next column unseen."""
    numbers = _NUMBERS.pack(
        revision, deleted, len(resource), len(namespace), len(name), len(uid), len(labels), len(fields)
    )
    said = b"".join((numbers, resource, namespace, name, uid, labels, fields, data))
    (checksum,) = _FIRST_64_BITS.unpack(sha256(said).digest())
    return int(checksum)
