"""Synchronizes a Workload with its pods: excess pods, pod sets, and the status that reports its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.jobs.framework import job_writes as of_jobs
from headgate.jobs.framework.job_plan import JobBlocked
from headgate.jobs.framework.workload import gates_of, has_priority
from headgate.jobs.framework.workload_equivalence import is_equivalent_as_stored
from headgate.jobs.pods import group_workload, pod_writes
from headgate.jobs.pods.managed_pod import SUCCEEDED, ManagedPod
from headgate.jobs.pods.pod_plan_input import Next, Object, PodPlanInput
from headgate.jobs.pods.pod_unit import PodUnit, by_role, counts_of, disagreement, excess, missing_count, replaced_pods
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.quota import names


def remove_excess_pods(case: PodPlanInput) -> Next:
    """Deletes pods without a place, and removes the finalizers of replaced pods."""
    if case.workload is None:
        return None
    unit, places = case.unit, counts_of(case.workload)
    if unit.is_group:
        excess_pods = excess(unit, places)
        if excess_pods:
            return pod_writes.delete_excess(excess_pods)
    return pod_writes.remove_finalizers(_pods_to_release(unit, places)) or None


def _pods_to_release(unit: PodUnit, places: Mapping[str, int]) -> Sequence[ManagedPod]:
    """Pods whose finalizer is no longer needed."""
    if unit.is_terminating and (not unit.is_group or all(each.is_terminated for each in unit.members)):
        return unit.members
    gone = {each.uid: each for each in replaced_pods(unit, places)}
    if not unit.is_unretriable or unit.is_terminating:  # a group that ends with its failures keeps them until it does
        gone |= {each.uid: each for each in unit.members if each.is_terminated and not each.counts_for_pod_set}
    return list(gone.values())


def sync_workload(case: PodPlanInput) -> Next:
    """Updates the Workload from its pods while it holds no quota."""
    workload, unit = case.workload, case.unit
    if workload is None or unit.is_terminating or case.has(names.QUOTA_RESERVED):
        return None
    if unit.is_group and disagreement(unit):
        return JobBlocked("ErrWorkloadCompose", disagreement(unit))
    if unit.is_group and not group_workload.group_problem(unit):
        wanted = {each["name"]: each["count"] for each in group_workload.pod_sets(unit)}
        if wanted != counts_of(workload):
            return (pod_writes.delete_workload(workload),)
    spec: Object = {}
    if (
        not unit.is_group
        and unit.members[0].is_gated
        and not is_equivalent_as_stored(workload, group_workload.pod_sets(unit))
    ):
        spec["podSets"] = group_workload.pod_sets(unit)
    if (get_path(workload, ("spec", "queueName")) or "") != unit.first.queue:
        spec["queueName"] = unit.first.queue or None
    priority_fields = group_workload.priority_of(unit, case.context.classes)
    if not isinstance(priority_fields, str) and not has_priority(workload, priority_fields):
        spec.update({"priorityClassRef": None, **priority_fields})
    known = {each.strip() for each in gates_of(workload).split(",")} - {""}
    left = {each for each in group_workload.gates_of_members(unit.counted).split(",") if each in known}
    if not case.context.admission_gated_by:
        left = known
    if not spec and left == known:
        return None
    return (pod_writes.update_group_workload(unit.first, workload, spec, ",".join(sorted(left))),)


def sync_waiting_for_replacements(case: PodPlanInput) -> Next:
    if case.workload is None or not case.unit.is_group:
        return None
    missing = missing_count(case.unit, counts_of(case.workload)) > 0
    write = pod_writes.wait_for_pods(case.workload, case.eviction, missing, case.context.now_s)
    return None if write is None else (write,)


def sync_reclaimable(case: PodPlanInput) -> Next:
    """Reports succeeded pods as reclaimable before the group ends. The counts never decrease."""
    workload, unit = case.workload, case.unit
    if workload is None or not case.has(names.QUOTA_RESERVED) or not unit.is_group or unit.is_serving:
        return None
    known = {each["name"]: each["count"] for each in get_path(workload, ("status", "reclaimablePods")) or ()}
    done = by_role(each for each in unit.members if each.phase == SUCCEEDED)
    places = counts_of(workload)
    counts = {role: min(len(done[role]), places[role]) for role in sorted(done) if role in places}
    more = {role: count for role, count in counts.items() if count > known.get(role, 0)}
    return (of_jobs.reclaim(workload, {**known, **more}),) if more else None


def sync_pods_ready(case: PodPlanInput) -> Next:
    """Sets the condition PodsReady while the Workload is admitted: whether all places have a ready or succeeded pod."""
    workload, unit = case.workload, case.unit
    if workload is None or not case.has(names.ADMITTED) or case.has(names.EVICTED):
        return None
    known = conditions.find(get_path(workload, ("status", "conditions")), names.PODS_READY)
    counted = unit.counted
    total = unit.first.total if unit.is_group else 1
    is_complete = isinstance(total, int) and len(counted) >= total
    are_ready = is_complete and all(each.is_ready or each.phase == SUCCEEDED for each in counted)
    if known is not None and are_ready == (known.get("status") == "True"):
        return None
    return (of_jobs.pods_ready(workload, are_ready, known, case.context.now_s),)
