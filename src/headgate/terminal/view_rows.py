"""The rows of all views of the screen, brought up to date with the views of the cluster.

The rows of a view are read when it is shown first, and its changes while it is shown; those of the overview, nodes
and the problems always, for the counts. Positions and reasons of waiting units are asked for the visible ones only
(``views/waiting_pages.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from headgate.client.permissions import describe_permission
from headgate.terminal.listed_rows import ListedRows
from headgate.terminal.overview import Totals
from headgate.terminal.view_tables import TABLES, VIEWS, ViewName
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import (
    GateRow,
    NodeRow,
    OverviewRow,
    ProblemRow,
    QueueRow,
    QuotaRow,
    Row,
    Topic,
    WaitingEntry,
    WaitingRow,
)
from headgate.views.waiting_pages import WaitingPages, WaitingQuery

Identity = tuple[str, int]
_ALWAYS: Final[tuple[ViewName, ...]] = ("overview", "nodes", "problems")
_NEAR: Final = 200
"""A unit in a line is looked for among so many before and after its last place."""
_MISSING_RIGHT: Final = "MissingRight"


class Shown(NamedTuple):
    """A line of a table. ``value``: what its columns take."""

    identity: Identity
    row: Any
    value: Any


class RowSource(Protocol):
    def __len__(self) -> int: ...

    def shown(self, start: int, end: int) -> list[Shown]: ...

    def index_of(self, identity: Identity, near: int) -> int | None: ...


class ListSource:
    """A list. ``pages``: for units, whose columns show more than their row."""

    def __init__(self, listed: ListedRows[Any], pages: WaitingPages | None = None) -> None:
        self._listed: Final = listed
        self._pages: Final = pages

    def __len__(self) -> int:
        return len(self._listed)

    def shown(self, start: int, end: int) -> list[Shown]:
        found = self._listed.entries(start, end)
        if self._pages is None:
            return [Shown(each.identity, each.row, each) for each in found]
        return [Shown(each.identity, each.row, self._pages.entry(each.row)) for each in found]

    def index_of(self, identity: Identity, near: int) -> int | None:
        return self._listed.index_of(identity)


class LineSource:
    """The units of a query, such as the line of a queue, in its order."""

    def __init__(self, pages: WaitingPages, query: WaitingQuery) -> None:
        self._pages: Final = pages
        self._query: Final = query

    def __len__(self) -> int:
        return self._pages.page(msgspec.structs.replace(self._query, limit=1)).total

    def shown(self, start: int, end: int) -> list[Shown]:
        count = max(end - start, 0)
        if not count:
            return []
        page = self._pages.page(msgspec.structs.replace(self._query, offset=start, limit=count))
        entries: Sequence[WaitingEntry] = page.entries if page.offset == start else ()
        return [Shown((each.row.key, 0), each.row, each) for each in entries]

    def index_of(self, identity: Identity, near: int) -> int | None:
        start = max(near - _NEAR, 0)
        for offset, each in enumerate(self.shown(start, start + 2 * _NEAR)):
            if each.identity == identity:
                return start + offset
        return None


class ViewRows:
    def __init__(self) -> None:
        self.lists: Final[dict[ViewName, ListedRows[Any]]] = {}
        self.totals: Final = Totals()
        self.counts: Final[dict[ViewName, int]] = dict.fromkeys(VIEWS, 0)
        self.pages: WaitingPages | None = None
        self._known: Final[dict[ViewName, int]] = {}
        self._epoch = ""
        for name, table in TABLES.items():
            column = table.columns[table.sorted_by]
            assert column.sort is not None
            self.lists[name] = table.make_list(column.sort)
            self.lists[name].set_order(column.sort, is_reversed=column.is_reversed)

    def has(self, view: ViewName) -> bool:
        """Whether the rows of the view have been read."""
        return view in self._known

    def update(self, views: ClusterViews, pages: WaitingPages, epoch: str, view: ViewName) -> bool:
        """Applies the changes since the last call. Returns whether any row that is shown, or a count, changed."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._known.clear()
        self.pages = pages
        changed = False
        for name in dict.fromkeys((*_ALWAYS, view)):
            changed |= self._update_list(views, name, TABLES[name].topic)
        for name in VIEWS:
            count = views.count(TABLES[name].topic)
            changed |= self.counts[name] != count
            self.counts[name] = count
        return changed

    def _update_list(self, views: ClusterViews, name: ViewName, topic: Topic) -> bool:
        known = self._known.get(name)
        if known is not None and views.topic_revision(topic) <= known:
            return False
        self._known[name] = views.revision
        listed = self.lists[name]
        changes = None if known is None else views.changes_since(topic, known)
        if changes is None:
            if name == "overview":
                self.totals.clear_namespaces()
            elif name == "nodes":
                self.totals.clear_nodes()
            rows = views.rows(topic)
            listed.replace(rows)
            for row in rows:
                self._count(None, row)
            return True
        for key in changes.removed:
            before = listed.rows.get(key)
            listed.remove(key)
            if before is not None:
                self._count(before, None)
        for row in changes.upserts:
            before = listed.rows.get(row.key)
            listed.put(row)
            self._count(before, row)
        return True

    def _count(self, before: Any, after: Any) -> None:
        kind = type(after if after is not None else before)
        if kind is OverviewRow:
            self.totals.namespace_changed(before, after)
        elif kind is NodeRow:
            self.totals.node_changed(before, after)

    def source(self, view: ViewName, query: WaitingQuery | None) -> RowSource:
        """``query``: restricts the units that wait."""
        if view != "waiting" or self.pages is None:
            return ListSource(self.lists[view])
        return ListSource(self.lists[view], self.pages) if query is None else LineSource(self.pages, query)

    def first_problems(self, count: int) -> list[ProblemRow]:
        return [each.row for each in self.lists["problems"].entries(0, count)]

    def missing_rights(self, view: ViewName) -> list[str]:
        """What could not be read of what the view shows."""
        wanted = {describe_permission("list", each) for each in TABLES[view].needs}
        rows = self.lists["problems"].rows.values()
        return [
            row.text
            for row in rows
            if row.kind == _MISSING_RIGHT and (not wanted or any(row.text.endswith(each) for each in wanted))
        ]


def query_of(row: Row, search: str = "") -> WaitingQuery | None:
    """The units that belong to a row: the line of a queue, or those of a namespace or behind a gate."""
    match row:
        case QueueRow():
            return WaitingQuery(queue=row.key, kind="Queue", search=search)
        case QuotaRow(kind="ClusterQueue"):
            return WaitingQuery(queue=row.name, kind="ClusterQueue", search=search)
        case OverviewRow():
            return WaitingQuery(namespace=row.key, search=search)
        case GateRow():
            return WaitingQuery(gate=row.gate, namespace=row.namespace, search=search)
        case WaitingRow() if row.queue:
            kind = "ClusterQueue" if row.kind == "Workload" else "Queue"
            return WaitingQuery(queue=row.queue, kind=kind, search=search)
    return None


def query_text(query: WaitingQuery) -> str:
    named = ((query.kind, query.queue), ("gate", query.gate), ("namespace", query.namespace))
    return ", ".join(f"{label} {value}" for label, value in named if value)
