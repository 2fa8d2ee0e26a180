"""The lines that ``headgate explain`` prints for jobs and workloads in Kueue's queues."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.kube.timestamps import human_age, parse_time
from headgate.quota.explain.description import ShortageDescription, WorkloadDescription
from headgate.runtime.inspection.workloads import WorkloadInspection

_MAX_HOLDERS = 5


def inspection_lines(inspection: WorkloadInspection, now_s: float) -> Iterator[str]:
    """The lines about a job, or about a workload that the user named."""
    name = f"{inspection.kind} {inspection.namespace}/{inspection.name}"
    if inspection.missing_workload is not None:
        gated_for = f", for {age(inspection.created, now_s)} now" if inspection.missing_workload.gate else ""
        yield f"{name}: {inspection.missing_workload.summary}{gated_for}"
        if inspection.created:
            yield f"  {age(inspection.created, now_s)} old"
        yield from (f"  {fact}" for fact in inspection.missing_workload.facts)
        yield from _event_lines(inspection, now_s)
        yield from _next_step_lines(inspection.missing_workload.next)
        return
    for each in inspection.descriptions:
        is_workload = inspection.kind == "workload"
        yield from description_lines(each, now_s, "" if is_workload else name)
    if inspection.note:
        yield f"  {inspection.note}"
    if inspection.terminating_pods:
        yield "its quota is released, and these pods still terminate on their nodes"
        for pod in inspection.terminating_pods:
            ends_s = parse_time(pod.by)
            is_overdue = not isinstance(ends_s, str) and ends_s < now_s
            ended = f", its grace period ended {age(pod.by, now_s)} ago" if is_overdue else f", by {pod.by}"
            yield f"  pod {pod.name} on node {pod.node}{ended}"
    for each in inspection.descriptions:
        yield from _next_step_lines(each.next)


def description_lines(description: WorkloadDescription, now_s: float, subject: str = "") -> Iterator[str]:
    """The lines about one workload. ``subject``: the object that the user named, if that is not the workload."""
    key = f"workload {description.namespace}/{description.name}"
    yield f"{subject or key}: {description.summary}"
    facts = [
        key if subject else "",
        f"LocalQueue {description.local_queue}" if description.local_queue else "in no LocalQueue",
        f"ClusterQueue {description.cluster_queue}" if description.cluster_queue else "",
        f"priority {description.priority}",
        f"{age(description.created, now_s)} old",
        f"{description.position} before it in its LocalQueue" if description.position is not None else "",
    ]
    yield "  " + ", ".join(filter(None, facts))
    yield from _reason_lines(description)
    for pod_set, flavors in description.flavors.items():
        assigned = ", ".join(f"{resource} from {flavor}" for resource, flavor in sorted(flavors.items()))
        yield f"  pod set {pod_set}: {assigned or 'no resource with quota'}"
    for check in description.checks:
        since = f" for {age(check.since, now_s)}" if check.since else ""
        yield f"  admission check {check.name}: {check.state}{since}" + (f": {check.message}" if check.message else "")
    if description.tried:
        yield "flavor by flavor"
    for tried in description.tried:
        why = f": {'; '.join(tried.reasons)}" if tried.reasons else ""
        yield f"  pod set {tried.pod_set} in {tried.flavor}: {tried.verdict}{why}"
    if description.lacks:
        yield "missing"
    for shortage in description.lacks:
        yield from _shortage_lines(shortage)
    if description.would_evict:
        yield "it may evict"
        yield from (f"  {each}" for each in description.would_evict)


def _reason_lines(description: WorkloadDescription) -> Iterator[str]:
    """Why the workload is pending: by its condition, and by the present result of the engine if that differs."""
    reason, message = description.said  # of the condition
    if description.state == "pending" and message and message not in description.summary:
        yield f"  its condition says ({reason}): {message}"
    present_reason = description.found  # of the engine
    if present_reason and present_reason not in message:
        yield f"  as of now: {present_reason}"


def _shortage_lines(shortage: ShortageDescription) -> Iterator[str]:
    yield (
        f"  {shortage.missing} {shortage.resource} in {shortage.flavor}: asked {shortage.asked}, "
        f"available {shortage.available}, at most {shortage.most}"
    )
    for holder in shortage.held_by[:_MAX_HOLDERS]:
        note = f", {holder.note}" if holder.note else ""
        yield f"    {holder.amount} held by {holder.workload} (ClusterQueue {holder.cluster_queue}{note})"
    more = len(shortage.held_by) - _MAX_HOLDERS
    if more > 0:
        yield f"    and by {more} more"


def _event_lines(inspection: WorkloadInspection, now_s: float) -> Iterator[str]:
    event = inspection.latest_event
    if event is not None and event.message:
        yield f"  last Event, {age(event.at, now_s)} ago: {event.reason}: {event.message}"


def _next_step_lines(steps: tuple[str, ...]) -> Iterator[str]:
    """What has to happen so that the workload can be admitted."""
    if steps:
        yield "next"
    yield from (f"  {step}" for step in steps)


def age(timestamp: str, now_s: float) -> str:
    parsed = parse_time(timestamp)
    return "an unknown time" if isinstance(parsed, str) else human_age(now_s - float(parsed))
