"""The durable form of the store: one append-only table, as SQL text and row encodings.

Each write is one row with its revision as the key, so a commit only appends. The newest row of each object is its
current state. Older rows are the history, which is kept as long as watches and paged lists may need it, and then
deleted by revision (:func:`superseded`). The log is loaded by one scan in order of revision. Every row has a checksum
of its columns; the head (``store/log_head.py``) has the sum of all checksums. This module does no I/O;
``store/io/database_file.py`` opens the file.
"""

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
_NO_PAIRS: Final[Mapping[str, str]] = {}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, str]).decode


class CommitBatch(msgspec.Struct, frozen=True):
    """The content of one commit."""

    changes: Sequence[StoreChange]
    oldest: Revision
    superseded: Sequence[Revision]
    """Rows of the history that are not needed any more."""


class StoredRow(msgspec.Struct, frozen=True, gc=False):
    """One row that was read and matches its checksum."""

    item: Item
    deleted: bool
    checksum: int


def encode_row(item: Item, deleted: bool) -> Row:
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
    """Decodes rows of the file, with text columns as bytes. Equal label sets share one object."""

    def __init__(self) -> None:
        self._labels: Final[dict[bytes, Mapping[str, str]]] = {b"": _NO_PAIRS}

    def read(self, raw: Sequence[Any]) -> StoredRow | None:
        """The decoded row, or ``None`` if it does not match its checksum."""
        revision, checksum, resource, namespace, name, uid, deleted, labels, fields, data = raw
        try:
            found = _checksum(revision, deleted, resource, namespace, name, uid, labels, fields, data)
        except (TypeError, StructError):  # a damaged row may have any type in any column
            return None
        if found != checksum:
            return None
        label_set = self._labels.get(labels)
        if label_set is None:
            label_set = self._labels[labels] = _decode(labels)
        item = Item(
            resource=sys.intern(resource.decode()),
            namespace=sys.intern(namespace.decode()),
            name=name.decode(),
            uid=uid.decode(),
            revision=Revision(revision),
            labels=label_set,
            fields=_decode(fields) if fields else _NO_PAIRS,
            data=data,
        )
        return StoredRow(item, bool(deleted), checksum)


def describe(raw: Sequence[Any]) -> str:
    """A description of a damaged row, as far as it can be read."""
    revision, _, *names = raw[:5]
    resource, namespace, name = (each.decode(errors="replace") if isinstance(each, bytes) else "?" for each in names)
    text = f"{resource} {namespace}/{name}" if namespace else f"{resource} {name}"
    printable = "".join(each if each.isprintable() else "?" for each in text)
    return f"row {revision} ({printable[:200]})"


def superseded(compacted: Iterable[StoreChange]) -> list[Revision]:
    """The revisions of the rows that can be deleted after these changes were compacted.

    A change makes the row before it unnecessary; the row of a delete is unnecessary itself.
    """
    revisions: list[Revision] = []
    for change in compacted:
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
    """64 bits over all columns. With the lengths, a byte cannot move to the next column undetected."""
    numbers = _NUMBERS.pack(
        revision, deleted, len(resource), len(namespace), len(name), len(uid), len(labels), len(fields)
    )
    content = b"".join((numbers, resource, namespace, name, uid, labels, fields, data))
    (checksum,) = _FIRST_64_BITS.unpack(sha256(content).digest())
    return int(checksum)
