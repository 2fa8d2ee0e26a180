"""The details of rows that are no units and no queues: all that the row has, as lines of text.

Units and queues are explained by the functions of ``headgate explain`` (``io/details.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.kube.timestamps import human_duration
from headgate.terminal.view_tables import node_state
from headgate.views.rows import GateRow, NodeRow, OverviewRow, ProblemRow, QuotaRow, Row


def row_lines(row: Row, now_s: float) -> Iterator[str]:
    match row:
        case OverviewRow():
            yield from _namespace_lines(row)
        case GateRow():
            yield from _gate_lines(row, now_s)
        case NodeRow():
            yield from _node_lines(row)
        case ProblemRow():
            yield from _problem_lines(row)
        case QuotaRow():
            yield from _quota_lines(row)
        case _:
            yield row.key


def _namespace_lines(row: OverviewRow) -> Iterator[str]:
    yield f"namespace {row.key}"
    counts = (
        (row.queued, "pods that wait for their queue, or for the admission of their Workload"),
        (row.gated, "pods behind a gate of another controller"),
        (row.without_node, "pods that wait for a node"),
        (row.unschedulable, "pods that no node fits"),
        (row.running, "pods that run"),
        (row.terminating, "pods that terminate"),
        (row.pending, "Workloads that are pending"),
        (row.admitted, "Workloads with quota"),
    )
    yield from (f"  {text}: {'?' if count is None else count}" for count, text in counts)
    yield ""
    yield f"l lists its units that wait; headgate workloads -n {row.key} lists its Workloads"


def _gate_lines(row: GateRow, now_s: float) -> Iterator[str]:
    yield f"gate {row.gate} in namespace {row.namespace}"
    yield f"  holds {row.pods} {'pod' if row.pods == 1 else 'pods'}"
    yield f"  pod {row.oldest} waits longest, for {human_duration(now_s - row.since_s)}"
    yield f"  is removed by: {row.owner}"
    if row.policy:
        yield f"  GatePolicy {row.policy}: {row.health}"
    yield ""
    yield f"l lists the units; headgate gates list -n {row.namespace} says more about their owners"


def _node_lines(row: NodeRow) -> Iterator[str]:
    yield f"node {row.key}: {node_state(row)}"
    if row.group:
        yield f"  in group {row.group}"
    yield f"  {row.pods} {'pod' if row.pods == 1 else 'pods'}; the fullest resource is {row.dominant}, {row.share:.0%}"
    yield "requested"
    yield from (f"  {each.resource}: {each.text}" for each in row.resources)
    yield ""
    yield f"kubectl describe node {row.key}"


def _problem_lines(row: ProblemRow) -> Iterator[str]:
    yield f"{row.severity}: {row.subject}" + (f" in namespace {row.namespace}" if row.namespace else "")
    yield f"  {row.text}"
    if row.fix:
        yield "next"
        yield f"  {row.fix}"


def _quota_lines(row: QuotaRow) -> Iterator[str]:
    yield f"{row.kind} {row.namespace}/{row.name}" if row.namespace else f"{row.kind} {row.name}"
    if row.parent:
        yield f"  below {row.parent}"
    for each in row.resources:
        yield f"  {each.resource} in {each.flavor}: {each.text}"
