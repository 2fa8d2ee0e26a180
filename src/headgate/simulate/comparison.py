"""Compares variants over seeds: means with 95 % confidence intervals, and differences from the first variant.

Each seed is one pair: both variants get the same jobs, so the difference of a figure is taken by seed, and its interval
does not contain the variation between seeds. A difference whose interval contains 0 is not called one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from headgate.simulate.simulation_result import FIGURES, Figure, SimulationResult
from headgate.simulate.statistics import Interval, interval

MIN_SEEDS: Final = 10
"""With fewer seeds the intervals are shown, and the report says that they are few."""
_NAMED: Final = ("waiting p90", "cost", "machines bought and never used", "preemptions")
"""The figures of the verdict."""


class FigureComparison(msgspec.Struct, frozen=True, rename="camel"):
    """``difference``: from the first variant; ``None`` for the first variant itself."""

    value: Interval
    difference: Interval | None
    verdict: Literal["better", "worse", "different", "no difference", ""]


class VariantResult(msgspec.Struct, frozen=True, rename="camel"):
    """``results``: one for each seed."""

    name: str
    results: tuple[SimulationResult, ...]


def compare(variants: Sequence[VariantResult]) -> dict[str, dict[str, FigureComparison]]:
    """By variant and figure."""
    base = variants[0].results
    return {each.name: _compare(base, each, index > 0) for index, each in enumerate(variants)}


def _compare(base: Sequence[SimulationResult], other: VariantResult, differs: bool) -> dict[str, FigureComparison]:
    found = {}
    for figure in FIGURES:
        values = [figure.read(each) for each in other.results]
        difference = None
        if differs:
            pairs = zip(values, base, strict=True)
            difference = interval([value - figure.read(before) for value, before in pairs])
        found[figure.name] = FigureComparison(interval(values), difference, _verdict(figure, difference))
    return found


def _verdict(
    figure: Figure, difference: Interval | None
) -> Literal["better", "worse", "different", "no difference", ""]:
    if difference is None:
        return ""
    if difference.seeds == 1 and difference.mean:
        return "different"
    if not difference.excludes_zero:
        return "no difference"
    if not figure.better:
        return "different"
    return "better" if (difference.mean < 0) == (figure.better == "lower") else "worse"


def verdict_text(variants: Sequence[VariantResult], compared: Mapping[str, Mapping[str, FigureComparison]]) -> str:
    """The result in words."""
    base, lines = compared[variants[0].name], []
    by_name = {each.name: each for each in FIGURES}
    for other in variants[1:]:
        parts = []
        for name in _NAMED:
            before, after = base[name].value.mean, compared[other.name][name]
            change = f"{name} {number_text(before, by_name[name].unit)} → "
            change += number_text(after.value.mean, by_name[name].unit)
            if after.verdict == "no difference":
                value = number_text(after.value.mean, by_name[name].unit)
                change = f"no significant difference in {name} ({value})"
            parts.append(change)
        lines.append(f"{other.name} instead of {variants[0].name}: {', '.join(parts)}.")
    if not lines:
        shown = (f"{name} {number_text(base[name].value.mean, by_name[name].unit)}" for name in _NAMED)
        return f"{variants[0].name}: {', '.join(shown)}."
    return " ".join(lines)


def number_text(value: float, unit: str) -> str:
    """For people: seconds as minutes or hours if they are many."""
    sign, size = "-" if value < 0 else "", abs(value)
    if unit == "s":
        for limit, factor, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
            if size < limit:
                return f"{sign}{_digits(size / factor)} {name}"
        return f"{sign}{_digits(size / 86_400)} d"
    text = f"{sign}{_digits(size)}"
    return f"{text} %" if unit == "%" else f"{text} h" if unit == "h" else text


def _digits(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
