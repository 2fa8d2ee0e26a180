"""NodeResourcesBalancedAllocation: prefers nodes where all resources would have the same utilization.

Pods that request none of the resources are not scored: they would all go to the best balanced node.
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
    balanced,
    scorer_for,
)

NAME: Final = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, resources: Weights = DEFAULT_RESOURCES) -> None:
        self._resources = tuple(resources)

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | ResourceScorer:
        requests = pod.shape.requests
        if not any(requests.get(name) for name, _ in self._resources):
            return SKIP
        return scorer_for(matrix, self._resources, requests, with_defaults=False)

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scorer: ResourceScorer = state or scorer_for(matrix, self._resources, shape.requests, with_defaults=False)
        return balanced(*scorer.capacity_and_use(matrix, rows))
