"""Rules for the lifecycle of pods in a queue: when their Workload is created and finished, and when pods are deleted.

A pod cannot be suspended, so it is stopped by deletion. Another client, such as its controller, may create a
replacement; a group continues with the replacement. ``pod_plan.py`` has the order of the rules. A rule returns None if
it has nothing to do.
"""

from __future__ import annotations

from headgate.controllers.framework.effects import Create
from headgate.jobs.framework import job_writes
from headgate.jobs.framework.job_plan import (
    GATED,
    JobBlocked,
    has_finalizer,
    is_admitted,
    is_terminating,
    lacks_finalizer,
    plan_orphaned_workload,
)
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.management import NOT_FOUND, UnknownAncestor
from headgate.jobs.framework.release_mark import BY_UNINSTALL, RUNS_WITHOUT_ADMISSION, WITHOUT_WEBHOOK
from headgate.jobs.pods import group_workload, pod_writes
from headgate.jobs.pods.managed_pod import SUCCEEDED
from headgate.jobs.pods.pod_metadata import foreign_gates_of
from headgate.jobs.pods.pod_plan_input import (
    STOP_PLANNING,
    ConfirmNoWorkload,
    Object,
    PlannedWrites,
    PodPlanInput,
    PodPlanStep,
    WaitUntil,
)
from headgate.jobs.pods.pod_unit import missing_count, outcome_of, pod_set_counts_of, pods_beyond_count, unneeded_pods
from headgate.jobs.pods.quota_release import quota_in_use
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.quota import names
from headgate.quota.kinds.names import WORKLOADS


def leave_released_pods(state: PodPlanInput) -> PodPlanStep:
    """Does not delete pods that run because an uninstallation released them, or because no webhook was registered when
    they were created, and creates no Workload for them alone. When a pod of their group waits for quota, the later
    rules create a Workload for the whole group, and leave these pods alone until it is admitted. Pods that wait, or
    have an admission, lose the mark of the uninstallation."""
    workload, unit = state.workload, state.unit
    may_run = workload is not None and is_admitted(workload)
    writes = pod_writes.remove_release_marks([each for each in unit.members if may_run or each.is_waiting])
    left = state.unadmitted_pods
    if writes or not left:
        return writes or None
    if workload is not None and is_terminating(workload) and has_finalizer(workload):
        return (job_writes.remove_finalizer(workload),)
    is_over = workload is not None and (is_terminating(workload) or state.workload_has(names.FINISHED))
    if any(each.is_waiting for each in unit.members) and not is_over:
        return None
    why = BY_UNINSTALL if left[0].is_released else WITHOUT_WEBHOOK
    subject = f"pod {left[0].name} of its group: " if unit.is_group else ""
    ends = "it ends, or a new pod of its group is admitted" if unit.is_group else "it ends"
    quota = "its Workload is admitted" if workload is not None else ends
    text = f"{subject}{why}; no quota is counted for it until {quota}; to queue it, create it again"
    return JobBlocked(RUNS_WITHOUT_ADMISSION, text, is_warning=False)


def delete_replaced_workload(state: PodPlanInput) -> PodPlanStep:
    """Deletes a finished or terminating Workload if all pods that own it are gone, so that a new Workload can be
    created for the present pods of the group."""
    workload = state.workload
    if (
        workload is None
        or not state.unit.is_group
        or not (is_terminating(workload) or state.workload_has(names.FINISHED))
    ):
        return None
    owners = {each.get("uid") for each in workload["metadata"].get("ownerReferences") or ()}
    if not owners or any(each.uid in owners for each in state.unit.members):
        return None
    return (
        (pod_writes.delete_workload(workload),)
        if has_finalizer(workload) or not is_terminating(workload)
        else STOP_PLANNING
    )


def finish_workload(state: PodPlanInput) -> PodPlanStep:
    """Sets the condition Finished of the Workload when its pods have ended, then removes the finalizers of the pods."""
    workload, unit = state.workload, state.unit
    if workload is not None and state.workload_has(names.FINISHED):
        if is_terminating(workload) and has_finalizer(workload):
            return (job_writes.remove_finalizer(workload),)
        return pod_writes.remove_finalizers(unit.members) or _delete_late_replacements(state, workload) or STOP_PLANNING
    outcome = outcome_of(unit)
    if outcome is None:
        return None
    if workload is None:
        return pod_writes.remove_finalizers(unit.members) or STOP_PLANNING
    if unit.is_group and outcome.succeeded:
        left = {each.uid for each in state.unadmitted_pods}
        removed = pod_writes.delete_excess([each for each in unneeded_pods(unit) if each.uid not in left])
        if removed:
            return removed
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    event = pod_writes.pod_event(unit.representative, "FinishedWorkload", f"Workload '{key}' is declared finished")
    reason = "Succeeded" if outcome.succeeded else "Failed"
    return (job_writes.finish(workload, reason, outcome.message, state.context.now_s, event),)


def _delete_late_replacements(state: PodPlanInput, workload: Object) -> PlannedWrites:
    """Deletes replacements that were created after enough pods had succeeded: they would wait without end."""
    condition = conditions.find(get_path(workload, ("status", "conditions")), names.FINISHED) or {}
    has_succeeded_pod = any(each.phase == SUCCEEDED and not each.is_terminating for each in state.unit.members)
    if not state.unit.is_group or condition.get("reason") != "Succeeded" or not has_succeeded_pod:
        return STOP_PLANNING
    return pod_writes.delete_excess(unneeded_pods(state.unit))


def stop_for_deleted_workload(state: PodPlanInput) -> PodPlanStep:
    """If the Workload is being deleted, deletes all its pods, including gated and finished ones. Then it removes the
    finalizer of the Workload."""
    workload = state.workload
    if workload is None or not is_terminating(workload):
        return None
    remaining = [each for each in state.unit.members if not each.is_terminating]
    if remaining:
        return pod_writes.stop(remaining, "WorkloadDeleted", "Workload is deleted", state.context.now_s)
    writes = pod_writes.remove_finalizers(state.unit.members)
    if writes:
        return writes
    return (job_writes.remove_finalizer(workload),) if has_finalizer(workload) else STOP_PLANNING


def hold_gated_pods(state: PodPlanInput) -> PodPlanStep:
    """No Workload is created while a pod of the unit has the annotation ``scheduling-gated-by``, or a scheduling gate
    of another controller, with which the pod could not use its quota. If the Workload already has quota, it keeps
    it."""
    counted = state.unit.counted_pods
    found_gates = {state.context.gate_of_pod(each.pod): None for each in counted}
    gates = [each for each in found_gates if isinstance(each, str)]
    gates += {gate: None for each in counted if each.is_waiting for gate in foreign_gates_of(each.pod)}
    unknown = next((each for each in found_gates if isinstance(each, UnknownAncestor)), None)
    if (unknown is None and not gates) or state.workload_has(names.QUOTA_RESERVED):
        return None
    if unknown is not None and not gates:  # the watch event of a missing owner enqueues its pods
        return STOP_PLANNING if unknown.reason == NOT_FOUND else JobBlocked(unknown.reason, unknown.message)
    if state.workload is not None:
        return (pod_writes.delete_workload(state.workload),)
    listed = ", ".join(sorted(set(gates)))
    running = state.running_pods
    if running:
        return ConfirmNoWorkload(pod_writes.stop(running, "NotAdmitted", f"Gated by {listed}", state.context.now_s))
    finalizers = pod_writes.remove_finalizers(
        [each for each in state.unit.members if each.has_finished_terminating or state.unit.is_terminating]
    )
    return finalizers or JobBlocked(
        GATED, f"No Workload is created while pods are gated by: {listed}", is_warning=False, gate=listed
    )


def create_workload(state: PodPlanInput) -> PodPlanStep:
    """If there is no Workload, stops the running pods, and creates a Workload for the gated ones. Pods of a group that
    are left alone (:func:`leave_released_pods`) are part of it: they use quota when it is admitted."""
    if state.workload is not None:
        return None
    unit, context = state.unit, state.context
    running = state.running_pods
    if running:
        return ConfirmNoWorkload(pod_writes.stop(running, "NoMatchingWorkload", "No matching Workload", context.now_s))
    finalizers = pod_writes.remove_finalizers(
        [each for each in unit.members if unit.is_terminating or not each.counts_for_pod_set]
    )
    if finalizers:
        return finalizers
    if unit.is_terminating:
        return STOP_PLANNING
    active, until_s = quota_in_use((each.pod for each in state.quota_pods), context.quota_release, context.now_s)
    if active:
        return STOP_PLANNING if until_s is None else WaitUntil(until_s)
    problem = group_workload.find_workload_problem(unit)
    if problem:
        return JobBlocked("ErrWorkloadCompose", problem)
    if unit.is_group and isinstance(unit.representative.total, int):
        left = {each.uid for each in state.unadmitted_pods}
        beyond = pods_beyond_count(unit.counted_pods, unit.representative.total)
        if excess_pods := [each for each in beyond if each.uid not in left]:
            return pod_writes.delete_excess(excess_pods)
    gates = group_workload.admission_gates_of_members(unit.counted_pods) if context.honours_admission_gates else ""
    created = group_workload.new_workload(unit, context.classes, gates)
    if isinstance(created, str):
        return JobBlocked("ErrWorkloadCompose", created)
    event = pod_writes.pod_event(
        unit.representative, "CreatedWorkload", f"Created Workload: {unit.key[1]}/{created['metadata']['name']}"
    )
    return (PlannedWrite(Create(WORKLOADS, unit.key[1], created), (event,)),)


def add_owners(state: PodPlanInput) -> PodPlanStep:
    """Adds new pods as owners of the Workload. Otherwise the garbage collector would delete the Workload together with
    the earlier pods."""
    if state.workload is None or not state.unit.is_group:
        return None
    owners = {each.get("uid") for each in state.workload["metadata"].get("ownerReferences") or ()}
    new = [each for each in state.unit.counted_pods if each.uid not in owners]
    return (pod_writes.add_owners(state.workload, new),) if new else None


def restore_finalizer(state: PodPlanInput) -> PodPlanStep:
    """Adds the finalizer to a Workload that has lost it, for example by an uninstallation."""
    workload = state.workload
    if workload is None or not lacks_finalizer(workload) or not state.context.may_restore(workload):
        return None
    return (job_writes.add_finalizer(workload),)


def stop_evicted_pods(state: PodPlanInput) -> PodPlanStep:
    """Deletes the running pods of an evicted Workload, then releases the quota."""
    workload, eviction, context = state.workload, state.eviction, state.context
    if workload is None or eviction is None:
        return None
    running = state.running_pods
    if running:
        reason, message = f"WorkloadEvictedDueTo{eviction.get('reason', '')}", str(eviction.get("message") or "")
        return pod_writes.stop(running, reason, message, context.now_s)
    return _release_quota(state, workload, eviction)


def release_quota_of_deleted_pods(state: PodPlanInput) -> PodPlanStep:
    """If another client deletes all pods, releases the quota as after an eviction."""
    workload, unit = state.workload, state.unit
    if workload is None or not unit.is_terminating:
        return None
    step = _release_quota(state, workload, None)
    if step is not None or unit.is_group:
        return step
    orphaned = plan_orphaned_workload(workload, state.context.now_s)
    return None if orphaned is None else (orphaned,)


def _release_quota(state: PodPlanInput, workload: Object, eviction: Object | None) -> PodPlanStep:
    """Releases the quota if no pod uses it any more; otherwise waits until the last pod stops using it."""
    if not state.workload_has(names.QUOTA_RESERVED):
        return None
    pods = (each.pod for each in state.quota_pods)
    active, until_s = quota_in_use(pods, state.context.quota_release, state.context.now_s)
    if active:
        return None if until_s is None else WaitUntil(until_s)
    missing = state.unit.is_group and missing_count(state.unit, pod_set_counts_of(workload)) > 0
    # The Workload of a single pod is requeued only if the pod is still gated: a pod that ran was deleted, and its
    # replacement gets a Workload of its own.
    is_requeued = state.unit.is_group or any(each.is_gated and not each.is_terminating for each in state.unit.members)
    return (pod_writes.release_group_quota(workload, eviction, missing, is_requeued, state.context.now_s),)
