"""Removes the gates of pods whose Workload is admitted, and starts no other pod.

Removing the gate starts a pod; it happens once in its life.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.framework import job_writes as of_jobs
from headgate.jobs.framework.job_plan import JobBlocked, may_start, wait_for_terminating_pods
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.pod_set_info import StartConflict, pod_set_info_of
from headgate.jobs.pods import pod_writes
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_plan_input import Next, Object, PodPlanContext, PodPlanInput, WaitUntil
from headgate.jobs.pods.pod_unit import by_role, counts_of, pods_of_unknown_role
from headgate.jobs.pods.quota_release import active_until_s
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.quota_reservation import read_quota_pod, uses_reservation_of


def ungate(case: PodPlanInput) -> Next:
    workload, unit, context = case.workload, case.unit, case.context
    if workload is None or not case.has(names.ADMITTED):
        running = [each for each in unit.members if each.is_running]
        text = "Not admitted by cluster queue"
        return pod_writes.stop(running, "NotAdmitted", text, context.now_s) if running else None
    if case.has(names.EVICTED):
        return None
    if not may_start(workload):
        return wait_for_terminating_pods(workload) if any(each.is_waiting for each in unit.members) else None
    writes: list[PlannedWrite] = []
    places = counts_of(workload)
    for role, members in by_role(unit.members).items():
        info = pod_set_info_of(workload, role, context.flavors)
        for each in _pods_to_ungate(members, places.get(role, 0), workload, context):
            write = info if isinstance(info, StartConflict) else pod_writes.ungate(each, workload, info)
            if not isinstance(write, StartConflict):
                writes.append(write)
                continue
            if not write.is_final:
                return JobBlocked("FailedToStart", write.message)
            event = pod_writes.pod_event(each, "FailedToStart", write.message, is_warning=True)
            return (of_jobs.finish(workload, "FailedToStart", write.message, context.now_s, event),)
    unknown = pods_of_unknown_role(unit, places) if unit.is_group else []
    if unknown and not writes:
        text = f"pod '{unknown[0].name}' asks for something that Workload '{unit.key[2]}' was not admitted for"
        return JobBlocked("ErrWorkloadCompose", text)
    if writes or not any(each.is_waiting for each in unit.members):
        return tuple(writes) or None
    ends = [
        (end_s, each.name)
        for each in unit.members
        if (end_s := _occupied_until_s(each, workload, context)) > context.now_s
    ]
    if not ends:
        return None
    until_s, name = min(ends)
    message = f"Terminating pod {unit.key[1]}/{name} uses the place until it has left, or until {format_time(until_s)}"
    return WaitUntil(until_s, JobBlocked(names.WAITING_FOR_TERMINATING_PODS, message, is_warning=False))


def _pods_to_ungate(
    members: Sequence[ManagedPod], places: int, workload: Object, context: PodPlanContext
) -> list[ManagedPod]:
    """The waiting pods that have free places: a terminating pod uses its place until it is gone or overdue."""
    waiting = [each for each in members if each.is_waiting]
    occupied = sum(each.counts_for_pod_set and not each.is_gated for each in members)
    occupied += sum(_occupied_until_s(each, workload, context) > context.now_s for each in members)
    return sorted(waiting, key=lambda each: (each.created, each.name))[: max(places - occupied, 0)]


def _occupied_until_s(member: ManagedPod, workload: Object, context: PodPlanContext) -> float:
    """Until when a terminating pod uses its place. With early release only pods of the present reservation do;
    ``quota/cache/occupancy.py`` counts those of earlier ones."""
    if not member.is_terminating:
        return 0.0
    if context.release == "OnTerminal":
        return active_until_s(member.pod, context.release) or 0.0
    quota_pod = read_quota_pod(member.pod, context.max_wait_s) if context.start_after_terminating else None
    if quota_pod is None or isinstance(quota_pod, str) or quota_pod.until_s is None:
        return 0.0
    return quota_pod.until_s if uses_reservation_of(quota_pod, workload) else 0.0
