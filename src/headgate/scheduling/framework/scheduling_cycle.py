"""The scheduling cycle: finds a node for a pod, or the reasons why no node fits.

:meth:`SchedulingCycle.decide` returns the result for the current cluster; :meth:`SchedulingCycle.place` also assumes
the pod on its node, so that the next pod sees it. Pods of one shape (equal requirements on the node) share one
``ShapeCacheEntry``: the plugins run once for a thousand replicas and then only for changed rows of the node matrix. The
result equals that of running all plugins on all nodes for each pod. ``scheduling/queue/`` chooses the next pod;
``scheduling/schedule_one.py`` uses the result.
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

_MAX_CACHE_BYTES: Final = 128 * 1024 * 1024
_ROW_BYTES: Final = 80  # of one cache entry per row
_CONSTRAINT_ROW_BYTES: Final = 24  # of one constraint per row
_MIN_ENTRIES: Final = 32
_FEW_CONSTRAINTS: Final = 16

SHAPE: Final = "PodShape"
"""The plugin name in the rejection of a pod whose specification is invalid."""

Outcome = ScheduleResult | Unplaced
"""The chosen node, or why no node fits."""


class SchedulingCycle:
    """``percentage`` is ``percentageOfNodesToScore``: 100 evaluates all nodes, 0 an adaptive percentage."""

    def __init__(
        self,
        matrix: NodeMatrix,
        cycle_plugins: CyclePlugins,
        percentage: int = ALL,
        nominated_pods: NominatedPods | None = None,
        timers: ProfileTimers | None = None,
    ) -> None:
        self.matrix = matrix
        self.plugins = cycle_plugins
        self._percentage = percentage
        self._nominated_pod_filter = NominatedPodFilter(matrix, nominated_pods)
        self._timers = timers or ProfileTimers()
        self._start = 0
        scores = (each for each, _ in cycle_plugins.scores)
        # All plugins whose results are cached, including those that serve only preFilter or preScore.
        plugins: list[Plugin] = [*cycle_plugins.pre_filters, *cycle_plugins.filters, *cycle_plugins.pre_scores, *scores]
        unique = {id(each): each for each in plugins}.values()
        self._keys = tuple((each.name, key_of(each)) for each in unique if isinstance(each, KeyedPlugin))
        self._stamps = tuple(stamp_of(each) for each in unique if isinstance(each, ClusterVersionedPlugin))
        self._by_name: dict[str, Plugin] = {each.name: each for each in plugins}
        self._shape_cache: OrderedDict[Hashable, ShapeCacheEntry] = OrderedDict()
        self._large_entries: OrderedDict[Hashable, int] = OrderedDict()
        """The keys of cache entries with many constraints about other pods, and the number of constraints."""

    # -- decisions ----------------------------------------------------------------------------------------------------

    def place(self, pod: PodInfo, find_wait: Callable[[Unplaced], Unplaced | None] = lambda unplaced: None) -> Outcome:
        """Decide, and assume the pod on its node. ``find_wait`` is called for a pod that fits no node: if it finds that
        the pod only has to wait for terminating pods it returns the result, and PostFilter does not run."""
        self._timers.begin()
        outcome = self.decide(pod)
        if isinstance(outcome, ScheduleResult):
            self.matrix.assume(pod, NodeIndex(outcome.row))
        elif outcome.rejections and not outcome.is_error and not pod.shape.problem:
            try:
                outcome = find_wait(outcome) or self._run_post_filter(pod, outcome)
            except BaseException as error:
                self.report_failure(error, pod)
                outcome = unplaced_by_error(error)
        self._timers.end()
        return outcome

    def decide(self, pod: PodInfo) -> Outcome:
        """The best node for the pod, or why no node fits. Changes nothing."""
        shape = pod.shape
        if shape.problem:
            # The pod fits no node, and no change of a node matters: only an update of the pod does.
            return Unplaced(shape.problem, (Rejection(SHAPE, shape.problem, own_update(PodRequestsChanged())),))
        if not self.matrix.count:
            return Unplaced(fit_error.NO_NODES)
        found: ShapeCacheEntry | CycleState | PreFilterFailure | None = None
        try:
            found = self._evaluate(pod)
            if isinstance(found, PreFilterFailure):
                return self._reject_all_nodes(found, shape)
            if isinstance(found, CycleState):
                return self._decide_among_named(pod, found)
            return self._decide(pod, found)
        except BaseException as error:
            if not isinstance(error, PluginError):
                # The cache entry may be inconsistent: it is dropped, so that the failure does not affect other pods.
                self._shape_cache = OrderedDict(
                    (key, each) for key, each in self._shape_cache.items() if each is not found
                )
            self.report_failure(error, pod)
            return unplaced_by_error(error)

    def _key(self, pod: PodInfo) -> Hashable:
        """The key of the pod's entry in the shape cache: its shape, and the keys that plugins add for this pod."""
        key: Hashable = pod.shape
        for name, key_for in self._keys:
            plugin_key = key_for(pod)
            if plugin_key is not None:
                key = (key, name, plugin_key)
        return key

    def _evaluate(self, pod: PodInfo) -> ShapeCacheEntry | CycleState | PreFilterFailure:
        """The up-to-date cache entry of the pod's shape. If a PreFilter plugin names the only possible nodes, a cycle
        state is returned instead, which is not cached."""
        key = self._key(pod)
        found = self._shape_cache.get(key)
        if found is not None:
            self._shape_cache.move_to_end(key)
            try:
                if found.refresh():
                    return found
            except BaseException:
                del self._shape_cache[key]  # a partial update leaves it inconsistent
                raise
            del self._shape_cache[key]
        cycle_state = build_cycle_state(pod, self.matrix, self.plugins, self._timers)
        if isinstance(cycle_state, PreFilterFailure) or cycle_state.names is not None:
            return cycle_state
        entry = self._shape_cache[key] = ShapeCacheEntry(cycle_state, self.matrix, self._stamps)
        max_entries = max(_MAX_CACHE_BYTES // (_ROW_BYTES * self.matrix.capacity), _MIN_ENTRIES)
        while len(self._shape_cache) > max_entries:
            self._shape_cache.popitem(last=False)
        self._limit_large_entries(key, pod.shape)
        return entry

    def _limit_large_entries(self, key: Hashable, shape: PodShape) -> None:
        """Drop the oldest large entries: each constraint about other pods takes memory for all rows."""
        pod_affinity = (shape.affinity, shape.anti_affinity)
        constraints = len(shape.spread) + sum(len(each.required) + len(each.preferred) for each in pod_affinity)
        if constraints <= _FEW_CONSTRAINTS:
            return
        self._large_entries[key] = constraints
        self._large_entries.move_to_end(key)
        total = sum(self._large_entries.values())
        while len(self._large_entries) > 1 and total * _CONSTRAINT_ROW_BYTES * self.matrix.capacity > _MAX_CACHE_BYTES:
            oldest, constraints = self._large_entries.popitem(last=False)
            total -= constraints
            self._shape_cache.pop(oldest, None)

    def _decide(self, pod: PodInfo, entry: ShapeCacheEntry) -> Outcome:
        """Decide with the cached results of the shape, and with the pods that are nominated to nodes."""
        matrix = self.matrix
        feasible, order, bits = entry.feasible, entry.order, entry.bits
        conflicts = self._nominated_pod_filter.conflicting_rows(pod, entry.cycle_state, entry.nominated_pod_conflicts)
        if conflicts:
            rows = list(conflicts)
            feasible, order, bits = feasible.copy(), order.copy(), bits.copy()
            feasible[rows] = False
            order[rows] = [each[0] for each in conflicts.values()]
            bits[rows] = [each[1] for each in conflicts.values()]
        nominated = matrix.row_of(self.nominated_node(pod))
        if nominated is not None and feasible[nominated]:
            return ScheduleResult(matrix.name(nominated), nominated, 1)
        limit = nodes_to_find(matrix.count, self._percentage) if self._percentage < ALL else matrix.count
        if limit < matrix.count or conflicts:
            sampled, self._start = sample(feasible, matrix.by_name, self._start % matrix.count, limit)
            row, number = entry.best_of(sampled), len(sampled)
        else:
            row, number = entry.best(), int(np.count_nonzero(feasible))
        if row is not None:
            return ScheduleResult(matrix.name(row), row, number)
        if entry.unplaced is None or entry.unplaced[0] != conflicts:
            entry.unplaced = dict(conflicts), self._explain(entry.cycle_state.shape, order, bits)
        return entry.unplaced[1]

    def _explain(self, shape: PodShape, order: Orders, bits: Ints) -> Unplaced:
        size = self.matrix.size
        counts = fit_error.count_reasons(self.plugins.filters, shape, order[:size], bits[:size])
        return Unplaced(
            fit_error.fit_error(self.matrix.count, counts.values()),
            self._rejections(shape, counts),
            resolvable=self._names(self.matrix.by_name, self._resolvable(shape, order[:size], bits[:size])),
        )

    def _resolvable(self, shape: PodShape, order: Orders, bits: Ints) -> Mask:
        """The rows that are rejected only for reasons that preemption can resolve."""
        resolvable = np.zeros(len(order), np.bool_)
        for number, plugin in enumerate(self.plugins.filters):
            mask = sum(1 << i for i, each in enumerate(reasons_of(plugin, shape)) if each.unresolvable)
            resolvable |= (order == number) & (bits & mask == 0)
        return resolvable

    def _names(self, rows: Rows, mask: Mask) -> tuple[str, ...]:
        """The node names of the rows that are set in a mask over all rows."""
        return tuple(map(self.matrix.name, rows[mask[rows]].tolist()))

    def _decide_among_named(self, pod: PodInfo, cycle_state: CycleState) -> Outcome:
        """Decide for a pod for which a PreFilter plugin named the only possible nodes, such as a pod of a DaemonSet:
        only these are evaluated, and nothing is cached."""
        matrix, shape, filters = self.matrix, cycle_state.shape, self.plugins.filters
        rows, order, bits, remaining, total = self._score_named(pod, cycle_state)
        if len(remaining):
            nominated = matrix.row_of(self.nominated_node(pod))
            row = nominated if nominated is not None and nominated in remaining else int(remaining[int(total.argmax())])
            return ScheduleResult(matrix.name(row), row, 1 if row == nominated else len(remaining))
        counts = fit_error.count_reasons(filters, shape, order, bits)
        excluded_text = f"node(s) didn't satisfy plugin(s) [{' '.join(cycle_state.named_by)}]"
        excluded = {excluded_text: matrix.count - len(order)} if matrix.count > len(order) else {}
        for name in cycle_state.named_by:
            counts.setdefault(name, Counter())
        return Unplaced(
            fit_error.fit_error(matrix.count, (*counts.values(), Counter(excluded))),
            self._rejections(shape, counts),
            resolvable=tuple(map(matrix.name, rows[self._resolvable(shape, order, bits)].tolist())),
        )

    def _score_named(self, pod: PodInfo, cycle_state: CycleState) -> tuple[Rows, Orders, Ints, Rows, Ints]:
        """The rows of the named nodes, ordered by name; the filter that rejects each and its reasons; and the feasible
        rows with their scores."""
        matrix, shape = self.matrix, cycle_state.shape
        known = sorted(name for name in cycle_state.names or () if matrix.row_of(name) is not None)
        rows = np.array([matrix.row_of(name) for name in known], np.intp)
        found = filter_rows(cycle_state.filters, shape, matrix, rows)
        order = np.full(len(rows), PASSES, np.int8) if found is None else found[0]
        bits = np.zeros(len(rows), np.int64) if found is None else found[1].copy()
        for row, rejected in self._nominated_pod_filter.conflicting_among(pod, cycle_state, rows.tolist()).items():
            order[rows == row], bits[rows == row] = rejected
        remaining = rows[order == PASSES]
        total = np.zeros(len(remaining), np.int64)
        if len(remaining) > 1:  # a single feasible node needs no score
            feasible = np.zeros(matrix.size, np.bool_)
            feasible[remaining] = True
            for state in cycle_state.feasible_nodes_states:
                state.see(feasible)
        for step in cycle_state.scores if len(remaining) > 1 else ():
            score = score_rows(step, shape, matrix, remaining)
            total += step.weight * normalized(step, score, scale_of(step, score))
        return rows, order, bits, remaining, total

    def scores(self, pod: PodInfo) -> dict[str, int]:
        """All feasible nodes by name, with their scores."""
        found = self._evaluate(pod)
        if isinstance(found, ShapeCacheEntry):
            return {self.matrix.name(row): found.score_of(row) for row in np.flatnonzero(found.feasible).tolist()}
        if isinstance(found, CycleState):
            *_, remaining, total = self._score_named(pod, found)
            return {self.matrix.name(row): int(score) for row, score in zip(remaining.tolist(), total, strict=True)}
        return {}

    # -- dry runs -----------------------------------------------------------------------------------------------------

    def dry_run(self, pod: PodInfo, row: int, /) -> NodeDryRun:
        """A dry run of this pod on this node, with the pods nominated there."""
        found = self._evaluate(pod)
        cycle_state = found.cycle_state if isinstance(found, ShapeCacheEntry) else found
        key = self._key(pod)
        nominated = self._nominated_pod_filter.nominated_on(pod, row)
        return NodeDryRun(cycle_state, self.matrix, row, nominated, lambda: self._drop_entry(key))

    def _drop_entry(self, key: Hashable) -> None:
        self._shape_cache.pop(key, None)

    def probe(
        self, pod: PodInfo, row: int, added: Iterable[PodInfo] = (), removed: Iterable[PodInfo] = ()
    ) -> tuple[FilterReason, ...]:
        """Why the pod would not fit a node after pods were added and removed; empty if it would."""
        with self.dry_run(pod, row) as dry_run:
            for each in added:
                dry_run.put(each)
            for each in removed:
                dry_run.take(each)
            return dry_run.reasons()

    def nominated_node(self, pod: PodInfo, /) -> str:
        return self._nominated_pod_filter.node_of(pod)

    def nominated_pods(self, pod: PodInfo, /) -> Mapping[int, Hashable]:
        return {row: signature(pods) for row, pods in self._nominated_pod_filter.nominated_rows(pod)}

    def cycle_state_key(self, pod: PodInfo, /) -> tuple[Hashable, bool]:
        found = self._evaluate(pod)
        cycle_state = found.cycle_state if isinstance(found, ShapeCacheEntry) else found
        stamps = tuple(stamp_for(pod.shape, self.matrix) for stamp_for in self._stamps)
        return (self._key(pod), stamps), isinstance(cycle_state, CycleState) and bool(cycle_state.filter_states)

    @property
    def nomination_log(self) -> ChangeLog[str]:
        return self._nominated_pod_filter.log

    @property
    def epoch(self) -> Hashable:
        return self.matrix.log.position, self._nominated_pod_filter.log.position

    # -- former names of the members above, for external plugins; removed after one release --------------------------

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

    # -- rejections and failures --------------------------------------------------------------------------------------

    def _reject_all_nodes(self, failure: PreFilterFailure, shape: PodShape) -> Unplaced:
        text = failure.reason.text
        counts = {name: Counter({text: self.matrix.count}) for name in failure.plugins}
        message = fit_error.no_nodes_text(self.matrix.count, text)
        return Unplaced(message, self._rejections(shape, counts), is_early=failure.reason.unresolvable)

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
            report_failures(
                found, lambda error: self._timers.failures.failed(plugin, "matches of a queueing hint", error)
            )
            return found
        except BaseException as error:
            raise PluginError(name, "wakers", error) from error

    def report_failure(self, error: BaseException, pod: PodInfo) -> None:
        """Report the failure of a plugin to the log."""
        subject = f"pod {pod.key}"
        if isinstance(error, PluginError):
            self._timers.failures.failed(self._by_name.get(error.plugin), error.method, error.cause, subject)
        else:
            self._timers.failures.failed(None, "scheduling", error, subject)

    def _run_post_filter(self, pod: PodInfo, unplaced: Unplaced) -> Unplaced:
        if not self.plugins.post_filters:
            return unplaced
        texts: list[str] = []
        nominated_node: str | None = None
        for each in self.plugins.post_filters:
            timer = self._timers.timer(each.name, POST_FILTER)
            began_s = timer.begin()
            status = UNSCHEDULABLE
            try:
                found = result_checks.post_filter_result(each.post_filter(pod, unplaced, self))
                if isinstance(found, PostFilterNomination) and self.matrix.row_of(found.node_name) is None:
                    raise result_checks.InvalidPluginResult(f"nominated {found.node_name!r}, which is not a node")
            except BaseException as error:
                found, status = str(PluginError(each.name, POST_FILTER, error)), ERROR
                self._timers.failures.failed(each, "post_filter", error, f"pod {pod.key}")
            if began_s is not None:
                timer.end(began_s, SUCCESS if isinstance(found, PostFilterNomination) else status)
            if isinstance(found, PostFilterNomination):
                return msgspec.structs.replace(unplaced, nominated=found, promise=found.node_name)
            if isinstance(found, PostFilterUnresolvable):
                texts, nominated_node = [found.reason], None
                break
            if isinstance(found, PostFilterUnschedulable):
                nominated_node = ""
            texts.append(found.reason if isinstance(found, PostFilterUnschedulable) else found)
        message = " ".join((unplaced.message, ", ".join(filter(None, texts)))).rstrip()
        return msgspec.structs.replace(unplaced, message=message, promise=nominated_node)


def _warn_renamed(old: str, new: str) -> None:
    """``stacklevel`` 3 is the plugin that uses the old name."""
    text = f"{old} of the handle that post_filter receives is deprecated and works for one release: use {new}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def unplaced_by_error(error: BaseException) -> Unplaced:
    """A plugin failed: the pod is tried again after a backoff, and its condition names the plugin."""
    if isinstance(error, PluginError):
        return Unplaced(str(error), (Rejection(error.plugin, str(error)),), is_error=True)
    return Unplaced(f"scheduling failed: {result_checks.error_with_type(error)}", is_error=True)
