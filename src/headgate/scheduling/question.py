"""A question: one shape put to the plugins of a profile, with the states they made for it.

:func:`ask` runs the plugins that look at a pod before any node; what remains is a :class:`Question` that can be put to
any rows of the matrix, or a refusal. Answers are kept and carried along in ``scheduling/standing.py``. A plugin that
raises, or that returns what is no answer (``plugin_answers.py``), ends the question with its name
(:class:`PluginFailed`), caught in ``scheduling/cycle.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.scheduling import plugin_answers
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import (
    READS_NODE,
    Filter,
    Follows,
    Keyed,
    Lineup,
    Normalize,
    Only,
    Plugin,
    Reason,
    Refusal,
    Score,
    SeesFeasible,
    Skip,
    Stamped,
    State,
)
from headgate.scheduling.labels import Mask
from headgate.scheduling.meters import (
    ERROR,
    FILTER,
    POST_FILTER,
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
KeyOf = Callable[[Pod], Hashable]
StampOf = Callable[[Shape, NodeMatrix], Hashable]
T = TypeVar("T")

PASSES: Final = 127
"""In place of a filter's number in its order: none of them rejects the node."""
NO_NODE: Final = -1
"""The row is empty, which comes before any filter."""
_PRE_FILTER_STATUS: Final[Mapping[type, str]] = {Skip: SKIP, Refusal: UNSCHEDULABLE}

_METHODS: Final[Mapping[str, str]] = {
    PRE_FILTER: "pre_filter",
    FILTER: "filter",
    POST_FILTER: "post_filter",
    PRE_SCORE: "pre_score",
    SCORE: "score",
}


class PluginFailed(Exception):
    """Leaves the plugin that broke; never leaves this package."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        # A wrong answer says itself what it is; of an exception, the type may be all that tells anything.
        told = plugin_answers.printed if isinstance(cause, plugin_answers.WrongAnswer) else plugin_answers.described
        super().__init__(f'running {point} plugin "{plugin}": {told(cause)}')
        self.plugin = plugin
        self.method = _METHODS.get(point, point)
        self.cause = cause


class FilterStep(msgspec.Struct, frozen=True, eq=False):
    order: int
    plugin: Filter
    state: State
    meter: Meter
    is_checked: bool = False
    """Whether its answers are checked: the plugin is not built in."""


class ScoreStep(msgspec.Struct, frozen=True, eq=False):
    plugin: Score
    weight: int
    state: State
    normalize: Normalize | None
    meter: Meter
    is_checked: bool = False


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
    filtering = {each.name for each in lineup.filters}
    for early in lineup.pre_filters:
        meter = watch.meter(early.name, PRE_FILTER)
        began_s = meter.begin()
        try:
            found = early.pre_filter(pod, matrix)
            if not plugin_answers.is_built_in(early):
                found = plugin_answers.pre_filtered(found, has_filter=early.name in filtering)
        except BaseException as broken:
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
        FilterStep(
            order,
            each,
            states.get(each.name),
            watch.meter(each.name, FILTER),
            not plugin_answers.is_built_in(each),
        )
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
    scoring = {each.name for each, _ in lineup.scores}
    for early in lineup.pre_scores:
        meter = watch.meter(early.name, PRE_SCORE)
        began_s = meter.begin()
        try:
            found = early.pre_score(pod, matrix)
            if not plugin_answers.is_built_in(early):
                found = plugin_answers.state(found, has_reader=early.name in scoring)
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
            watch.meter(each.name, SCORE),
            not plugin_answers.is_built_in(each),
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
            if step.is_checked:
                found = plugin_answers.filtered(found, matrix.size if rows is None else len(rows))
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


def score_rows(step: ScoreStep, shape: Shape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    began_s = step.meter.begin()
    try:
        found = step.plugin.score(shape, matrix, rows, step.state)
        if step.is_checked:
            count = matrix.size if rows is None else len(rows)
            here = matrix.is_node[: matrix.size] if rows is None else matrix.is_node[rows]
            found = plugin_answers.scored(found, count, here if step.normalize is None else None)
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
    return _named(step.plugin, "scale", lambda: plugin_answers.hashable(normalize.scale(feasible)))


def normalized(step: ScoreStep, raw: Ints, scale: Hashable, feasible: Mask | None = None) -> Ints:
    """``feasible``: which of the rows are, if not all. Only those have to be in range, since only they are compared."""
    normalize = step.normalize
    if normalize is None:
        return raw
    if not step.is_checked:
        return normalize.normalize(raw, scale)
    among = np.ones(len(raw), np.bool_) if feasible is None else feasible
    return _named(
        step.plugin, "normalize", lambda: plugin_answers.scored(normalize.normalize(raw, scale), len(raw), among)
    )


# Keys and stamps are asked for several times per pod: what built-in plugins answer is not checked.


def key_of(plugin: Keyed) -> KeyOf:
    """The plugin's ``key``, checked if it is not built in."""
    if plugin_answers.is_built_in(plugin):
        return plugin.key
    return lambda pod: _named(plugin, "key", lambda: plugin_answers.hashable(plugin.key(pod)))


def stamp_of(plugin: Stamped) -> StampOf:
    if plugin_answers.is_built_in(plugin):
        return plugin.stamp
    return lambda shape, matrix: _named(plugin, "stamp", lambda: plugin_answers.hashable(plugin.stamp(shape, matrix)))


def reasons_of(plugin: Filter, shape: Shape) -> Sequence[Reason]:
    if plugin_answers.is_built_in(plugin):
        return plugin.reasons(shape)
    return _named(plugin, "reasons", lambda: plugin_answers.reasons(plugin.reasons(shape)))


def _named(plugin: Plugin, method: str, ask: Callable[[], T]) -> T:
    """What the plugin answers; its name goes with whatever is wrong."""
    try:
        return ask()
    except BaseException as broken:
        raise PluginFailed(plugin.name, method, broken) from broken


def _failed(meter: Meter, began_s: float | None, cause: BaseException) -> PluginFailed:
    if began_s is not None:
        meter.end(began_s, ERROR)
    return PluginFailed(meter.plugin, meter.point, cause)
