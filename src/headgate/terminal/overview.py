"""The lines above the table of the overview: counts, rates, how full the nodes are, and what is wrong.

The sums over all namespaces and nodes are kept up to date by changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from headgate.kube.resource_amounts import amount_text
from headgate.terminal.bars import Glyphs, bar, sparkline
from headgate.terminal.cells import cell_text, fit, width
from headgate.terminal.rates import Rates
from headgate.terminal.screen_text import ScreenLine, Span, Style
from headgate.views.rows import NodeRow, OverviewRow, ProblemRow

_ALWAYS: Final = ("cpu", "memory")
"""Other resources are shown when a pod requests them."""
_MAX_RESOURCES: Final = 5
_MAX_PROBLEMS: Final = 3
_LABEL: Final = 18
_RATES: Final = (
    ("created", "pods created"),
    ("admitted", "pods admitted"),
    ("bound", "pods bound"),
    ("workloads", "Workloads admitted"),
)
_COUNTS: Final[tuple[tuple[str, str, Style], ...]] = (
    ("queued", "for a queue", "waiting"),
    ("gated", "behind other gates", "warning"),
    ("without_node", "for a node", "waiting"),
    ("unschedulable", "that no node fits", "error"),
)


class Totals:
    """Sums over namespaces and nodes."""

    def __init__(self) -> None:
        self.pods: Final[Counter[str]] = Counter()
        self.allocatable: Final[Counter[str]] = Counter()
        self.requested: Final[Counter[str]] = Counter()
        self.nodes = 0
        self.nodes_not_ready = 0

    @property
    def waiting(self) -> int:
        return sum(self.pods[name] for name, _, _ in _COUNTS)

    def clear_namespaces(self) -> None:
        self.pods.clear()

    def clear_nodes(self) -> None:
        self.allocatable.clear()
        self.requested.clear()
        self.nodes = self.nodes_not_ready = 0

    def namespace_changed(self, before: OverviewRow | None, after: OverviewRow | None) -> None:
        for row, sign in ((before, -1), (after, +1)):
            if row is not None:
                for name in (*(each for each, _, _ in _COUNTS), "running", "terminating", "pending", "admitted"):
                    self.pods[name] += sign * (getattr(row, name) or 0)

    def node_changed(self, before: NodeRow | None, after: NodeRow | None) -> None:
        for row, sign in ((before, -1), (after, +1)):
            if row is not None:
                self.nodes += sign
                self.nodes_not_ready += 0 if row.ready else sign
                for each in row.resources:
                    self.allocatable[each.resource] += sign * each.allocatable
                    self.requested[each.resource] += sign * each.requested


def summary_lines(
    totals: Totals,
    rates: Rates | None,
    problems: Iterable[ProblemRow],
    problem_count: int,
    columns: int,
    glyphs: Glyphs,
) -> Iterator[ScreenLine]:
    """``rates``: None for a single picture. ``problems``: the first ones."""
    yield _counts_line(totals)
    workloads = totals.pods["pending"], totals.pods["admitted"]
    if any(workloads):
        yield _labelled("Workloads", Span(f"{workloads[0]} pending, {workloads[1]} with quota"))
    if rates is not None:
        yield from _rate_lines(totals, rates, columns, glyphs)
    yield from _node_lines(totals, columns, glyphs)
    yield from _problem_lines(problems, problem_count)


def _labelled(label: str, *spans: Span) -> ScreenLine:
    return ScreenLine((Span(fit(label, _LABEL), "heading"), Span(" "), *spans))


def _counts_line(totals: Totals) -> ScreenLine:
    spans = [Span(f"{totals.waiting} waiting", "waiting" if totals.waiting else "good")]
    parts = [(f"{totals.pods[name]} {text}", style) for name, text, style in _COUNTS if totals.pods[name]]
    for index, (text, style) in enumerate(parts):
        spans += [Span(": " if index == 0 else ", "), Span(text, style)]
    spans.append(Span(f"; {totals.pods['running']} running"))
    if totals.pods["terminating"]:
        spans.append(Span(f", {totals.pods['terminating']} terminating"))
    return _labelled("Pods", *spans)


def _rate_lines(totals: Totals, rates: Rates, columns: int, glyphs: Glyphs) -> Iterator[ScreenLine]:
    """Two rates in a line where there is room."""
    shown = [("waiting", f"{totals.waiting:>8}", list(rates.waiting))]
    for name, label in _RATES:
        latest = rates.latest(name)
        if name == "workloads" and not any(rates.history[name]):
            continue
        text = "" if latest is None else f"{latest:.1f}/s"
        shown.append((label, f"{text:>8}", list(rates.history[name])))
    per_line = 2 if columns >= 90 else 1
    room = max((columns - per_line * (_LABEL + 13)) // per_line, 4)
    for start in range(0, len(shown), per_line):
        spans: list[Span] = []
        for label, text, history in shown[start : start + per_line]:
            spans += [Span("  " if spans else ""), Span(fit(label, _LABEL), "heading"), Span(f" {text} ")]
            spans.append(Span(sparkline(history, min(room, 60), glyphs), "waiting" if label == "waiting" else "used"))
        yield ScreenLine(tuple(spans))


def _node_lines(totals: Totals, columns: int, glyphs: Glyphs) -> Iterator[ScreenLine]:
    names = [name for name in sorted(totals.allocatable) if totals.allocatable[name]]
    names = [name for name in names if name in _ALWAYS or (totals.requested[name] and name != "pods")]
    ready = f"{totals.nodes - totals.nodes_not_ready} of {totals.nodes} ready"
    yield _labelled("Nodes", Span(ready, "error" if totals.nodes_not_ready else "good"))
    for name in names[:_MAX_RESOURCES]:
        requested, allocatable = totals.requested[name], totals.allocatable[name]
        spans = bar(allocatable, (("used", requested),), 10 if columns < 70 else 24, glyphs)
        text = f" {requested / allocatable:.0%}, {amount_text(name, requested)} of {amount_text(name, allocatable)}"
        yield _labelled(f"  {cell_text(name)}", *spans, Span(text))
    if len(names) > _MAX_RESOURCES:
        yield _labelled("", Span(f"and {len(names) - _MAX_RESOURCES} more resources", "muted"))


def _problem_lines(problems: Iterable[ProblemRow], count: int) -> Iterator[ScreenLine]:
    if not count:
        yield _labelled("Problems", Span("none is known", "good"))
        return
    shown = list(problems)[:_MAX_PROBLEMS]
    for index, row in enumerate(shown):
        style: Style = "error" if row.severity == "error" else "warning"
        label = f"Problems ({count})" if index == 0 else ""
        yield _labelled(label, Span(cell_text(row.subject), style), Span(f": {cell_text(row.text)}"))


def table_room(lines: list[ScreenLine], rows: int) -> list[ScreenLine]:
    """The first lines, so that the table below has some rows."""
    return lines[: max(rows - 5, 0)]


def right_aligned(left: ScreenLine, right: ScreenLine, columns: int) -> ScreenLine:
    """Both in one line, the right one in full."""
    room = max(columns - width(right.text) - 1, 0)
    shown = left.fitted(room)
    return ScreenLine(
        (*shown.spans, Span(" " * (columns - width(shown.text) - width(right.text))), *right.spans)
    ).fitted(columns)
