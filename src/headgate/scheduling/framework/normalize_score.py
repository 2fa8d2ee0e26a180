"""The default normalization of raw scores to 0..100: relative to the largest score of the feasible nodes."""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.scheduling.cache.resource_columns import Ints

MAX_SCORE: Final = 100


def largest(feasible: Ints) -> int:
    return int(feasible.max(initial=0))


def by_largest(raw: Ints, maximum: int, *, reverse: bool = False) -> Ints:
    """``reverse``: the largest is the worst. If all are zero they are all worst, or all best."""
    if maximum == 0:
        return np.full_like(raw, MAX_SCORE if reverse else 0)
    scores: Ints = MAX_SCORE * raw // maximum
    return MAX_SCORE - scores if reverse else scores
