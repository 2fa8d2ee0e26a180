"""Records: the changes of a recording in the form in which they are stored.

The first state of an object is stored whole, each later one as a delta (``delta.py``) to the state before it. A state
that differs in nothing but ``resourceVersion`` is left out: what changed there is not recorded (``pruning.py``).
:class:`RecordTable` has the last state of every object; the writer and the reader of a file have the same table, so a
recorder that continues a file takes the table of its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.recording.changes import (
    HistoryEvent,
    Notice,
    Object,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
    WatchProblem,
)
from headgate.recording.delta import InvalidDelta, apply_delta, make_delta

_MS: Final = 1000
_REVISION: Final = "resourceVersion"


class ObjectRecord(msgspec.Struct, frozen=True, array_like=True, tag="o", gc=False):
    """A whole object. It gets the next number of the file."""

    at_ms: int
    resource: str
    object: Object
    observed: bool


class DeltaRecord(msgspec.Struct, frozen=True, array_like=True, tag="d", gc=False):
    """A later state of the object with this number."""

    at_ms: int
    number: int
    delta: list[Any]
    observed: bool
    gap_ms: int = 0
    """How much earlier than ``at_ms`` the change may have happened."""


class DeletionRecord(msgspec.Struct, frozen=True, array_like=True, tag="x", gc=False):
    at_ms: int
    number: int
    revision: int
    """0: unknown."""
    gap_ms: int = 0


class SessionRecord(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    at_ms: int
    version: str
    hashed: bool
    resources: list[str]
    skipped: list[str]


class EndRecord(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    at_ms: int


class SyncRecord(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    at_ms: int
    resource: str
    revision: int


class AbsenceRecord(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    at_ms: int
    resource: str


class ProblemRecord(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    at_ms: int
    resource: str
    text: str


Record = (
    ObjectRecord | DeltaRecord | DeletionRecord | SessionRecord | EndRecord | SyncRecord | AbsenceRecord | ProblemRecord
)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Record]).decode


class InvalidRecord(Exception):
    """A block has records that cannot be used."""


def encode_records(records: Iterable[Record]) -> bytes:
    return _encode(list(records))


def decode_records(payload: bytes) -> list[Record]:
    try:
        return _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"a block has records of another form ({error})") from error


class _Known(msgspec.Struct, frozen=True, gc=False):
    number: int
    object: Object


Key = tuple[str, str, str]
"""Resource, namespace, name."""


class RecordTable:
    """``made``: called with each event of which a record is made."""

    def __init__(self, made: Callable[[HistoryEvent], None] | None = None) -> None:
        self._made = made
        self._known: dict[Key, _Known] = {}
        self._keys: dict[int, Key] = {}
        self._next = 0
        self.last_ms = 0
        """The time of the last record."""

    def __len__(self) -> int:
        return len(self._known)

    # -- writing ---------------------------------------------------------------------------------------------------

    def record_state(
        self, resource: str, obj: Object, at_s: float, *, observed: bool, gap_s: float = 0.0
    ) -> Iterator[Record]:
        """The records of a state. An object of the same name with another uid was deleted before."""
        key, at_ms = key_of(resource, obj), self._time(at_s)
        known = self._known.get(key)
        if known is not None and known.object["metadata"].get("uid") != obj["metadata"].get("uid"):
            yield from self.record_deletion(resource, key[1], key[2], at_s, 0, gap_s=gap_s)
            known = None
        if known is None:
            yield self._note(ObjectRecord(at_ms, resource, obj, observed))
            return
        delta = make_delta(known.object, obj)
        if delta is not None and not _is_revision_only(delta):
            yield self._note(DeltaRecord(at_ms, known.number, delta, observed, round(gap_s * _MS)))

    def record_deletion(
        self, resource: str, namespace: str, name: str, at_s: float, revision: int, *, gap_s: float = 0.0
    ) -> Iterator[Record]:
        known = self._known.get((resource, namespace, name))
        if known is not None:
            yield self._note(DeletionRecord(self._time(at_s), known.number, revision, round(gap_s * _MS)))

    def record_notice(self, notice: Notice) -> Record:
        at_ms = self._time(notice.at_s)
        if self._made is not None:
            self._made(notice)
        match notice:
            case SessionStarted():
                return SessionRecord(at_ms, notice.version, notice.hashed, list(notice.resources), list(notice.skipped))
            case SessionEnded():
                return EndRecord(at_ms)
            case ResourceSynced():
                return SyncRecord(at_ms, notice.resource, notice.revision)
            case ResourceAbsent():
                return AbsenceRecord(at_ms, notice.resource)
            case WatchProblem():
                return ProblemRecord(at_ms, notice.resource, notice.text)

    def names_of(self, resource: str) -> list[tuple[str, str]]:
        """Namespace and name of the objects that exist."""
        return [(namespace, name) for each, namespace, name in self._known if each == resource]

    def _note(self, record: Record) -> Record:
        event = self.read(record)
        if self._made is not None:
            self._made(event)
        return record

    def _time(self, at_s: float) -> int:
        """Times in a file never go back, whatever the clock does."""
        self.last_ms = max(self.last_ms, round(at_s * _MS))
        return self.last_ms

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, record: Record) -> HistoryEvent:
        """Raises ``InvalidRecord``."""
        self.last_ms = max(self.last_ms, record.at_ms)
        at_s = record.at_ms / _MS
        match record:
            case ObjectRecord():
                return self._read_object(record, at_s)
            case DeltaRecord():
                return self._read_delta(record, at_s)
            case DeletionRecord():
                key, known = self._find(record.number)
                del self._known[key], self._keys[record.number]
                observed = record.revision > 0
                return RecordedChange(
                    key[0], known.object, at_s, record.revision, True, observed, at_s - record.gap_ms / _MS
                )
            case SessionRecord():
                resources, skipped = tuple(record.resources), tuple(record.skipped)
                return SessionStarted(at_s, record.version, record.hashed, resources, skipped)
            case EndRecord():
                return SessionEnded(at_s)
            case SyncRecord():
                return ResourceSynced(at_s, record.resource, record.revision)
            case AbsenceRecord():
                return ResourceAbsent(at_s, record.resource)
            case ProblemRecord():
                return WatchProblem(at_s, record.resource, record.text)

    def _read_object(self, record: ObjectRecord, at_s: float) -> RecordedChange:
        if not isinstance(record.object.get("metadata"), dict):
            raise InvalidRecord("an object has no metadata")
        key = key_of(record.resource, record.object)
        self._known[key] = _Known(self._next, record.object)
        self._keys[self._next] = key
        self._next += 1
        return RecordedChange(
            record.resource, record.object, at_s, revision_of(record.object), False, record.observed, at_s
        )

    def _read_delta(self, record: DeltaRecord, at_s: float) -> RecordedChange:
        key, known = self._find(record.number)
        try:
            obj = apply_delta(known.object, record.delta)
        except InvalidDelta as error:
            raise InvalidRecord(str(error)) from error
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            raise InvalidRecord("an object has no metadata")
        self._known[key] = _Known(known.number, obj)
        earliest_s = at_s - record.gap_ms / _MS
        return RecordedChange(key[0], obj, at_s, revision_of(obj), False, record.observed, earliest_s)

    def _find(self, number: int) -> tuple[Key, _Known]:
        key = self._keys.get(number)
        if key is None:
            raise InvalidRecord(f"a record is about object {number}, which does not exist")
        return key, self._known[key]


def key_of(resource: str, obj: Object) -> Key:
    metadata = obj["metadata"]
    return resource, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def revision_of(obj: Object) -> int:
    """0 if it is not a number."""
    text = str(obj["metadata"].get(_REVISION) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _is_revision_only(delta: list[Any]) -> bool:
    match delta:
        case [1, {"metadata": [1, {"resourceVersion": _, **others}, []], **rest}, []]:
            return not others and not rest
    return False
