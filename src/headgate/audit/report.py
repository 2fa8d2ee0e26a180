"""The report of an audit, as text and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headgate.audit.auditor import AuditResult
from headgate.audit.bill import Bill, MachineBill
from headgate.audit.findings import RULES, Finding
from headgate.kube.timestamps import format_time, human_duration
from headgate.recording.history import Survey

_MAX_LINES: Final = 20
_MAX_PODS: Final = 3
_GIB: Final = 1 << 30


def document(result: AuditResult, found: Survey, source: str, damage: str = "") -> dict[str, Any]:
    """The JSON document."""
    return {
        "source": source,
        "from": format_time(result.from_s),
        "to": format_time(result.to_s),
        "changes": result.changes,
        "damage": damage,
        "notRecorded": list(found.skipped),
        "notServed": list(found.absent),
        "gaps": [
            {"resource": each.resource, "from": format_time(each.from_s), "to": format_time(each.to_s)}
            for each in found.gaps
        ],
        "unreadable": list(result.unreadable),
        "findings": [_finding(each) for each in result.findings],
        "bill": bill_document(result.bill),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    until = {} if finding.until_s is None else {"until": format_time(finding.until_s)}
    return {
        "rule": finding.rule,
        "certain": finding.certain,
        "subject": finding.subject,
        "text": finding.text,
        "revision": finding.revision,
        "at": format_time(finding.at_s),
        **until,
    }


def bill_document(bill: Bill) -> dict[str, Any]:
    return {
        "currency": bill.currency,
        "machines": {
            "count": len(bill.machines),
            "hours": _rounded(sum(each.hours for each in bill.machines)),
            "cost": _rounded(sum(each.cost for each in bill.machines)),
            "idleHours": _rounded(sum(each.idle_hours for each in bill.machines)),
            "idleCost": _rounded(sum(each.idle_cost for each in bill.machines)),
        },
        "boughtForPodsThatTheirQueueWouldNotAdmit": list(map(_machine, bill.wasted)),
        "neverUsed": list(map(_machine, bill.unused)),
        "missed": [{"pod": each.pod, "queue": each.queue, "hours": _rounded(each.hours)} for each in bill.missed],
        "quota": [
            {
                "queue": each.queue,
                "state": each.state,
                "podHours": _rounded(each.hours),
                "resourceHours": {name: _rounded(amount) for name, amount in each.amounts.items()},
                "cost": _rounded(each.cost),
            }
            for each in bill.quota
        ],
    }


def _machine(machine: MachineBill) -> dict[str, Any]:
    return {
        "name": machine.name,
        "type": machine.type,
        "hours": _rounded(machine.hours),
        "cost": _rounded(machine.cost),
        "pods": list(machine.bought_for),
    }


def _rounded(number: float) -> float:
    return round(number, 6)


# -- text --------------------------------------------------------------------------------------------------------------


def text_lines(result: AuditResult, found: Survey, damage: str = "") -> Iterator[str]:
    yield from _coverage(result, found, damage)
    yield ""
    yield from _finding_lines("broken", result.certain)
    yield from _finding_lines("perhaps broken", [each for each in result.findings if not each.certain])
    yield ""
    yield from bill_lines(result.bill)


def _coverage(result: AuditResult, found: Survey, damage: str) -> Iterator[str]:
    times = f"{format_time(result.from_s)} to {format_time(result.to_s)}"
    yield f"{result.changes} states, {times} ({human_duration(result.to_s - result.from_s)})"
    for gap in found.gaps:
        what = gap.resource or "all resources"
        yield f"gap of {human_duration(gap.to_s - gap.from_s)} in {what}, until {format_time(gap.to_s)}"
    if found.skipped:
        yield f"not recorded, and not checked: {', '.join(found.skipped)}"
    if found.absent:
        yield f"not served by the cluster: {', '.join(found.absent)}"
    yield from (f"problem while recording: {each}" for each in found.problems[:_MAX_LINES])
    yield from (f"not checked: {each}" for each in result.unreadable[:_MAX_LINES])
    if damage:
        yield f"damaged: {damage}"


def _finding_lines(title: str, findings: Iterable[Finding]) -> Iterator[str]:
    by_rule: dict[str, list[Finding]] = {}
    for each in findings:
        by_rule.setdefault(each.rule, []).append(each)
    if not by_rule:
        yield f"{title}: no invariant"
        return
    yield f"{title}:"
    for rule, found in by_rule.items():
        yield f"  {rule} ({len(found)}): {RULES[rule]}"
        for each in found[:_MAX_LINES]:
            lasted = "" if each.until_s is None else f", for {human_duration(each.until_s - each.at_s)}"
            yield f"    {format_time(each.at_s)} revision {each.revision}: {each.subject}: {each.text}{lasted}"
        if len(found) > _MAX_LINES:
            yield f"    and {len(found) - _MAX_LINES} more (-o json lists all)"


def bill_lines(bill: Bill) -> Iterator[str]:
    hours, cost = sum(each.hours for each in bill.machines), sum(each.cost for each in bill.machines)
    idle, idle_cost = sum(each.idle_hours for each in bill.machines), sum(each.idle_cost for each in bill.machines)
    money = f"{{:.2f}} {bill.currency}".format
    yield f"machines: {len(bill.machines)}, {hours:.1f} h, {money(cost)}; idle {idle:.1f} h, {money(idle_cost)}"
    yield from _machine_lines("bought for pods that their queue would not admit", bill.wasted, money)
    yield from _machine_lines("bought and never used", bill.unused, money)
    missed = sum(each.hours for each in bill.missed)
    yield (
        f"machines missed: {missed:.1f} h of {len(bill.missed)} pods that have capacity and no node, and are not "
        "marked Unschedulable"
    )
    yield from (f"  {each.pod} of queue {each.queue}: {each.hours:.1f} h" for each in bill.missed[:_MAX_LINES])
    if not bill.quota:
        yield "quota held in vain: none"
        return
    yield f"quota held in vain: {money(sum(each.cost for each in bill.quota))}"
    for each in bill.quota:
        yield f"  queue {each.queue}, {each.state}: {_amounts(each.amounts)}, {money(each.cost)}"


def _machine_lines(title: str, machines: tuple[MachineBill, ...], money: Any) -> Iterator[str]:
    cost = sum(each.cost for each in machines)
    yield f"{title}: {len(machines)}, {sum(each.hours for each in machines):.1f} h, {money(cost)}"
    for each in machines[:_MAX_LINES]:
        more = " …" if len(each.bought_for) > _MAX_PODS else ""
        pods = f", for {', '.join(each.bought_for[:_MAX_PODS])}{more}" if each.bought_for else ""
        yield f"  {each.name}{f' ({each.type})' if each.type else ''}: {each.hours:.1f} h, {money(each.cost)}{pods}"


def _amounts(amounts: Mapping[str, float]) -> str:
    shown = (
        f"{amount / _GIB:.1f} GiB-h of {name}" if name in ("memory", "ephemeral-storage") else f"{amount:.1f} {name}-h"
        for name, amount in amounts.items()
        if amount
    )
    return ", ".join(shown) or "nothing"
