"""Describes one workload in words and in formatted amounts, for the terminal or as JSON.

The description combines the workload's conditions with the quota engine's current result (``explanation.py``): its
state, what blocks it, the shortage per flavor with its holders, the workloads whose end would help, and the next step.
``jobs/explanation.py`` explains why a job has no Workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.resource_amounts import amount_text
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.cycle.line_protection import WorkloadDelay
from headgate.quota.engine import QuotaEngine
from headgate.quota.explain.explanation import QuotaShortage, WorkloadExplanation, explain_workload
from headgate.quota.explain.remedies import QuotaGrowth, QuotaRemedy, find_remedy
from headgate.quota.explain.workload_list import QueuePositions, WorkloadOwner, owners_of, state_of, state_reason
from headgate.quota.flavors.assignment import FlavorCandidate, GranularMode

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""

_VERDICTS: Final = {
    GranularMode.NO_FIT: "no",
    GranularMode.NO_CANDIDATES: "full, and no workload may be evicted for it",
    GranularMode.PREEMPT: "by evicting others",
    GranularMode.RECLAIM: "by reclaiming what others borrowed",
    GranularMode.DEFERRED: "when evicted workloads have released their quota",
    GranularMode.FIT: "yes",
}


class FlavorAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A flavor for a pod set: whether it is available, and what prevents it."""

    pod_set: str
    flavor: str
    verdict: str
    reasons: tuple[str, ...] = ()


class HolderDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much a workload holds. ``note``: if it is evicted, or waits for the quota itself."""

    workload: str
    cluster_queue: str
    amount: str
    note: str = ""


class ShortageDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """``available``: to the queue now; ``most``: if no other workload held any."""

    flavor: str
    resource: str
    asked: str
    available: str
    most: str
    missing: str
    held_by: tuple[HolderDescription, ...] = ()


class CheckDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    state: str
    message: str = ""
    since: str = ""


class WorkloadDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """``position``: how many workloads of its LocalQueue come before it, ``position_in_cluster_queue``: of its
    ClusterQueue. ``said``: reason and message of its conditions. ``found``: why it gets no quota now. ``flavors``: its
    assignment, by pod set and resource. ``enders``: workloads whose end would be enough. ``would_delay``: the first in
    line of a queue, if that is protected and the workload would delay it."""

    namespace: str
    name: str
    state: str
    summary: str
    owners: tuple[WorkloadOwner, ...] = ()
    local_queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    created: str = ""
    position: int | None = None
    position_in_cluster_queue: int | None = msgspec.field(default=None, name="place")
    behind: str = ""
    said: tuple[str, str] = ("", "")
    gates: tuple[str, ...] = ()
    not_before: str = ""
    flavors: Mapping[str, Mapping[str, str]] = {}
    tried: tuple[FlavorAttempt, ...] = ()
    lacks: tuple[ShortageDescription, ...] = ()
    would_evict: tuple[str, ...] = ()
    enders: tuple[str, ...] = ()
    would_delay: str = ""
    found: str = ""
    checks: tuple[CheckDescription, ...] = ()
    next: tuple[str, ...] = ()


def describe_workload(engine: QuotaEngine, obj: JSONObject, knows_positions: bool, now_s: float) -> WorkloadDescription:
    """``knows_positions``: whether the engine knows all workloads that are pending or hold quota; if not, only the
    conditions of the workload are described."""
    metadata = obj.get("metadata") or {}
    workload = read_workload(obj)
    if isinstance(workload, str):
        text = f"it is not valid: {workload}"
        return WorkloadDescription(
            metadata.get("namespace", ""), metadata.get("name", ""), "pending", text, owners_of(obj)
        )
    state = state_of(workload)
    found = WorkloadExplanation(workload.key, "Unknown")
    if knows_positions:
        found = explain_workload(engine, workload.key, now_s)
    remedy = find_remedy(engine, workload.key, now_s) if found.state == "Pending" else QuotaRemedy()
    local = engine.cache.local_queues.get(workload.queue_key)
    position = QueuePositions(engine).position_of(workload.key) if knows_positions and state == "pending" else None
    description = WorkloadDescription(
        workload.namespace,
        workload.name,
        "evicted" if workload.is_evicted and workload.holds_quota else state,
        "",
        owners_of(obj),
        workload.queue,
        workload.admission.cluster_queue
        if workload.admission is not None
        else ""
        if local is None
        else local.cluster_queue,
        workload.priority,
        metadata.get("creationTimestamp") or "",
        None if position is None else position[0],
        None if position is None else position[1],
        found.behind,
        state_reason(workload, state),
        tuple(each.strip() for each in workload.gates.split(",") if each.strip()),
        format_time(workload.requeue_at_s)
        if workload.requeue_at_s is not None and workload.requeue_at_s > now_s
        else "",
        {} if workload.admission is None else {each.name: each.flavors for each in workload.admission.pod_sets},
        tuple(FlavorAttempt(name, each.flavor, _VERDICTS[each.mode], each.reasons) for name, each in found.attempts),
        tuple(map(_describe_shortage, found.shortages)),
        found.would_evict,
        remedy.workloads_to_end,
        "" if found.delay is None else found.delay.first.key,
        found.message,
        tuple(
            CheckDescription(each.name, each.state, each.message, format_time(each.since_s) if each.since_s else "")
            for each in workload.checks
        ),
    )
    summary, next_steps = _summarize(description, workload, found, remedy)
    return msgspec.structs.replace(description, summary=summary, next=tuple(next_steps))


def _describe_shortage(shortage: QuotaShortage) -> ShortageDescription:
    def text(amount: int) -> str:
        return amount_text(shortage.resource, amount)

    return ShortageDescription(
        shortage.flavor,
        shortage.resource,
        text(shortage.asked),
        text(max(shortage.available, 0)),
        text(max(shortage.most, 0)),
        text(max(shortage.asked - max(shortage.available, 0), 0)),
        tuple(
            HolderDescription(
                each.key,
                each.queue,
                text(each.amount),
                "being evicted" if each.is_evicted else "waits for it" if each.is_claim else "",
            )
            for each in shortage.held_by
        ),
    )


def _summarize(
    description: WorkloadDescription, workload: Workload, found: WorkloadExplanation, remedy: QuotaRemedy
) -> tuple[str, list[str]]:
    """The summary, and the next steps."""
    reason, message = description.said
    reason_text = f" ({reason})" if reason else ""
    if description.state == "finished":
        return f"it has finished{reason_text}: {message}".rstrip(": "), []
    if description.state == "evicted":
        step = "its pods have to end, and its job has to be suspended; then its quota is free"
        return f"it was evicted{reason_text}, and holds its quota until its pods have ended: {message}", [step]
    if description.state == "waitingtostart":
        shown = workload.conditions[names.WAITING_FOR_TERMINATING_PODS]
        step = (
            "the terminating pods have to end, or quota has to grow; each pod is waited for until three seconds after "
            "its deletion timestamp, and for at most --max-wait-for-terminating-pods"
        )
        queue = description.cluster_queue
        return f"it is admitted by ClusterQueue {queue}, and its pods do not start yet: {shown.message}", [step]
    if description.state == "admitted":
        return f"it is admitted by ClusterQueue {description.cluster_queue}: nothing holds it", []
    if description.state == "quotareserved":
        waiting = [each for each in description.checks if each.state != names.CHECK_READY]
        listed = ", ".join(f"{each.name} ({each.state})" for each in waiting) or "the next cycle"
        steps = [f"the controller of admission check {each.name} has to set it to Ready" for each in waiting]
        return (
            f"it has quota in ClusterQueue {description.cluster_queue} and waits for admission checks: {listed}",
            steps,
        )
    return _summarize_pending(description, workload, found, remedy)


def _summarize_pending(
    description: WorkloadDescription, workload: Workload, found: WorkloadExplanation, remedy: QuotaRemedy
) -> tuple[str, list[str]]:
    if not workload.is_active:
        if workload.is_marked:
            step = f"headgate resume has to be run for its job, or the job labelled {names.ACTIVATE}=true"
            return f"it is deactivated by the label {names.DEACTIVATE}", [step]
        return "it is deactivated: spec.active is false", ["spec.active has to be set to true"]
    if description.gates:
        listed = ", ".join(description.gates)
        step = f"their owners have to remove them from the job's annotation {names.ADMISSION_GATED_BY}"
        return f"its admission is gated by {listed}", [step]
    if description.not_before:
        again = f"after {workload.requeue_count} evictions" if workload.requeue_count else "after an eviction"
        return f"it waits until {description.not_before} before it may be queued again, {again}", []
    if found.state in ("Inadmissible", "SetAside", "NotFound"):
        text = found.reason.message if found.reason is not None and found.reason.message else description.said[1]
        return f"it is in no queue: {text or 'no controller has processed it yet'}", list(_fixes(description))
    if found.state == "Unknown":
        return f"it waits for quota: {description.said[1] or 'no controller has processed it yet'}", []
    before = (
        f", {description.position_in_cluster_queue} before it"
        if description.position_in_cluster_queue
        else ""
        if description.position_in_cluster_queue is None
        else ", first in line"
    )
    summary = f"it waits for quota in ClusterQueue {found.queue}{before}"
    return summary, list(_steps(description, found, remedy))


def _fixes(description: WorkloadDescription) -> Iterator[str]:
    """What the user can do about a queue that does not exist or does not admit workloads."""
    if not description.local_queue:
        yield "the job has to name its queue with the label kueue.x-k8s.io/queue-name"
    elif not description.cluster_queue:
        key = f"{description.namespace}/{description.local_queue}"
        yield f"LocalQueue {key} has to be created, or the job sent to another one"
    else:
        yield f"kubectl describe clusterqueue {description.cluster_queue} says what is wrong with it"


def _steps(description: WorkloadDescription, found: WorkloadExplanation, remedy: QuotaRemedy) -> Iterator[str]:
    """What has to happen before the workload gets quota."""
    if description.behind:
        yield f"{description.behind}, the first of a StrictFIFO queue, has to be admitted before it"
    elif description.position_in_cluster_queue:
        yield f"{description.position_in_cluster_queue} before it in ClusterQueue {found.queue} are considered first"
    if remedy.uncovered:
        listed = ", ".join(remedy.uncovered)
        yield (
            f"no resource group of ClusterQueue {found.queue} covers {listed}: "
            f"spec.resourceGroups has to cover it with quota, or the job must not ask for it"
        )
        return
    if found.delay is not None:
        yield _step_behind(found.delay)
        return
    if found.would_evict:
        yield f"it may preempt {_listed(found.would_evict)}"
        return
    evicted = dict.fromkeys(
        each.workload for lack in description.lacks for each in lack.held_by if each.note == "being evicted"
    )
    if evicted:
        yield f"{_listed(list(evicted))} have to end; they are being evicted"
    yield from _remedies(description, found, remedy, bool(evicted))


def _step_behind(delay: WorkloadDelay) -> str:
    """What helps a workload that would delay the first in line of a queue."""
    first, queue = delay.first.key, delay.first.queue
    steps = [f"workload {first}, the first in line of ClusterQueue {queue}, has to get quota before it"]
    if delay.not_before_s is not None:
        end = format_time(delay.not_before_s)
        steps.append(
            f"its job needs a maximum execution time that ends, with the grace period of its pods, before {end}"
        )
    steps.append(f"the annotation {names.DEQUEUE_STRATEGY} of ClusterQueue {queue} has to be removed")
    return "; or ".join(steps)


def _remedies(
    description: WorkloadDescription, found: WorkloadExplanation, remedy: QuotaRemedy, has_evicted: bool
) -> Iterator[str]:
    """Remedies that dry runs have confirmed, otherwise what is known to be necessary."""
    growth_text = _growth_text(remedy.growth)
    if remedy.never_fits:
        if growth_text and remedy.growth_alone and remedy.growth_alone != remedy.growth:
            enough = " and ".join(
                f"{amount_text(each.resource, each.needed)} {each.resource} in flavor {each.flavor}"
                for each in remedy.growth_alone
            )
            growth_text = f"{growth_text} ({enough} will do once no other workload uses quota or waits for it)"
        less = (
            f"it has to ask for less, or {growth_text}"
            if growth_text
            else "it has to ask for less, or quota has to grow"
        )
        yield f"it asks for more than its queue may ever have, so freed quota does not help: {less}"
        return
    if remedy.workloads_to_end:
        yield f"the end of {', '.join(remedy.workloads_to_end)} is enough" + (
            f"; or {growth_text}" if growth_text else ""
        )
    elif growth_text:
        yield growth_text
    elif description.lacks and not has_evicted:
        yield " or ".join(f"{each.missing} {each.resource} in flavor {each.flavor}" for each in description.lacks) + (
            " have to become free"
        )
    elif not description.lacks:
        yield _describe_mismatch([attempt for _, attempt in found.attempts])


def _growth_text(growth: Iterable[QuotaGrowth]) -> str:
    return " and ".join(
        f"the nominalQuota of ClusterQueue {each.queue} for {each.resource} in flavor {each.flavor} has to grow from "
        f"{amount_text(each.resource, each.nominal)} to {amount_text(each.resource, each.needed)}"
        for each in growth
    )


def _describe_mismatch(attempts: Sequence[FlavorCandidate]) -> str:
    """The next step if no quota is missing."""
    if any(each.mode == GranularMode.FIT for each in attempts):
        return "there is free quota for it now: check that a quota controller runs"
    return "no flavor of the queue matches it: its node selector, its resources or the queue's flavors have to change"


def _listed(keys: Sequence[str], most: int = 5) -> str:
    more = len(keys) - most
    return ", ".join(keys[:most]) + (f" and {more} more" if more > 0 else "")
