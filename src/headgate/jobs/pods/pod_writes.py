"""Writes to pods and their Workloads: one request each, with its Events and Kueue's messages.

A write to a pod has the pod's uid as a precondition and not its resourceVersion: other clients update pods often, and
these writes cannot overwrite their changes. The start of a pod has the resourceVersion, too, so that a request whose
response was lost cannot be performed later (``open_starts.py``); gated pods change rarely. The rules of ``pod_plan.py``
decide which write is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.controllers.framework.effects import Delete, EmitEvent, Patch
from headgate.controllers.ownership.pods import object_reference
from headgate.jobs.framework.job_plan import has_finalizer
from headgate.jobs.framework.job_writes import (
    PlannedWrite,
    conditions_of,
    conditions_without_quota,
    patch_status,
    patch_workload,
    preconditions,
    remove_finalizer,
    with_condition_set,
)
from headgate.jobs.framework.pod_set_info import PodSetInfo, StartConflict, pod_set_info_patch
from headgate.jobs.kinds.job_fields import merge_patches
from headgate.jobs.names import COMPONENT, MANAGED, OWN_GATES, RELEASED, TERMINATION_TARGET
from headgate.jobs.pods.group_workload import KIND, reference_to
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.kube import conditions
from headgate.kube.api_resources import PODS
from headgate.kube.lenient_reader import get_path
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.kinds.names import WORKLOADS

Object = dict[str, Any]

_MAX_MESSAGE: Final = 1024


def pod_event(member: ManagedPod, reason: str, message: str, *, is_warning: bool = False) -> EmitEvent:
    reference = object_reference(member.pod, KIND)
    return EmitEvent(reference, "Warning" if is_warning else "Normal", reason, message[:_MAX_MESSAGE], COMPONENT)


# -- pods ----------------------------------------------------------------------------------------------------------


def ungate(member: ManagedPod, workload: Object, info: PodSetInfo) -> PlannedWrite | StartConflict:
    """One patch that adds ``info`` to the pod and removes Headgate's gates; or the conflict that prevents the start.
    Gates of other controllers stay."""
    changed = pod_set_info_patch(member.pod, info)
    if isinstance(changed, StartConflict):
        return changed
    removals = [{"$patch": "delete", "name": gate} for gate in gate_names(member.pod) if gate in OWN_GATES]
    body = merge_patches(changed, {"metadata": preconditions(member.pod), "spec": {"schedulingGates": removals}})
    queue = get_path(workload, ("status", "admission", "clusterQueue"))
    return PlannedWrite(
        _patch(member, body), (pod_event(member, "Started", f"Admitted by clusterQueue {queue}"),), starts=True
    )


def stop(members: Sequence[ManagedPod], reason: str, message: str, now_s: float) -> tuple[PlannedWrite, ...]:
    """Sets the condition TerminationTarget with the reason on all pods; when all have it, deletes them."""
    without_condition = [each for each in members if not each.has_termination_target]
    if not without_condition:
        return tuple(PlannedWrite(_delete(each), (pod_event(each, "Stopped", message),)) for each in members)
    condition = {
        "type": TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "lastTransitionTime": format_time(now_s),
    }
    return tuple(
        PlannedWrite(_patch(each, {"metadata": {"uid": each.uid}, "status": {"conditions": [condition]}}, "status"))
        for each in without_condition
    )


def delete_excess(members: Sequence[ManagedPod]) -> tuple[PlannedWrite, ...]:
    """Removes the finalizers of excess pods, then deletes the pods."""
    with_finalizer = [each for each in members if each.has_finalizer]
    if with_finalizer:
        return remove_finalizers(with_finalizer)
    return tuple(
        PlannedWrite(_delete(each), (pod_event(each, "ExcessPodDeleted", "Excess pod deleted"),)) for each in members
    )


def remove_finalizers(members: Sequence[ManagedPod]) -> tuple[PlannedWrite, ...]:
    """Removes Headgate's finalizer from the pods that have it."""
    return tuple(
        PlannedWrite(_patch(each, {"metadata": {"uid": each.uid, "$deleteFromPrimitiveList/finalizers": [MANAGED]}}))
        for each in members
        if each.has_finalizer
    )


def remove_release_marks(members: Sequence[ManagedPod]) -> tuple[PlannedWrite, ...]:
    """Removes the mark of an uninstallation from the pods that have it."""
    return tuple(
        PlannedWrite(_patch(each, {"metadata": {"uid": each.uid, "annotations": {RELEASED: None}}}))
        for each in members
        if each.is_released
    )


def _patch(member: ManagedPod, body: Object, subresource: str = "") -> Patch:
    return Patch(PODS, member.pod["metadata"]["namespace"], member.name, body, "strategic", subresource)


def _delete(member: ManagedPod) -> Delete:
    options = {"preconditions": {"uid": member.uid}}
    return Delete(PODS, member.pod["metadata"]["namespace"], member.name, options)


# -- Workloads -----------------------------------------------------------------------------------------------------


def delete_workload(workload: Object) -> PlannedWrite:
    """Removes the finalizer, then deletes the Workload. The pods of a terminating Workload with a finalizer would be
    stopped (``stop_for_deleted_workload``)."""
    if has_finalizer(workload):
        return remove_finalizer(workload)
    metadata = workload["metadata"]
    return PlannedWrite(
        Delete(WORKLOADS, metadata["namespace"], metadata["name"], {"preconditions": preconditions(workload)})
    )


def add_owners(workload: Object, members: Sequence[ManagedPod]) -> PlannedWrite:
    """Adds the members as owners of the Workload."""
    owners = [*(workload["metadata"].get("ownerReferences") or ()), *map(reference_to, members)]
    text = f"Added {len(members)} owner reference(s)"
    event = pod_event(members[0], "OwnerReferencesAdded", text)
    return PlannedWrite(
        patch_workload(workload, {"metadata": {"ownerReferences": owners, **preconditions(workload)}}), (event,)
    )


def update_workload_of_pods(member: ManagedPod, workload: Object, spec: Object, gates: str) -> PlannedWrite:
    annotations = {"annotations": {names.ADMISSION_GATED_BY: gates or None}}
    body: Object = {"metadata": {**annotations, **preconditions(workload)}, **({"spec": spec} if spec else {})}
    metadata = workload["metadata"]
    text = f"Updated workload {metadata['namespace']}/{metadata['name']} to match its pods"
    return PlannedWrite(patch_workload(workload, body), (pod_event(member, "UpdatedWorkload", text),))


def release_group_quota(
    workload: Object, eviction: Object | None, are_missing: bool, is_requeued: bool, now_s: float
) -> PlannedWrite:
    """Releases the quota and, in the same write, sets the condition WaitingForReplacementPods.

    ``eviction``: the condition Evicted; None if another client deleted the pods. ``are_missing``: pods must be created
    in place of deleted ones. ``is_requeued``: the Workload may be admitted again after a preemption.
    """
    message = str((eviction or {}).get("message") or "All pods of the workload are being deleted")
    updated = conditions_without_quota(workload, message, now_s)
    if are_missing:
        updated = _with_waiting_condition(workload, updated, eviction, True, now_s)
    if eviction is not None:
        reason = str(eviction.get("reason", ""))
        requeues = is_requeued and reason == names.BY_PREEMPTION
        updated = with_condition_set(workload, updated, names.REQUEUED, requeues, reason, message, now_s)
    return PlannedWrite(patch_status(workload, {"admission": None, "conditions": updated}))


def set_waiting_for_replacement_pods(
    workload: Object, eviction: Object | None, are_missing: bool, now_s: float
) -> PlannedWrite | None:
    """Sets the condition WaitingForReplacementPods to ``are_missing``; None if the condition is up to date."""
    known = conditions_of(workload)
    updated = _with_waiting_condition(workload, known, eviction, are_missing, now_s)
    before, after = (conditions.find(each, names.WAITING_FOR_REPLACEMENT_PODS) or {} for each in (known, updated))
    is_unchanged = all(before.get(field) == after.get(field) for field in ("status", "reason", "message"))
    return None if is_unchanged else PlannedWrite(patch_status(workload, {"conditions": updated}))


def _with_waiting_condition(
    workload: Object, known_conditions: list[Object], eviction: Object | None, are_missing: bool, now_s: float
) -> list[Object]:
    type_ = names.WAITING_FOR_REPLACEMENT_PODS
    known = conditions.find(known_conditions, type_)
    if known is None and not are_missing:
        return known_conditions
    if not are_missing:
        return with_condition_set(
            workload, known_conditions, type_, False, names.PODS_READY, "No pods need replacement", now_s
        )
    reason, message = "PodsFailed", "Some Failed pods need replacement"
    if eviction is not None:
        reason, message = str(eviction.get("reason") or reason), str(eviction.get("message") or message)
    elif known is not None and known.get("status") == "True":
        return known_conditions
    return with_condition_set(workload, known_conditions, type_, True, reason, message, now_s)
