"""CycleState: one shape evaluated by the plugins of a profile, with the state that each plugin made for it.

:func:`build_cycle_state` runs PreFilter and PreScore and returns a :class:`CycleState`, which can filter and score any
rows of the matrix, or a failure. ``scheduling/framework/shape_cache.py`` keeps the results and updates them. A plugin
that raises, or returns an invalid result (``result_checks.py``), ends the evaluation with a :class:`PluginError` that
names it; ``scheduling/framework/scheduling_cycle.py`` catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import result_checks
from headgate.scheduling.framework.interface import (
    READS_NODE,
    ClusterVersionedPlugin,
    CyclePlugins,
    FeasibleNodesState,
    FilterPlugin,
    FilterReason,
    IncrementalState,
    KeyedPlugin,
    Plugin,
    PreFilterRejection,
    PreFilterResult,
    ScoreExtensions,
    ScorePlugin,
    Skip,
    State,
)
from headgate.scheduling.framework.plugin_timers import (
    ERROR,
    FILTER,
    POST_FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    SKIP,
    SUCCESS,
    UNSCHEDULABLE,
    PluginTimer,
    ProfileTimers,
)

Orders = NDArray[np.int8]
KeyOf = Callable[[PodInfo], Hashable]
StampOf = Callable[[PodShape, NodeMatrix], Hashable]
T = TypeVar("T")

PASSES: Final = 127
"""In place of a filter's number in its order: none of them rejects the node."""
NO_NODE: Final = -1
"""The row is empty, which comes before any filter."""
_PRE_FILTER_STATUS: Final[Mapping[type, str]] = {Skip: SKIP, PreFilterRejection: UNSCHEDULABLE}

_METHODS: Final[Mapping[str, str]] = {
    PRE_FILTER: "pre_filter",
    FILTER: "filter",
    POST_FILTER: "post_filter",
    PRE_SCORE: "pre_score",
    SCORE: "score",
}


class PluginError(Exception):
    """A plugin raised or returned an invalid result. It is caught inside this package."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        # A wrong answer says itself what it is; of an exception, the type may be all that tells anything.
        told = (
            result_checks.printed if isinstance(cause, result_checks.InvalidPluginResult) else result_checks.described
        )
        super().__init__(f'running {point} plugin "{plugin}": {told(cause)}')
        self.plugin = plugin
        self.method = _METHODS.get(point, point)
        self.cause = cause


class FilterStep(msgspec.Struct, frozen=True, eq=False):
    order: int
    plugin: FilterPlugin
    state: State
    meter: PluginTimer
    is_checked: bool = False
    """Whether its answers are checked: the plugin is not built in."""


class ScoreStep(msgspec.Struct, frozen=True, eq=False):
    plugin: ScorePlugin
    weight: int
    state: State
    normalize: ScoreExtensions | None
    meter: PluginTimer
    is_checked: bool = False


class PreFilterFailure(msgspec.Struct, frozen=True):
    """A failure before any node was evaluated. Without a plugin, several plugins together left no node."""

    plugins: tuple[str, ...]
    reason: FilterReason


class CycleState(msgspec.Struct, frozen=True, eq=False):
    shape: PodShape
    node_filters: tuple[FilterStep, ...]
    pod_filters: tuple[FilterStep, ...]
    node_scores: tuple[ScoreStep, ...]
    pod_scores: tuple[ScoreStep, ...]
    names: frozenset[str] | None = None
    """The only nodes that come into question, if plugins said so: ``named_by``."""
    named_by: tuple[str, ...] = ()
    incremental_states: tuple[IncrementalState, ...] = ()
    filter_states: tuple[IncrementalState, ...] = ()
    """Those of them that filters look at: a trial that only asks who fits has to move no others."""
    watchers: tuple[FeasibleNodesState, ...] = ()

    @property
    def filters(self) -> tuple[FilterStep, ...]:
        return tuple(sorted((*self.node_filters, *self.pod_filters), key=lambda step: step.order))

    @property
    def scores(self) -> tuple[ScoreStep, ...]:
        return self.node_scores + self.pod_scores


def build_cycle_state(
    pod: PodInfo, matrix: NodeMatrix, lineup: CyclePlugins, watch: ProfileTimers
) -> CycleState | PreFilterFailure:
    states: dict[str, State] = {}
    skipped: set[str] = set()
    names: frozenset[str] | None = None
    named_by: list[str] = []
    refused: PreFilterFailure | None = None
    filtering = {each.name for each in lineup.filters}
    for early in lineup.pre_filters:
        meter = watch.timer(early.name, PRE_FILTER)
        began_s = meter.begin()
        try:
            found = early.pre_filter(pod, matrix)
            if not result_checks.is_built_in(early):
                found = result_checks.pre_filter_result(found, has_filter=early.name in filtering)
        except BaseException as broken:
            raise _failed(meter, began_s, broken) from broken
        if began_s is not None:
            meter.end(began_s, _PRE_FILTER_STATUS.get(type(found), SUCCESS))
        if isinstance(found, Skip):
            skipped.add(early.name)
        elif isinstance(found, PreFilterRejection):
            refused = PreFilterFailure((early.name,), found.reason)
            if found.reason.unresolvable:
                return refused
        else:
            states[early.name] = found.state if isinstance(found, PreFilterResult) else found
            if isinstance(found, PreFilterResult):
                named_by.append(early.name)
                names = found.names if names is None else names & found.names
                if not names:
                    return PreFilterFailure(
                        tuple(named_by), FilterReason(_nothing_left(sorted(named_by)), unresolvable=True)
                    )
    if refused is not None:
        return refused
    filters = [
        FilterStep(
            order,
            each,
            states.get(each.name),
            watch.timer(each.name, FILTER),
            not result_checks.is_built_in(each),
        )
        for order, each in enumerate(lineup.filters)
        if each.name not in skipped
    ]
    scores = _score_steps(pod, matrix, lineup, watch)
    kept = [*(each.state for each in filters), *(each.state for each in scores)]
    return CycleState(
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


def _score_steps(pod: PodInfo, matrix: NodeMatrix, lineup: CyclePlugins, watch: ProfileTimers) -> list[ScoreStep]:
    states: dict[str, State] = {}
    scoring = {each.name for each, _ in lineup.scores}
    for early in lineup.pre_scores:
        meter = watch.timer(early.name, PRE_SCORE)
        began_s = meter.begin()
        try:
            found = early.pre_score(pod, matrix)
            if not result_checks.is_built_in(early):
                found = result_checks.state(found, has_reader=early.name in scoring)
            states[early.name] = found
        except BaseException as broken:
            raise _failed(meter, began_s, broken) from broken
        if began_s is not None:
            meter.end(began_s, SKIP if isinstance(found, Skip) else SUCCESS)
    return [
        ScoreStep(
            each,
            weight,
            states.get(each.name),
            _normalizer(each),
            watch.timer(each.name, SCORE),
            not result_checks.is_built_in(each),
        )
        for each, weight in lineup.scores
        if not isinstance(states.get(each.name), Skip)
    ]


def _normalizer(plugin: Any) -> ScoreExtensions | None:
    # Protocols are compared member by member, which for all plugins takes longer than asking some of them.
    found: ScoreExtensions | None = plugin if hasattr(plugin, "normalize") else None
    return found


def _nothing_left(names: list[str]) -> str:
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def filter_rows(
    steps: tuple[FilterStep, ...], shape: PodShape, matrix: NodeMatrix, rows: Rows | None
) -> tuple[Orders, Ints] | None:
    """Per row the first filter that rejects it, and that filter's reasons; ``None`` if all pass."""
    first: Orders | None = None
    bits: Ints | None = None
    for step in steps:
        began_s = step.meter.begin()
        try:
            found = step.plugin.filter(shape, matrix, rows, step.state)
            if step.is_checked:
                found = result_checks.filter_result(found, matrix.size if rows is None else len(rows))
        except BaseException as broken:
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


def score_rows(step: ScoreStep, shape: PodShape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    began_s = step.meter.begin()
    try:
        found = step.plugin.score(shape, matrix, rows, step.state)
        if step.is_checked:
            count = matrix.size if rows is None else len(rows)
            here = matrix.is_node[: matrix.size] if rows is None else matrix.is_node[rows]
            found = result_checks.score_result(found, count, here if step.normalize is None else None)
    except BaseException as broken:
        raise _failed(step.meter, began_s, broken) from broken
    if began_s is not None:
        step.meter.end(began_s, SUCCESS)
    return found


def scale_of(step: ScoreStep, feasible: Ints) -> Hashable:
    """What the plugin's scores are relative to; ``None`` if they are final."""
    normalize = step.normalize
    if normalize is None:
        return None
    if not step.is_checked:
        return normalize.scale(feasible)
    return _named(step.plugin, "scale", lambda: result_checks.hashable(normalize.scale(feasible)))


def normalized(step: ScoreStep, raw: Ints, scale: Hashable, feasible: Mask | None = None) -> Ints:
    """``feasible``: which of the rows are, if not all. Only those have to be in range, since only they are compared."""
    normalize = step.normalize
    if normalize is None:
        return raw
    if not step.is_checked:
        return normalize.normalize(raw, scale)
    among = np.ones(len(raw), np.bool_) if feasible is None else feasible
    return _named(
        step.plugin, "normalize", lambda: result_checks.score_result(normalize.normalize(raw, scale), len(raw), among)
    )


# Keys and stamps are asked for several times per pod: what built-in plugins answer is not checked.


def key_of(plugin: KeyedPlugin) -> KeyOf:
    """The plugin's ``key``, checked if it is not built in."""
    if result_checks.is_built_in(plugin):
        return plugin.key
    return lambda pod: _named(plugin, "key", lambda: result_checks.hashable(plugin.key(pod)))


def stamp_of(plugin: ClusterVersionedPlugin) -> StampOf:
    if result_checks.is_built_in(plugin):
        return plugin.stamp
    return lambda shape, matrix: _named(plugin, "stamp", lambda: result_checks.hashable(plugin.stamp(shape, matrix)))


def reasons_of(plugin: FilterPlugin, shape: PodShape) -> Sequence[FilterReason]:
    if result_checks.is_built_in(plugin):
        return plugin.reasons(shape)
    return _named(plugin, "reasons", lambda: result_checks.reasons(plugin.reasons(shape)))


def _named(plugin: Plugin, method: str, ask: Callable[[], T]) -> T:
    """What the plugin answers; its name goes with whatever is wrong."""
    try:
        return ask()
    except BaseException as broken:
        raise PluginError(plugin.name, method, broken) from broken


def _failed(meter: PluginTimer, began_s: float | None, cause: BaseException) -> PluginError:
    if began_s is not None:
        meter.end(began_s, ERROR)
    return PluginError(meter.plugin, meter.point, cause)
