"""BinPack: prefers nodes that would be fuller of what the pod asks for. Volcano's ``binpack``, for queues.

Only resources that the pod asks for count, each with its weight; what nobody gave a weight does not. Volcano adds up
fractions, here shares are whole percents, rounded down, as in every other score.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Skip, State
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.plugins.allocation import DEFAULT_RESOURCES, Scale, Weights, most_allocated, scale_for
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape

NAME: Final = "BinPack"


class BinPack:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, resources: Weights = DEFAULT_RESOURCES) -> None:
        self._resources = tuple(resources)

    def _scale(self, shape: Shape, matrix: NodeMatrix) -> Scale:
        asked = [(name, weight) for name, weight in self._resources if weight and shape.requests.get(name)]
        return scale_for(matrix, asked, shape.requests, with_held=False)

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Scale:
        scale = self._scale(pod.shape, matrix)
        return scale if len(scale.columns) else SKIP

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scale: Scale = state or self._scale(shape, matrix)
        return most_allocated(*scale.look(matrix, rows), scale.weights)
