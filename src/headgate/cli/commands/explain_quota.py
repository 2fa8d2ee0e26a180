"""What ``headgate explain`` prints of jobs and workloads in Kueue's queues, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.kube.timestamps import human_duration, parse_time
from headgate.quota.explain.description import ShortageDescription, WorkloadDescription
from headgate.runtime.inspection.workloads import WorkloadInspection

_MOST_HOLDERS = 5


def inquiry_lines(about: WorkloadInspection, now_s: float) -> Iterator[str]:
    name = f"{about.kind} {about.namespace}/{about.name}"
    if about.absence is not None:
        held = f", for {age(about.created, now_s)} now" if about.absence.gate else ""
        yield f"{name}: {about.absence.summary}{held}"
        if about.created:
            yield f"  {age(about.created, now_s)} old"
        yield from (f"  {fact}" for fact in about.absence.facts)
        yield from _event_lines(about, now_s)
        yield from _next(about.absence.next)
        return
    for each in about.accounts:
        is_itself = about.kind == "workload"
        yield from account_lines(each, now_s, "" if is_itself else name)
    if about.ending:
        yield "its quota is free, and pods still end: accounting is ahead of the machines"
        for pod in about.ending:
            yield f"  pod {pod.name} on node {pod.node}, by {pod.by}"
    for each in about.accounts:
        yield from _next(each.next)


def account_lines(about: WorkloadDescription, now_s: float, whose: str = "") -> Iterator[str]:
    """``whose``: if the reader asked for something else than the workload."""
    key = f"workload {about.namespace}/{about.name}"
    yield f"{whose or key}: {about.summary}"
    facts = [
        key if whose else "",
        f"LocalQueue {about.local_queue}" if about.local_queue else "in no LocalQueue",
        f"ClusterQueue {about.cluster_queue}" if about.cluster_queue else "",
        f"priority {about.priority}",
        f"{age(about.created, now_s)} old",
        f"{about.position} before it in its LocalQueue" if about.position is not None else "",
    ]
    yield "  " + ", ".join(filter(None, facts))
    yield from _reasons(about)
    for pod_set, flavors in about.flavors.items():
        given = ", ".join(f"{resource} from {flavor}" for resource, flavor in sorted(flavors.items()))
        yield f"  pod set {pod_set}: {given or 'nothing that counts'}"
    for check in about.checks:
        since = f" for {age(check.since, now_s)}" if check.since else ""
        yield f"  admission check {check.name}: {check.state}{since}" + (f": {check.message}" if check.message else "")
    if about.tried:
        yield "flavor by flavor"
    for tried in about.tried:
        why = f": {'; '.join(tried.reasons)}" if tried.reasons else ""
        yield f"  pod set {tried.pod_set} in {tried.flavor}: {tried.verdict}{why}"
    if about.lacks:
        yield "missing"
    for lack in about.lacks:
        yield from _lack_lines(lack)
    if about.would_evict:
        yield "it may evict"
        yield from (f"  {each}" for each in about.would_evict)


def _reasons(about: WorkloadDescription) -> Iterator[str]:
    """Of a workload that waits: its condition, and what the engine finds now if that is something else."""
    reason, message = about.said
    if about.state == "pending" and message and message not in about.summary:
        yield f"  its condition says ({reason}): {message}"
    if about.found and about.found not in message:
        yield f"  as of now: {about.found}"


def _lack_lines(lack: ShortageDescription) -> Iterator[str]:
    yield (
        f"  {lack.missing} {lack.resource} in {lack.flavor}: asked {lack.asked}, "
        f"available {lack.available}, at most {lack.most}"
    )
    for part in lack.held_by[:_MOST_HOLDERS]:
        note = f", {part.note}" if part.note else ""
        yield f"    {part.amount} held by {part.workload} (ClusterQueue {part.cluster_queue}{note})"
    more = len(lack.held_by) - _MOST_HOLDERS
    if more > 0:
        yield f"    and by {more} more"


def _event_lines(about: WorkloadInspection, now_s: float) -> Iterator[str]:
    if about.told is not None and about.told.message:
        yield f"  last said of it, {age(about.told.at, now_s)} ago: {about.told.reason}: {about.told.message}"


def _next(steps: tuple[str, ...]) -> Iterator[str]:
    if steps:
        yield "next"
    yield from (f"  {step}" for step in steps)


def age(stamp: str, now_s: float) -> str:
    parsed = parse_time(stamp)
    return "an unknown time" if isinstance(parsed, str) else human_duration(now_s - float(parsed))
