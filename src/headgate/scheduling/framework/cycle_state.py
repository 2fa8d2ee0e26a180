"""CycleState: the filters and scores of a profile for one shape, each with the state that its plugin made for it.

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
"""Per row the first filter that rejects the node, as its ``FilterStep.order``; or :data:`PASSES` or :data:`NO_NODE`."""
KeyOf = Callable[[PodInfo], Hashable]
"""The ``key`` method of a plugin (``KeyedPlugin``)."""
StampOf = Callable[[PodShape, NodeMatrix], Hashable]
"""The ``stamp`` method of a plugin (``ClusterVersionedPlugin``)."""
T = TypeVar("T")

PASSES: Final = 127
"""In :data:`Orders`: no filter rejects the node."""
NO_NODE: Final = -1
"""In :data:`Orders`: the row has no node."""
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
        # The text of an invalid result is complete. Of another exception the type may be the only information.
        describe = (
            result_checks.error_text
            if isinstance(cause, result_checks.InvalidPluginResult)
            else result_checks.error_with_type
        )
        super().__init__(f'running {point} plugin "{plugin}": {describe(cause)}')
        self.plugin = plugin
        self.method = _METHODS.get(point, point)
        self.cause = cause


class FilterStep(msgspec.Struct, frozen=True, eq=False):
    """One filter plugin. ``order``: its position among all filters."""

    order: int
    plugin: FilterPlugin
    state: State
    timer: PluginTimer
    is_checked: bool = False
    """Whether its results are validated: the plugin is external."""


class ScoreStep(msgspec.Struct, frozen=True, eq=False):
    """One score plugin. ``normalize``: the plugin itself if its scores have to be normalized, otherwise None."""

    plugin: ScorePlugin
    weight: int
    state: State
    normalize: ScoreExtensions | None
    timer: PluginTimer
    is_checked: bool = False


class PreFilterFailure(msgspec.Struct, frozen=True):
    """PreFilter rejected all nodes: one plugin did, or the PreFilterResults of several plugins have no node in
    common."""

    plugins: tuple[str, ...]
    reason: FilterReason


class CycleState(msgspec.Struct, frozen=True, eq=False):
    """``node_…``: plugins that read only the node object; ``pod_…``: plugins that also read the pods on the node.
    ``incremental_states``: the states of plugins that follow changes of the node matrix. ``feasible_nodes_states``: the
    states of score plugins that depend on which nodes are feasible."""

    shape: PodShape
    node_filters: tuple[FilterStep, ...]
    pod_filters: tuple[FilterStep, ...]
    node_scores: tuple[ScoreStep, ...]
    pod_scores: tuple[ScoreStep, ...]
    names: frozenset[str] | None = None
    """The only nodes to evaluate, if PreFilter plugins (``named_by``) returned a PreFilterResult."""
    named_by: tuple[str, ...] = ()
    incremental_states: tuple[IncrementalState, ...] = ()
    filter_states: tuple[IncrementalState, ...] = ()
    """The incremental states of filters: a dry run updates only these."""
    feasible_nodes_states: tuple[FeasibleNodesState, ...] = ()

    @property
    def filters(self) -> tuple[FilterStep, ...]:
        return tuple(sorted((*self.node_filters, *self.pod_filters), key=lambda step: step.order))

    @property
    def scores(self) -> tuple[ScoreStep, ...]:
        return self.node_scores + self.pod_scores


def build_cycle_state(
    pod: PodInfo, matrix: NodeMatrix, plugins: CyclePlugins, timers: ProfileTimers
) -> CycleState | PreFilterFailure:
    """Runs the PreFilter and PreScore plugins for the shape of this pod. Returns a failure if PreFilter rejects all
    nodes."""
    states: dict[str, State] = {}
    skipped: set[str] = set()
    names: frozenset[str] | None = None
    named_by: list[str] = []
    rejected: PreFilterFailure | None = None
    filter_names = {each.name for each in plugins.filters}
    for plugin in plugins.pre_filters:
        timer = timers.timer(plugin.name, PRE_FILTER)
        began_s = timer.begin()
        try:
            found = plugin.pre_filter(pod, matrix)
            if not result_checks.is_built_in(plugin):
                found = result_checks.pre_filter_result(found, has_filter=plugin.name in filter_names)
        except BaseException as error:
            raise _plugin_error(timer, began_s, error) from error
        if began_s is not None:
            timer.end(began_s, _PRE_FILTER_STATUS.get(type(found), SUCCESS))
        if isinstance(found, Skip):
            skipped.add(plugin.name)
        elif isinstance(found, PreFilterRejection):
            rejected = PreFilterFailure((plugin.name,), found.reason)
            if found.reason.unresolvable:
                return rejected
        else:
            states[plugin.name] = found.state if isinstance(found, PreFilterResult) else found
            if isinstance(found, PreFilterResult):
                named_by.append(plugin.name)
                names = found.names if names is None else names & found.names
                if not names:
                    return PreFilterFailure(
                        tuple(named_by), FilterReason(_no_nodes_text(sorted(named_by)), unresolvable=True)
                    )
    if rejected is not None:
        return rejected
    filters = [
        FilterStep(
            order,
            each,
            states.get(each.name),
            timers.timer(each.name, FILTER),
            not result_checks.is_built_in(each),
        )
        for order, each in enumerate(plugins.filters)
        if each.name not in skipped
    ]
    scores = _score_steps(pod, matrix, plugins, timers)
    plugin_states = [*(each.state for each in filters), *(each.state for each in scores)]
    return CycleState(
        pod.shape,
        tuple(each for each in filters if each.plugin.reads == READS_NODE),
        tuple(each for each in filters if each.plugin.reads != READS_NODE),
        tuple(each for each in scores if each.plugin.reads == READS_NODE),
        tuple(each for each in scores if each.plugin.reads != READS_NODE),
        names,
        tuple(sorted(named_by)),
        tuple({id(each): each for each in plugin_states if hasattr(each, "follow")}.values()),
        tuple({id(each.state): each.state for each in filters if hasattr(each.state, "follow")}.values()),
        tuple({id(each): each for each in plugin_states if hasattr(each, "see")}.values()),
    )


def _score_steps(pod: PodInfo, matrix: NodeMatrix, plugins: CyclePlugins, timers: ProfileTimers) -> list[ScoreStep]:
    states: dict[str, State] = {}
    score_names = {each.name for each, _ in plugins.scores}
    for plugin in plugins.pre_scores:
        timer = timers.timer(plugin.name, PRE_SCORE)
        began_s = timer.begin()
        try:
            found = plugin.pre_score(pod, matrix)
            if not result_checks.is_built_in(plugin):
                found = result_checks.state(found, has_reader=plugin.name in score_names)
            states[plugin.name] = found
        except BaseException as error:
            raise _plugin_error(timer, began_s, error) from error
        if began_s is not None:
            timer.end(began_s, SKIP if isinstance(found, Skip) else SUCCESS)
    return [
        ScoreStep(
            each,
            weight,
            states.get(each.name),
            _normalizer(each),
            timers.timer(each.name, SCORE),
            not result_checks.is_built_in(each),
        )
        for each, weight in plugins.scores
        if not isinstance(states.get(each.name), Skip)
    ]


def _normalizer(plugin: Any) -> ScoreExtensions | None:
    # isinstance with a Protocol compares all members, which is slower than the calls of some plugins.
    found: ScoreExtensions | None = plugin if hasattr(plugin, "normalize") else None
    return found


def _no_nodes_text(names: list[str]) -> str:
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def filter_rows(
    steps: tuple[FilterStep, ...], shape: PodShape, matrix: NodeMatrix, rows: Rows | None
) -> tuple[Orders, Ints] | None:
    """Two arrays: per row the first filter that rejects it, and the bits of that filter's reasons. ``None`` if all rows
    pass all filters."""
    first: Orders | None = None
    bits: Ints | None = None
    for step in steps:
        began_s = step.timer.begin()
        try:
            found = step.plugin.filter(shape, matrix, rows, step.state)
            if step.is_checked:
                found = result_checks.filter_result(found, matrix.size if rows is None else len(rows))
        except BaseException as error:
            raise _plugin_error(step.timer, began_s, error) from error
        if began_s is not None:
            step.timer.end(began_s, UNSCHEDULABLE if found is not None and found.all() else SUCCESS)
        if found is None:
            continue
        # Arithmetic on small integers: selection by a mask takes several times as long.
        rejecting = (found != 0).view(np.int8) * np.int8(step.order - PASSES) + np.int8(PASSES)
        if first is None or bits is None:
            first, bits = rejecting, found
        else:
            bits = np.where(first == PASSES, found, bits)
            first = np.minimum(first, rejecting)
    return None if first is None or bits is None else (first, bits)


def score_rows(step: ScoreStep, shape: PodShape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    began_s = step.timer.begin()
    try:
        found = step.plugin.score(shape, matrix, rows, step.state)
        if step.is_checked:
            count = matrix.size if rows is None else len(rows)
            has_node = matrix.is_node[: matrix.size] if rows is None else matrix.is_node[rows]
            found = result_checks.score_result(found, count, has_node if step.normalize is None else None)
    except BaseException as error:
        raise _plugin_error(step.timer, began_s, error) from error
    if began_s is not None:
        step.timer.end(began_s, SUCCESS)
    return found


def scale_of(step: ScoreStep, feasible: Ints) -> Hashable:
    """The value that the plugin's scores are normalized with; ``None`` if they are final."""
    normalize = step.normalize
    if normalize is None:
        return None
    if not step.is_checked:
        return normalize.scale(feasible)
    return _call_plugin(step.plugin, "scale", lambda: result_checks.hashable(normalize.scale(feasible)))


def normalized(step: ScoreStep, raw: Ints, scale: Hashable, feasible: Mask | None = None) -> Ints:
    """``feasible``: the feasible rows, if not all. Only their scores are compared, so only these must be in range."""
    normalize = step.normalize
    if normalize is None:
        return raw
    if not step.is_checked:
        return normalize.normalize(raw, scale)
    checked = np.ones(len(raw), np.bool_) if feasible is None else feasible
    return _call_plugin(
        step.plugin, "normalize", lambda: result_checks.score_result(normalize.normalize(raw, scale), len(raw), checked)
    )


# The plugin methods ``key`` and ``stamp`` are called several times per pod, so the results of built-in plugins are not
# validated.


def key_of(plugin: KeyedPlugin) -> KeyOf:
    """The plugin's ``key`` method, with validation for an external plugin."""
    if result_checks.is_built_in(plugin):
        return plugin.key
    return lambda pod: _call_plugin(plugin, "key", lambda: result_checks.hashable(plugin.key(pod)))


def stamp_of(plugin: ClusterVersionedPlugin) -> StampOf:
    """The plugin's ``stamp`` method, with validation for an external plugin."""
    if result_checks.is_built_in(plugin):
        return plugin.stamp
    return lambda shape, matrix: _call_plugin(
        plugin, "stamp", lambda: result_checks.hashable(plugin.stamp(shape, matrix))
    )


def reasons_of(plugin: FilterPlugin, shape: PodShape) -> Sequence[FilterReason]:
    if result_checks.is_built_in(plugin):
        return plugin.reasons(shape)
    return _call_plugin(plugin, "reasons", lambda: result_checks.reasons(plugin.reasons(shape)))


def _call_plugin(plugin: Plugin, method: str, call: Callable[[], T]) -> T:
    """Call a method of the plugin; an exception becomes a :class:`PluginError` that names the plugin."""
    try:
        return call()
    except BaseException as error:
        raise PluginError(plugin.name, method, error) from error


def _plugin_error(timer: PluginTimer, began_s: float | None, cause: BaseException) -> PluginError:
    if began_s is not None:
        timer.end(began_s, ERROR)
    return PluginError(timer.plugin, timer.point, cause)
