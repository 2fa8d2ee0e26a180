"""Pages of the units that wait, each with its position and why it waits now.

Positions and reasons change with every change of a queue, so they are computed for the rows of a page only. All units
are in the order in which they began to wait; the units of one queue are in the order of its line. The order and the
matches of a query are kept until a row changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable
from typing import Final

import msgspec

from headgate.capacity.engine import WaitReason
from headgate.kube import conditions
from headgate.quota.explain.workload_list import QueuePositions
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import WaitingEntry, WaitingPage, WaitingRow
from headgate.views.viewed_pod import QUEUE_GATES

Order = tuple[float, str]
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


_ALL: Final = WaitingQuery(limit=0)


class WaitingPages:
    """``sees`` says whether a viewer may see a row; None if the viewer sees all rows. ``viewer`` is equal for viewers
    that see the same rows. A page of all rows costs its rows, one of a queue costs the queue; a search costs all
    rows."""

    def __init__(self, views: ClusterViews) -> None:
        self._views: Final = views
        self._seen = 0
        self._order: Final[list[Order]] = []
        self._since: Final[dict[str, float]] = {}
        self._queue_of: Final[dict[str, QueueKey]] = {}
        self._by_queue: Final[dict[QueueKey, dict[str, None]]] = {}
        self._matches: Final[dict[Hashable, tuple[int, list[WaitingRow]]]] = {}
        self._lines: Final[dict[str, dict[str, int]]] = {}
        self._lines_at = -1
        self._positions = QueuePositions(views.quota.engine)

    def page(self, query: WaitingQuery, sees: Sees | None = None, viewer: Hashable = "") -> WaitingPage:
        self._update()
        is_all = sees is None and msgspec.structs.replace(query, offset=0, limit=0, kind="") == _ALL
        rows = [] if is_all else self._find(query, sees, viewer)
        total = len(self._order) if is_all else len(rows)
        limit = max(1, min(query.limit, _MAX_LIMIT))
        offset = max(0, min(query.offset, max(total - 1, 0)))
        end = offset + limit
        found = [self._row(key) for _, key in self._order[offset:end]] if is_all else rows[offset:end]
        return WaitingPage(total, offset, tuple(map(self.entry, found)))

    def entry(self, row: WaitingRow) -> WaitingEntry:
        self._update()
        why, sentence = self._reason(row)
        return WaitingEntry(row, self._position(row), why, sentence)

    def _update(self) -> None:
        """Applies the changes since the last call."""
        if self._lines_at != self._views.revision:
            self._lines.clear()
            self._positions = QueuePositions(self._views.quota.engine)
            self._lines_at = self._views.revision
        if self._seen == self._views.topic_revision("waiting"):
            return
        changes = self._views.changes_since("waiting", self._seen)
        if changes is None:
            self._order.clear()
            self._since.clear()
            self._queue_of.clear()
            self._by_queue.clear()
            upserts: Iterable[object] = self._views.rows("waiting")
            removed: tuple[str, ...] = ()
        else:
            upserts, removed = changes.upserts, changes.removed
        for key in removed:
            self._discard(key)
        for row in upserts:
            assert isinstance(row, WaitingRow)
            queue = row.queue, row.kind == "Workload"
            if self._since.get(row.key) != row.since_s or self._queue_of[row.key] != queue:
                self._discard(row.key)
                self._since[row.key] = row.since_s
                self._queue_of[row.key] = queue
                self._by_queue.setdefault(queue, {})[row.key] = None
                insort(self._order, (row.since_s, row.key))
        self._seen = self._views.topic_revision("waiting")

    def _discard(self, key: str) -> None:
        since_s = self._since.pop(key, None)
        if since_s is not None:
            del self._order[bisect_left(self._order, (since_s, key))]
            queue = self._queue_of.pop(key)
            del self._by_queue[queue][key]
            if not self._by_queue[queue]:
                del self._by_queue[queue]

    def _row(self, key: str) -> WaitingRow:
        row = self._views.row("waiting", key)
        assert isinstance(row, WaitingRow)
        return row

    def _find(self, query: WaitingQuery, sees: Sees | None, viewer: Hashable) -> list[WaitingRow]:
        criteria = (viewer, msgspec.structs.replace(query, offset=0, limit=0))
        # The order of a line changes with its queue.
        revision = self._views.revision if query.queue else self._seen
        known = self._matches.get(criteria)
        if known is not None and known[0] == revision:
            return known[1]
        words = query.search.lower().split()
        keys = (key for _, key in self._order)
        if query.queue:
            in_queue = self._by_queue.get((query.queue, query.kind == "ClusterQueue"), {})
            keys = (key for _, key in sorted((self._since[key], key) for key in in_queue))
        rows = [row for row in map(self._row, keys) if _matches(row, query, words) and (sees is None or sees(row))]
        if query.queue:
            rows.sort(key=self._line_order)
        self._matches.pop(criteria, None)
        while len(self._matches) >= _MAX_QUERIES:
            del self._matches[next(iter(self._matches))]
        self._matches[criteria] = revision, rows
        return rows

    def _line_order(self, row: WaitingRow) -> tuple[bool, int]:
        """Units without a position are behind the line."""
        position = self._position(row)
        return position is None, position or 0

    def _position(self, row: WaitingRow) -> int | None:
        if row.kind == "Workload":
            found = self._positions.position_of(f"{row.namespace}/{row.name}")
            return None if found is None else found[1]
        if not row.queue:
            return None
        if row.queue not in self._lines:
            line: dict[str, int] = {}
            engine = self._views.queues.engine
            # A queue that admits no pods has no line.
            for place, uid in enumerate(engine.line(row.queue) if engine.refusal(row.queue) is None else ()):
                line.setdefault(self._views.units.unit_of(uid), place)
            self._lines[row.queue] = line
        return self._lines[row.queue].get(row.key)

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
