"""Run times drawn from observations of which some are not complete: units that still run, or were interrupted.

What is known of such a unit is only that it runs longer than so far. Without these units short run times would be seen
too often: of the units that started recently, the short ones have ended first. The product-limit estimator (Kaplan and
Meier 1958) counts them for as long as they were seen. Each curve weighs the observations at random (a Bayesian
bootstrap, Rubin 1981), so curves from few observations differ much, and those from many little.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

import msgspec

from headgate.simulate.random_numbers import RandomNumbers

_MAX_TAIL: Final = 50.0
"""A unit runs at most so many times as long as the longest observation, or as it has run."""
_MAX_SCALE: Final = 0.5
"""Of the logarithm of the tail: the mean of the rest of a unit is then as long as it has run."""
_MIN_S: Final = 0.1


class RunTimeSample(msgspec.Struct, frozen=True, eq=False):
    """Observed run times in seconds, ascending. ``is_end``: by observation; false if the unit still ran then. An end
    comes before an incomplete observation of the same length."""

    run_s: tuple[float, ...]
    is_end: tuple[bool, ...]

    @property
    def ends(self) -> int:
        return sum(self.is_end)


def sample_of(observations: Iterable[tuple[float, bool]]) -> RunTimeSample:
    """``observations``: each with whether it is an end."""
    ordered = sorted(observations, key=lambda each: (each[0], not each[1]))
    return RunTimeSample(tuple(run_s for run_s, _ in ordered), tuple(is_end for _, is_end in ordered))


class SurvivalCurve:
    """One weighted curve: the share of units that run longer than a time. It falls at the observed ends only, so the
    mean of the draws is that of the observations. A unit that runs longer than all of them has an exponential tail in
    the logarithm."""

    def __init__(self, sample: RunTimeSample, random: RandomNumbers) -> None:
        """The sample has at least one end."""
        self._random = random
        weights = [_weight(random) for _ in sample.run_s]
        at_risk = list(accumulate(reversed(weights)))
        at_risk.reverse()
        share = 1.0
        self._times: list[float] = []
        self._minus: list[float] = []
        """The share that runs longer than the time with the same index; negative, so that the list ascends."""
        for run_s, is_end, weight, whole in zip(sample.run_s, sample.is_end, weights, at_risk, strict=True):
            if is_end:
                share *= max(1 - weight / whole, 0.0)
                self._times.append(max(run_s, _MIN_S))
                self._minus.append(-share)
        self._seen = [each for each in sample.run_s if each > self._times[-1]] or self._times[-1:]
        """How long the units were seen that were not seen to end; the last end, if there are none."""
        self._scale = _tail_scale(sample)

    def draw(self, beyond_s: float) -> float:
        """A run time that is not shorter than ``beyond_s``, as long as a unit has run so far."""
        times, first = self._times, bisect_right(self._times, beyond_s)
        if first == len(times):
            return self._drawn_rest(beyond_s)
        wanted = self._random.uniform() * (1.0 if first == 0 else -self._minus[first - 1])
        index = bisect_left(self._minus, -wanted, lo=first)
        if index < len(times):
            return times[index]
        return self._drawn_rest(self._seen[int(self._random.uniform() * len(self._seen))])

    def _drawn_rest(self, seen_s: float) -> float:
        """The run time of a unit that was seen to run longer than all ends. The longer than them, the more it may run
        on."""
        scale = min(self._scale + math.log(seen_s / self._times[-1]), _MAX_SCALE)
        return float(seen_s * min(math.exp(scale * self._random.exponential(1.0)), _MAX_TAIL))


def _weight(random: RandomNumbers) -> float:
    """Mean 1 and variance 2. With the variance 1 of Rubin's weights, ranges held too seldom on the traces for tuning:
    the longest run times are too rare among few observations."""
    normal = random.normal()
    return normal * normal


def _tail_scale(sample: RunTimeSample) -> float:
    """The mean distance, in the logarithm, of the longest run times from the one below them (Hill 1975); incomplete
    observations count for as long as they were seen. 0 if the longest ones are all equal."""
    count = math.isqrt(len(sample.run_s) - 1) + 1
    from_s = max(sample.run_s[-count - 1] if len(sample.run_s) > count else sample.run_s[0], _MIN_S)
    longest = range(len(sample.run_s) - count, len(sample.run_s))
    ends = sum(sample.is_end[each] for each in longest)
    distance = math.fsum(math.log(max(sample.run_s[each], _MIN_S) / from_s) for each in longest)
    return min(distance / max(ends, 1), _MAX_SCALE)
