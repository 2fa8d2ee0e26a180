"""PodTopologySpread: spreads matching pods over zones, nodes or other topology domains.

Hard constraints (``DoNotSchedule``) filter, soft constraints (``ScheduleAnyway``) score. ``constraints.py`` selects the
constraints of a pod, ``pod_counts.py`` counts pods, ``hard_constraints.py`` and ``soft_constraints.py`` compute results
and scores, all in this package.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.pod_selectors import PodSelectors
from headgate.scheduling.framework.interface import READS_PODS, SKIP, FilterReason, Reads, Skip
from headgate.scheduling.framework.normalize_score import MAX_SCORE
from headgate.scheduling.plugins.podtopologyspread import queueing_hints
from headgate.scheduling.plugins.podtopologyspread.constraints import SYSTEM_DEFAULTS, Constraints, ConstraintSource
from headgate.scheduling.plugins.podtopologyspread.hard_constraints import HardSpreadState
from headgate.scheduling.plugins.podtopologyspread.soft_constraints import IGNORED, SoftSpreadState
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "PodTopologySpread"
_REASON: Final = "node(s) didn't match pod topology spread constraints"
REASONS: Final = (FilterReason(_REASON), FilterReason(f"{_REASON} (missing required label)", unresolvable=True))


class PodTopologySpread:
    """``defaults``: the constraints for pods without constraints; ``None`` means kube-scheduler's built-in ones."""

    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, selectors: PodSelectors, defaults: Constraints | None = None) -> None:
        self._constraint_source = ConstraintSource(
            SYSTEM_DEFAULTS if defaults is None else defaults, selectors, is_system=defaults is None
        )
        self._hard_defaults = tuple(each for each in self._constraint_source.defaults if each.is_hard)

    def key(self, pod: PodInfo, /) -> Hashable:
        return self._constraint_source.default_selector(pod)

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | HardSpreadState:
        spread_constraints = self._constraint_source.find(pod, is_hard=True)
        return SKIP if spread_constraints is None else HardSpreadState(spread_constraints, pod.shape, matrix)

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: HardSpreadState, /) -> Ints | None:
        bits = state.filter(rows)
        return bits if bits.any() else None

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | SoftSpreadState:
        spread_constraints = self._constraint_source.find(pod, is_hard=False)
        return SKIP if spread_constraints is None else SoftSpreadState(spread_constraints, pod.shape, matrix)

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: SoftSpreadState, /) -> Ints:
        return state.raw_scores(rows)

    def scale(self, feasible: Ints, /) -> Hashable:
        scored = feasible[feasible != IGNORED]
        return (int(scored.min()), int(scored.max())) if len(scored) else (0, 0)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        """Nodes with the fewest pods get 100; nodes with the most pods get the ratio of lowest to highest count."""
        lowest, highest = scale
        scores = np.full_like(raw, MAX_SCORE) if highest == 0 else MAX_SCORE * (highest + lowest - raw) // highest
        scores[raw == IGNORED] = 0
        return scores

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return queueing_hints.events_to_register(shape, self._hard_defaults)
