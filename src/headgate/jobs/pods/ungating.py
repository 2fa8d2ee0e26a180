"""The rule that removes the gates of pods whose Workload is admitted, and stops pods that run without an admission.

A pod set has as many places as its count of pods. A gated pod may start if its pod set has a free place.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.framework import job_writes
from headgate.jobs.framework.job_plan import JobBlocked, may_start, wait_for_terminating_pods
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.pod_set_info import StartConflict, pod_set_info_of
from headgate.jobs.pods import pod_writes
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_plan_input import Object, PodPlanContext, PodPlanInput, PodPlanStep, WaitUntil
from headgate.jobs.pods.pod_unit import by_role, pod_set_counts_of, pods_of_unknown_role
from headgate.jobs.pods.quota_release import active_until_s
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.quota_reservation import read_quota_pod, uses_reservation_of


def ungate(state: PodPlanInput) -> PodPlanStep:
    """Removes the gates of waiting pods for which their pod set has a free place."""
    workload, unit, context = state.workload, state.unit, state.context
    if workload is None or not state.workload_has(names.ADMITTED):
        running = state.running_pods
        text = "Not admitted by cluster queue"
        return pod_writes.stop(running, "NotAdmitted", text, context.now_s) if running else None
    if state.workload_has(names.EVICTED):
        return None
    if not may_start(workload):
        return wait_for_terminating_pods(workload) if any(each.is_waiting for each in unit.members) else None
    writes: list[PlannedWrite] = []
    pod_set_counts = pod_set_counts_of(workload)
    for role, members in by_role(unit.members).items():
        info = pod_set_info_of(workload, role, context.flavors)
        for each in _pods_to_ungate(members, pod_set_counts.get(role, 0), workload, context):
            write = info if isinstance(info, StartConflict) else pod_writes.ungate(each, workload, info)
            if not isinstance(write, StartConflict):
                writes.append(write)
                continue
            if not write.is_final:
                return JobBlocked("FailedToStart", write.message)
            event = pod_writes.pod_event(each, "FailedToStart", write.message, is_warning=True)
            return (job_writes.finish(workload, "FailedToStart", write.message, context.now_s, event),)
    unknown = pods_of_unknown_role(unit, pod_set_counts) if unit.is_group else []
    if unknown and not writes:
        text = f"pod '{unknown[0].name}' asks for something that Workload '{unit.key[2]}' was not admitted for"
        return JobBlocked("ErrWorkloadCompose", text)
    if writes or not any(each.is_waiting for each in unit.members):
        return tuple(writes) or None
    occupied_until = [
        (end_s, each.name)
        for each in unit.members
        if (end_s := _occupied_until_s(each, workload, context)) > context.now_s
    ]
    if not occupied_until:
        return None
    until_s, name = min(occupied_until)
    message = f"Terminating pod {unit.key[1]}/{name} uses the place until it has left, or until {format_time(until_s)}"
    return WaitUntil(until_s, JobBlocked(names.WAITING_FOR_TERMINATING_PODS, message, is_warning=False))


def _pods_to_ungate(
    members: Sequence[ManagedPod], pod_set_count: int, workload: Object, context: PodPlanContext
) -> list[ManagedPod]:
    """The oldest waiting pods, as many as there are free places. A terminating pod uses its place until it is gone or
    the time of ``_occupied_until_s`` has passed."""
    waiting = [each for each in members if each.is_waiting]
    occupied_count = sum(each.counts_for_pod_set and not each.is_gated for each in members)
    occupied_count += sum(_occupied_until_s(each, workload, context) > context.now_s for each in members)
    return sorted(waiting, key=lambda each: (each.created, each.name))[: max(pod_set_count - occupied_count, 0)]


def _occupied_until_s(member: ManagedPod, workload: Object, context: PodPlanContext) -> float:
    """The time until which a terminating pod uses its place; zero for other pods. If quota is released OnTerminating,
    only a pod that was started with the present quota reservation uses a place here: ``quota/cache/occupancy.py``
    counts the pods of earlier reservations."""
    if not member.is_terminating:
        return 0.0
    if context.quota_release == "OnTerminal":
        return active_until_s(member.pod, context.quota_release) or 0.0
    quota_pod = read_quota_pod(member.pod, context.max_wait_s) if context.start_after_terminating else None
    if quota_pod is None or isinstance(quota_pod, str) or quota_pod.until_s is None:
        return 0.0
    return quota_pod.until_s if uses_reservation_of(quota_pod, workload) else 0.0
