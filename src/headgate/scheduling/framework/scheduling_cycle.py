"""The scheduling cycle: finds a node for a pod, or the reasons why no node fits.

:meth:`SchedulingCycle.decide` returns the result for the current cluster; :meth:`SchedulingCycle.place` also assumes
the pod on its node, so that the next pod sees it. Pods of one shape share one ``ShapeCacheEntry``: the plugins run once
for a thousand replicas and then only for changed rows. The result equals that of running all plugins on all nodes for
each pod. ``scheduling/queue/`` chooses the next pod; ``scheduling/schedule_one.py`` uses the result.
"""

from __future__ import annotations

import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from headgate.scheduling.cache.change_log import ChangeLog
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeIndex, NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import fit_error, result_checks
from headgate.scheduling.framework.cluster_events import own_update
from headgate.scheduling.framework.cycle_state import (
    PASSES,
    CycleState,
    Orders,
    PluginError,
    PreFilterFailure,
    build_cycle_state,
    filter_rows,
    key_of,
    normalized,
    reasons_of,
    scale_of,
    score_rows,
    stamp_of,
)
from headgate.scheduling.framework.dry_run import NodeDryRun
from headgate.scheduling.framework.event_objects import PodRequestsChanged
from headgate.scheduling.framework.interface import (
    ClusterVersionedPlugin,
    CyclePlugins,
    EnqueueExtensions,
    FilterReason,
    KeyedPlugin,
    Plugin,
    PostFilterNomination,
    PostFilterUnresolvable,
    PostFilterUnschedulable,
    Rejection,
    ScheduleResult,
    Unplaced,
)
from headgate.scheduling.framework.node_sampling import ALL, nodes_to_find, sample
from headgate.scheduling.framework.nominated_pods import NominatedPodFilter, NominatedPods, signature
from headgate.scheduling.framework.plugin_timers import ERROR, POST_FILTER, SUCCESS, UNSCHEDULABLE, ProfileTimers
from headgate.scheduling.framework.shape_cache import ShapeCacheEntry
from headgate.scheduling.framework.stable_hints import report_failures
from headgate.waiting.queueing_hints import ClusterEventWithHint

_STANDINGS_BYTES: Final = 128 * 1024 * 1024
_ROW_BYTES: Final = 80
_RULE_ROW_BYTES: Final = 24
_FEW_STANDINGS: Final = 32
_FEW_RULES: Final = 16

SHAPE: Final = "PodShape"
"""Stands where a plugin's name does when the pod's own specification cannot be counted with."""

Outcome = ScheduleResult | Unplaced


class SchedulingCycle:
    """``percentage`` is ``percentageOfNodesToScore``: 100 evaluates all nodes, 0 an adaptive share."""

    def __init__(
        self,
        matrix: NodeMatrix,
        lineup: CyclePlugins,
        percentage: int = ALL,
        promises: NominatedPods | None = None,
        watch: ProfileTimers | None = None,
    ) -> None:
        self.matrix = matrix
        self.plugins = lineup
        self._percentage = percentage
        self._promised = NominatedPodFilter(matrix, promises)
        self._watch = watch or ProfileTimers()
        self._start = 0
        scores = (each for each, _ in lineup.scores)
        # All whose answers are kept: a plugin that serves preFilter or preScore alone decides as well.
        plugins: list[Plugin] = [*lineup.pre_filters, *lineup.filters, *lineup.pre_scores, *scores]
        unique = {id(each): each for each in plugins}.values()
        self._keys = tuple((each.name, key_of(each)) for each in unique if isinstance(each, KeyedPlugin))
        self._stamps = tuple(stamp_of(each) for each in unique if isinstance(each, ClusterVersionedPlugin))
        self._by_name: dict[str, Plugin] = {each.name: each for each in plugins}
        self._standings: OrderedDict[Hashable, ShapeCacheEntry] = OrderedDict()
        self._large: OrderedDict[Hashable, int] = OrderedDict()
        """The keys of standings with many rules about other pods, and how many rules."""

    # -- deciding -----------------------------------------------------------------------------------------------------

    def place(self, pod: PodInfo, wait: Callable[[Unplaced], Unplaced | None] = lambda unplaced: None) -> Outcome:
        """Decide, and count the pod in where it goes. ``wait`` may say that there will be room without more ado: then
        nobody looks for another way out."""
        self._watch.begin()
        outcome = self.decide(pod)
        if isinstance(outcome, ScheduleResult):
            self.matrix.assume(pod, NodeIndex(outcome.row))
        elif outcome.rejections and not outcome.is_error and not pod.shape.problem:
            try:
                outcome = wait(outcome) or self._look_for_a_way_out(pod, outcome)
            except BaseException as broken:
                self.report_failure(broken, pod)
                outcome = unplaced_by_error(broken)
        self._watch.end()
        return outcome

    def decide(self, pod: PodInfo) -> Outcome:
        shape = pod.shape
        if shape.problem:
            # Waiting for nodes is no use: only the pod itself can change that.
            return Unplaced(shape.problem, (Rejection(SHAPE, shape.problem, own_update(PodRequestsChanged())),))
        if not self.matrix.count:
            return Unplaced(fit_error.NO_NODES)
        found: ShapeCacheEntry | CycleState | PreFilterFailure | None = None
        try:
            found = self._standing(pod)
            if isinstance(found, PreFilterFailure):
                return self._refuse(found, shape)
            if isinstance(found, CycleState):
                return self._decide_among_named(pod, found)
            return self._decide(pod, found)
        except BaseException as broken:
            if not isinstance(broken, PluginError):
                # Whatever else a plugin breaks must not stop the pods that it has nothing to do with.
                self._standings = OrderedDict((key, each) for key, each in self._standings.items() if each is not found)
            self.report_failure(broken, pod)
            return unplaced_by_error(broken)

    def _key(self, pod: PodInfo) -> Hashable:
        key: Hashable = pod.shape
        for name, key_for in self._keys:
            own = key_for(pod)
            if own is not None:
                key = (key, name, own)
        return key

    def _standing(self, pod: PodInfo) -> ShapeCacheEntry | CycleState | PreFilterFailure:
        key = self._key(pod)
        found = self._standings.get(key)
        if found is not None:
            self._standings.move_to_end(key)
            try:
                if found.refresh():
                    return found
            except BaseException:
                del self._standings[key]  # half caught up is not caught up
                raise
            del self._standings[key]
        question = build_cycle_state(pod, self.matrix, self.plugins, self._watch)
        if isinstance(question, PreFilterFailure) or question.names is not None:
            return question
        made = self._standings[key] = ShapeCacheEntry(question, self.matrix, self._stamps)
        most = max(_STANDINGS_BYTES // (_ROW_BYTES * self.matrix.capacity), _FEW_STANDINGS)
        while len(self._standings) > most:
            self._standings.popitem(last=False)
        self._limit_large(key, pod.shape)
        return made

    def _limit_large(self, key: Hashable, shape: PodShape) -> None:
        """Each rule about other pods takes memory for all rows: of standings with many rules the last few stay."""
        between = (shape.affinity, shape.anti_affinity)
        rules = len(shape.spread) + sum(len(each.required) + len(each.preferred) for each in between)
        if rules <= _FEW_RULES:
            return
        self._large[key] = rules
        self._large.move_to_end(key)
        total = sum(self._large.values())
        while len(self._large) > 1 and total * _RULE_ROW_BYTES * self.matrix.capacity > _STANDINGS_BYTES:
            oldest, rules = self._large.popitem(last=False)
            total -= rules
            self._standings.pop(oldest, None)

    def _decide(self, pod: PodInfo, standing: ShapeCacheEntry) -> Outcome:
        matrix = self.matrix
        feasible, order, bits = standing.feasible, standing.order, standing.bits
        denied = self._promised.conflicting_rows(pod, standing.cycle_state, standing.denials)
        if denied:
            rows = list(denied)
            feasible, order, bits = feasible.copy(), order.copy(), bits.copy()
            feasible[rows] = False
            order[rows] = [each[0] for each in denied.values()]
            bits[rows] = [each[1] for each in denied.values()]
        nominated = matrix.row_of(self.nominated_node(pod))
        if nominated is not None and feasible[nominated]:
            return ScheduleResult(matrix.name(nominated), nominated, 1)
        wanted = nodes_to_find(matrix.count, self._percentage) if self._percentage < ALL else matrix.count
        if wanted < matrix.count or denied:
            some, self._start = sample(feasible, matrix.by_name, self._start % matrix.count, wanted)
            row, number = standing.best_of(some), len(some)
        else:
            row, number = standing.best(), int(np.count_nonzero(feasible))
        if row is not None:
            return ScheduleResult(matrix.name(row), row, number)
        if standing.unplaced is None or standing.unplaced[0] != denied:
            standing.unplaced = dict(denied), self._explain(standing.cycle_state.shape, order, bits)
        return standing.unplaced[1]

    def _explain(self, shape: PodShape, order: Orders, bits: Ints) -> Unplaced:
        size = self.matrix.size
        counts = fit_error.count_reasons(self.plugins.filters, shape, order[:size], bits[:size])
        return Unplaced(
            fit_error.fit_error(self.matrix.count, counts.values()),
            self._rejections(shape, counts),
            resolvable=self._names(self.matrix.by_name, self._curable(shape, order[:size], bits[:size])),
        )

    def _curable(self, shape: PodShape, order: Orders, bits: Ints) -> Mask:
        """Which are rejected only for reasons that room would cure."""
        cured = np.zeros(len(order), np.bool_)
        for number, plugin in enumerate(self.plugins.filters):
            mask = sum(1 << i for i, each in enumerate(reasons_of(plugin, shape)) if each.unresolvable)
            cured |= (order == number) & (bits & mask == 0)
        return cured

    def _names(self, rows: Rows, mask: Mask) -> tuple[str, ...]:
        """Of those rows that a mask over all rows has."""
        return tuple(map(self.matrix.name, rows[mask[rows]].tolist()))

    def _decide_among_named(self, pod: PodInfo, question: CycleState) -> Outcome:
        """Few nodes, named by the pod (a daemon's, say): asked about directly, nothing is kept."""
        matrix, shape, filters = self.matrix, question.shape, self.plugins.filters
        rows, order, bits, left, total = self._score_named(pod, question)
        if len(left):
            nominated = matrix.row_of(self.nominated_node(pod))
            row = nominated if nominated is not None and nominated in left else int(left[int(total.argmax())])
            return ScheduleResult(matrix.name(row), row, 1 if row == nominated else len(left))
        counts = fit_error.count_reasons(filters, shape, order, bits)
        others = f"node(s) didn't satisfy plugin(s) [{' '.join(question.named_by)}]"
        unseen = {others: matrix.count - len(order)} if matrix.count > len(order) else {}
        for name in question.named_by:
            counts.setdefault(name, Counter())
        return Unplaced(
            fit_error.fit_error(matrix.count, (*counts.values(), Counter(unseen))),
            self._rejections(shape, counts),
            resolvable=tuple(map(matrix.name, rows[self._curable(shape, order, bits)].tolist())),
        )

    def _score_named(self, pod: PodInfo, question: CycleState) -> tuple[Rows, Orders, Ints, Rows, Ints]:
        """The named nodes, by name; who rejects them and why; and the rows that are left, with their scores."""
        matrix, shape = self.matrix, question.shape
        known = sorted(name for name in question.names or () if matrix.row_of(name) is not None)
        rows = np.array([matrix.row_of(name) for name in known], np.intp)
        found = filter_rows(question.filters, shape, matrix, rows)
        order = np.full(len(rows), PASSES, np.int8) if found is None else found[0]
        bits = np.zeros(len(rows), np.int64) if found is None else found[1].copy()
        for row, why in self._promised.conflicting_among(pod, question, rows.tolist()).items():
            order[rows == row], bits[rows == row] = why
        left = rows[order == PASSES]
        total = np.zeros(len(left), np.int64)
        if len(left) > 1:  # a single one is the best, whatever it scores
            feasible = np.zeros(matrix.size, np.bool_)
            feasible[left] = True
            for state in question.watchers:
                state.see(feasible)
        for step in question.scores if len(left) > 1 else ():
            score = score_rows(step, shape, matrix, left)
            total += step.weight * normalized(step, score, scale_of(step, score))
        return rows, order, bits, left, total

    def scores(self, pod: PodInfo) -> dict[str, int]:
        """Every node that would do, by name, with its score among them: for whoever asks why it was chosen."""
        found = self._standing(pod)
        if isinstance(found, ShapeCacheEntry):
            return {self.matrix.name(row): found.score_of(row) for row in np.flatnonzero(found.feasible).tolist()}
        if isinstance(found, CycleState):
            *_, left, total = self._score_named(pod, found)
            return {self.matrix.name(row): int(score) for row, score in zip(left.tolist(), total, strict=True)}
        return {}

    # -- dry runs -----------------------------------------------------------------------------------------------------

    def dry_run(self, pod: PodInfo, row: int, /) -> NodeDryRun:
        """Of this pod on this node, beside pods that were promised room there, as others come and go."""
        found = self._standing(pod)
        question = found.cycle_state if isinstance(found, ShapeCacheEntry) else found
        key = self._key(pod)
        beside = self._promised.nominated_on(pod, row)
        return NodeDryRun(question, self.matrix, row, beside, lambda: self._drop(key))

    def _drop(self, key: Hashable) -> None:
        self._standings.pop(key, None)

    def probe(
        self, pod: PodInfo, row: int, plus: Iterable[PodInfo] = (), without: Iterable[PodInfo] = ()
    ) -> tuple[FilterReason, ...]:
        """Why the pod would not do on a node if some pods came there and others left; nothing if it would."""
        with self.dry_run(pod, row) as trial:
            for each in plus:
                trial.put(each)
            for each in without:
                trial.take(each)
            return trial.reasons()

    def nominated_node(self, pod: PodInfo, /) -> str:
        return self._promised.node_of(pod)

    def nominated_pods(self, pod: PodInfo, /) -> Mapping[int, Hashable]:
        return {row: signature(there) for row, there in self._promised.nominated_rows(pod)}

    def cycle_state_key(self, pod: PodInfo, /) -> tuple[Hashable, bool]:
        found = self._standing(pod)
        question = found.cycle_state if isinstance(found, ShapeCacheEntry) else found
        stamps = tuple(stamp_for(pod.shape, self.matrix) for stamp_for in self._stamps)
        return (self._key(pod), stamps), isinstance(question, CycleState) and bool(question.filter_states)

    @property
    def nomination_log(self) -> ChangeLog[str]:
        return self._promised.log

    @property
    def epoch(self) -> Hashable:
        return self.matrix.log.position, self._promised.log.position

    # -- former names of the members above, for plugins of others; removed after one release --------------------------

    def trial(self, pod: PodInfo, row: int, /) -> NodeDryRun:
        _warn_renamed("trial", "dry_run")
        return self.dry_run(pod, row)

    def promised_node(self, pod: PodInfo, /) -> str:
        _warn_renamed("promised_node", "nominated_node")
        return self.nominated_node(pod)

    def promised(self, pod: PodInfo, /) -> Mapping[int, Hashable]:
        _warn_renamed("promised", "nominated_pods")
        return self.nominated_pods(pod)

    def question(self, pod: PodInfo, /) -> tuple[Hashable, bool]:
        _warn_renamed("question", "cycle_state_key")
        return self.cycle_state_key(pod)

    @property
    def promise_log(self) -> ChangeLog[str]:
        _warn_renamed("promise_log", "nomination_log")
        return self.nomination_log

    # -- saying why ---------------------------------------------------------------------------------------------------

    def _refuse(self, refused: PreFilterFailure, shape: PodShape) -> Unplaced:
        text = refused.reason.text
        counts = {name: Counter({text: self.matrix.count}) for name in refused.plugins}
        message = fit_error.before_any_node(self.matrix.count, text)
        return Unplaced(message, self._rejections(shape, counts), is_early=refused.reason.unresolvable)

    def _rejections(self, shape: PodShape, counts: dict[str, Counter[str]]) -> tuple[Rejection, ...]:
        return tuple(
            Rejection(name, fit_error.describe(each), self._wakers(name, shape)) for name, each in counts.items()
        )

    def _wakers(self, name: str, shape: PodShape) -> tuple[ClusterEventWithHint, ...]:
        plugin = self._by_name.get(name)
        if not isinstance(plugin, EnqueueExtensions):
            return ()
        if result_checks.is_built_in(plugin):
            return plugin.wakers(shape)
        try:
            found = result_checks.events_to_register(plugin.wakers(shape))
            report_failures(found, lambda error: self._watch.failures.failed(plugin, "matches of a guard", error))
            return found
        except BaseException as broken:
            raise PluginError(name, "wakers", broken) from broken

    def report_failure(self, broken: BaseException, pod: PodInfo) -> None:
        """To the log."""
        about = f"pod {pod.key}"
        if isinstance(broken, PluginError):
            self._watch.failures.failed(self._by_name.get(broken.plugin), broken.method, broken.cause, about)
        else:
            self._watch.failures.failed(None, "scheduling", broken, about)

    def _look_for_a_way_out(self, pod: PodInfo, unplaced: Unplaced) -> Unplaced:
        if not self.plugins.post_filters:
            return unplaced
        texts: list[str] = []
        promise: str | None = None
        for each in self.plugins.post_filters:
            meter = self._watch.timer(each.name, POST_FILTER)
            began_s = meter.begin()
            status = UNSCHEDULABLE
            try:
                found = result_checks.post_filter_result(each.post_filter(pod, unplaced, self))
                if isinstance(found, PostFilterNomination) and self.matrix.row_of(found.node_name) is None:
                    raise result_checks.InvalidPluginResult(f"nominated {found.node_name!r}, which is not a node")
            except BaseException as broken:
                found, status = str(PluginError(each.name, POST_FILTER, broken)), ERROR
                self._watch.failures.failed(each, "post_filter", broken, f"pod {pod.key}")
            if began_s is not None:
                meter.end(began_s, SUCCESS if isinstance(found, PostFilterNomination) else status)
            if isinstance(found, PostFilterNomination):
                return msgspec.structs.replace(unplaced, nominated=found, promise=found.node_name)
            if isinstance(found, PostFilterUnresolvable):
                texts, promise = [found.reason], None
                break
            if isinstance(found, PostFilterUnschedulable):
                promise = ""
            texts.append(found.reason if isinstance(found, PostFilterUnschedulable) else found)
        message = " ".join((unplaced.message, ", ".join(filter(None, texts)))).rstrip()
        return msgspec.structs.replace(unplaced, message=message, promise=promise)


def _warn_renamed(old: str, new: str) -> None:
    """``stacklevel`` 3 is the plugin that uses the old name."""
    text = f"{old} of the handle that post_filter receives is deprecated and works for one release: use {new}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def unplaced_by_error(broken: BaseException) -> Unplaced:
    """A plugin failed: the pod is tried again after a backoff, and its condition names the plugin."""
    if isinstance(broken, PluginError):
        return Unplaced(str(broken), (Rejection(broken.plugin, str(broken)),), is_error=True)
    return Unplaced(f"scheduling failed: {result_checks.described(broken)}", is_error=True)
