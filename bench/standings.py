"""Comparison of schedulers: alternating rounds, ratios of the results, required ratios, and rows for the tables.

In every round all schedulers are measured one after the other, so that other load on the machine affects all of them. A
ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from bench.contenders import KUBE, OURS
from bench.rounds import Round

RAW: Final = "raw limit"
FEWEST_ROUNDS: Final = 5
"""The median of fewer rounds means little."""

Found = dict[str, list[Round]]
Take = Callable[[], Coroutine[Any, Any, Round]]
Figure = Callable[[Round], float]


class Bar(msgspec.Struct, frozen=True):
    """A minimum or a maximum of a ratio."""

    value: float
    at_least: bool = True

    def said(self, ratio: float) -> str:
        met = ratio >= self.value if self.at_least else ratio <= self.value
        sign = "≥" if self.at_least else "≤"
        return f"{ratio:.2f}× (bar {sign} {self.value:g}×{'' if met else ', **missed**'})"


MANY_NODES: Final = 5_000
FASTER: Final = Bar(2.5)
FASTER_WITH_MANY_NODES: Final = Bar(3.0)
FASTER_UNGATED: Final = Bar(1.4)
SHARE_UNGATED: Final = Bar(0.75)
LESS_CPU: Final = Bar(0.5, at_least=False)
PARKED_COST: Final = Bar(1.05, at_least=False)

SPEED_HEADS: Final = (
    "case",
    "program",
    "pods/s",
    "of the raw limit",
    "of kube-scheduler's",
    "the same from the start of the process",
    "CPU µs per pod, in total",
    "CPU µs per pod, all processes, first to last bind; of kube-scheduler's",
    "own CPU, of kube-scheduler's",
)
PARKED_HEADS: Final = ("program", "CPU per bind, none parked", "with parked pods", "with / without")


async def in_turns(title: str, wanted: int, turns: Mapping[str, Take]) -> Found:
    found: Found = {name: [] for name in turns}
    for number in range(wanted):
        for name, take in turns.items():
            one = await take()
            found[name].append(one)
            whole = f" ({one.whole_rate:,.0f}/s from its start)" if one.whole_rate != one.rate else ""
            load = os.getloadavg()[0]
            print(
                f"  {title}, round {number + 1}: {name:22} {one.rate:6,.0f}/s{whole}, CPU µs: {_text(one.cpu_us)};"
                f" until bound {_text(one.work_us)}; load {load:.1f}",
                flush=True,
            )
    return found


def ratio(found: Found, above: str, below: str, figure: Figure) -> float:
    return statistics.median(figure(a) / figure(b) for a, b in zip(found[above], found[below], strict=True))


def _rate(one: Round) -> float:
    return one.rate


def _whole_rate(one: Round) -> float:
    return one.whole_rate


def _work(one: Round) -> float:
    return sum(one.work_us.values())


def _middle(taken: list[Round], figure: Figure) -> float:
    return statistics.median(figure(one) for one in taken)


def own_cpu(one: Round) -> float:
    """The CPU time of the measured scheduler; it is named first."""
    return next(iter(one.cpu_us.values()))


def _own_work(one: Round) -> float:
    """The same until the last bind: in that time Events about the parked pods are written, at their own rate."""
    return next(iter(one.work_us.values()))


def speed_rows(title: str, found: Found, nodes: int, *, ungated: bool) -> list[list[str]]:
    faster = FASTER_UNGATED if ungated else FASTER_WITH_MANY_NODES if nodes >= MANY_NODES else FASTER
    rows = []
    for name, taken in found.items():
        share, against, whole, cpu = "", "", "", ""
        work = f"{_middle(taken, _work):,.0f}"
        if name != RAW:
            reached = ratio(found, name, RAW, _rate)
            share = SHARE_UNGATED.said(reached) if ungated and name == OURS.name else f"{reached:.2f}×"
        if name == OURS.name and KUBE.name in found:
            against = faster.said(ratio(found, name, KUBE.name, _rate))
            work = f"{_middle(taken, _work):,.0f}, {ratio(found, name, KUBE.name, _work):.2f}×"
            whole = "" if ungated else f"{ratio(found, name, KUBE.name, _whole_rate):.2f}×"
            cpu = LESS_CPU.said(ratio(found, name, KUBE.name, own_cpu))
        rate = f"{_middle(taken, _rate):,.0f}/s"
        rows.append([title, name, rate, share, against, whole, _middle_cpu(taken), work, cpu])
    return rows


def _middle_cpu(taken: list[Round]) -> str:
    middles = {name: statistics.median([one.cpu_us[name] for one in taken]) for name in taken[0].cpu_us}
    return _text(middles)


def _text(each_us: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {each:,.0f}" for name, each in each_us.items())


def parked_row(name: str, found: Found, *, ours: bool) -> list[str]:
    alone, beside = found
    times = ratio(found, beside, alone, _own_work)
    middles = [f"{_middle(taken, _own_work):,.0f} µs" for taken in found.values()]
    return [name, *middles, PARKED_COST.said(times) if ours else f"{times:.2f}×"]
