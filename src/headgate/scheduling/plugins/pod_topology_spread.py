"""PodTopologySpread: pods that belong together are spread over zones, nodes, or whatever label tells domains apart.

Hard constraints (``DoNotSchedule``) filter, soft ones (``ScheduleAnyway``) score. Which constraints hold for a pod,
its own or defaults, is in ``spreading/rules.py``; counting in ``spreading/counts.py``; verdicts and scores in
``spreading/hard.py`` and ``soft.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Reason, Skip
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.normalizing import MAX_SCORE
from headgate.scheduling.plugins.spreading import guards
from headgate.scheduling.plugins.spreading.hard import HardSpread
from headgate.scheduling.plugins.spreading.rules import SYSTEM_DEFAULTS, Constraints, Rulebook
from headgate.scheduling.plugins.spreading.soft import IGNORED, SoftSpread
from headgate.scheduling.pod import Pod
from headgate.scheduling.selectors import Selectors
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "PodTopologySpread"
_REASON: Final = "node(s) didn't match pod topology spread constraints"
REASONS: Final = (Reason(_REASON), Reason(f"{_REASON} (missing required label)", unresolvable=True))


class PodTopologySpread:
    """``defaults`` of ``None`` are Kubernetes' own."""

    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, selectors: Selectors, defaults: Constraints | None = None) -> None:
        self._rules = Rulebook(SYSTEM_DEFAULTS if defaults is None else defaults, selectors, is_system=defaults is None)
        self._hard_defaults = tuple(each for each in self._rules.defaults if each.is_hard)

    def key(self, pod: Pod, /) -> Hashable:
        return self._rules.siblings(pod)

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | HardSpread:
        rules = self._rules.find(pod, is_hard=True)
        return SKIP if rules is None else HardSpread(rules, pod.shape, matrix)

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: HardSpread, /) -> Ints | None:
        bits = state.verdicts(rows)
        return bits if bits.any() else None

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | SoftSpread:
        rules = self._rules.find(pod, is_hard=False)
        return SKIP if rules is None else SoftSpread(rules, pod.shape, matrix)

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: SoftSpread, /) -> Ints:
        return state.raw_scores(rows)

    def scale(self, feasible: Ints, /) -> Hashable:
        scored = feasible[feasible != IGNORED]
        return (int(scored.min()), int(scored.max())) if len(scored) else (0, 0)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        """The fewest pods are best; a node with as many as the most gets what the fewest are of the most."""
        least, most = scale
        scores = np.full_like(raw, MAX_SCORE) if most == 0 else MAX_SCORE * (most + least - raw) // most
        scores[raw == IGNORED] = 0
        return scores

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return guards.wakers(shape, self._hard_defaults)
