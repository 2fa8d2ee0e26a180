"""Pages of the units that wait, each with its position and why it waits now.

Positions and reasons change with every change of a queue, so they are computed for the rows of a page only. All units
are in the order in which they began to wait (``waiting_lists.py`` keeps the matches of a query); the units of one queue
are in the order of its line, which is computed again when that line has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

import msgspec

from headgate.capacity.engine import WaitReason
from headgate.kube import conditions
from headgate.quota.explain.workload_list import QueuePositions
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import WaitingEntry, WaitingPage, WaitingRow
from headgate.views.viewed_pod import QUEUE_GATES
from headgate.views.waiting_lists import Matches, WaitingLists

QueueKey = tuple[str, bool]
"""A queue, and whether it is a ClusterQueue."""
Sees = Callable[[WaitingRow], bool]

_NO_NODE: Final = (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)
_MAX_LIMIT: Final = 500
_MAX_QUERIES: Final = 16


class WaitingQuery(msgspec.Struct, frozen=True):
    """``search``: part of a name, namespace, owner, queue or gate. ``queue``: a Queue or ClusterQueue; then the units
    are in the order of its line. ``kind``: ``Queue`` or ``ClusterQueue``."""

    search: str = ""
    queue: str = ""
    kind: str = ""
    namespace: str = ""
    gate: str = ""
    state: str = ""
    offset: int = 0
    limit: int = 100


class WaitingPages:
    """``sees`` says whether a viewer may see a row; None if the viewer sees all rows. ``viewer`` is equal for viewers
    that see the same rows. The first page of a query costs all rows, the next ones the rows of the page and what has
    changed; a page of one queue costs the queue."""

    def __init__(self, views: ClusterViews) -> None:
        self._views: Final = views
        self._seen = 0
        self._since: Final[dict[str, float]] = {}
        self._queue_of: Final[dict[str, QueueKey]] = {}
        self._by_queue: Final[dict[QueueKey, dict[str, None]]] = {}
        self._lists: Final = WaitingLists(lambda: map(self._row, self._since))
        self._queue_matches: Final[dict[Hashable, tuple[int, list[WaitingRow]]]] = {}
        self._lines: Final[dict[str, tuple[int, dict[str, int]]]] = {}
        self._positions_at = -1
        self._positions = QueuePositions(views.quota.engine)

    def page(self, query: WaitingQuery, sees: Sees | None = None, viewer: Hashable = "") -> WaitingPage:
        self._update()
        criteria = (viewer, msgspec.structs.replace(query, offset=0, limit=0))
        matches = _matcher(query, sees)
        in_queue = self._in_queue(query, criteria, matches) if query.queue else []
        order = [] if query.queue else self._lists.get(criteria, matches)
        total = len(in_queue) or len(order)
        limit = max(1, min(query.limit, _MAX_LIMIT))
        offset = max(0, min(query.offset, max(total - 1, 0)))
        end = offset + limit
        found = in_queue[offset:end] or [self._row(key) for _, key in order[offset:end]]
        return WaitingPage(total, offset, tuple(map(self.entry, found)))

    def entry(self, row: WaitingRow) -> WaitingEntry:
        self._update()
        why, sentence = self._reason(row)
        return WaitingEntry(row, self._position(row), why, sentence)

    def _update(self) -> None:
        """Applies the changes since the last call."""
        if self._positions_at != self._views.revision:
            self._positions = QueuePositions(self._views.quota.engine)
            self._positions_at = self._views.revision
        if self._seen == self._views.topic_revision("waiting"):
            return
        changes = self._views.changes_since("waiting", self._seen)
        if changes is None:
            self._lists.clear()
            self._since.clear()
            self._queue_of.clear()
            self._by_queue.clear()
            upserts: Iterable[object] = self._views.rows("waiting")
            removed: tuple[str, ...] = ()
        else:
            upserts, removed = changes.upserts, changes.removed
        for key in removed:
            since_s = self._since.pop(key, None)
            if since_s is not None:
                self._lists.discard(since_s, key)
                self._leave_queue(key)
        for row in upserts:
            assert isinstance(row, WaitingRow)
            self._put(row)
        self._seen = self._views.topic_revision("waiting")

    def _put(self, row: WaitingRow) -> None:
        before_s, queue = self._since.get(row.key), (row.queue, row.kind == "Workload")
        self._since[row.key] = row.since_s
        self._lists.put(before_s, row)
        if before_s is None or self._queue_of[row.key] != queue:
            self._leave_queue(row.key)
            self._queue_of[row.key] = queue
            self._by_queue.setdefault(queue, {})[row.key] = None

    def _leave_queue(self, key: str) -> None:
        queue = self._queue_of.pop(key, None)
        if queue is not None:
            del self._by_queue[queue][key]
            if not self._by_queue[queue]:
                del self._by_queue[queue]
                self._lines.pop(queue[0], None)

    def _row(self, key: str) -> WaitingRow:
        row = self._views.row("waiting", key)
        assert isinstance(row, WaitingRow)
        return row

    def _in_queue(self, query: WaitingQuery, criteria: Hashable, matches: Matches) -> list[WaitingRow]:
        """The units of one queue in the order of its line; those without a position are behind it."""
        known = self._queue_matches.pop(criteria, None)
        if known is None or known[0] != self._views.revision:
            keys = self._by_queue.get((query.queue, query.kind == "ClusterQueue"), {})
            ordered = (key for _, key in sorted((self._since[key], key) for key in keys))
            rows = sorted(filter(matches, map(self._row, ordered)), key=self._line_order)
            known = self._views.revision, rows
            while len(self._queue_matches) >= _MAX_QUERIES:
                del self._queue_matches[next(iter(self._queue_matches))]
        self._queue_matches[criteria] = known
        return known[1]

    def _line_order(self, row: WaitingRow) -> tuple[bool, int]:
        """Units without a position are behind the line."""
        position = self._position(row)
        return position is None, position or 0

    def _position(self, row: WaitingRow) -> int | None:
        if row.kind == "Workload":
            found = self._positions.position_of(f"{row.namespace}/{row.name}")
            return None if found is None else found[1]
        engine = self._views.queues.engine
        if not row.queue or engine.refusal(row.queue) is not None:  # a queue that admits no pods has no line
            return None
        version = engine.line_version(row.queue)
        known = self._lines.get(row.queue)
        if known is None or known[0] != version:
            line: dict[str, int] = {}
            for place, uid in enumerate(engine.line(row.queue)):
                line.setdefault(self._views.units.unit_of(uid), place)
            known = self._lines[row.queue] = version, line
        return known[1].get(row.key)

    def _reason(self, row: WaitingRow) -> tuple[str, str]:
        """The reason in one word, and the sentence: the queue's, else the one that the API shows."""
        if row.state == "gated":
            gates = [each for each in row.gates if each not in QUEUE_GATES]
            return "Gated", f"{', '.join(gates)} has to be removed by its owner"
        if row.kind == "Workload":
            return row.reason or "Pending", row.message or "its ClusterQueue has not considered it yet"
        wait = self._views.queues.engine.peek_wait_reason(row.representative)
        if wait is not None and not (wait.why is WaitReason.WAITING_TURN and row.reason in _NO_NODE):
            return wait.why.value, wait.message
        if row.message:
            return row.reason, row.message
        return "WaitingForScheduler", "its scheduler has not reported anything yet"


def _matcher(query: WaitingQuery, sees: Sees | None) -> Matches:
    words = query.search.lower().split()
    return lambda row: _matches(row, query, words) and (sees is None or sees(row))


def _matches(row: WaitingRow, query: WaitingQuery, words: list[str]) -> bool:
    if query.queue and (row.queue != query.queue or (row.kind == "Workload") is not (query.kind == "ClusterQueue")):
        return False
    if query.namespace not in ("", row.namespace) or query.state not in ("", row.state):
        return False
    if query.gate and query.gate not in row.gates:
        return False
    if not words:
        return True
    text = " ".join((row.namespace, row.name, row.owner, row.queue, row.local_queue, *row.gates)).lower()
    return all(word in text for word in words)
