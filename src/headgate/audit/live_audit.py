"""An audit of a live cluster that goes on: its findings as they appear, its metrics, and its sums at the end.

It receives changes in the order of revisions (``recording/io/live_history.py``), and costs what the changes cost. Its
memory depends on the objects that exist: what has ended is added to sums and forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from headgate.audit.auditor import Auditor, AuditSettings
from headgate.audit.findings import RULES, Finding
from headgate.audit.metrics import AuditMetrics
from headgate.kube.timestamps import format_time
from headgate.recording.changes import RecordedChange

_MAX_KNOWN: Final = 10_000
"""How many findings are remembered, so that the same one is not reported twice."""


class LiveAudit:
    """``found`` is called for each finding, once."""

    def __init__(self, settings: AuditSettings, found: Callable[[Finding], None]) -> None:
        self._auditor = Auditor(settings, keeps_all=False)
        self._found = found
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._currency = settings.prices.currency
        self._last_s = 0.0
        self.metrics: Final = AuditMetrics()

    @property
    def has_certain(self) -> bool:
        return any(count for (_, certain), count in self.metrics.findings.items() if certain)

    @property
    def has_findings(self) -> bool:
        return bool(self.metrics.findings.total())

    def take(self, change: RecordedChange) -> None:
        self._auditor.take(change)
        self.metrics.changes += 1
        self._last_s = max(self._last_s, change.at_s)

    def tick(self, at_s: float, gaps: int = 0) -> None:
        """All changes until ``at_s`` have been taken. ``gaps``: how often a resource was listed again so far."""
        if not self.metrics.changes:
            return
        self._last_s = max(self._last_s, at_s)
        for finding in self._auditor.drain(self._last_s):
            key = finding.rule, finding.subject, finding.text
            if key in self._known:
                self._known.move_to_end(key)
                continue
            self._known[key] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
            self.metrics.found(finding)
            self._found(finding)
        self.metrics.gaps = gaps
        self.metrics.unreadable = self._auditor.unreadable
        self.metrics.overdue = self._auditor.overdue_states()
        self.metrics.totals = self._auditor.totals(self._last_s)

    def summary(self) -> Iterator[str]:
        """The lines that are printed at the end."""
        metrics, totals = self.metrics, self.metrics.totals
        yield f"{metrics.changes} states" + (f", {metrics.gaps} gaps" if metrics.gaps else "")
        for certain, title in ((True, "broken"), (False, "perhaps broken")):
            found = {rule: metrics.findings[rule, certain] for rule in RULES if metrics.findings[rule, certain]}
            yield f"{title}: {'' if found else 'no invariant'}".rstrip()
            for rule, count in found.items():
                yield f"  {rule} ({count}): {RULES[rule]}"
        money = f"{{:.2f}} {self._currency}".format
        idle = f"idle {totals.idle_hours:.1f} h, {money(totals.idle_cost)}"
        yield f"machines: {totals.machine_hours:.1f} h, {money(totals.machine_cost)}; {idle}"
        yield f"bought for pods that their queue would not admit: {totals.wasted}, {money(totals.wasted_cost)}"
        yield f"bought and never used: {totals.unused}, {money(totals.unused_cost)}"
        yield f"machines missed: {totals.missed_hours:.1f} h"
        yield f"quota held in vain: {money(sum(totals.quota_costs.values()))}"

    def sums(self) -> dict[str, Any]:
        """What is printed at the end with ``-o json``: the number of findings by rule, and the bill."""
        metrics, totals = self.metrics, self.metrics.totals
        broken, perhaps = (
            {rule: metrics.findings[rule, certain] for rule in RULES if metrics.findings[rule, certain]}
            for certain in (True, False)
        )
        return {
            "states": metrics.changes,
            "gaps": metrics.gaps,
            "broken": broken,
            "perhapsBroken": perhaps,
            "bill": {
                "currency": self._currency,
                "machineHours": totals.machine_hours,
                "machineCost": totals.machine_cost,
                "idleHours": totals.idle_hours,
                "idleCost": totals.idle_cost,
                "wasted": totals.wasted,
                "wastedCost": totals.wasted_cost,
                "unused": totals.unused,
                "unusedCost": totals.unused_cost,
                "missedHours": totals.missed_hours,
                "quotaCost": sum(totals.quota_costs.values()),
            },
        }


def finding_line(finding: Finding) -> str:
    """One finding as it is printed."""
    certainty = "broken" if finding.certain else "perhaps broken"
    where = f"{format_time(finding.at_s)} revision {finding.revision}"
    return f"{where}: {certainty}: {finding.rule}: {finding.subject}: {finding.text}"
