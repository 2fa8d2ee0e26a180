"""Metrics of an audit that goes on: findings by rule, states that last too long, and the bill.

Money is in the currency of the prices. The sums begin with the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from headgate.audit.bill import BillTotals
from headgate.audit.findings import RULES, Finding
from headgate.kube.metrics import MetricFamily, Sample, exposition_text

FINDINGS: Final = "headgate_audit_findings_total"
OVERDUE: Final = "headgate_audit_overdue_states"
CHANGES: Final = "headgate_audit_changes_total"
GAPS: Final = "headgate_audit_gaps_total"
UNREADABLE: Final = "headgate_audit_unreadable_objects"
_HOURS: Final = "headgate_audit_machine_hours_total"
_COST: Final = "headgate_audit_machine_cost_total"
_WASTED: Final = "headgate_audit_wasted_machines_total"
_WASTED_COST: Final = "headgate_audit_wasted_machine_cost_total"
_QUOTA: Final = "headgate_audit_quota_in_vain_cost_total"
_MISSED: Final = "headgate_audit_missed_machine_hours_total"

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    FINDINGS: MetricFamily("counter", "Findings, by rule; possible ones are not certain.", ("rule", "certain")),
    OVERDUE: MetricFamily("gauge", "States that have lasted too long and go on, by rule.", ("rule",)),
    CHANGES: MetricFamily("counter", "Changes of objects that were checked."),
    GAPS: MetricFamily("counter", "How often a resource had to be listed again; what happened meanwhile is unknown."),
    UNREADABLE: MetricFamily("gauge", "Objects that could not be checked."),
    _HOURS: MetricFamily("counter", "Hours of machines: all, and those without pods.", ("state",)),
    _COST: MetricFamily("counter", "Cost of machines: all, and while they had no pods.", ("state",)),
    _WASTED: MetricFamily(
        "counter",
        "Machines that are gone and never ran a pod: bought for pods that their queue would not admit, or others.",
        ("cause",),
    ),
    _WASTED_COST: MetricFamily("counter", "What these machines cost.", ("cause",)),
    _QUOTA: MetricFamily(
        "counter", "Cost of quota held by pods that are unplaced, terminating or gated.", ("queue", "state")
    ),
    _MISSED: MetricFamily("counter", "Hours of pods with capacity and no node that no autoscaler can see."),
}


class AuditMetrics:
    def __init__(self) -> None:
        self.findings: Counter[tuple[str, bool]] = Counter()
        self.changes = 0
        self.gaps = 0
        self.unreadable = 0
        self.overdue: Mapping[str, int] = {}
        self.totals = BillTotals()

    def found(self, finding: Finding) -> None:
        self.findings[finding.rule, finding.certain] += 1

    def page(self) -> bytes:
        return exposition_text(FAMILIES, self._samples())

    def _samples(self) -> Iterator[Sample]:
        for rule in RULES:
            for certain in (True, False):
                labels = (("rule", rule), ("certain", str(certain).lower()))
                yield Sample(FINDINGS, labels, self.findings[rule, certain])
        for rule, count in sorted(self.overdue.items()):
            yield Sample(OVERDUE, (("rule", rule),), count)
        yield Sample(CHANGES, (), self.changes)
        yield Sample(GAPS, (), self.gaps)
        yield Sample(UNREADABLE, (), self.unreadable)
        totals = self.totals
        for state, hours, cost in (
            ("all", totals.machine_hours, totals.machine_cost),
            ("idle", totals.idle_hours, totals.idle_cost),
        ):
            yield Sample(_HOURS, (("state", state),), hours)
            yield Sample(_COST, (("state", state),), cost)
        for cause, count, cost in (
            ("queue", totals.wasted, totals.wasted_cost),
            ("unused", totals.unused, totals.unused_cost),
        ):
            yield Sample(_WASTED, (("cause", cause),), count)
            yield Sample(_WASTED_COST, (("cause", cause),), cost)
        for (queue, state), cost in sorted(totals.quota_costs.items()):
            yield Sample(_QUOTA, (("queue", queue), ("state", state)), cost)
        yield Sample(_MISSED, (), totals.missed_hours)
