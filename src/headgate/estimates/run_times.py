"""Run times: learned from units that have ended, or declared; and how they are drawn for one replay.

Of a unit that has run for some time, only observations that are longer count. Draws are a smoothed bootstrap: one of
the observations, spread by a kernel in the logarithm; each replay first resamples the observations, so that a basis of
few observations gives a wide range. Observations that are all equal give exactly that run time. A declared limit is an
upper end: the share of the limit that jobs use is close to uniform (Mu'alem and Feitelson 2001).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from headgate.estimates.units import Unit
from headgate.simulate.random_numbers import RandomNumbers

Source = Literal["service", "declared", "owner", "template", "queue", "limit", "unknown"]

MIN_OBSERVATIONS: Final = 5
_MAX_OBSERVATIONS: Final = 400
"""The newest ones count."""
_KERNEL: Final = 0.9
"""Silverman's factor for the width of the kernel."""
_TAIL_SHAPE: Final = 1.0
"""Of the Pareto distribution for a unit that already runs longer than its observations: the median of its rest is as
long as it has run."""
_MAX_TAIL: Final = 50.0


class RunTimeBasis(msgspec.Struct, frozen=True):
    """What is known of the run time of a unit. ``observations``: in seconds, ascending."""

    source: Source
    observations: tuple[float, ...] = ()

    @property
    def is_known(self) -> bool:
        return self.source != "unknown"


class RunTimeHistory:
    """Observed run times by owner and template, by template, by owner, and by queue; the first that has enough
    counts."""

    def __init__(self, ended: Iterable[Unit]) -> None:
        observed: dict[tuple[str, ...], list[float]] = {}
        for unit in sorted(ended, key=lambda each: each.ended_s or 0.0):
            if unit.started_s is None or unit.ended_s is None or unit.is_service:
                continue
            for _, key in _keys(unit):
                observed.setdefault(key, []).append(max(unit.ended_s - unit.started_s, 0.0))
        self._observed: Final = {
            key: tuple(sorted(values[-_MAX_OBSERVATIONS:])) for key, values in observed.items() if values
        }

    def basis_of(self, unit: Unit) -> RunTimeBasis:
        if unit.is_service:
            return RunTimeBasis("service")
        if unit.declared_s is not None:
            return RunTimeBasis("declared", (unit.declared_s,))
        for source, key in _keys(unit):
            found = self._observed.get(key, ())
            if len(found) >= MIN_OBSERVATIONS:
                return RunTimeBasis(source, found)
        if unit.limit_s is not None:
            return RunTimeBasis("limit", (unit.limit_s,))
        return RunTimeBasis("unknown")


def _keys(unit: Unit) -> tuple[tuple[Source, tuple[str, ...]], ...]:
    return (
        ("owner", ("owner", unit.queue, unit.owner, unit.template)),
        ("template", ("template", unit.queue, unit.template)),
        ("owner", ("owner", unit.queue, unit.owner)),
        ("queue", ("queue", unit.queue)),
    )


class RunTimeDraw:
    """The run times of one replay. ``unknown_s``: the remaining run time of units of which nothing is known."""

    def __init__(self, history: RunTimeHistory, seed: int, now_s: float, unknown_s: float = math.inf) -> None:
        self._history = history
        self._random = RandomNumbers(seed, 1)
        self._now_s = now_s
        self._unknown_s = unknown_s
        self._drawn: dict[str, float] = {}
        self._resampled: dict[tuple[float, ...], tuple[float, ...]] = {}
        self.bases: dict[str, RunTimeBasis] = {}

    def total_s(self, unit: Unit) -> float:
        """How long the unit runs in all; at least as long as it has run so far."""
        found = self._drawn.get(unit.key)
        if found is None:
            basis = self._history.basis_of(unit)
            if not unit.is_arrival:
                self.bases[unit.key] = basis
            elapsed_s = max(self._now_s - unit.started_s, 0.0) if unit.started_s is not None else 0.0
            found = self._drawn[unit.key] = self._draw(basis, elapsed_s, unit.limit_s)
        return found

    def _draw(self, basis: RunTimeBasis, elapsed_s: float, limit_s: float | None) -> float:
        if basis.source == "service":
            return math.inf
        if basis.source == "unknown":
            return elapsed_s + self._unknown_s
        if basis.source == "declared":
            return max(basis.observations[0], elapsed_s)
        if basis.source == "limit":
            return elapsed_s + max(basis.observations[0] - elapsed_s, 0.0) * self._random.uniform()
        observations = self._resampled.get(basis.observations)
        if observations is None:
            observations = self._resampled[basis.observations] = _resample(basis.observations, self._random)
        drawn_s = draw_beyond(observations, basis.observations, elapsed_s, self._random)
        return drawn_s if limit_s is None else max(min(drawn_s, limit_s), elapsed_s)


def _resample(observations: tuple[float, ...], random: RandomNumbers) -> tuple[float, ...]:
    count = len(observations)
    return tuple(sorted(observations[int(random.uniform() * count)] for _ in range(count)))


def draw_beyond(
    observations: Sequence[float], original: Sequence[float], elapsed_s: float, random: RandomNumbers
) -> float:
    """A run time that is longer than ``elapsed_s``. ``original``: the observations before they were resampled."""
    if original[0] == original[-1] and elapsed_s < original[0]:
        return original[0]
    longer = observations[bisect_right(observations, elapsed_s) :]
    count = len(longer)
    if random.uniform() * (count + 1) < 1 and elapsed_s > 0:
        return float(elapsed_s * min(random.uniform() ** (-1 / _TAIL_SHAPE), _MAX_TAIL))
    if not count:
        return elapsed_s if elapsed_s > 0 else observations[-1]
    width = _kernel_width(longer)
    for _ in range(8):
        drawn_s = longer[int(random.uniform() * count)] * math.exp(width * random.normal())
        if drawn_s > elapsed_s:
            return drawn_s
    return longer[int(random.uniform() * count)]


def _kernel_width(values: Sequence[float]) -> float:
    """Silverman's rule for the logarithms of the values; at most 0.5."""
    logs = [math.log(max(each, 0.1)) for each in values]
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / len(logs)
    return float(min(_KERNEL * math.sqrt(variance) * len(logs) ** -0.2, 0.5))
