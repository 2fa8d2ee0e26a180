"""The start and the end of pods in a queue: when their Workload is created, and when they are deleted.

A pod cannot be suspended: it is stopped by deletion. Its user replaces it, and a group continues with the replacement.
"""

from __future__ import annotations

from headgate.controllers.framework.effects import Create
from headgate.jobs.framework import job_writes as of_jobs
from headgate.jobs.framework.job_plan import GATED, JobBlocked, has_finalizer, is_terminating, plan_orphaned_workload
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.management import NOT_FOUND, UnknownAncestor
from headgate.jobs.pods import group_workload, pod_writes
from headgate.jobs.pods.managed_pod import SUCCEEDED
from headgate.jobs.pods.pod_metadata import foreign_gates_of
from headgate.jobs.pods.pod_plan_input import (
    STOP_PLANNING,
    ConfirmNoWorkload,
    Next,
    Object,
    PlannedWrites,
    PodPlanInput,
    WaitUntil,
)
from headgate.jobs.pods.pod_unit import counts_of, missing_count, outcome_of, surplus, too_many
from headgate.jobs.pods.quota_release import quota_in_use
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.quota import names
from headgate.quota.kinds.names import WORKLOADS


def replaced_group(case: PodPlanInput) -> Next:
    """Deletes a finished or deleted Workload whose pods are all gone, so that the present group gets a new one."""
    workload = case.workload
    if workload is None or not case.unit.is_group or not (is_terminating(workload) or case.has(names.FINISHED)):
        return None
    owners = {each.get("uid") for each in workload["metadata"].get("ownerReferences") or ()}
    if not owners or any(each.uid in owners for each in case.unit.members):
        return None
    return (
        (pod_writes.delete_workload(workload),)
        if has_finalizer(workload) or not is_terminating(workload)
        else STOP_PLANNING
    )


def finished(case: PodPlanInput) -> Next:
    workload, unit = case.workload, case.unit
    if workload is not None and case.has(names.FINISHED):
        if is_terminating(workload) and has_finalizer(workload):
            return (of_jobs.release_finalizer(workload),)
        return pod_writes.remove_finalizers(unit.members) or _late_replacements(case, workload) or STOP_PLANNING
    outcome = outcome_of(unit)
    if outcome is None:
        return None
    if workload is None:
        return pod_writes.remove_finalizers(unit.members) or STOP_PLANNING
    if unit.is_group and outcome.succeeded:
        removed = pod_writes.delete_excess(surplus(unit))
        if removed:
            return removed
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    event = pod_writes.pod_event(unit.first, "FinishedWorkload", f"Workload '{key}' is declared finished")
    reason = "Succeeded" if outcome.succeeded else "Failed"
    return (of_jobs.finish(workload, reason, outcome.message, case.context.now_s, event),)


def _late_replacements(case: PodPlanInput, workload: Object) -> PlannedWrites:
    """Deletes replacements that were created after all places had a succeeded pod: they would wait forever."""
    condition = conditions.find(get_path(workload, ("status", "conditions")), names.FINISHED) or {}
    has_succeeded_pod = any(each.phase == SUCCEEDED and not each.is_terminating for each in case.unit.members)
    if not case.unit.is_group or condition.get("reason") != "Succeeded" or not has_succeeded_pod:
        return STOP_PLANNING
    return pod_writes.delete_excess(surplus(case.unit))


def deleted(case: PodPlanInput) -> Next:
    """The Workload is being deleted: all its pods are deleted first, including gated and finished ones."""
    workload = case.workload
    if workload is None or not is_terminating(workload):
        return None
    remaining = [each for each in case.unit.members if not each.is_terminating]
    if remaining:
        return pod_writes.stop(remaining, "WorkloadDeleted", "Workload is deleted", case.context.now_s)
    writes = pod_writes.remove_finalizers(case.unit.members)
    if writes:
        return writes
    return (of_jobs.release_finalizer(workload),) if has_finalizer(workload) else STOP_PLANNING


def gated(case: PodPlanInput) -> Next:
    """No Workload is created while a pod is held by the annotation ``scheduling-gated-by`` or by a scheduling gate of
    another controller, with which it could not use its quota. Pods that hold quota keep it."""
    counted = case.unit.counted
    found_gates = {case.context.gate_of_pod(each.pod): None for each in counted}
    gates = [each for each in found_gates if isinstance(each, str)]
    gates += {gate: None for each in counted if each.is_waiting for gate in foreign_gates_of(each.pod)}
    unknown = next((each for each in found_gates if isinstance(each, UnknownAncestor)), None)
    if (unknown is None and not gates) or case.has(names.QUOTA_RESERVED):
        return None
    if unknown is not None and not gates:  # an event of the owner enqueues its pods
        return STOP_PLANNING if unknown.reason == NOT_FOUND else JobBlocked(unknown.reason, unknown.message)
    if case.workload is not None:
        return (pod_writes.delete_workload(case.workload),)
    listed = ", ".join(sorted(set(gates)))
    running = [each for each in case.unit.members if each.is_running]
    if running:
        return ConfirmNoWorkload(pod_writes.stop(running, "NotAdmitted", f"Gated by {listed}", case.context.now_s))
    gone = pod_writes.remove_finalizers(
        [each for each in case.unit.members if each.is_terminated or case.unit.is_terminating]
    )
    return gone or JobBlocked(
        GATED, f"No Workload is created while pods are gated by: {listed}", is_warning=False, gate=listed
    )


def missing(case: PodPlanInput) -> Next:
    """There is no Workload: stops running pods, and creates a Workload for gated ones."""
    if case.workload is not None:
        return None
    unit, context = case.unit, case.context
    running = [each for each in unit.members if each.is_running]
    if running:
        return ConfirmNoWorkload(pod_writes.stop(running, "NoMatchingWorkload", "No matching Workload", context.now_s))
    gone = pod_writes.remove_finalizers(
        [each for each in unit.members if unit.is_terminating or not each.counts_for_pod_set]
    )
    if gone:
        return gone
    if unit.is_terminating:
        return STOP_PLANNING
    active, until_s = quota_in_use((each.pod for each in unit.members), context.release, context.now_s)
    if active:
        return STOP_PLANNING if until_s is None else WaitUntil(until_s)
    problem = group_workload.group_problem(unit)
    if problem:
        return JobBlocked("ErrWorkloadCompose", problem)
    if unit.is_group and isinstance(unit.first.total, int):
        excess_pods = too_many(unit.counted, unit.first.total)
        if excess_pods:
            return pod_writes.delete_excess(excess_pods)
    gates = group_workload.gates_of_members(unit.counted) if context.admission_gated_by else ""
    created = group_workload.new_workload(unit, context.classes, gates)
    if isinstance(created, str):
        return JobBlocked("ErrWorkloadCompose", created)
    event = pod_writes.pod_event(
        unit.first, "CreatedWorkload", f"Created Workload: {unit.key[1]}/{created['metadata']['name']}"
    )
    return (PlannedWrite(Create(WORKLOADS, unit.key[1], created), (event,)),)


def add_owners(case: PodPlanInput) -> Next:
    """Adds new pods as owners of the Workload, so that it is not deleted with the earlier ones."""
    if case.workload is None or not case.unit.is_group:
        return None
    owners = {each.get("uid") for each in case.workload["metadata"].get("ownerReferences") or ()}
    new = [each for each in case.unit.counted if each.uid not in owners]
    return (pod_writes.add_owners(case.workload, new),) if new else None


def evicted(case: PodPlanInput) -> Next:
    workload, eviction, context = case.workload, case.eviction, case.context
    if workload is None or eviction is None:
        return None
    running = [each for each in case.unit.members if each.is_running]
    if running:
        reason, message = f"WorkloadEvictedDueTo{eviction.get('reason', '')}", str(eviction.get("message") or "")
        return pod_writes.stop(running, reason, message, context.now_s)
    return _released(case, workload, eviction)


def deleted_by_user(case: PodPlanInput) -> Next:
    """The user deletes all pods: the quota is released as after an eviction."""
    workload, unit = case.workload, case.unit
    if workload is None or not unit.is_terminating:
        return None
    step = _released(case, workload, None)
    if step is not None or unit.is_group:
        return step
    orphaned = plan_orphaned_workload(workload, case.context.now_s)
    return None if orphaned is None else (orphaned,)


def _released(case: PodPlanInput, workload: Object, eviction: Object | None) -> Next:
    if not case.has(names.QUOTA_RESERVED):
        return None
    pods = (each.pod for each in case.unit.members)
    active, until_s = quota_in_use(pods, case.context.release, case.context.now_s)
    if active:
        return None if until_s is None else WaitUntil(until_s)
    missing = case.unit.is_group and missing_count(case.unit, counts_of(workload)) > 0
    # A single pod that was stopped does not return; a gated one was not stopped.
    is_requeued = case.unit.is_group or any(each.is_gated and not each.is_terminating for each in case.unit.members)
    return (pod_writes.release_group_quota(workload, eviction, missing, is_requeued, case.context.now_s),)
