"""The message for a pod that fits no node, in the form that ``kubectl describe`` and autoscalers expect.

``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).``: each reason with its number of
nodes, sorted as text. A node counts for the first plugin that rejects it, with all reasons of that plugin. The message
of preemption follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints
from headgate.scheduling.framework.cycle_state import NO_NODE, PASSES, Orders, PluginError, reasons_of
from headgate.scheduling.framework.interface import FilterPlugin, FilterReason
from headgate.scheduling.framework.plugin_timers import FILTER
from headgate.scheduling.framework.result_checks import InvalidPluginResult

NO_NODES: Final = "no nodes available to schedule pods"


def count_reasons(
    filters: Sequence[FilterPlugin], shape: PodShape, order: Orders, bits: Ints
) -> dict[str, Counter[str]]:
    """By plugin, in the order of the filters, the number of nodes per reason. ``order`` and ``bits``: per node the
    first filter that rejects it, and its reasons (``filter_rows`` in ``cycle_state.py``)."""
    found: dict[str, Counter[str]] = {}
    for number in np.unique(order).tolist():
        if number in (PASSES, NO_NODE):
            continue
        plugin = filters[number]
        reasons = reasons_of(plugin, shape)
        counts: Counter[str] = Counter()
        for pattern, count in zip(*np.unique(bits[order == number], return_counts=True), strict=True):
            if int(pattern) >> len(reasons):
                text = f"returned {int(pattern)} for a node, which names a reason beyond its {len(reasons)} reasons"
                raise PluginError(plugin.name, FILTER, InvalidPluginResult(text))
            for reason in reasons_in(reasons, int(pattern)):
                counts[reason.text] += int(count)
        found[plugin.name] = counts
    return found


def reasons_in(reasons: Sequence[FilterReason], pattern: int) -> Iterable[FilterReason]:
    """The reasons whose bits are set in the pattern."""
    return (reason for i, reason in enumerate(reasons) if pattern >> i & 1)


def fit_error(nodes: int, counts: Iterable[Counter[str]]) -> str:
    """The message. ``nodes``: the number of all nodes; ``counts``: for each plugin, the number of nodes per reason."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return no_nodes_text(nodes, ", ".join(sorted(f"{count} {text}" for text, count in total.items())))


def no_nodes_text(nodes: int, reason: str) -> str:
    prefix = f"0/{nodes} nodes are available:"
    return f"{prefix} {reason}." if reason else prefix


def describe(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
