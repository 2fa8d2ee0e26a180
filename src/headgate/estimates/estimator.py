"""Estimates when waiting units start: a range that holds in 80 % of cases, with its basis, or why there is none.

The present state is replayed several times; each replay draws run times and arrivals. With 19 replays the second and
the 18th of the sorted starts enclose a further draw with a probability of exactly (18 - 2) / 20; nothing is added to
the range. ``bench/estimates.py`` measures how often real starts are in it. If nothing is known of the run time of a
unit, the state is first replayed with both extremes, its end now and never: if a start differs, there is no basis for
an estimate, and the unit is named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

from headgate.estimates.pod_replay import ReplayResult
from headgate.estimates.run_times import RunTimeBasis, RunTimeDraw, RunTimeHistory, Source
from headgate.kube.timestamps import format_time, human_duration

State = Literal["now", "range", "later", "no basis"]
RunReplay = Callable[[RunTimeDraw, int | None, float, frozenset[str]], ReplayResult]
"""Runs one replay: the draw, the seed of the arrivals (None: no arrivals), the horizon, the targets."""

REPLAYS: Final = (19, 9)
"""Numbers of replays for which an order statistic is exactly at 10 %."""
MAX_WORK: Final = 60_000
"""How many units all replays together may have; a larger cluster gets fewer replays."""
HORIZON_S: Final = 14 * 86_400.0
SHARE: Final = 0.8
_SHOWN: Final = 3
_SAME_S: Final = 1.0
_SOURCES: Final[Mapping[Source, str]] = {
    "owner": "learned from earlier runs of the same owner",
    "template": "learned from the same template in the queue",
    "queue": "learned from the queue",
    "declared": "declared",
    "limit": "between now and the declared limit",
    "service": "services, which do not end",
}


class EstimateSettings(msgspec.Struct, frozen=True):
    """``replays``: 19 or 9."""

    replays: int = REPLAYS[0]
    horizon_s: float = HORIZON_S


class StartEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """``state``: ``now``: it starts in the next cycle; ``range``: between ``earliest`` and ``latest``; ``later``: not
    before ``earliest``, and the upper end is beyond the horizon; ``no basis``: ``reason`` says why. ``basis``: where
    the run times of the units come from that run or wait, and how many replays there were."""

    state: State
    earliest: str = ""
    latest: str = ""
    earliest_s: float | None = None
    latest_s: float | None = None
    reason: str = ""
    basis: tuple[str, ...] = ()
    place: str = ""


def no_basis(reason: str) -> StartEstimate:
    return StartEstimate("no basis", reason=reason)


def replays_for(units: int) -> int:
    """How many replays a state with so many units gets."""
    return next((each for each in REPLAYS if each * units <= MAX_WORK), REPLAYS[-1])


def estimate_starts(
    run: RunReplay,
    history: RunTimeHistory,
    now_s: float,
    targets: Collection[str],
    settings: EstimateSettings,
    *,
    has_arrivals: bool,
) -> dict[str, StartEstimate]:
    found = _without_arrivals(run, history, now_s, frozenset(targets), settings)
    asked = frozenset(targets) - found.keys()
    starts: dict[str, list[float]] = {name: [] for name in asked}
    bases: dict[str, RunTimeBasis] = {}
    for seed in _seeds(now_s, settings.replays if asked else 0):
        draw = RunTimeDraw(history, seed, now_s)
        result = run(draw, seed if has_arrivals else None, settings.horizon_s, asked)
        bases.update(draw.bases)
        for name in asked:
            starts[name].append(result.starts[name])
    basis = _basis_texts(bases, settings.replays, has_arrivals)
    return found | {name: range_of(each, now_s, settings, basis) for name, each in starts.items()}


def _seeds(now_s: float, count: int) -> range:
    """The same state gives the same estimate; estimates of different moments do not share their draws."""
    first = int(now_s * 1000) * REPLAYS[0]
    return range(first, first + count)


def _without_arrivals(
    run: RunReplay, history: RunTimeHistory, now_s: float, targets: frozenset[str], settings: EstimateSettings
) -> dict[str, StartEstimate]:
    """The targets that start now, and those for which there is no basis: they never start, or their start depends on
    units of unknown run time."""
    draw = RunTimeDraw(history, 0, now_s)
    result = run(draw, None, settings.horizon_s, targets)
    found = {name: _now(now_s, result.places[name]) for name in targets if result.starts[name] <= now_s}
    unknown = sorted(key for key, basis in draw.bases.items() if not basis.is_known)
    left = targets - found.keys()
    if unknown and left:
        others = run(RunTimeDraw(history, 0, now_s, unknown_s=0.0), None, settings.horizon_s, left).starts
        # An infinite difference is not a number.
        differing = (name for name in left if not abs(others[name] - result.starts[name]) <= _SAME_S)
        found |= {
            name: no_basis(unknown_reason(unknown))
            for name in differing
            if not others[name] == result.starts[name] == math.inf
        }
    never = f"it does not start within {human_duration(settings.horizon_s)}: what it waits for does not end by itself"
    return found | {name: no_basis(never) for name in left - found.keys() if result.starts[name] == math.inf}


def unknown_reason(unknown: Sequence[str]) -> str:
    listed = ", ".join(unknown[:_SHOWN]) + (f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else "")
    return (
        f"it is not known how long these units run: {listed}; no five units of the same owner, template or queue have "
        "ended yet, and they declare no limit (activeDeadlineSeconds, or the label "
        "kueue.x-k8s.io/max-exec-time-seconds)"
    )


def range_of(
    starts: Sequence[float], now_s: float, settings: EstimateSettings, basis: tuple[str, ...] = ()
) -> StartEstimate:
    """From the second to the second last of 19 starts, or from the first to the last of 9."""
    ordered = sorted(starts)
    rank = max(round((len(ordered) + 1) * (1 - SHARE) / 2), 1)
    low_s, high_s = max(ordered[rank - 1], now_s), ordered[-rank]
    if low_s == math.inf:
        reason = f"in {sum(each == math.inf for each in ordered)} of {len(ordered)} replays it did not start within "
        return no_basis(f"{reason}{human_duration(settings.horizon_s)}: others come before it again and again")
    return StartEstimate(
        "range" if high_s < math.inf else "later",
        format_time(low_s),
        format_time(math.ceil(high_s)) if high_s < math.inf else "",
        low_s,
        high_s if high_s < math.inf else None,
        basis=basis,
    )


def _now(now_s: float, place: str) -> StartEstimate:
    return StartEstimate("now", format_time(now_s), format_time(now_s), now_s, now_s, place=place)


def _basis_texts(bases: Mapping[str, RunTimeBasis], replays: int, has_arrivals: bool) -> tuple[str, ...]:
    counts = Counter(each.source for each in bases.values())
    texts = [f"{counts[source]} {text}" for source, text in _SOURCES.items() if counts.get(source)]
    if counts.get("unknown"):
        texts.append(f"{counts['unknown']} unknown, which do not change the result")
    arrivals = "with arrivals like the past ones" if has_arrivals else "without further arrivals"
    return (f"run times: {', '.join(texts) or 'none needed'}", f"{replays} replays by the engines, {arrivals}")
