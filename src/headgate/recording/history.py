"""The changes of all resources in the order of revisions, and which of them are certain.

A recorder has one watch per resource, so changes reach the file in the order of arrival. All resources share the
revisions of one cluster, so a reader can put them in the order of writes. It reads the file twice. The first pass finds
the ranges of revisions in which something is missing: before the first lists were complete, and while a resource had
to be listed again. The second pass delivers the changes; a change in such a range counts as not observed, whatever its
resource, because an audit compares the resources with each other.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from headgate.recording.changes import (
    HistoryEvent,
    Notice,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
    WatchProblem,
)

WINDOW_S: Final = 30.0
"""A change that arrives this much later than changes with higher revisions is still put in its place."""

MAX_HOLD_S: Final = 300.0
"""How long a list that does not become complete holds the changes of a live cluster back."""

Source = Callable[[], Iterable[HistoryEvent]]
"""Reads a recording from its start."""


class HistoryGap(msgspec.Struct, frozen=True):
    """A time in which states may be missing. ``resource``: empty for all."""

    resource: str
    from_s: float
    to_s: float


class Survey(msgspec.Struct, frozen=True):
    """``uncertain``: ranges of revisions (first, last), sorted. ``skipped``: resources that a recorder was told to
    leave out. ``absent``: resources that the cluster does not serve. ``problems``: texts of failed requests."""

    uncertain: tuple[tuple[int, int], ...] = ()
    gaps: tuple[HistoryGap, ...] = ()
    from_s: float = 0.0
    to_s: float = 0.0
    changes: int = 0
    skipped: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    hashed: bool = False

    def is_certain(self, revision: int) -> bool:
        position = bisect_left(self.uncertain, (revision + 1, 0))
        return not (position and self.uncertain[position - 1][1] >= revision)


class _Sorter:
    """Holds changes back until no earlier revision is expected."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, RecordedChange]] = []
        self._count = 0
        self._unsynced: set[str] = set()
        self._unrevised: dict[str, list[RecordedChange]] = {}  # deletions that only a list shows
        self.last_revision = 0
        self.newest_revision = 0

    def take(self, event: HistoryEvent) -> Iterator[RecordedChange]:
        match event:
            case SessionStarted():
                yield from self.flush()
                self._unsynced = set(event.resources)
            case ResourceSynced(resource=resource):
                self._unsynced.discard(resource)
                self.newest_revision = max(self.newest_revision, event.revision)
                for each in self._unrevised.pop(resource, ()):
                    self._push(msgspec.structs.replace(each, revision=event.revision))
            case ResourceAbsent(resource=resource):
                self._unsynced.discard(resource)
            case RecordedChange(revision=0):
                self._unrevised.setdefault(event.resource, []).append(event)
            case RecordedChange():
                self._push(event)
        yield from self.due(event.at_s)

    def hold(self, resource: str) -> None:
        """Nothing is due before the list of this resource is complete."""
        self._unsynced.add(resource)

    @property
    def is_holding(self) -> bool:
        return bool(self._unsynced)

    def due(self, at_s: float, *, forced: bool = False) -> Iterator[RecordedChange]:
        """``forced``: also while a list is not complete."""
        if forced or not self._unsynced:
            yield from self._pop(at_s - WINDOW_S)

    def flush(self) -> Iterator[RecordedChange]:
        for waiting in self._unrevised.values():
            for each in waiting:
                self._push(msgspec.structs.replace(each, revision=self.newest_revision))
        self._unrevised = {}
        yield from self._pop(None)

    def _push(self, change: RecordedChange) -> None:
        self._count += 1
        self.newest_revision = max(self.newest_revision, change.revision)
        heapq.heappush(self._heap, (change.revision, self._count, change))

    def _pop(self, until_s: float | None) -> Iterator[RecordedChange]:
        while self._heap and (until_s is None or self._heap[0][2].at_s <= until_s):
            change = heapq.heappop(self._heap)[2]
            self.last_revision = max(self.last_revision, change.revision)
            yield change


class _Surveyor:
    """The first pass. Mutable: what was found so far."""

    def __init__(self) -> None:
        self._sorter = _Sorter()
        self._uncertain: list[tuple[int, int]] = []
        self._gaps: list[HistoryGap] = []
        self._first: dict[str, ResourceSynced] = {}  # the first lists of the session
        self._last: dict[str, tuple[int, float]] = {}  # by resource: revision and time of the last change or list
        self._session_from: tuple[int, float] | None = None
        self._from_s: float | None = None
        self._to_s = 0.0
        self._changes = 0
        self._skipped: set[str] = set()
        self._absent: set[str] = set()
        self._problems: dict[str, None] = {}
        self._hashed = False

    def take(self, event: HistoryEvent) -> None:
        self._from_s = event.at_s if self._from_s is None else self._from_s
        match event:
            case SessionStarted():
                self._hashed = self._hashed or event.hashed
                self._skipped |= set(event.skipped)
                self._session_from = (self._sorter.newest_revision, self._to_s)
                if self._changes:
                    self._gaps.append(HistoryGap("", self._to_s, event.at_s))
                self._first, self._last = {}, {}
            case ResourceSynced():
                self._synced(event)
            case ResourceAbsent():
                self._absent.add(event.resource)
            case WatchProblem():
                self._problems[f"{event.resource}: {event.text}"] = None
            case RecordedChange():
                self._changes += 1
                if event.revision and event.revision < self._sorter.last_revision:
                    self._uncertain.append((event.revision, self._sorter.last_revision))
                if event.observed:
                    self._last[event.resource] = (event.revision, event.at_s)
            case SessionEnded():
                pass
        self._to_s = max(self._to_s, event.at_s)
        for _ in self._sorter.take(event):
            pass

    def _synced(self, event: ResourceSynced) -> None:
        self._absent.discard(event.resource)
        if event.resource not in self._first:
            self._first[event.resource] = event
            first = self._session_from[0] if self._session_from is not None else 0
            self._uncertain.append((first + 1 if first else 0, event.revision))
        else:
            revision, at_s = self._last.get(event.resource, (0, event.at_s))
            self._uncertain.append((revision + 1, event.revision))
            self._gaps.append(HistoryGap(event.resource, at_s, event.at_s))
        self._last[event.resource] = (event.revision, event.at_s)

    def result(self) -> Survey:
        return Survey(
            uncertain=_merged(self._uncertain),
            gaps=tuple(self._gaps),
            from_s=self._from_s or 0.0,
            to_s=self._to_s,
            changes=self._changes,
            skipped=tuple(sorted(self._skipped)),
            absent=tuple(sorted(self._absent)),
            problems=tuple(self._problems),
            hashed=self._hashed,
        )


class LiveOrder:
    """Changes in the order of revisions while they arrive, each about :data:`WINDOW_S` after it was seen.

    A list that begins (:meth:`listing`) holds all changes back until it is complete: only then it is known which
    revisions it covers, and a change in such a range counts as not observed."""

    def __init__(self) -> None:
        self._sorter = _Sorter()
        self._uncertain: list[tuple[int, int]] = []
        self._last: dict[str, int] = {}  # by resource: the revision of its last change or list
        self._now_s = 0.0
        self._complete_s = 0.0
        self._held_since_s: float | None = None
        self.gaps = 0
        """How often a resource had to be listed again."""

    def listing(self, resource: str) -> None:
        self._sorter.hold(resource)

    def take(self, event: HistoryEvent) -> Iterator[RecordedChange]:
        match event:
            case ResourceSynced():
                known = self._last.get(event.resource)
                self.gaps += known is not None
                self._uncertain.append((0 if known is None else known + 1, event.revision))
                self._last[event.resource] = event.revision
            case RecordedChange(revision=revision) if revision:
                if revision < self._sorter.last_revision:
                    self._uncertain.append((revision, self._sorter.last_revision))
                if event.observed:
                    self._last[event.resource] = revision
        yield from self._marked(self._sorter.take(event))

    def tick(self, at_s: float) -> Iterator[RecordedChange]:
        """The changes that are due without an event. Those that a list has held back for too long come as not
        observed, so that a resource that cannot be listed does not stop the others."""
        if not self._sorter.is_holding:
            self._held_since_s = None
            yield from self._marked(self._sorter.due(at_s))
            return
        self._held_since_s = at_s if self._held_since_s is None else self._held_since_s
        if at_s - self._held_since_s > MAX_HOLD_S:
            for change in self._marked(self._sorter.due(at_s, forced=True)):
                yield msgspec.structs.replace(change, observed=False)

    def flush(self) -> Iterator[RecordedChange]:
        """All changes that are held back, at the end."""
        yield from self._marked(self._sorter.flush())

    def complete_s(self, at_s: float) -> float:
        """The time until which all changes have been delivered: earlier while a list is not complete."""
        if not self._sorter.is_holding:
            self._complete_s = max(self._complete_s, at_s - WINDOW_S)
        return self._complete_s

    def _marked(self, changes: Iterable[RecordedChange]) -> Iterator[RecordedChange]:
        for change in changes:
            self._now_s = max(self._now_s, change.at_s)
            is_certain = not any(first <= change.revision <= last for first, last in self._uncertain)
            yield msgspec.structs.replace(change, at_s=self._now_s, observed=change.observed and is_certain)
        done = self._sorter.last_revision
        self._uncertain = [each for each in self._uncertain if each[1] > done]


def survey(source: Source) -> Survey:
    surveyor = _Surveyor()
    for event in source():
        surveyor.take(event)
    return surveyor.result()


def ordered_changes(source: Source, found: Survey) -> Iterator[RecordedChange]:
    """All changes in the order of revisions. Times never go back."""
    sorter, now_s = _Sorter(), 0.0
    for change in _sorted(sorter, source()):
        now_s = max(now_s, change.at_s)
        observed = change.observed and found.is_certain(change.revision)
        yield msgspec.structs.replace(change, at_s=now_s, observed=observed)


def _sorted(sorter: _Sorter, events: Iterable[HistoryEvent]) -> Iterator[RecordedChange]:
    for event in events:
        yield from sorter.take(event)
    yield from sorter.flush()


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif last >= first:
            found.append((first, last))
    return tuple(found)


__all__ = ["HistoryGap", "LiveOrder", "Notice", "Source", "Survey", "ordered_changes", "survey"]
