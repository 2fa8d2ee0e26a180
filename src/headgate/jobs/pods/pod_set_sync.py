"""Rules that keep a Workload and its pods consistent: excess pods, pod sets, and the status that reports the pods.

``pod_plan.py`` has the order of the rules. A rule returns None if it has nothing to do. ``pod_unit.py`` defines the
unit (one pod or a pod group), its representative, and which pods count for a pod set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.jobs.framework import job_writes
from headgate.jobs.framework.job_plan import JobBlocked
from headgate.jobs.framework.workload import admission_gates_of, has_priority
from headgate.jobs.framework.workload_equivalence import matches_stored_fields
from headgate.jobs.pods import group_workload, pod_writes
from headgate.jobs.pods.managed_pod import SUCCEEDED, ManagedPod
from headgate.jobs.pods.pod_plan_input import Object, PodPlanInput, PodPlanStep
from headgate.jobs.pods.pod_unit import (
    PodUnit,
    by_role,
    excess_pods_of,
    find_metadata_conflict,
    missing_count,
    pod_set_counts_of,
    replaced_pods,
)
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.quota import names


def remove_excess_pods(state: PodPlanInput) -> PodPlanStep:
    """Deletes pods beyond the count of their pod set, then removes Headgate's finalizer from pods that no longer need
    it."""
    if state.workload is None:
        return None
    unit, pod_set_counts = state.unit, pod_set_counts_of(state.workload)
    if unit.is_group:
        left = {each.uid for each in state.unadmitted_pods}
        if excess_pods := [each for each in excess_pods_of(unit, pod_set_counts) if each.uid not in left]:
            return pod_writes.delete_excess(excess_pods)
    return pod_writes.remove_finalizers(_pods_that_need_no_finalizer(unit, pod_set_counts)) or None


def _pods_that_need_no_finalizer(unit: PodUnit, pod_set_counts: Mapping[str, int]) -> Sequence[ManagedPod]:
    """Pods that no rule reads any more, so that the API server may delete them."""
    if unit.is_terminating and (not unit.is_group or all(each.has_finished_terminating for each in unit.members)):
        return unit.members
    found = {each.uid: each for each in replaced_pods(unit, pod_set_counts)}
    # The outcome of an unretriable group depends on its failed pods, so they stay until all pods are deleted.
    if not unit.is_unretriable or unit.is_terminating:
        found |= {
            each.uid: each for each in unit.members if each.has_finished_terminating and not each.counts_for_pod_set
        }
    return list(found.values())


def sync_workload(state: PodPlanInput) -> PodPlanStep:
    """Updates the Workload from its pods while it has no quota. The pod sets of a group cannot be updated: a Workload
    with other counts is deleted, and the next plan creates a new one."""
    workload, unit = state.workload, state.unit
    if workload is None or unit.is_terminating or state.workload_has(names.QUOTA_RESERVED):
        return None
    if unit.is_group and find_metadata_conflict(unit):
        return JobBlocked("ErrWorkloadCompose", find_metadata_conflict(unit))
    if unit.is_group and not group_workload.find_workload_problem(unit):
        counts = {each["name"]: each["count"] for each in group_workload.pod_sets(unit)}
        if counts != pod_set_counts_of(workload):
            return (pod_writes.delete_workload(workload),)
    spec: Object = {}  # the fields of the Workload that have to change
    if (
        not unit.is_group
        and unit.members[0].is_gated
        and not matches_stored_fields(workload, group_workload.pod_sets(unit))
    ):
        spec["podSets"] = group_workload.pod_sets(unit)
    if (get_path(workload, ("spec", "queueName")) or "") != unit.representative.queue:
        spec["queueName"] = unit.representative.queue or None
    priority_fields = group_workload.priority_of(unit, state.context.classes)
    if not isinstance(priority_fields, str) and not has_priority(workload, priority_fields):
        spec.update({"priorityClassRef": None, **priority_fields})
    # An admission gate is removed from the Workload when no pod has it any more. A gate is never added.
    gates = {each.strip() for each in admission_gates_of(workload).split(",")} - {""}
    remaining_gates = gates
    if state.context.honours_admission_gates:
        gates_of_pods = group_workload.admission_gates_of_members(unit.counted_pods).split(",")
        remaining_gates = gates.intersection(gates_of_pods)
    if not spec and remaining_gates == gates:
        return None
    gates_text = ",".join(sorted(remaining_gates))
    return (pod_writes.update_workload_of_pods(unit.representative, workload, spec, gates_text),)


def sync_waiting_for_replacements(state: PodPlanInput) -> PodPlanStep:
    """Sets the condition WaitingForReplacementPods of a group: whether pods must be created in place of failed ones."""
    if state.workload is None or not state.unit.is_group:
        return None
    missing = missing_count(state.unit, pod_set_counts_of(state.workload)) > 0
    write = pod_writes.set_waiting_for_replacement_pods(state.workload, state.eviction, missing, state.context.now_s)
    return None if write is None else (write,)


def sync_reclaimable(state: PodPlanInput) -> PodPlanStep:
    """Reports succeeded pods in ``status.reclaimablePods``, so that their quota is released before the group ends. The
    counts never decrease."""
    workload, unit = state.workload, state.unit
    if workload is None or not state.workload_has(names.QUOTA_RESERVED) or not unit.is_group or unit.is_serving:
        return None
    known = {each["name"]: each["count"] for each in get_path(workload, ("status", "reclaimablePods")) or ()}
    succeeded = by_role(each for each in unit.members if each.phase == SUCCEEDED)
    pod_set_counts = pod_set_counts_of(workload)
    counts = {
        role: min(len(succeeded[role]), pod_set_counts[role]) for role in sorted(succeeded) if role in pod_set_counts
    }
    increased = {role: count for role, count in counts.items() if count > known.get(role, 0)}
    return (job_writes.set_reclaimable_pods(workload, {**known, **increased}),) if increased else None


def sync_pods_ready(state: PodPlanInput) -> PodPlanStep:
    """Sets the condition PodsReady while the Workload is admitted. It is True if all pods exist and each is ready or
    has succeeded."""
    workload, unit = state.workload, state.unit
    if workload is None or not state.workload_has(names.ADMITTED) or state.workload_has(names.EVICTED):
        return None
    known = conditions.find(get_path(workload, ("status", "conditions")), names.PODS_READY)
    pods = unit.counted_pods
    total = unit.representative.total if unit.is_group else 1
    do_all_exist = isinstance(total, int) and len(pods) >= total
    are_ready = do_all_exist and all(each.is_ready or each.phase == SUCCEEDED for each in pods)
    if known is not None and are_ready == (known.get("status") == "True"):
        return None
    return (job_writes.set_pods_ready(workload, are_ready, known, state.context.now_s),)
