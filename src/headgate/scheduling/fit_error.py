"""Why a pod fits nowhere, in the words that ``kubectl describe`` and autoscalers know.

``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).``: each reason with the number of
nodes it holds for, sorted as texts. A node counts for the first plugin that rejects it, with all of that plugin's
reasons. What preemption has to say comes behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.columns import Ints
from headgate.scheduling.contract import Filter, Reason
from headgate.scheduling.meters import FILTER
from headgate.scheduling.plugin_answers import WrongAnswer
from headgate.scheduling.question import NO_NODE, PASSES, Orders, PluginFailed, reasons_of
from headgate.scheduling.shape import Shape

NO_NODES: Final = "no nodes available to schedule pods"


def count_reasons(filters: Sequence[Filter], shape: Shape, order: Orders, bits: Ints) -> dict[str, Counter[str]]:
    """By plugin, in the order of the filters: how many nodes each of its reasons holds for."""
    found: dict[str, Counter[str]] = {}
    for number in np.unique(order).tolist():
        if number in (PASSES, NO_NODE):
            continue
        plugin = filters[number]
        reasons = reasons_of(plugin, shape)
        counts: Counter[str] = Counter()
        for pattern, times in zip(*np.unique(bits[order == number], return_counts=True), strict=True):
            if int(pattern) >> len(reasons):
                told = f"returned {int(pattern)} for a node, which names a reason beyond its {len(reasons)} reasons"
                raise PluginFailed(plugin.name, FILTER, WrongAnswer(told))
            for reason in reasons_in(reasons, int(pattern)):
                counts[reason.text] += int(times)
        found[plugin.name] = counts
    return found


def reasons_in(reasons: Sequence[Reason], pattern: int) -> Iterable[Reason]:
    return (reason for i, reason in enumerate(reasons) if pattern >> i & 1)


def fit_error(nodes: int, counts: Iterable[Counter[str]]) -> str:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return before_any_node(nodes, ", ".join(sorted(f"{times} {text}" for text, times in total.items())))


def before_any_node(nodes: int, reason: str) -> str:
    head = f"0/{nodes} nodes are available:"
    return f"{head} {reason}." if reason else head


def describe(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{times} {text}" for text, times in counts.items()))
