"""Counts comparisons: the metrics of shadow mode, and the table at its end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headgate.kube.metrics import MetricFamily, Sample, exposition_text
from headgate.kube.timestamps import human_duration
from headgate.shadow.comparison import OUTCOMES, DecisionComparison

DECISIONS: Final = "headgate_shadow_decisions_total"
OPEN: Final = "headgate_shadow_open_decisions"
REFUSED: Final = "headgate_shadow_refused_writes_total"

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    DECISIONS: MetricFamily(
        "counter",
        "Decisions of the other system and of Headgate's engines that were compared, by outcome.",
        ("component", "decision", "outcome"),
    ),
    OPEN: MetricFamily(
        "gauge", "Decisions that Headgate would make now and the other has not made.", ("component", "decision")
    ),
    REFUSED: MetricFamily("counter", "Writes that shadow mode refused to send. It is 0: nothing writes.", ("verb",)),
}
MAX_DIFFERENCES: Final = 1000
"""How many differences are kept for the table."""
_SHOWN: Final = 20

OpenCounts = Callable[[], Mapping[str, int]]
"""How many decisions are open, by the decision."""


class ShadowTally:
    """``differences``: the latest ones. ``refused_writes``: by verb; the read-only transport counts in it."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._open: dict[str, OpenCounts] = {}
        self.refused_writes: Counter[str] = Counter()
        self.differences: deque[DecisionComparison] = deque(maxlen=MAX_DIFFERENCES)

    def count(self, compared: DecisionComparison) -> None:
        self._counts[compared.component, compared.decision, compared.outcome] += 1
        if compared.differs:
            self.differences.append(compared)

    def attach(self, component: str, open_decisions: OpenCounts) -> None:
        """The component runs: ``open_decisions`` is asked for the gauge."""
        self._open[component] = open_decisions

    def total(self, outcome: str = "") -> int:
        """Of this outcome, or of all."""
        return sum(count for (_, _, each), count in self._counts.items() if outcome in ("", each))

    def page(self) -> bytes:
        return exposition_text(FAMILIES, self._samples())

    def _samples(self) -> Iterator[Sample]:
        for (component, decision, outcome), count in sorted(self._counts.items()):
            labels = (("component", component), ("decision", decision), ("outcome", outcome))
            yield Sample(DECISIONS, labels, count)
        for component, open_decisions in sorted(self._open.items()):
            for decision, count in sorted(open_decisions().items()):
                yield Sample(OPEN, (("component", component), ("decision", decision)), count)
        for verb, count in sorted(self.refused_writes.items()) or [("any", 0)]:
            yield Sample(REFUSED, (("verb", verb),), count)

    def summary(self, elapsed_s: float, missing_rights: Sequence[str] = ()) -> list[str]:
        """The table that is printed at the end. ``missing_rights``: the messages of the API server."""
        lines = [f"shadow mode: compared {self.total()} decisions in {human_duration(elapsed_s)}"]
        rows = [("component", "decision", "outcome", "count")]
        for outcome in OUTCOMES:
            for key, count in sorted(self._counts.items()):
                if key[2] == outcome:
                    rows.append((*key, str(count)))
        if len(rows) > 1:
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        differing = sum(count for (_, _, each), count in self._counts.items() if each not in ("same", "late"))
        if differing:
            lines.append(f"the last {min(_SHOWN, len(self.differences))} of {differing} differences:")
            lines += [f"  {difference_line(each)}" for each in list(self.differences)[-_SHOWN:]]
        if missing_rights:
            lines.append(f"missing rights: {len(missing_rights)}; what they hide was not compared")
            lines += [f"  {each}" for each in missing_rights]
        refused = sum(self.refused_writes.values())
        lines.append(f"refused writes: {refused}" + (", which is a defect: report it" if refused else ""))
        return [line.rstrip() for line in lines]


def difference_line(compared: DecisionComparison) -> str:
    """One difference as a sentence."""
    subject = f"{compared.outcome}: {compared.decision} of {compared.kind} {compared.namespace}/{compared.name}"
    sides = f"the other: {compared.other or 'nothing'}; Headgate: {compared.headgate or 'nothing'}"
    why = f" ({compared.message or compared.reason})" if compared.message or compared.reason else ""
    instead = f"; Headgate would admit instead: {', '.join(compared.instead)}" if compared.instead else ""
    return f"{subject}: {sides}{why}{instead}"
