"""Figures of samples: percentiles, Jain's index of fairness, and confidence intervals of means.

Percentiles are nearest-rank values, so each is a value that occurred. Intervals use Student's t distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

_T_95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
_NORMAL_95: Final = 1.960


class Percentiles(msgspec.Struct, frozen=True):
    """Of one figure over all jobs of a group, in seconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


NO_VALUES: Final = Percentiles(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def percentiles(values: Sequence[float]) -> Percentiles:
    if not values:
        return NO_VALUES
    ordered = sorted(values)
    return Percentiles(
        len(ordered),
        round(math.fsum(ordered) / len(ordered), 3),
        *(round(nearest_rank(ordered, share), 3) for share in (0.5, 0.9, 0.99, 1.0)),
    )


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The smallest value such that at least this share of the values is not larger."""
    return ordered[max(math.ceil(share * len(ordered) - 1e-9), 1) - 1]


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything. 1 for no values."""
    total, squares = math.fsum(values), math.fsum(each * each for each in values)
    return 1.0 if not squares else round(total * total / (len(values) * squares), 6)


class Interval(msgspec.Struct, frozen=True):
    """A mean over seeds with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def interval(values: Sequence[float]) -> Interval:
    """Of one value the interval is unknown: it has the width 0, and ``seeds`` says so."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(round(mean, 6), round(mean, 6), round(mean, 6), 1)
    variance = math.fsum((each - mean) ** 2 for each in values) / (count - 1)
    quantile = _T_95[count - 2] if count - 2 < len(_T_95) else _NORMAL_95
    half = quantile * math.sqrt(variance / count)
    return Interval(round(mean, 6), round(mean - half, 6), round(mean + half, 6), count)
