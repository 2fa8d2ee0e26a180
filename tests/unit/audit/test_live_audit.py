"""An audit that goes on finds what an audit of the whole history finds, and forgets what has ended."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from headgate.audit.auditor import Auditor, AuditSettings, audit
from headgate.audit.findings import Finding
from headgate.audit.live_audit import LiveAudit, finding_line
from headgate.recording.changes import RecordedChange
from unit.audit.drawn_histories import draw
from unit.audit.harms import HARMS, renumbered, with_tail

SETTINGS = AuditSettings(stuck_s=3 * 3600.0, starved_s=3 * 3600.0)
MAX_SEEDS = 60


def _watched(changes: Iterable[RecordedChange], tick_every: int = 7) -> tuple[LiveAudit, list[Finding]]:
    found: list[Finding] = []
    live, last_s = LiveAudit(SETTINGS, found.append), 0.0
    for number, change in enumerate(changes):
        live.take(change)
        last_s = max(last_s, change.at_s)
        if number % tick_every == 0:
            live.tick(last_s)
    live.tick(last_s)
    return live, found


def _keys(findings: Iterable[Finding]) -> set[tuple[str, str, str]]:
    return {(each.rule, each.subject, each.text) for each in findings}


@pytest.mark.parametrize("name", HARMS)
def test_a_kind_of_harm_is_found_as_it_happens(name: str) -> None:
    harm = HARMS[name]
    for seed in range(MAX_SEEDS):
        mutated = harm.mutate(draw(seed, 45), random.Random(seed))
        if mutated is None:
            continue
        history = with_tail(renumbered(mutated))
        expected = audit(history, SETTINGS).findings
        if harm.rule not in {each.rule for each in expected}:
            continue
        _, found = _watched(history)
        assert _keys(found) == _keys(expected)
        assert len(found) == len(_keys(found)), "each finding is reported once"
        return
    raise AssertionError("no history was harmed in this way")


@pytest.mark.parametrize("seed", range(10))
def test_a_clean_history_raises_nothing_and_has_the_same_bill(seed: int) -> None:
    history = with_tail(renumbered(draw(seed)))
    live, found = _watched(history)
    assert found == []
    bill, totals = audit(history, SETTINGS).bill, live.metrics.totals
    assert totals.machine_cost == pytest.approx(sum(each.cost for each in bill.machines))
    assert totals.idle_cost == pytest.approx(sum(each.idle_cost for each in bill.machines))
    assert totals.missed_hours == pytest.approx(sum(each.hours for each in bill.missed))
    expected = {(each.queue, each.state): each.cost for each in bill.quota}
    assert {key: cost for key, cost in totals.quota_costs.items() if cost > 0} == pytest.approx(expected)


def test_a_state_that_lasts_too_long_is_found_before_it_ends_and_counted_while_it_lasts() -> None:
    found: list[Finding] = []
    live = LiveAudit(AuditSettings(stuck_s=600.0), found.append)
    pod = _gated_without_queue()
    live.take(RecordedChange("pods", pod, 1000.0, 5))
    live.tick(1599.0)
    assert found == []
    live.tick(1600.0)
    (finding,) = found
    assert (finding.rule, live.metrics.overdue["orphaned-gate"]) == ("orphaned-gate", 1)
    assert "perhaps broken: orphaned-gate: Pod ns/p:" in finding_line(finding)
    live.take(RecordedChange("pods", pod, 2000.0, 6, deleted=True))
    live.tick(2000.0)
    assert len(found) == 1, "its end is no second finding"
    assert live.metrics.overdue["orphaned-gate"] == 0


def _gated_without_queue() -> dict[str, Any]:
    gate = {"name": "scheduling.volcano.sh/queue-allocation-gate"}
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulingGates": [gate], "containers": [], "schedulerName": "volcano"},
        "status": {},
    }


def test_objects_that_are_gone_leave_nothing_behind() -> None:
    """A cluster in which the same things happen again and again, under new names and uids, needs no more memory."""
    auditor = Auditor(SETTINGS, keeps_all=False)
    sizes: list[Counter[str]] = []
    shift_s = 0.0
    for turn in range(4):
        history = renumbered(draw(3, 60))
        for change in history:
            auditor.take(_renamed(change, turn, shift_s))
        last_s = history[-1].at_s + shift_s
        for change in _last_states(history):
            auditor.take(_renamed(change, turn, shift_s, at_s=last_s, deleted=True))
        auditor.drain(last_s)
        shift_s = last_s - history[0].at_s
        sizes.append(_entries(auditor))
    assert sizes[1] == sizes[2] == sizes[3], sizes[3] - sizes[1]


_STANDING = ("namespaces", "queues.scheduling.volcano.sh", "resourceflavors.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io")
_QUEUES = (*_STANDING, "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io")
"""What an administrator makes, and what therefore keeps its name from turn to turn."""


def _last_states(history: Iterable[RecordedChange]) -> list[RecordedChange]:
    last: dict[tuple[str, tuple[str, str]], RecordedChange] = {}
    for change in history:
        last[change.resource, change.key] = change
    return [each for each in last.values() if not each.deleted and each.resource not in _QUEUES]


def _renamed(
    change: RecordedChange, turn: int, shift_s: float, at_s: float | None = None, deleted: bool | None = None
) -> RecordedChange:
    """The same change of other objects, later."""
    obj = change.object if change.resource in _QUEUES else _with_suffix(change.object, f"-{turn}")
    return RecordedChange(
        change.resource,
        obj,
        change.at_s + shift_s if at_s is None else at_s,
        change.revision + turn * 1_000_000,
        change.deleted if deleted is None else deleted,
        change.observed,
    )


def _with_suffix(obj: dict[str, Any], suffix: str) -> dict[str, Any]:
    metadata = {**obj["metadata"], "name": obj["metadata"]["name"] + suffix}
    if "uid" in metadata:
        metadata["uid"] += suffix
    owners = metadata.get("ownerReferences")
    if owners:
        renamed = [{**each, "uid": each["uid"] + suffix, "name": each["name"] + suffix} for each in owners]
        metadata["ownerReferences"] = renamed
    spec = dict(obj.get("spec") or {})
    if spec.get("nodeName"):
        spec["nodeName"] += suffix
    return {**obj, "metadata": metadata, "spec": spec}


def _entries(auditor: Auditor) -> Counter[str]:
    """How many entries the tables of the auditor and its checkers have, by the name of the table."""
    found: Counter[str] = Counter()
    waiting: list[tuple[str, Any]] = [("auditor", auditor)]
    seen: set[int] = set()
    while waiting:
        name, each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict | set | list):
            found[name] += len(each)
        elif type(each).__module__.startswith("headgate.") and hasattr(each, "__dict__"):
            waiting += [(f"{name}.{key}", value) for key, value in vars(each).items()]
    return found
