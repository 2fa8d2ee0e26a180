"""Describes one workload in words and in formatted amounts, for the terminal or as JSON.

The description combines the workload's conditions with the engine's current result (``explanation.py``): its state,
what blocks it, the shortage per flavor with its holders, the workloads whose end would help, and the next step.
``jobs/explanation.py`` explains why a job has no Workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.resource_amounts import amount_text
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.engine import QuotaEngine
from headgate.quota.explain.explanation import QuotaShortage, WorkloadExplanation, explain_workload
from headgate.quota.explain.remedies import QuotaRemedy, find_remedy
from headgate.quota.explain.workload_list import QueuePositions, WorkloadOwner, owners_of, state_of, state_reason
from headgate.quota.flavors.assignment import FlavorCandidate, GranularMode

Wire = Mapping[str, Any]

_VERDICTS: Final = {
    GranularMode.NO_FIT: "no",
    GranularMode.NO_CANDIDATES: "full, and nobody may be evicted for it",
    GranularMode.PREEMPT: "by evicting others",
    GranularMode.RECLAIM: "by taking back what others borrowed",
    GranularMode.DEFERRED: "when those that were told to go have gone",
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
    """``position``: how many workloads of its LocalQueue come before it, ``place``: of its ClusterQueue. ``said``:
    reason and message of its conditions. ``found``: why no flavors can be assigned now. ``flavors``: its assignment, by
    pod set and resource. ``enders``: workloads whose end would be enough."""

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
    place: int | None = None
    behind: str = ""
    said: tuple[str, str] = ("", "")
    gates: tuple[str, ...] = ()
    not_before: str = ""
    flavors: Mapping[str, Mapping[str, str]] = {}
    tried: tuple[FlavorAttempt, ...] = ()
    lacks: tuple[ShortageDescription, ...] = ()
    would_evict: tuple[str, ...] = ()
    enders: tuple[str, ...] = ()
    found: str = ""
    checks: tuple[CheckDescription, ...] = ()
    next: tuple[str, ...] = ()


def describe_workload(engine: QuotaEngine, wire: Wire, knows_places: bool, now_s: float) -> WorkloadDescription:
    """``knows_places``: whether the engine has heard of everybody who waits or holds quota; if not, what the
    workload's conditions say is all that is told."""
    metadata = wire.get("metadata") or {}
    read = read_workload(wire)
    if isinstance(read, str):
        said = f"it cannot be counted with: {read}"
        return WorkloadDescription(
            metadata.get("namespace", ""), metadata.get("name", ""), "pending", said, owners_of(wire)
        )
    state = state_of(read)
    found = explain_workload(engine, read.key) if knows_places else WorkloadExplanation(read.key, "Unknown")
    remedy = find_remedy(engine, read.key, now_s) if found.state == "Pending" else QuotaRemedy()
    local = engine.cache.local_queues.get(read.queue_key)
    place = QueuePositions(engine).position_of(read.key) if knows_places and state == "pending" else None
    about = WorkloadDescription(
        read.namespace,
        read.name,
        "evicted" if read.is_evicted and read.holds_quota else state,
        "",
        owners_of(wire),
        read.queue,
        read.admission.cluster_queue if read.admission is not None else "" if local is None else local.cluster_queue,
        read.priority,
        metadata.get("creationTimestamp") or "",
        None if place is None else place[0],
        None if place is None else place[1],
        found.behind,
        state_reason(read, state),
        tuple(each.strip() for each in read.gates.split(",") if each.strip()),
        format_time(read.requeue_at_s) if read.requeue_at_s is not None and read.requeue_at_s > now_s else "",
        {} if read.admission is None else {each.name: each.flavors for each in read.admission.pod_sets},
        tuple(FlavorAttempt(name, each.flavor, _VERDICTS[each.mode], each.reasons) for name, each in found.attempts),
        tuple(map(_lack, found.shortages)),
        found.would_evict,
        remedy.workloads_to_end,
        found.message,
        tuple(
            CheckDescription(each.name, each.state, each.message, format_time(each.since_s) if each.since_s else "")
            for each in read.checks
        ),
    )
    summary, following = _told(about, read, found, remedy)
    return msgspec.structs.replace(about, summary=summary, next=tuple(following))


def _lack(shortage: QuotaShortage) -> ShortageDescription:
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
                "on its way out" if each.is_evicted else "waits for it" if each.is_claim else "",
            )
            for each in shortage.held_by
        ),
    )


def _told(
    about: WorkloadDescription, workload: Workload, found: WorkloadExplanation, remedy: QuotaRemedy
) -> tuple[str, list[str]]:
    """In a sentence; and what would have to happen."""
    reason, message = about.said
    because = f" ({reason})" if reason else ""
    if about.state == "finished":
        return f"it has finished{because}: {message}".rstrip(": "), []
    if about.state == "evicted":
        step = "its pods have to end, and its job has to be suspended; then its quota is free"
        return f"it was told to go{because}, and holds its quota until it has: {message}", [step]
    if about.state == "waitingtostart":
        shown = workload.conditions[names.WAITING_FOR_TERMINATING_PODS]
        step = (
            "the terminating pods have to end, or quota has to grow; three seconds after its deletion timestamp a pod "
            "is waited for no more, and no longer than --max-wait-for-terminating-pods after it was told to end"
        )
        said = f"it is admitted by ClusterQueue {about.cluster_queue}, and its pods do not start yet: {shown.message}"
        return said, [step]
    if about.state == "admitted":
        return f"it is admitted by ClusterQueue {about.cluster_queue}: nothing holds it", []
    if about.state == "quotareserved":
        waiting = [each for each in about.checks if each.state != names.CHECK_READY]
        listed = ", ".join(f"{each.name} ({each.state})" for each in waiting) or "the next cycle"
        steps = [f"the controller of admission check {each.name} has to set it to Ready" for each in waiting]
        return f"it has quota in ClusterQueue {about.cluster_queue} and waits for admission checks: {listed}", steps
    return _told_of_waiting(about, workload, found, remedy)


def _told_of_waiting(
    about: WorkloadDescription, workload: Workload, found: WorkloadExplanation, remedy: QuotaRemedy
) -> tuple[str, list[str]]:
    if not workload.is_active:
        return "it is deactivated: spec.active is false", ["somebody has to set spec.active to true"]
    if about.gates:
        listed = ", ".join(about.gates)
        step = f"whoever set them has to take them off the job's annotation {names.ADMISSION_GATED_BY}"
        return f"its admission is gated by {listed}", [step]
    if about.not_before:
        again = f"after {workload.requeue_count} evictions" if workload.requeue_count else "after an eviction"
        return f"it waits until {about.not_before} before it may come again, {again}", []
    if found.state in ("Inadmissible", "SetAside", "NotFound"):
        text = found.reason.message if found.reason is not None and found.reason.message else about.said[1]
        return f"it stands in no queue: {text or 'nobody has looked at it yet'}", list(_mending(about))
    if found.state == "Unknown":
        return f"it waits for quota: {about.said[1] or 'nobody has looked at it yet'}", []
    before = f", {about.place} before it" if about.place else "" if about.place is None else ", first in line"
    summary = f"it waits for quota in ClusterQueue {found.queue}{before}"
    return summary, list(_steps(about, found, remedy))


def _mending(about: WorkloadDescription) -> Iterator[str]:
    if not about.local_queue:
        yield "the job has to name its queue with the label kueue.x-k8s.io/queue-name"
    elif not about.cluster_queue:
        yield f"LocalQueue {about.namespace}/{about.local_queue} has to be created, or the job sent to another one"
    else:
        yield f"kubectl describe clusterqueue {about.cluster_queue} says what is wrong with it"


def _steps(about: WorkloadDescription, found: WorkloadExplanation, remedy: QuotaRemedy) -> Iterator[str]:
    if about.behind:
        yield f"{about.behind}, the first of a StrictFIFO queue, has to be admitted before it"
    elif about.place:
        yield f"{about.place} before it in ClusterQueue {found.queue} are looked at first"
    if remedy.uncovered:
        listed = ", ".join(remedy.uncovered)
        yield (
            f"no resource group of ClusterQueue {found.queue} covers {listed}: "
            f"spec.resourceGroups has to cover it with quota, or the job must not ask for it"
        )
        return
    if found.would_evict:
        yield f"it may take the place of {_listed(found.would_evict)}: they are told to go"
        return
    going = dict.fromkeys(
        each.workload for lack in about.lacks for each in lack.held_by if each.note == "on its way out"
    )
    if going:
        yield f"{_listed(list(going))} have to be gone; they were told to"
    yield from _remedies(about, found, remedy, bool(going))


def _remedies(
    about: WorkloadDescription, found: WorkloadExplanation, remedy: QuotaRemedy, is_told: bool
) -> Iterator[str]:
    """What was tried out and is enough, or else what is known to be necessary."""
    grown = " and ".join(
        f"the nominalQuota of ClusterQueue {each.queue} for {each.resource} in flavor {each.flavor} has to grow from "
        f"{amount_text(each.resource, each.nominal)} to {amount_text(each.resource, each.needed)}"
        for each in remedy.growth
    )
    if remedy.never_fits:
        less = f"it has to ask for less, or {grown}" if grown else "it has to ask for less, or quota has to grow"
        yield f"it asks for more than its queue may ever have, so nothing that comes free helps: {less}"
        return
    if remedy.workloads_to_end:
        yield f"it would do if {', '.join(remedy.workloads_to_end)} ended" + (f"; or {grown}" if grown else "")
    elif grown:
        yield grown
    elif about.lacks and not is_told:
        yield " or ".join(f"{each.missing} {each.resource} in flavor {each.flavor}" for each in about.lacks) + (
            " have to come free"
        )
    elif not about.lacks:
        yield _wanting([attempt for _, attempt in found.attempts])


def _wanting(attempts: Sequence[FlavorCandidate]) -> str:
    """What it takes where nothing is short that could come free."""
    if any(each.mode == GranularMode.FIT for each in attempts):
        return "there is room for it now: is somebody at work who gives quota?"
    return "no flavor of the queue is for it: its nodes or its resources have to be others, or the queue's flavors"


def _listed(keys: Sequence[str], most: int = 5) -> str:
    more = len(keys) - most
    return ", ".join(keys[:most]) + (f" and {more} more" if more > 0 else "")
