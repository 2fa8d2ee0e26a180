"""The report of a simulation: one HTML file with tables and plots, without scripts and without other files.

The first screen is the verdict in words and the table of metrics; plots and tables by queue and class follow. A strict
content security policy allows nothing but the style of the page itself, by its hash. All names are escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import msgspec

from headgate.simulate.comparison import MIN_SEEDS, FigureComparison, VariantResult, number_text, verdict_text
from headgate.simulate.simulation_result import FIGURES, Figure, SimulationResult
from headgate.simulate.statistics import Interval, Percentiles
from headgate.simulate.svg import Plot, Series, axis_for, duration_text

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}
.verdict{font-size:1.1rem;border-left:4px solid #0072B2;padding:.4rem .8rem;background:var(--soft)}
td span{display:inline-block;min-width:6.5rem;opacity:.75;font-size:.9rem}
.better{color:#009E73}.worse{color:#D55E00}.note{opacity:.75;font-size:.9rem}
svg{width:100%;height:auto;font:11px system-ui,sans-serif}
svg text{fill:currentColor}svg .grid{stroke:var(--line);fill:none}svg .axis{stroke:currentColor;fill:none}
svg .h{fill-opacity:0;pointer-events:all}svg .t{visibility:hidden}svg .c:hover .t{visibility:visible}
svg .cursor{stroke:currentColor;fill:none}svg .tip{font-weight:600;paint-order:stroke;stroke:Canvas;stroke-width:4px}
details{margin:.4rem 0}summary{cursor:pointer}
@media print{details{display:block}svg .t{display:none}}
"""
_MAX_QUEUES: Final = 7
_MAX_ROWS: Final = 200
_TIMELINE_ROWS: Final = 48


class ReportHeader(msgspec.Struct, frozen=True, rename="camel"):
    """Where a result comes from. ``inputs``: the SHA-256 digests of the input files, by name. ``remarks``: what a
    recording does not say, and what is assumed instead."""

    command: str
    version: str
    inputs: Mapping[str, str]
    seeds: tuple[int, ...]
    remarks: tuple[str, ...] = ()


def content_security_policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def report_html(
    header: ReportHeader,
    variants: Sequence[VariantResult],
    compared: Mapping[str, Mapping[str, FigureComparison]],
) -> str:
    first = [each.results[0] for each in variants]
    title = "Simulation" if len(variants) == 1 else f"Simulation: {' and '.join(each.name for each in variants)}"
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(content_security_policy())}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict">{escape(verdict_text(variants, compared))}</p>',
        _seeds_note(header),
        _figure_table(variants, compared),
        *_problems(header, variants),
        "<h2>Waiting time</h2>",
        _waiting_plot(variants, first),
        _by_group("queue", variants, first, lambda each: each.waiting.queues),
        _by_group("class", variants, first, lambda each: each.waiting.classes),
        "<h2>Timeline</h2>",
        '<p class="note">The timeline shows the first seed only. Move the pointer over a plot to read the values of a '
        "moment.</p>",
        *(_use_plot(each.name, result) for each, result in zip(variants, first, strict=True)),
        _waiting_jobs_plot(variants, first),
        _nodes_plot(variants, first),
        _timeline_table(variants, first),
        "<h2>Nodes</h2>",
        _machines_plot(variants, first),
        _machine_table(variants, first),
        "<h2>By queue and class</h2>",
        *(_group_tables(each.name, result) for each, result in zip(variants, first, strict=True)),
        "<h2>Input</h2>",
        _header_table(header),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _seeds_note(header: ReportHeader) -> str:
    count = len(header.seeds)
    if count == 1:
        text = "One seed: there is no confidence interval. Give --seeds 10 or more to compare variants."
    else:
        text = f"Means over {count} seeds with 95 % confidence intervals (Student's t; differences are paired by seed)."
        if count < MIN_SEEDS:
            text += f" {count} seeds are few: at least {MIN_SEEDS} are recommended."
    return f'<p class="note">{escape(text)}</p>'


def _figure_table(variants: Sequence[VariantResult], compared: Mapping[str, Mapping[str, FigureComparison]]) -> str:
    heads = "".join(f"<th>{escape(each.name)}</th>" for each in variants)
    heads += "".join(f"<th>{escape(each.name)} − {escape(variants[0].name)}</th>" for each in variants[1:])
    rows = []
    for figure in FIGURES:
        cells = "".join(f"<td>{_interval(compared[each.name][figure.name].value, figure)}</td>" for each in variants)
        for each in variants[1:]:
            found = compared[each.name][figure.name]
            assert found.difference is not None
            shown = _interval(found.difference, figure, signed=True)
            cells += f'<td class="{found.verdict.replace(" ", "-")}">{shown} <span>{escape(found.verdict)}</span></td>'
        rows.append(f"<tr><td>{escape(figure.name)}</td>{cells}</tr>")
    return f"<table><thead><tr><th>metric</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _interval(value: Interval, figure: Figure, *, signed: bool = False) -> str:
    sign = "+" if signed and value.mean > 0 else ""
    text = f"{sign}{number_text(value.mean, figure.unit)}"
    if value.seeds > 1:
        text += f" [{number_text(value.low, figure.unit)}, {number_text(value.high, figure.unit)}]"
    return escape(text)


def _problems(header: ReportHeader, variants: Sequence[VariantResult]) -> list[str]:
    found = list(header.remarks)
    for each in variants:
        result = each.results[0]
        left = result.jobs.submitted - result.jobs.ended
        if left:
            found.append(
                f"{each.name}: {left} of {result.jobs.submitted} jobs had not ended at the end of the simulation"
            )
        found += [f"{each.name}: {problem}" for problem in result.problems[:20]]
    if not found:
        return []
    return ["<h2>Remarks</h2><ul>", *(f"<li>{escape(each)}</li>" for each in found), "</ul>"]


def _waiting_plot(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    curves = []
    for number, (variant, result) in enumerate(zip(variants, results, strict=True)):
        count = max(len(result.waiting_curve), 1)
        points = [(max(wait, 0.1), 100 * (step + 1) / count) for step, wait in enumerate(result.waiting_curve)]
        curves.append((points or [(0.1, 0.0)], variant.name, number))
    plot = Plot(
        "Share of jobs by waiting time",
        axis_for(
            "waiting time until all pods of the job have a node", [x for each in curves for x, _ in each[0]], "log", 0.1
        ),
        axis_for("% of the jobs", [0.0, 100.0]),
    )
    plot.curves(curves)
    return plot.text()


def _by_group(
    what: str,
    variants: Sequence[VariantResult],
    results: Sequence[SimulationResult],
    read: Callable[[SimulationResult], Mapping[str, Percentiles]],
) -> str:
    groups = [read(each) for each in results]
    names = sorted({name for each in groups for name in each})
    if len(names) < 2:
        return ""
    rows = [(name, [each[name].p90 if name in each else 0.0 for each in groups]) for name in names]
    plot = Plot(
        f"90th percentile of the waiting time by {what}",
        axis_for("", [0.0, float(len(rows))]),
        axis_for(f"p90 by {what}", [0.0, *(value for _, values in rows for value in values)], "time"),
    )
    plot.bars(rows, list(range(len(results))))
    plot.legend((each.name, number) for number, each in enumerate(variants))
    return plot.text()


def _use_plot(name: str, result: SimulationResult) -> str:
    timeline = result.timeline
    order = sorted(timeline.queues, key=lambda each: (-sum(timeline.queues[each]), each))
    shown, others = order[:_MAX_QUEUES], order[_MAX_QUEUES:]
    scale = 1000.0 if timeline.resource == "cpu" else 1.0
    series = [
        Series(each or "(no queue)", [value / scale for value in timeline.queues[each]], number)
        for number, each in enumerate(shown)
    ]
    if others:
        rest = [sum(timeline.queues[each][index] for each in others) / scale for index in range(len(timeline.at_s))]
        series.append(Series(f"{len(others)} other queues", rest, _MAX_QUEUES))
    capacity = [value / scale for value in timeline.capacity]
    plot = Plot(
        f"Allocated {timeline.resource} by queue: {name}",
        axis_for("time", timeline.at_s, "time", 0.0),
        axis_for(f"{timeline.resource}: {name}"[:44], [0.0, *capacity]),
    )
    plot.areas(timeline.at_s, series)
    plot.lines(timeline.at_s, [Series("capacity", capacity, 7)], steps=True)

    def describe(index: int) -> list[str]:
        head = (
            f"{duration_text(timeline.at_s[index])}: {timeline.waiting_jobs[index]} jobs wait, "
            f"{timeline.running_pods[index]} pods run, {timeline.nodes[index]} nodes"
        )
        return [head, *(f"{each.name}: {each.values[index]:,.4g}" for each in series if each.values[index])]

    plot.tooltips(timeline.at_s, describe)
    return plot.text()


def _waiting_jobs_plot(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    counts = [each.timeline.waiting_jobs for each in results]
    return _counts_plot("Jobs that wait", "jobs that wait", variants, results, counts)


def _nodes_plot(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    return _counts_plot("Nodes", "nodes", variants, results, [each.timeline.nodes for each in results])


def _counts_plot(
    title: str,
    label: str,
    variants: Sequence[VariantResult],
    results: Sequence[SimulationResult],
    counts: Sequence[Sequence[int]],
) -> str:
    """``counts``: one sequence for each variant, over the times of its timeline."""
    plot = Plot(
        title,
        axis_for("time", [at for each in results for at in each.timeline.at_s], "time", 0.0),
        axis_for(label, [0.0, *(float(count) for each in counts for count in each)]),
    )
    plot.curves(
        (list(zip(result.timeline.at_s, map(float, each), strict=True)), variant.name, number)
        for number, (variant, result, each) in enumerate(zip(variants, results, counts, strict=True))
    )
    return plot.text()


def _timeline_table(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    tables = []
    for variant, result in zip(variants, results, strict=True):
        timeline = result.timeline
        step = max(1, -(-len(timeline.at_s) // _TIMELINE_ROWS))
        rows = "".join(
            f"<tr><td>{escape(duration_text(timeline.at_s[index]))}</td><td>{timeline.waiting_jobs[index]}</td>"
            f"<td>{timeline.running_pods[index]}</td><td>{timeline.nodes[index]}</td>"
            f"<td>{timeline.fragmentation[index]:.1%}</td></tr>"
            for index in range(0, len(timeline.at_s), step)
        )
        tables.append(
            f"<details><summary>The timeline of {escape(variant.name)} as a table</summary><table><thead><tr>"
            f"<th>time</th><th>jobs that wait</th><th>pods that run</th><th>nodes</th><th>fragmentation</th></tr>"
            f"</thead><tbody>{rows}</tbody></table></details>"
        )
    return "".join(tables)


def _machines_plot(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    rows = [
        (variant.name, [each.machines.node_hours - each.machines.idle_node_hours, each.machines.idle_node_hours])
        for variant, each in zip(variants, results, strict=True)
    ]
    plot = Plot(
        "Node-hours with and without pods",
        axis_for("", [0.0, float(len(rows))]),
        axis_for("node-hours", [0.0, *(value for _, values in rows for value in values)]),
    )
    plot.bars(rows, [0, 1])
    plot.legend([("with pods", 0), ("without pods", 1)])
    return plot.text()


def _machine_table(variants: Sequence[VariantResult], results: Sequence[SimulationResult]) -> str:
    rows = "".join(
        f"<tr><td>{escape(variant.name)}</td><td>{escape(type_)}</td><td>{values['nodeHours']:,.1f}</td>"
        f"<td>{values['idleNodeHours']:,.1f}</td><td>{values['cost']:,.2f}</td></tr>"
        for variant, each in zip(variants, results, strict=True)
        for type_, values in each.machines.by_type.items()
    )
    return (
        "<table><thead><tr><th>variant</th><th>instance type</th><th>node-hours</th><th>idle node-hours</th>"
        f"<th>cost</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _group_tables(name: str, result: SimulationResult) -> str:
    return (
        f"<details open><summary>{escape(name)}: waiting and completion by queue</summary>"
        f"{_percentile_table(result.waiting.queues, result.completion.queues)}</details>"
        f"<details><summary>{escape(name)}: by class</summary>"
        f"{_percentile_table(result.waiting.classes, result.completion.classes)}</details>"
        f"<details><summary>{escape(name)}: by queue and class</summary>"
        f"{_percentile_table(result.waiting.both, result.completion.both)}</details>"
    )


def _percentile_table(waiting: Mapping[str, Percentiles], completion: Mapping[str, Percentiles]) -> str:
    rows = []
    for name in list(waiting)[:_MAX_ROWS]:
        wait, done = waiting[name], completion.get(name)
        cells = [str(wait.count), *(number_text(each, "s") for each in (wait.p50, wait.p90, wait.p99, wait.max))]
        cells += [number_text(each, "s") for each in (done.p50, done.p90, done.p99)] if done else ["", "", ""]
        rows.append(
            f"<tr><td>{escape(name or '(none)')}</td>{''.join(f'<td>{escape(each)}</td>' for each in cells)}</tr>"
        )
    left = len(waiting) - len(rows)
    note = f'<p class="note">{left} more rows are in the JSON output.</p>' if left > 0 else ""
    return (
        "<table><thead><tr><th></th><th>jobs</th><th>waiting p50</th><th>p90</th><th>p99</th><th>max</th>"
        f"<th>completion p50</th><th>p90</th><th>p99</th></tr></thead><tbody>{''.join(rows)}</tbody></table>{note}"
    )


def _header_table(header: ReportHeader) -> str:
    seeds = f"{header.seeds[0]} to {header.seeds[-1]}" if len(header.seeds) > 1 else str(header.seeds[0])
    rows = [("command", header.command), ("version", header.version), ("seeds", seeds)]
    rows += [(f"SHA-256 of {name}", digest) for name, digest in header.inputs.items()]
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><tbody>{cells}</tbody></table>"
