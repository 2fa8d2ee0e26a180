"""Decisions of the quota engine that were written, for the log. ``quota_controller.py`` reports them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from headgate.kube.decisions import Decision, Verb
from headgate.kube.resource_amounts import amount_text
from headgate.quota import effects, names
from headgate.quota.api.activation import is_deactivating
from headgate.quota.api.eviction_stats import reason_with_cause
from headgate.quota.api.workload import Admission, Workload
from headgate.quota.metrics.counters import queued_s

KIND: Final = "Workload"


def written_decisions(workload: Workload, written: Iterable[effects.Effect], now_s: float) -> Iterator[Decision]:
    """``workload``: its state before the write."""
    held_by = "" if workload.admission is None else workload.admission.cluster_queue
    for effect in written:
        match effect:
            case effects.Admit(_, _, admission, is_admitted, waited_s, waits_for):
                yield replace(
                    _decision("admitted" if is_admitted else "quota reserved", workload, admission.cluster_queue),
                    resources=_usage(admission),
                    flavors=_flavors(admission),
                    reason=names.WAITING_FOR_TERMINATING_PODS if waits_for else "",
                    message=waits_for,
                    wait_seconds=waited_s,
                )
            case effects.SetCondition(_, _, names.ADMITTED, True, reason, message):
                reserved = workload.conditions.get(names.QUOTA_RESERVED)
                yield replace(
                    _decision("admitted", workload, held_by, reason, message),
                    wait_seconds=now_s - queued_s(workload),
                    duration_seconds=None if reserved is None else now_s - reserved.since_s,
                )
            case effects.Evict():
                reason = effect.preempted or reason_with_cause(effect.reason, effect.cause)
                yield replace(
                    _decision(
                        "preempted" if effect.preempted else "evicted", workload, held_by, reason, effect.message
                    ),
                    resources={} if workload.admission is None else _usage(workload.admission),
                    preemptor=effect.preemptor,
                )
            case effects.Release(_, _, reason, message):
                yield _decision("revoked", workload, held_by, reason, message)
            case effects.Deactivate():
                yield _decision("deactivated", workload, held_by)
            case effects.ConsumeActivationLabels(_, _, is_enabled, _) if is_deactivating(workload, is_enabled):
                yield _decision("deactivated", workload, held_by, names.BY_DEACTIVATE_LABEL)


def refused_decision(workload: Workload, reason: str, message: str) -> Decision:
    """The API server rejected the admission."""
    return _decision("refused", workload, "", reason, message)


def _decision(verb: Verb, workload: Workload, cluster_queue: str, reason: str = "", message: str = "") -> Decision:
    return Decision(
        verb=verb,
        kind=KIND,
        namespace=workload.namespace,
        name=workload.name,
        uid=workload.uid,
        queue=workload.queue,
        cluster_queue=cluster_queue,
        reason=reason,
        message=message,
    )


def _usage(admission: Admission) -> dict[str, str]:
    total: dict[str, int] = {}
    for pod_set in admission.pod_sets:
        for name, amount in pod_set.usage.items():
            total[name] = total.get(name, 0) + amount
    return {name: amount_text(name, amount) for name, amount in sorted(total.items())}


def _flavors(admission: Admission) -> dict[str, str]:
    """The flavors of each resource; several pod sets may have different ones."""
    found: dict[str, dict[str, None]] = {}
    for pod_set in admission.pod_sets:
        for name, flavor in pod_set.flavors.items():
            found.setdefault(name, {})[flavor] = None
    return {name: ",".join(flavors) for name, flavors in sorted(found.items())}
