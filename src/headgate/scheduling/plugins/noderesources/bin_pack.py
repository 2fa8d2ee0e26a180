"""BinPack: prefers nodes with the highest use of the resources that the pod requests. Volcano's ``binpack``.

Only requested resources with a configured weight count. Volcano adds fractions; this plugin uses whole percents,
rounded down, as all other scores do.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework.interface import READS_PODS, SKIP, Reads, Skip, State
from headgate.scheduling.plugins.noderesources.resource_allocation import (
    DEFAULT_RESOURCES,
    ResourceScorer,
    Weights,
    most_allocated,
    scorer_for,
)

NAME: Final = "BinPack"


class BinPack:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, resources: Weights = DEFAULT_RESOURCES) -> None:
        self._resources = tuple(resources)

    def _scorer(self, shape: PodShape, matrix: NodeMatrix) -> ResourceScorer:
        requested = [(name, weight) for name, weight in self._resources if weight and shape.requests.get(name)]
        return scorer_for(matrix, requested, shape.requests, with_defaults=False)

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | ResourceScorer:
        scorer = self._scorer(pod.shape, matrix)
        return scorer if len(scorer.columns) else SKIP

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scorer: ResourceScorer = state or self._scorer(shape, matrix)
        return most_allocated(*scorer.capacity_and_use(matrix, rows), scorer.weights)
