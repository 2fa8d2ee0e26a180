"""ImageLocality: prefers nodes that already have the pod's images.

An image counts with its size times the fraction of nodes that have it, so that not all pods go to the one node with a
rare image. Images below 23 MB do not count; above 1000 MB per container the score does not grow.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework.interface import READS_NODE, Reads, State

NAME: Final = "ImageLocality"
_MEGABYTE: Final = 1024 * 1024
_MIN_BYTES: Final = 23 * _MEGABYTE
_MAX_BYTES_PER_CONTAINER: Final = 1000 * _MEGABYTE


class ImageLocality:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        """While no node has one of the pod's images, changes of other images do not matter."""
        if not any(matrix.images.find(each) for each in shape.images):
            return None
        return matrix.images.version, matrix.count

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        sums: Ints = np.zeros(matrix.capacity, np.int64)
        for each in shape.images:
            found = matrix.images.find(each)
            if found is not None:
                sums[list(found.rows)] += int(float(found.size_bytes) * (len(found.rows) / matrix.count))
        max_bytes = _MAX_BYTES_PER_CONTAINER * len(shape.images)
        image_bytes = sums[: matrix.size] if rows is None else sums[rows]
        if max_bytes <= _MIN_BYTES:
            return np.zeros_like(image_bytes)
        scores: Ints = 100 * (np.clip(image_bytes, _MIN_BYTES, max_bytes) - _MIN_BYTES) // (max_bytes - _MIN_BYTES)
        return scores
