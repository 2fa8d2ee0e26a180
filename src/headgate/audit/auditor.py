"""The audit of one history: gives every change to the checkers, and collects the findings and the bill."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.audit.bill import Bill, BillMeter, BillTotals
from headgate.audit.findings import Finding
from headgate.audit.lasting_states import LastingStates
from headgate.audit.leftovers import LeftoverJudge
from headgate.audit.node_judge import NodeJudge
from headgate.audit.overtaking import OvertakingJudge
from headgate.audit.pod_facts import read_pod
from headgate.audit.prices import PriceTable
from headgate.audit.queue_judge import SERVED, QueueJudge
from headgate.audit.quota_holdings import QuotaHoldings
from headgate.audit.quota_judge import QuotaJudge
from headgate.recording.changes import RecordedChange

_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What reading an object of another form raises. One such object must not end the audit."""
_KUEUE: Final = ".kueue.x-k8s.io"
_MAX_UNREADABLE: Final = 1000


class AuditSettings(msgspec.Struct, frozen=True):
    """``served``: the schedulers whose pods are in Volcano-style queues. ``stuck_s``: how long gates, finalizers and
    quota may be left behind. ``starved_s``: how long a unit may wait after it was passed."""

    served: frozenset[str] = SERVED
    stuck_s: float = 600.0
    starved_s: float = 3600.0
    prices: PriceTable = PriceTable()


DEFAULT_SETTINGS: Final = AuditSettings()


class AuditResult(msgspec.Struct, frozen=True):
    """``findings`` in the order of revisions. ``unreadable``: objects that could not be checked."""

    findings: tuple[Finding, ...]
    bill: Bill
    changes: int
    from_s: float
    to_s: float
    unreadable: tuple[str, ...] = ()

    @property
    def certain(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.certain)


class Auditor:
    """``keeps_all``: for an audit that ends (:meth:`finish`). An audit that goes on is drained instead
    (:meth:`drain`)."""

    def __init__(self, settings: AuditSettings = DEFAULT_SETTINGS, *, keeps_all: bool = True) -> None:
        stuck_s = settings.stuck_s
        lasting = ("orphaned-gate", "gate-not-lifted", "orphaned-finalizer", "quota-leaked")
        self._states = LastingStates({**dict.fromkeys(lasting, stuck_s), "starved": settings.starved_s})
        self._queues = QueueJudge(settings.served)
        self._quota = QuotaJudge()
        self._nodes = NodeJudge()
        self._leftovers = LeftoverJudge(self._states)
        self._overtaking = OvertakingJudge(self._states)
        self._bill = BillMeter(settings.prices, self._queues)
        self._holdings = QuotaHoldings(self._bill)
        self._checkers = (self._queues, self._quota, self._nodes, self._states)
        self._keeps_all = keeps_all
        self._deleted: list[RecordedChange] = []
        self._changes = 0
        self._has_observed = False
        self._from_s: float | None = None
        self._to_s = 0.0
        self._unreadable: dict[str, None] = {}
        self._handlers: dict[str, Callable[[RecordedChange], None]] = {
            "namespaces": lambda change: self._queues.take_namespace(change.object, change.deleted),
            "nodes": self._take_node,
            "queues.scheduling.volcano.sh": lambda change: self._queues.take_queue(
                change.object, change.deleted, change.at_s
            ),
            "podgroups.scheduling.volcano.sh": self._take_group,
            f"resourceflavors{_KUEUE}": lambda change: self._leftovers.take_flavor(*_parts(change)),
            f"cohorts{_KUEUE}": self._take_quota,
            f"clusterqueues{_KUEUE}": self._take_cluster_queue,
            f"workloads{_KUEUE}": self._take_workload,
            "jobs.batch": self._take_job,
            "pods": self._take_pod,
            "nodeclaims.karpenter.sh": lambda change: self._bill.take_claim(
                change.object, change.deleted, change.at_s, change.observed
            ),
        }

    def take(self, change: RecordedChange) -> None:
        """Changes come in the order of revisions; their times do not go back."""
        self._changes += 1
        self._has_observed = self._has_observed or change.observed
        self._from_s = change.at_s if self._from_s is None else self._from_s
        self._to_s = max(self._to_s, change.at_s)
        handler = self._handlers.get(change.resource)
        if handler is None:
            return
        if change.deleted and not self._keeps_all:
            self._deleted.append(change)
        try:
            handler(change)
        except _UNREADABLE as error:
            self._unreadable[f"{change.resource} {'/'.join(filter(None, change.key))}: {error!r}"] = None

    # -- an audit that goes on -------------------------------------------------------------------------------------

    def drain(self, at_s: float) -> list[Finding]:
        """The findings since the last call, in the order of revisions. What has ended is forgotten: the memory of an
        audit that goes on depends on the objects that exist, not on those that existed."""
        self._states.report_overdue(at_s)
        found = [each for checker in self._checkers for each in checker.findings]
        for checker in self._checkers:
            checker.findings.clear()
        for change in self._deleted:
            self._forget(change)
        self._deleted.clear()
        self._bill.fold()
        self._unreadable = dict(list(self._unreadable.items())[-_MAX_UNREADABLE:])
        return sorted(found, key=lambda each: each.revision)

    def totals(self, at_s: float) -> BillTotals:
        """The bill until now."""
        return self._bill.totals(at_s)

    def overdue_states(self) -> dict[str, int]:
        """How many states have lasted too long by the last :meth:`drain` and go on, by rule."""
        return self._states.overdue()

    @property
    def unreadable(self) -> int:
        """Objects that could not be checked; the latest ones count."""
        return len(self._unreadable)

    def _forget(self, change: RecordedChange) -> None:
        match change.resource:
            case "pods":
                pod = read_pod(change.object)
                self._queues.forget_pod(pod.uid)
                self._nodes.forget_pod(pod)
                self._quota.forget(pod.uid)
            case "nodes":
                self._nodes.forget_node(change.key[1])
            case _:
                self._quota.forget(change.uid)
                self._overtaking.forget(change.uid)

    def finish(self, at_s: float | None = None) -> AuditResult:
        """``at_s``: the end of the recording."""
        self._to_s = max(self._to_s, at_s or 0.0)
        self._states.finish(self._to_s)
        self._queues.finish()
        findings = [each for checker in self._checkers for each in checker.findings]
        if not self._has_observed:
            over = (*self._queues.over_limit(), *self._quota.limits.exceeded(self._quota.held))
            findings += [Finding("over-admission", subject, text, self._to_s, 0, False) for subject, text in over]
        found: dict[tuple[str, str, str], Finding] = {}
        for each in sorted(findings, key=lambda each: each.revision):
            found.setdefault((each.rule, each.subject, each.text), each)
        return AuditResult(
            tuple(found.values()),
            self._bill.finish(self._to_s),
            self._changes,
            self._from_s or 0.0,
            self._to_s,
            tuple(self._unreadable),
        )

    # -- resources -------------------------------------------------------------------------------------------------

    def _take_node(self, change: RecordedChange) -> None:
        self._nodes.take_node(change.object, change.deleted)
        self._bill.take_node(change.object, change.deleted, change.at_s, change.observed)

    def _take_group(self, change: RecordedChange) -> None:
        self._queues.take_group(change.object, change.deleted)
        self._nodes.take_group(change.object, change.deleted)

    def _take_quota(self, change: RecordedChange) -> None:
        kind = "DELETED" if change.deleted else "MODIFIED"
        plural = change.resource.partition(".")[0]
        self._quota.take(plural, kind, change.object, change.at_s, observed=change.observed)

    def _take_cluster_queue(self, change: RecordedChange) -> None:
        self._take_quota(change)
        self._leftovers.take_cluster_queue(*_parts(change))

    def _take_workload(self, change: RecordedChange) -> None:
        self._take_quota(change)
        self._leftovers.take_workload(*_parts(change))
        self._overtaking.take_workload(*_parts(change))
        self._holdings.take_workload(change.object, change.deleted, change.at_s)

    def _take_job(self, change: RecordedChange) -> None:
        self._take_quota(change)
        self._leftovers.take_job(*_parts(change))

    def _take_pod(self, change: RecordedChange) -> None:
        pod, obj, deleted = read_pod(change.object), change.object, change.deleted
        at_s, revision, observed = change.at_s, change.revision, change.observed
        self._queues.take_pod(pod, deleted, at_s, revision, observed)
        self._nodes.take_pod(pod, obj, deleted, at_s, revision, observed)
        self._take_quota(change)
        self._leftovers.take_pod(pod, obj, deleted, at_s, revision, observed)
        self._overtaking.take_pod(pod, self._queues.queue_of(pod), deleted, at_s, revision, observed)
        self._holdings.take_pod(pod, deleted, at_s)
        self._bill.take_pod(pod, deleted, at_s, self._holdings.has_quota(pod))


def audit(
    changes: Iterable[RecordedChange],
    settings: AuditSettings = DEFAULT_SETTINGS,
    until_s: float | None = None,
) -> AuditResult:
    auditor = Auditor(settings)
    for change in changes:
        auditor.take(change)
    return auditor.finish(until_s)


def _parts(change: RecordedChange) -> tuple[dict[str, Any], bool, float, int, bool]:
    return change.object, change.deleted, change.at_s, change.revision, change.observed
