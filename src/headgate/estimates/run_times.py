"""Run times: learned from units that have ended, run or were interrupted, or declared; and drawn for one replay.

Of a unit that has run for some time, only longer run times count (``survival.py``). Each replay weighs the observations
anew, so that a basis of few observations gives a wide range. Observations that are all equal give exactly that run
time. A declared limit is an upper end: the share of the limit that jobs use is close to uniform (Mu'alem and Feitelson
2001).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from headgate.estimates.survival import RunTimeSample, SurvivalCurve, sample_of
from headgate.estimates.units import Unit
from headgate.simulate.random_numbers import RandomNumbers

Source = Literal["service", "declared", "owner", "template", "queue", "limit", "unknown"]

MIN_OBSERVATIONS: Final = 5
_MAX_OBSERVATIONS: Final = 400
"""The newest ones count."""


class RunTimeBasis(msgspec.Struct, frozen=True):
    """What is known of the run time of a unit. ``known_s``: the declared run time, or the limit; ``sample``: what was
    observed."""

    source: Source
    known_s: float = 0.0
    sample: RunTimeSample | None = None

    @property
    def is_known(self) -> bool:
        return self.source != "unknown"


class RunTimeHistory:
    """Observed run times by owner and template, by template, by owner, and by queue; the first that has enough ends
    counts. ``present``: units that have not ended."""

    def __init__(self, ended: Iterable[Unit], present: Iterable[Unit] = (), now_s: float = 0.0) -> None:
        observed: dict[tuple[str, ...], list[tuple[float, float, bool]]] = {}
        for unit, begin_s, run_s, is_end in sorted(_observations(ended, present, now_s), key=lambda each: each[1:]):
            for _, key in _keys(unit):
                observed.setdefault(key, []).append((begin_s, run_s, is_end))
        self._samples: Final = {
            # The newest by their start: of those that ended last, too many are short.
            key: sample_of((run_s, is_end) for _, run_s, is_end in values[-_MAX_OBSERVATIONS:])
            for key, values in observed.items()
        }

    def basis_of(self, unit: Unit) -> RunTimeBasis:
        if unit.is_service:
            return RunTimeBasis("service")
        if unit.declared_s is not None:
            return RunTimeBasis("declared", unit.declared_s)
        for source, key in _keys(unit):
            found = self._samples.get(key)
            if found is not None and found.ends >= MIN_OBSERVATIONS:
                return RunTimeBasis(source, sample=found)
        if unit.limit_s is not None:
            return RunTimeBasis("limit", unit.limit_s)
        return RunTimeBasis("unknown")


def _observations(
    ended: Iterable[Unit], present: Iterable[Unit], now_s: float
) -> Iterator[tuple[Unit, float, float, bool]]:
    """Units, with their start, how long they were seen to run, and whether they ended then."""
    for unit in ended:
        if unit.started_s is not None and unit.ended_s is not None and not unit.is_service:
            yield unit, unit.started_s, max(unit.ended_s - unit.started_s, 0.0), not unit.is_interrupted
    for unit in {each.key: each for each in present}.values():
        run_s = seen_s(unit, now_s)
        if run_s > 0 and unit.ended_s is None and not unit.is_service:
            yield unit, unit.created_s if unit.started_s is None else unit.started_s, run_s, False


def _keys(unit: Unit) -> tuple[tuple[Source, tuple[str, ...]], ...]:
    return (
        ("owner", ("owner", unit.queue, unit.owner, unit.template)),
        ("template", ("template", unit.queue, unit.template)),
        ("owner", ("owner", unit.queue, unit.owner)),
        ("queue", ("queue", unit.queue)),
    )


def seen_s(unit: Unit, now_s: float) -> float:
    """How long the unit runs at least: as long as it has run, or did before it was interrupted."""
    return max(now_s - unit.started_s if unit.started_s is not None else 0.0, unit.ran_s, 0.0)


class RunTimeDraw:
    """The run times of one replay. ``unknown_s``: the remaining run time of units of which nothing is known."""

    def __init__(self, history: RunTimeHistory, seed: int, now_s: float, unknown_s: float = math.inf) -> None:
        self._history = history
        self._random = RandomNumbers(seed, 1)
        self._now_s = now_s
        self._unknown_s = unknown_s
        self._drawn: dict[str, float] = {}
        self._curves: dict[RunTimeSample, SurvivalCurve] = {}
        self.bases: dict[str, RunTimeBasis] = {}

    def total_s(self, unit: Unit) -> float:
        """How long the unit runs in all; at least as long as it has run so far."""
        found = self._drawn.get(unit.key)
        if found is None:
            basis = self._history.basis_of(unit)
            if not unit.is_arrival:
                self.bases[unit.key] = basis
            ran_s = max(self._now_s - unit.started_s, 0.0) if unit.started_s is not None else 0.0
            found = self._drawn[unit.key] = self._draw(basis, seen_s(unit, self._now_s), ran_s, unit.limit_s)
        return found

    def _draw(self, basis: RunTimeBasis, beyond_s: float, ran_s: float, limit_s: float | None) -> float:
        """``beyond_s``: how long the unit runs at least. ``ran_s``: how long it has run until now."""
        if basis.source == "service":
            return math.inf
        if basis.source == "unknown":
            return ran_s + self._unknown_s
        if basis.source == "declared":
            return max(basis.known_s, ran_s)
        if basis.source == "limit":
            return beyond_s + max(basis.known_s - beyond_s, 0.0) * self._random.uniform()
        assert basis.sample is not None
        curve = self._curves.get(basis.sample)
        if curve is None:
            curve = self._curves[basis.sample] = SurvivalCurve(basis.sample, self._random)
        drawn_s = curve.draw(beyond_s)
        return drawn_s if limit_s is None else max(min(drawn_s, limit_s), ran_s)
