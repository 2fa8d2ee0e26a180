"""The state machine of ``headgate top``: keys and rows go in, the lines of the screen come out.

Which key does what is in ``key_bindings.py``; what a view shows is in ``view_tables.py``; ``drawing.py`` makes lines of
the state. :meth:`TopScreen.press` returns what only the session can do (``io/session.py``): to quit, or to draw anew.
The session reads the details of the unit that :attr:`TopScreen.target` names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

import msgspec

from headgate.client.connection import Connection
from headgate.terminal.key_bindings import ACTIONS, LETTERS, NUMBERS, PREFIX, Action, Mode
from headgate.terminal.rates import Rates
from headgate.terminal.row_details import row_lines
from headgate.terminal.tables import TableLayout
from headgate.terminal.view_rows import Identity, RowSource, ViewRows, query_of
from headgate.terminal.view_tables import TABLES, VIEWS, ViewName
from headgate.views.cluster_views import ClusterViews
from headgate.views.rows import QueueRow, QuotaRow, Row, WaitingRow
from headgate.views.waiting_pages import WaitingPages, WaitingQuery

Effect = Literal["quit", "suspend", "redraw"]
TargetKind = Literal["pods", "workloads", "queue", "clusterqueue", "localqueue"]
_MAX_FILTER: Final = 100
_LAST: Final = 1 << 60
"""An index after all lines."""


class Target(msgspec.Struct, frozen=True):
    """An object to explain."""

    kind: TargetKind
    namespace: str
    name: str


class Place(msgspec.Struct):
    """Where the user is in a view. ``index``: of the selected line, which is ``selected`` if it is still there.
    ``first``: the first visible line. ``layout``: of the last picture."""

    sorted_by: int
    is_reversed: bool
    index: int = 0
    selected: Identity | None = None
    first: int = 0
    text: str = ""
    layout: TableLayout | None = None


class TopScreen:
    """``server``: as the title names it. ``remark``: a warning of the process, for the last line."""

    def __init__(self, server: str, view: ViewName = "overview") -> None:
        self.server: Final = server
        self.view: ViewName = view
        self.mode: Mode = "list"
        self.rows: Final = ViewRows()
        self.rates: Final = Rates()
        self.places: Final = {name: _first_place(name) for name in VIEWS}
        self.query: WaitingQuery | None = None
        self.is_paused = False
        self.is_complete = False
        self.connection = Connection()
        self.remark = ""
        self.target: Target | None = None
        self.detail: tuple[str, ...] = ()
        self.scrolled = 0  # in the details and in the help
        self.page = 10  # how many lines the last picture had room for
        self.text_lines = 0  # how many lines the text of the last picture had
        self._detail_row: Row | None = None
        self._prefix = ""
        self._listed_before: Mode = "list"
        self._perform: Final[dict[Action, Callable[[], Effect | None]]] = {
            "quit": lambda: "quit",
            "suspend": lambda: "suspend",
            "redraw": lambda: "redraw",
            "up": partial(self._move, -1),
            "down": partial(self._move, +1),
            "page_up": partial(self._move_page, -1),
            "page_down": partial(self._move_page, +1),
            "top": partial(self._move_to, 0),
            "bottom": partial(self._move_to, _LAST),
            "next_view": partial(self._turn, +1),
            "previous_view": partial(self._turn, -1),
            "open": self._open,
            "back": self._back,
            "line": self._show_line,
            "filter": partial(self._set_mode, "filter"),
            "apply_filter": partial(self._set_mode, "list"),
            "drop_filter": self._drop_filter,
            "delete": self._delete,
            "clear": partial(self._set_filter, ""),
            "sort_next": partial(self._sort, +1),
            "sort_previous": partial(self._sort, -1),
            "reverse": self._reverse,
            "pause": self._pause,
            "help": self._help,
        }

    @property
    def place(self) -> Place:
        return self.places[self.view]

    @property
    def source(self) -> RowSource:
        return self.rows.source(self.view, self.query)

    # -- events --------------------------------------------------------------------------------------------------------

    def press(self, key: str) -> Effect | None:
        """A key, by its name (``keys.py``)."""
        action = ACTIONS[self.mode].get(key)
        if self.mode == "filter":
            if action is None and len(key) == 1 and key.isprintable():
                self._set_filter((self.place.text + key)[:_MAX_FILTER])
        elif self._prefix:
            self._prefix = ""
            if key in LETTERS:
                self._show_view(LETTERS[key])
                return None
            if key == PREFIX:
                action = "top"
        elif key == PREFIX:
            self._prefix = PREFIX
            return None
        elif key in NUMBERS:
            self._show_view(NUMBERS[key])
            return None
        return None if action is None else self._perform[action]()

    def update(self, views: ClusterViews, pages: WaitingPages, epoch: str, is_complete: bool) -> bool:
        """The views have changed, or another one is shown. Returns whether the picture may have changed. While the
        screen is paused, rows stay as they are; those of a view that is shown for the first time are read."""
        if self.is_paused and self.is_complete and self.rows.has(self.view):
            return False
        was_complete, self.is_complete = self.is_complete, is_complete
        changed = self.rows.update(views, pages, epoch, self.view)
        return changed or was_complete != is_complete

    def sample(self, epoch: str, now_s: float, views: ClusterViews) -> None:
        """Once a second, for the rates."""
        if self.is_complete and not self.connection.problem:
            self.rates.sample(epoch, now_s, views.activity, self.rows.totals.waiting)
        else:
            self.rates.interrupt()

    def set_detail(self, target: Target, lines: list[str]) -> None:
        """The explanation of a target, when it has been read. One that the user has left is ignored."""
        if target == self.target and self.mode == "detail":
            self.detail = tuple(lines)

    def refresh_detail(self, now_s: float) -> None:
        """Rows that need no explanation show what they have now."""
        if self._detail_row is None or self.mode != "detail":
            return
        key = self._detail_row.key
        found = self.rows.lists[self.view].rows.get(key)
        gone = [] if found is not None else ["", "it is gone; this is what it had last"]
        self._detail_row = found or self._detail_row
        self.detail = (*row_lines(self._detail_row, now_s), *gone)

    # -- actions -------------------------------------------------------------------------------------------------------

    def _set_mode(self, mode: Mode) -> None:
        self.mode, self.scrolled = mode, 0

    def _show_view(self, view: ViewName) -> None:
        self.view = view
        self.query = None
        self._leave_detail()
        self._set_mode("list")

    def _leave_detail(self) -> None:
        self.target, self._detail_row, self.detail = None, None, ()

    def _turn(self, by: int) -> None:
        self._show_view(VIEWS[(VIEWS.index(self.view) + by) % len(VIEWS)])

    def _move_page(self, by: int) -> None:
        self._move(by * max(self.page - 1, 1))

    def _move(self, by: int) -> None:
        if self.mode == "list":
            self._move_to(self.place.index + by)
        else:
            self._move_to(self.scrolled + by)

    def _move_to(self, index: int) -> None:
        if self.mode != "list":
            self.scrolled = max(0, min(index, self.text_lines - self.page))
            return
        source = self.source
        place = self.place
        place.index = max(0, min(index, len(source) - 1))
        found = source.shown(place.index, place.index + 1)
        place.selected = found[0].identity if found else None

    def settle(self) -> tuple[int, int]:
        """Brings the selection and the visible part in line with the rows, which may have changed. Returns the index of
        the first visible line and the number of all lines."""
        source, place = self.source, self.place
        total = len(source)
        if place.selected is not None and place.index:
            index = source.index_of(place.selected, place.index)
            place.index = place.index if index is None else index
        place.index = max(0, min(place.index, total - 1))
        if place.index < place.first:
            place.first = place.index
        elif place.index >= place.first + self.page:
            place.first = place.index - self.page + 1
        place.first = max(0, min(place.first, total - self.page))
        return place.first, total

    def _selected_row(self) -> Row | None:
        self.settle()
        found = self.source.shown(self.place.index, self.place.index + 1)
        if not found:
            return None
        self.place.selected = found[0].identity
        row: Row = found[0].row
        return row

    def _open(self) -> None:
        row = self._selected_row()
        if row is None:
            return
        self._set_mode("detail")
        self.target = target_of(row)
        self._detail_row = row if self.target is None else None
        self.detail = () if self.target is None else ("reading …",)

    def _back(self) -> None:
        if self.mode == "help":
            self._set_mode(self._listed_before)
        elif self.mode == "detail":
            self._leave_detail()
            self._set_mode("list")
        elif self.place.text:
            self._set_filter("")
        elif self.query is not None:
            self.query = None
            self._forget_selection()

    def _show_line(self) -> None:
        row = self._selected_row()
        query = None if row is None else query_of(row)
        if query is None:
            return
        self.view, self.query = "waiting", query
        self._set_filter("")
        self._forget_selection()

    def _forget_selection(self) -> None:
        place = self.place
        place.index, place.first, place.selected, place.layout = 0, 0, None, None

    def _delete(self) -> None:
        self._set_filter(self.place.text[:-1])

    def _drop_filter(self) -> None:
        self._set_filter("")
        self._set_mode("list")

    def _set_filter(self, text: str) -> None:
        place = self.place
        place.text = text
        self.rows.lists[self.view].set_filter(text)
        if self.query is not None:
            self.query = msgspec.structs.replace(self.query, search=text)
        place.first = 0

    def _sort(self, step: int) -> None:
        if self.query is not None:
            return  # the order of a line is that of its queue
        columns = TABLES[self.view].columns
        sortable = [index for index, each in enumerate(columns) if each.sort is not None]
        chosen = sortable[(sortable.index(self.place.sorted_by) + step) % len(sortable)]
        self._order_by(chosen, is_reversed=columns[chosen].is_reversed)

    def _reverse(self) -> None:
        if self.query is None:
            self._order_by(self.place.sorted_by, is_reversed=not self.place.is_reversed)

    def _order_by(self, column: int, *, is_reversed: bool) -> None:
        sort = TABLES[self.view].columns[column].sort
        assert sort is not None
        self.place.sorted_by, self.place.is_reversed = column, is_reversed
        self.rows.lists[self.view].set_order(sort, is_reversed=is_reversed)

    def _pause(self) -> None:
        self.is_paused = not self.is_paused

    def _help(self) -> None:
        if self.mode != "help":
            self._listed_before = self.mode
            self._set_mode("help")


def target_of(row: Row) -> Target | None:
    """What explains the row; None for a row that says all that there is."""
    match row:
        case WaitingRow(kind="Workload"):
            return Target("workloads", row.namespace, row.name)
        case WaitingRow():
            return Target("pods", row.namespace, row.pod or row.name)
        case QueueRow():
            return Target("queue", "", row.key)
        case QuotaRow(kind="ClusterQueue"):
            return Target("clusterqueue", "", row.name)
        case QuotaRow(kind="LocalQueue"):
            return Target("localqueue", row.namespace, row.name)
    return None


def _first_place(view: ViewName) -> Place:
    table = TABLES[view]
    return Place(table.sorted_by, table.columns[table.sorted_by].is_reversed)
