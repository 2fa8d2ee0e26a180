"""A question: one shape put to the plugins of a profile, with the states they made for it.

:func:`ask` runs the plugins that look at a pod before any node; what remains is a :class:`Question` that can be put to
any rows of the matrix, or a refusal. Answers are kept and carried along in ``scheduling/standing.py``. A plugin that
raises ends the question with its name (:class:`PluginFailed`), caught in ``scheduling/cycle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import (
    READS_NODE,
    Filter,
    Follows,
    Lineup,
    Normalize,
    Only,
    Reason,
    Refusal,
    Score,
    SeesFeasible,
    Skip,
    State,
)
from headgate.scheduling.meters import (
    ERROR,
    FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    SKIP,
    SUCCESS,
    UNSCHEDULABLE,
    Meter,
    Watch,
)
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape

Orders = NDArray[np.int8]

PASSES: Final = 127
"""In place of a filter's number in its order: none of them rejects the node."""
NO_NODE: Final = -1
"""The row is empty, which comes before any filter."""
_PRE_FILTER_STATUS: Final[Mapping[type, str]] = {Skip: SKIP, Refusal: UNSCHEDULABLE}


class PluginFailed(Exception):
    """Leaves the plugin that broke; never leaves this package."""

    def __init__(self, plugin: str, point: str, cause: Exception) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {cause}')
        self.plugin = plugin


class FilterStep(msgspec.Struct, frozen=True, eq=False):
    order: int
    plugin: Filter
    state: State
    meter: Meter


class ScoreStep(msgspec.Struct, frozen=True, eq=False):
    plugin: Score
    weight: int
    state: State
    normalize: Normalize | None
    meter: Meter


class Refused(msgspec.Struct, frozen=True):
    """Before any node was looked at. Without a plugin it was several that left no node between them."""

    plugins: tuple[str, ...]
    reason: Reason


class Question(msgspec.Struct, frozen=True, eq=False):
    shape: Shape
    node_filters: tuple[FilterStep, ...]
    pod_filters: tuple[FilterStep, ...]
    node_scores: tuple[ScoreStep, ...]
    pod_scores: tuple[ScoreStep, ...]
    names: frozenset[str] | None = None
    """The only nodes that come into question, if plugins said so: ``named_by``."""
    named_by: tuple[str, ...] = ()
    followers: tuple[Follows, ...] = ()
    judges: tuple[Follows, ...] = ()
    """Those of them that filters look at: a trial that only asks who fits has to move no others."""
    watchers: tuple[SeesFeasible, ...] = ()

    @property
    def filters(self) -> tuple[FilterStep, ...]:
        return tuple(sorted((*self.node_filters, *self.pod_filters), key=lambda step: step.order))

    @property
    def scores(self) -> tuple[ScoreStep, ...]:
        return self.node_scores + self.pod_scores


def ask(pod: Pod, matrix: NodeMatrix, lineup: Lineup, watch: Watch) -> Question | Refused:
    states: dict[str, State] = {}
    skipped: set[str] = set()
    names: frozenset[str] | None = None
    named_by: list[str] = []
    refused: Refused | None = None
    for early in lineup.pre_filters:
        meter = watch.meter(early.name, PRE_FILTER)
        began_s = meter.begin()
        try:
            found = early.pre_filter(pod, matrix)
        except Exception as broken:
            raise _failed(meter, began_s, broken) from broken
        if began_s is not None:
            meter.end(began_s, _PRE_FILTER_STATUS.get(type(found), SUCCESS))
        if isinstance(found, Skip):
            skipped.add(early.name)
        elif isinstance(found, Refusal):
            refused = Refused((early.name,), found.reason)
            if found.reason.unresolvable:
                return refused
        else:
            states[early.name] = found.state if isinstance(found, Only) else found
            if isinstance(found, Only):
                named_by.append(early.name)
                names = found.names if names is None else names & found.names
                if not names:
                    return Refused(tuple(named_by), Reason(_nothing_left(sorted(named_by)), unresolvable=True))
    if refused is not None:
        return refused
    filters = [
        FilterStep(order, each, states.get(each.name), watch.meter(each.name, FILTER))
        for order, each in enumerate(lineup.filters)
        if each.name not in skipped
    ]
    scores = _score_steps(pod, matrix, lineup, watch)
    kept = [*(each.state for each in filters), *(each.state for each in scores)]
    return Question(
        pod.shape,
        tuple(each for each in filters if each.plugin.reads == READS_NODE),
        tuple(each for each in filters if each.plugin.reads != READS_NODE),
        tuple(each for each in scores if each.plugin.reads == READS_NODE),
        tuple(each for each in scores if each.plugin.reads != READS_NODE),
        names,
        tuple(sorted(named_by)),
        tuple({id(each): each for each in kept if hasattr(each, "follow")}.values()),
        tuple({id(each.state): each.state for each in filters if hasattr(each.state, "follow")}.values()),
        tuple({id(each): each for each in kept if hasattr(each, "see")}.values()),
    )


def _score_steps(pod: Pod, matrix: NodeMatrix, lineup: Lineup, watch: Watch) -> list[ScoreStep]:
    states: dict[str, State] = {}
    for early in lineup.pre_scores:
        meter = watch.meter(early.name, PRE_SCORE)
        began_s = meter.begin()
        try:
            found = states[early.name] = early.pre_score(pod, matrix)
        except Exception as broken:
            raise _failed(meter, began_s, broken) from broken
        if began_s is not None:
            meter.end(began_s, SKIP if isinstance(found, Skip) else SUCCESS)
    return [
        ScoreStep(
            each,
            weight,
            states.get(each.name),
            _normalizer(each),
            watch.meter(each.name, SCORE),
        )
        for each, weight in lineup.scores
        if not isinstance(states.get(each.name), Skip)
    ]


def _normalizer(plugin: Any) -> Normalize | None:
    # Protocols are compared member by member, which for all plugins takes longer than asking some of them.
    found: Normalize | None = plugin if hasattr(plugin, "normalize") else None
    return found


def _nothing_left(names: list[str]) -> str:
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def filter_rows(
    steps: tuple[FilterStep, ...], shape: Shape, matrix: NodeMatrix, rows: Rows | None
) -> tuple[Orders, Ints] | None:
    """Per row the first filter that rejects it, and that filter's reasons; ``None`` if all pass."""
    first: Orders | None = None
    bits: Ints | None = None
    for step in steps:
        began_s = step.meter.begin()
        try:
            found = step.plugin.filter(shape, matrix, rows, step.state)
        except Exception as broken:
            raise _failed(step.meter, began_s, broken) from broken
        if began_s is not None:
            step.meter.end(began_s, UNSCHEDULABLE if found is not None and found.all() else SUCCESS)
        if found is None:
            continue
        # Arithmetic on small integers: picking by a mask takes several times as long.
        here = (found != 0).view(np.int8) * np.int8(step.order - PASSES) + np.int8(PASSES)
        if first is None or bits is None:
            first, bits = here, found
        else:
            bits = np.where(first == PASSES, found, bits)
            first = np.minimum(first, here)
    return None if first is None or bits is None else (first, bits)


def score_rows(step: ScoreStep, shape: Shape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    began_s = step.meter.begin()
    try:
        found = step.plugin.score(shape, matrix, rows, step.state)
    except Exception as broken:
        raise _failed(step.meter, began_s, broken) from broken
    if began_s is not None:
        step.meter.end(began_s, SUCCESS)
    return found


def _failed(meter: Meter, began_s: float | None, cause: Exception) -> PluginFailed:
    if began_s is not None:
        meter.end(began_s, ERROR)
    return PluginFailed(meter.plugin, meter.point, cause)
