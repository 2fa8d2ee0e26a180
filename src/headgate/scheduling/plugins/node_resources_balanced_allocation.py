"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used to the same share.

Pods that ask for none of the resources are not scored: they would all go to the node that is balanced best.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Skip, State
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.plugins.allocation import DEFAULT_RESOURCES, Scale, Weights, balanced, scale_for
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape

NAME: Final = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, resources: Weights = DEFAULT_RESOURCES) -> None:
        self._resources = tuple(resources)

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Scale:
        asked = pod.shape.requests
        if not any(asked.get(name) for name, _ in self._resources):
            return SKIP
        return scale_for(matrix, self._resources, asked, with_held=False)

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scale: Scale = state or scale_for(matrix, self._resources, shape.requests, with_held=False)
        return balanced(*scale.look(matrix, rows))
