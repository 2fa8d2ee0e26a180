"""The views of ``headgate top``: for each one its topics, its columns, and what a filter searches.

``top_screen.py`` shows one of them at a time. The cells of a row with several lines (the resources of a queue) are made
from an entry, which has the number of the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.timestamps import human_duration
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.terminal.bars import Part, bar
from headgate.terminal.listed_rows import Entry, ListedRows, ListedTree
from headgate.terminal.screen_text import Style
from headgate.terminal.tables import Cell, Column, Context, cell
from headgate.views.rows import (
    GateRow,
    NodeRow,
    OverviewRow,
    ProblemRow,
    QueueRow,
    QuotaRow,
    Topic,
    WaitingEntry,
    WaitingRow,
)

ViewName = Literal["overview", "waiting", "queues", "quota", "gates", "nodes", "problems"]
VIEWS: Final[tuple[ViewName, ...]] = ("overview", "waiting", "queues", "quota", "gates", "nodes", "problems")
INDENT: Final = "  "
_NONE: Final = "-"
C = TypeVar("C")


class ViewTable(msgspec.Struct, frozen=True):
    """``letter``: the key after ``g`` that shows the view, as on the page. ``needs``: the resources without whose lists
    the view is incomplete. ``sorted_by``: the column at the start. ``nothing``: what an empty list means."""

    name: ViewName
    title: str
    letter: str
    topic: Topic
    columns: tuple[Column[Any], ...]
    sorted_by: int
    make_list: Callable[[Callable[[Any], Any]], ListedRows[Any]]
    needs: tuple[APIResource, ...]
    nothing: str
    legend: tuple[tuple[str, Style], ...] = ()


def age(since_s: float, now_s: float) -> str:
    return human_duration(now_s - since_s) if since_s else _NONE


def _plain(title: str, make: Callable[[Any], str], least: int, most: int, rank: int = 0, **more: Any) -> Column[Any]:
    """A column that shows and sorts by the same text of a row."""
    return Column(title, lambda entry, _: cell(make(entry.row)), least, most, rank, make, **more)


def _number(
    title: str, count: Callable[[Any], int | None], least: int, rank: int, style: Style = "plain"
) -> Column[Any]:
    def make(entry: Any, _: Context) -> Cell:
        found = count(entry.row)
        return cell("?" if found is None else str(found), style if found else "muted")

    return Column(title, make, least, max(12, len(title) + 2), rank, lambda row: count(row) or 0, True, True)


# -- overview: one line for each namespace -----------------------------------------------------------------------------


def waiting_pods(row: OverviewRow) -> int:
    return row.gated + row.queued + row.without_node + row.unschedulable


_OVERVIEW: Final = (
    _plain("NAMESPACE", lambda row: row.key, 9, 40),
    _number("WAITING", waiting_pods, 7, 0, "waiting"),
    _number("GATED", lambda row: row.gated, 5, 3),
    _number("QUEUED", lambda row: row.queued, 6, 2),
    _number("NO NODE", lambda row: row.without_node + row.unschedulable, 7, 4),
    _number("RUNNING", lambda row: row.running, 7, 0, "good"),
    _number("ENDING", lambda row: row.terminating, 6, 7),
    _number("WORKLOADS PENDING", lambda row: row.pending, 17, 5, "waiting"),
    _number("WITH QUOTA", lambda row: row.admitted, 10, 6, "good"),
)

# -- waiting -----------------------------------------------------------------------------------------------------------

_STATE_STYLES: Final[dict[str, Style]] = {"unschedulable": "error", "gated": "warning", "checks": "good"}


def asks_of(row: WaitingRow) -> str:
    return ", ".join(f"{amount} {resource}" for resource, amount in row.asks.items()) or _NONE


def _place(entry: WaitingEntry, _: Context) -> Cell:
    return cell(
        _NONE if entry.position is None else str(entry.position + 1), "muted" if entry.position is None else "plain"
    )


_WAITING: Final[tuple[Column[WaitingEntry], ...]] = (
    Column("PLACE", _place, 5, 8, 1, None, True),
    Column("NAMESPACE", lambda entry, _: cell(entry.row.namespace), 9, 24, 5, lambda row: row.namespace),
    Column("NAME", lambda entry, _: cell(entry.row.name), 13, 48, 0, lambda row: row.name),
    Column("QUEUE", lambda entry, _: cell(entry.row.queue or _NONE), 7, 28, 3, lambda row: row.queue),
    Column("PODS", lambda entry, _: cell(str(entry.row.pods)), 4, 7, 6, lambda row: row.pods, True, True),
    Column("KIND", lambda entry, _: cell(entry.row.kind, "muted"), 8, 8, 9, lambda row: row.kind),
    Column("PRIORITY", lambda entry, _: cell(str(entry.row.priority)), 8, 12, 8, lambda row: row.priority, True, True),
    Column("ASKS", lambda entry, _: cell(asks_of(entry.row), "muted"), 16, 28, 7),
    Column("WAITS", lambda entry, ctx: cell(age(entry.row.since_s, ctx.now_s)), 7, 8, 2, lambda row: row.since_s, True),
    Column(
        "WHY",
        lambda entry, _: cell(entry.why, _STATE_STYLES.get(entry.row.state, "waiting")),
        9,
        26,
        0,
        lambda row: (row.state, row.reason),
    ),
    Column("IN WORDS", lambda entry, _: cell(entry.sentence), 32, 400, 4),
)


def _waiting_text(row: WaitingRow) -> str:
    return " ".join((row.namespace, row.name, row.kind, row.owner, row.queue, row.local_queue, row.state, *row.gates))


# -- queues ------------------------------------------------------------------------------------------------------------


def _first(make: Callable[[Any], Cell]) -> Callable[[Entry[Any], Context], Cell]:
    """A cell in the first line of a row only."""
    return lambda entry, _: make(entry.row) if entry.part == 0 else cell("")


def _in_tree(make: Callable[[Any], str]) -> Callable[[Entry[Any], Context], Cell]:
    def made(entry: Entry[Any], _: Context) -> Cell:
        return cell(INDENT * min(entry.depth, 12) + make(entry.row) if entry.part == 0 else "")

    return made


def _queue_state(row: QueueRow) -> Cell:
    state = row.state or "Open"
    return cell(state, "error" if row.refusal else "good" if state == "Open" else "warning")


def _of_resource(make: Callable[[Any, Context], Cell]) -> Callable[[Entry[Any], Context], Cell]:
    """A cell about the resource of the line."""

    def made(entry: Entry[Any], ctx: Context) -> Cell:
        resources = entry.row.resources
        return make(resources[entry.part], ctx) if entry.part < len(resources) else cell("")

    return made


def _bar_cell(limit: int | None, parts: tuple[Part, ...], ctx: Context) -> Cell:
    if limit is None:
        return cell("")
    spans = bar(limit, parts, ctx.bar, ctx.glyphs)
    return Cell("".join(span.text for span in spans), "plain", spans)


def _queue_use(entry: Entry[QueueRow], _: Context) -> Cell:
    row = entry.row
    if entry.part < len(row.resources):
        text = row.resources[entry.part].text
        return cell(f"{text}; {row.refusal}" if row.refusal and entry.part == 0 else text)
    return cell(row.refusal or "no pod uses it", "error" if row.refusal else "muted")


_QUEUES: Final[tuple[Column[Any], ...]] = (
    Column("QUEUE", _in_tree(lambda row: str(row.key)), 10, 44, 0, lambda row: row.key),
    Column("STATE", _first(_queue_state), 7, 9, 4, lambda row: row.state),
    Column(
        "WAITING",
        _first(lambda row: cell(str(row.waiting), "waiting" if row.waiting else "muted")),
        7,
        9,
        3,
        lambda row: row.waiting,
        True,
        True,
    ),
    Column("SHARE", _first(lambda row: cell(f"{row.share:.2f}")), 6, 8, 5, lambda row: row.share, True, True),
    Column("RESOURCE", _of_resource(lambda each, _: cell(each.resource)), 6, 26, 2),
    Column(
        "USE",
        _of_resource(
            lambda each, ctx: _bar_cell(
                each.limit, (("used", each.used), ("reserved", each.reserved), ("waiting", each.waiting)), ctx
            )
        ),
        8,
        24,
        1,
    ),
    Column("IN WORDS", _queue_use, 10, 300, 0),
)

# -- quota -------------------------------------------------------------------------------------------------------------

_KIND_ORDER: Final = {"Cohort": 0, "ClusterQueue": 1, "LocalQueue": 2}


def _quota_name(row: QuotaRow) -> str:
    return f"{row.namespace}/{row.name}" if row.namespace else row.name


def _quota_state(row: QuotaRow) -> Cell:
    if row.kind == "Cohort":
        return cell("")
    return cell("active", "good") if row.active else cell("stopped", "error")


def _pending(row: QuotaRow) -> Cell:
    return cell("" if row.kind == "Cohort" else str(row.pending), "waiting" if row.pending else "muted")


def _quota_use(entry: Entry[QuotaRow], _: Context) -> Cell:
    row = entry.row
    if entry.part < len(row.resources):
        text = row.resources[entry.part].text
        return cell(f"{text}; {row.reason}" if row.reason and entry.part == 0 else text)
    words = f"{row.reserving + row.admitted} with quota" if row.kind == "LocalQueue" else "no quota"
    return cell(row.reason or words, "error" if row.reason else "muted")


_QUOTA: Final[tuple[Column[Any], ...]] = (
    Column("NAME", _in_tree(_quota_name), 10, 44, 0, lambda row: (_KIND_ORDER[row.kind], row.namespace, row.name)),
    Column("KIND", _first(lambda row: cell(row.kind, "muted")), 12, 12, 6, lambda row: row.kind),
    Column("STATE", _first(_quota_state), 7, 7, 4, lambda row: row.active),
    Column("PENDING", _first(_pending), 7, 9, 3, lambda row: row.pending, True, True),
    Column("FLAVOR", _of_resource(lambda each, _: cell(each.flavor)), 6, 24, 5),
    Column("RESOURCE", _of_resource(lambda each, _: cell(each.resource)), 6, 26, 2),
    Column(
        "USE",
        _of_resource(
            lambda each, ctx: _bar_cell(
                max(each.nominal, each.used), (("used", each.used - each.borrowed), ("reserved", each.borrowed)), ctx
            )
        ),
        8,
        24,
        1,
    ),
    Column("IN WORDS", _quota_use, 10, 300, 0),
)

# -- gates, nodes, problems --------------------------------------------------------------------------------------------


def _oldest(entry: Entry[GateRow], ctx: Context) -> Cell:
    return cell(age(entry.row.since_s, ctx.now_s))


_GATES: Final[tuple[Column[Any], ...]] = (
    _plain("GATE", lambda row: row.gate, 14, 60),
    _plain("NAMESPACE", lambda row: row.namespace, 9, 30, 2),
    _number("PODS", lambda row: row.pods, 6, 0, "waiting"),
    Column("OLDEST", _oldest, 6, 8, 1, lambda row: row.since_s, True),
    _plain("OLDEST POD", lambda row: row.oldest, 10, 40, 5),
    _plain("HEALTH", lambda row: row.health or _NONE, 8, 20, 4),
    _plain("REMOVED BY", lambda row: row.owner or "not known: no GatePolicy names it", 12, 200, 3),
)


def node_state(row: NodeRow) -> str:
    return "not ready" if not row.ready else "ready" if row.schedulable else "cordoned"


def _node_state(entry: Entry[NodeRow], _: Context) -> Cell:
    state = node_state(entry.row)
    return cell(state, "error" if state == "not ready" else "good" if state == "ready" else "warning")


def _node_bar(entry: Entry[NodeRow], ctx: Context) -> Cell:
    return _bar_cell(10_000, (("used", round(entry.row.share * 10_000)),), ctx)


def _requested(entry: Entry[NodeRow], _: Context) -> Cell:
    return cell("; ".join(f"{each.resource} {each.text}" for each in entry.row.resources if each.requested) or _NONE)


_NODES: Final[tuple[Column[Any], ...]] = (
    _plain("NODE", lambda row: row.key, 10, 60),
    _plain("GROUP", lambda row: row.group or _NONE, 8, 30, 5),
    Column("STATE", _node_state, 9, 9, 2, node_state),
    _number("PODS", lambda row: row.pods, 5, 3),
    Column("USE", _node_bar, 8, 24, 1),
    Column(
        "FULLEST",
        lambda entry, _: cell(f"{entry.row.share:.0%} {entry.row.dominant}"),
        10,
        30,
        0,
        lambda row: row.share,
        is_reversed=True,
    ),
    Column("REQUESTED", _requested, 16, 300, 4),
)
_PROBLEMS: Final[tuple[Column[Any], ...]] = (
    Column(
        "SEVERITY",
        lambda entry, _: cell(entry.row.severity, "error" if entry.row.severity == "error" else "warning"),
        10,
        10,
        3,
        lambda row: row.severity,
    ),
    _plain("OBJECT", lambda row: row.subject, 12, 44),
    _plain("NAMESPACE", lambda row: row.namespace, 9, 24, 4),
    _plain("WHAT IS WRONG", lambda row: row.text, 12, 400),
)


def _problem_text(row: ProblemRow) -> str:
    return " ".join((row.severity, row.kind, row.subject, row.namespace, row.text))


_QUOTA_KINDS: Final = (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS)
_UNITS: Final = (PODS, POD_GROUPS, WORKLOADS)
_OF_QUEUE: Final[tuple[tuple[str, Style], ...]] = (("used", "used"), ("reserved", "reserved"), ("waiting", "waiting"))
_OF_QUOTA: Final[tuple[tuple[str, Style], ...]] = (("used", "used"), ("borrowed", "reserved"))
TABLES: Final[dict[ViewName, ViewTable]] = {
    each.name: each
    for each in (
        ViewTable(
            "overview",
            "Overview",
            "o",
            "overview",
            _OVERVIEW,
            1,
            lambda sort: ListedRows(lambda row: str(row.key), sort),
            (PODS, WORKLOADS, NODES),
            "no namespace has pods or Workloads",
        ),
        ViewTable(
            "waiting",
            "Waiting",
            "w",
            "waiting",
            _WAITING,
            8,
            lambda sort: ListedRows(_waiting_text, sort),
            _UNITS,
            "nothing waits",
        ),
        ViewTable(
            "queues",
            "Queues",
            "q",
            "queues",
            _QUEUES,
            0,
            lambda sort: ListedTree(
                lambda row: f"{row.key} {row.state}", sort, lambda row: str(row.parent), lambda row: len(row.resources)
            ),
            (QUEUES, PODS),
            "there are no Queues of Volcano's kind",
            _OF_QUEUE,
        ),
        ViewTable(
            "quota",
            "Quota",
            "c",
            "cluster-queues",
            _QUOTA,
            0,
            lambda sort: ListedTree(
                lambda row: f"{row.kind} {_quota_name(row)}",
                sort,
                lambda row: str(row.parent),
                lambda row: len(row.resources),
            ),
            _QUOTA_KINDS,
            "there are no ClusterQueues, Cohorts or LocalQueues",
            _OF_QUOTA,
        ),
        ViewTable(
            "gates",
            "Gates",
            "t",
            "gates",
            _GATES,
            2,
            lambda sort: ListedRows(lambda row: f"{row.gate} {row.namespace} {row.owner} {row.health}", sort),
            (PODS, GATE_POLICIES),
            "no gate holds a pod",
        ),
        ViewTable(
            "nodes",
            "Nodes",
            "n",
            "nodes",
            _NODES,
            0,
            lambda sort: ListedRows(lambda row: f"{row.key} {row.group} {node_state(row)}", sort),
            (NODES, PODS),
            "there are no nodes",
        ),
        ViewTable(
            "problems",
            "Problems",
            "p",
            "problems",
            _PROBLEMS,
            0,
            lambda sort: ListedRows(_problem_text, sort),
            (),
            "nothing is known to be wrong",
        ),
    )
}
