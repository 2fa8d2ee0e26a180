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
    workload, unit, around = case.workload, case.unit, case.context
    if workload is None or not case.has(names.ADMITTED):
        running = [each for each in unit.members if each.runs]
        text = "Not admitted by cluster queue"
        return pod_writes.stop(running, "NotAdmitted", text, around.now_s) if running else None
    if case.has(names.EVICTED):
        return None
    if not may_start(workload):
        return wait_for_terminating_pods(workload) if any(each.waits for each in unit.members) else None
    acts: list[PlannedWrite] = []
    places = counts_of(workload)
    for role, members in by_role(unit.members).items():
        what = pod_set_info_of(workload, role, around.flavors)
        for each in _pods_to_ungate(members, places.get(role, 0), workload, around):
            act = what if isinstance(what, StartConflict) else pod_writes.ungate(each, workload, what)
            if not isinstance(act, StartConflict):
                acts.append(act)
                continue
            if not act.is_final:
                return JobBlocked("FailedToStart", act.message)
            told = pod_writes.pod_event(each, "FailedToStart", act.message, is_warning=True)
            return (of_jobs.finish(workload, "FailedToStart", act.message, around.now_s, told),)
    unknown = pods_of_unknown_role(unit, places) if unit.is_group else []
    if unknown and not acts:
        text = f"pod '{unknown[0].name}' asks for something that Workload '{unit.key[2]}' was not admitted for"
        return JobBlocked("ErrWorkloadCompose", text)
    if acts or not any(each.waits for each in unit.members):
        return tuple(acts) or None
    ends = [(end_s, each.name) for each in unit.members if (end_s := _ends_s(each, workload, around)) > around.now_s]
    if not ends:
        return None
    until_s, name = min(ends)
    said = f"Terminating pod {unit.key[1]}/{name} uses the place until it has left, or until {format_time(until_s)}"
    return WaitUntil(until_s, JobBlocked(names.WAITING_FOR_TERMINATING_PODS, said, is_warning=False))


def _pods_to_ungate(
    members: Sequence[ManagedPod], places: int, workload: Object, around: PodPlanContext
) -> list[ManagedPod]:
    """The waiting pods that have free places: a terminating pod uses its place until it is gone or overdue."""
    waiting = [each for each in members if each.waits]
    taken = sum(each.counts_for_pod_set and not each.is_gated for each in members)
    taken += sum(_ends_s(each, workload, around) > around.now_s for each in members)
    return sorted(waiting, key=lambda each: (each.created, each.name))[: max(places - taken, 0)]


def _ends_s(member: ManagedPod, workload: Object, around: PodPlanContext) -> float:
    """Until when a terminating pod uses a place: with early release, one of this reservation of quota. Those of an
    earlier one are counted by ``quota/cache/occupancy.py``."""
    if not member.is_leaving:
        return 0.0
    if around.release == "OnTerminal":
        return active_until_s(member.pod, around.release) or 0.0
    occupant = read_quota_pod(member.pod, around.max_wait_s) if around.start_after_terminating else None
    if occupant is None or isinstance(occupant, str) or occupant.until_s is None:
        return 0.0
    return occupant.until_s if uses_reservation_of(occupant, workload) else 0.0
