"""Writes to jobs and Workloads: each is one request with preconditions, with its Events and Kueue's messages.

``job_plan.py`` decides which write is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.controllers.framework.effects import Create, Delete, EmitEvent, Patch
from headgate.controllers.ownership.pods import object_reference
from headgate.jobs.framework.pod_set_info import restore_patch
from headgate.jobs.kinds.job_fields import Object, merge_patches, patch_at
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set
from headgate.jobs.names import COMPONENT, QUEUE_NAME, RELEASED, STOPPING
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_reference, owner_references
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.activation import LABEL_OF, ActivationEvent
from headgate.quota.api.eviction_stats import with_eviction
from headgate.quota.kinds.names import STORED, WORKLOADS

_MAX_MESSAGE = 1024
_WORKLOAD: Final = GroupVersionKind(names.GROUP, STORED, "Workload")


class PassedOnLabel(msgspec.Struct, frozen=True):
    """A label of a version of a job that was written to a Workload (``activation_labels.py``)."""

    job_uid: str
    job_version: str
    workload_uid: str
    event: ActivationEvent


class PlannedWrite(msgspec.Struct, frozen=True):
    """A request, and the Events that are emitted after it succeeded. ``write``: None if there is no request.
    ``starts``: the request starts an admitted job or pod. ``passes_on``: the label that the request passes on."""

    write: Create | Patch | Delete | None
    events: tuple[EmitEvent, ...] = ()
    starts: bool = False
    passes_on: PassedOnLabel | None = None


def job_event(kind: JobKind, job: Object, reason: str, message: str, *, is_warning: bool = False) -> EmitEvent:
    return EmitEvent(
        object_reference(job, kind.kind),
        "Warning" if is_warning else "Normal",
        reason,
        message[:_MAX_MESSAGE],
        COMPONENT,
    )


# -- the job -------------------------------------------------------------------------------------------------------


def start(kind: JobKind, job: Object, template_patch: Object, message: str) -> PlannedWrite:
    """Unsuspends the job, together with the changes of its templates (``pod_set_info.py``)."""
    body = merge_patches(template_patch, patch_at(kind.hold.path, kind.hold.started))
    return PlannedWrite(_patch_job(kind, job, body), (job_event(kind, job, "Started", message),), starts=True)


def stop(kind: JobKind, job: Object, workload: Object | None, message: str) -> PlannedWrite:
    """The next of up to three writes that stop a job: suspend it and set the annotation ``STOPPING``; remove its start
    time; restore its templates and remove the annotation."""
    if not has_suspend_set(kind, job):
        body = merge_patches({"metadata": {"annotations": {STOPPING: "true"}}}, _hold(kind))
        return PlannedWrite(_patch_job(kind, job, body), (job_event(kind, job, "Stopped", message),))
    if kind.start_time and get_path(job, kind.start_time) is not None:
        return PlannedWrite(_patch_job(kind, job, patch_at(kind.start_time, None), "status"))
    body = merge_patches(restore_patch(kind, job, workload), {"metadata": {"annotations": {STOPPING: None}}})
    return PlannedWrite(_patch_job(kind, job, body))


def _hold(kind: JobKind) -> Object:
    return patch_at(kind.hold.path, kind.hold.held)


def withdraw_start(kind: JobKind, job: Object) -> PlannedWrite:
    """Changes a suspended job whose start has an unknown outcome. The start names the version before, so it cannot be
    performed later; if it was performed, this write has a conflict. The next write is the last one of ``stop``."""
    body = merge_patches({"metadata": {"annotations": {STOPPING: "true"}}}, _hold(kind))
    return PlannedWrite(_patch_job(kind, job, body))


def suspend_child(kind: JobKind, job: Object) -> PlannedWrite:
    event = job_event(kind, job, "Suspended", "Kueue managed child job suspended")
    return PlannedWrite(_patch_job(kind, job, _hold(kind)), (event,))


def set_queue_name(kind: JobKind, job: Object, queue: str) -> PlannedWrite:
    return PlannedWrite(_patch_job(kind, job, {"metadata": {"labels": {QUEUE_NAME: queue}}}))


def remove_release_mark(kind: JobKind, job: Object) -> PlannedWrite:
    """Removes the mark of an uninstallation. If the job ran and was then suspended by its user, the next writes are the
    last ones of ``stop``: the API server refuses changes of the template of a job that has a start time."""
    annotations: dict[str, str | None] = {RELEASED: None}
    if has_suspend_set(kind, job) and kind.start_time and get_path(job, kind.start_time) is not None:
        annotations[STOPPING] = "true"
    return PlannedWrite(_patch_job(kind, job, {"metadata": {"annotations": annotations}}))


def remove_activation_labels(kind: JobKind, job: Object, ignored: str) -> PlannedWrite:
    """Removes the labels ``activate`` and ``deactivate``. ``ignored``: why they have no effect; empty if they have."""
    events: tuple[EmitEvent, ...] = ()
    if ignored:
        listed = _activation_labels(job)
        text = f"Ignored and removed {listed}: {ignored}"
        events = (job_event(kind, job, names.ACTIVATION_LABEL_IGNORED, text, is_warning=True),)
    body = {"metadata": {"labels": {names.ACTIVATE: None, names.DEACTIVATE: None}}}
    return PlannedWrite(_patch_job(kind, job, body), events)


def return_deactivation(kind: JobKind, job: Object) -> PlannedWrite:
    """Sets the label ``deactivate`` on a job whose deactivated Workload is being deleted."""
    text = f"Workload is deleted; {names.DEACTIVATE}=true is set again for the next one"
    body = {"metadata": {"labels": {names.DEACTIVATE: "true"}}}
    return PlannedWrite(_patch_job(kind, job, body), (job_event(kind, job, "DeactivationKept", text),))


def _activation_labels(job: Object) -> str:
    labels = job["metadata"].get("labels") or {}
    return ", ".join(f"{key}={labels[key]}" for key in (names.ACTIVATE, names.DEACTIVATE) if key in labels)


def _patch_job(kind: JobKind, job: Object, body: Object, subresource: str = "") -> Patch:
    metadata = job["metadata"]
    conditional = {**body, "metadata": {**body.get("metadata", {}), **preconditions(job)}}
    return Patch(kind.resource, metadata["namespace"], metadata["name"], conditional, "merge", subresource)


# -- the Workload --------------------------------------------------------------------------------------------------


def update_workload(kind: JobKind, job: Object, workload: Object, spec: Object, gates: str | None) -> PlannedWrite:
    """``spec``: the changed fields. ``gates``: the new admission gates; None if they do not change."""
    metadata = preconditions(workload)
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    messages = []
    if gates is not None:
        metadata["annotations"] = {names.ADMISSION_GATED_BY: gates or None}
        messages.append(f'Updated workload AdmissionGatedBy to "{gates}"')
    if "podSets" in spec:
        messages.append(f"Updated not matching Workload for suspended job: {key}")
    elif "priority" in spec:
        messages.append(f"Updated workload priority class: {key}")
    body: Object = {"metadata": metadata, **({"spec": spec} if spec else {})}
    return PlannedWrite(
        patch_workload(workload, body), tuple(job_event(kind, job, "UpdatedWorkload", text) for text in messages)
    )


def pass_on_label(kind: JobKind, job: Object, workload: Object, event: ActivationEvent) -> PlannedWrite:
    """Sets the label ``activate`` or ``deactivate`` on the Workload, in place of the other one."""
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    listed, label = _activation_labels(job), LABEL_OF[event]
    text = f"Passed {label}=true on to Workload {key}"
    if "," in listed:
        text += f", because it takes precedence over the other label ({listed})"
    labels = {names.ACTIVATE: None, names.DEACTIVATE: None, label: "true"}
    return PlannedWrite(
        patch_workload(workload, {"metadata": {"labels": labels, **preconditions(workload)}}),
        (job_event(kind, job, "UpdatedWorkload", text),),
        passes_on=passed_on_label(job, workload, event),
    )


def passed_on_label(job: Object, workload: Object, event: ActivationEvent) -> PassedOnLabel:
    metadata = job["metadata"]
    return PassedOnLabel(metadata["uid"], metadata["resourceVersion"], workload["metadata"]["uid"], event)


def adopt(kind: JobKind, job: Object, workload: Object) -> PlannedWrite:
    """Makes the job the controller of the Workload."""
    references = [*owner_references(workload), controller_reference(job, kind.kind)]
    labels = {names.JOB_UID_LABEL: job["metadata"]["uid"]}
    metadata = {"ownerReferences": references, "labels": labels, **preconditions(workload)}
    return PlannedWrite(patch_workload(workload, {"metadata": metadata}))


def delete(kind: JobKind, job: Object, workload: Object) -> PlannedWrite:
    metadata = workload["metadata"]
    options = {"preconditions": preconditions(workload)}
    text = f"Deleted not matching Workload: {metadata['namespace']}/{metadata['name']}"
    event = job_event(kind, job, "DeletedWorkload", text)
    return PlannedWrite(Delete(WORKLOADS, metadata["namespace"], metadata["name"], options), (event,))


def add_finalizer(workload: Object) -> PlannedWrite:
    finalizers = [*(workload["metadata"].get("finalizers") or ()), names.RESOURCE_IN_USE]
    return PlannedWrite(patch_workload(workload, {"metadata": {"finalizers": finalizers, **preconditions(workload)}}))


def remove_finalizer(workload: Object) -> PlannedWrite:
    kept = [each for each in workload["metadata"].get("finalizers") or () if each != names.RESOURCE_IN_USE]
    return PlannedWrite(patch_workload(workload, {"metadata": {"finalizers": kept or None, **preconditions(workload)}}))


def finish(workload: Object, reason: str, message: str, now_s: float, *events: EmitEvent) -> PlannedWrite:
    updated = with_condition_set(workload, conditions_of(workload), names.FINISHED, True, reason, message, now_s)
    return PlannedWrite(patch_status(workload, {"conditions": updated}), events)


def set_reclaimable_pods(workload: Object, counts: Mapping[str, int]) -> PlannedWrite:
    listed = [{"name": name, "count": count} for name, count in counts.items()]
    return PlannedWrite(patch_status(workload, {"reclaimablePods": listed}))


def set_pods_ready(workload: Object, are_ready: bool, known: Object | None, now_s: float) -> PlannedWrite:
    """Sets the condition PodsReady. Its reason says whether this is the first start or a recovery. ``known``: the
    present condition."""
    if are_ready:
        is_recovery = known is not None and known.get("reason") == "WaitForRecovery"
        reason, text = (
            "Recovered" if is_recovery else "Started",
            "All pods reached readiness and the workload is running",
        )
    elif known is None:
        reason, text = "WaitForStart", "Not all pods are ready or succeeded"
    else:
        reason, text = "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    updated = with_condition_set(workload, conditions_of(workload), names.PODS_READY, are_ready, reason, text, now_s)
    return PlannedWrite(patch_status(workload, {"conditions": updated}))


def release_quota(workload: Object, eviction: Object, now_s: float) -> PlannedWrite:
    """Releases the quota of an evicted Workload whose job has stopped. A preempted Workload is requeued at once; other
    evicted Workloads are requeued by ``quota/`` when the cause of the eviction is gone."""
    reason, message = str(eviction.get("reason", "")), str(eviction.get("message", ""))
    updated = conditions_without_quota(workload, message, now_s)
    updated = with_condition_set(
        workload, updated, names.REQUEUED, reason == names.BY_PREEMPTION, reason, message, now_s
    )
    return PlannedWrite(patch_status(workload, {"admission": None, "conditions": updated}))


def evict_after_rejected_start(workload: Object, message: str, until_s: float, now_s: float) -> PlannedWrite:
    """Evicts a Workload whose start the API server rejected: releases its quota, and sets ``until_s`` as the earliest
    time at which it is requeued."""
    text = f"The server refused the start: {message}"
    updated = with_condition_set(
        workload,
        conditions_without_quota(workload, text, now_s),
        names.EVICTED,
        True,
        names.BY_REFUSED_START,
        text,
        now_s,
    )
    updated = with_condition_set(workload, updated, names.REQUEUED, False, names.BY_REFUSED_START, text, now_s)
    status: Object = {
        "admission": None,
        "conditions": updated,
        "requeueState": {"requeueAt": format_time(until_s)},
        "schedulingStats": {"evictions": with_eviction(workload, names.BY_REFUSED_START, "")},
    }
    event = EmitEvent(
        object_reference(workload, _WORKLOAD),
        "Warning",
        f"EvictedDueTo{names.BY_REFUSED_START}",
        text[:_MAX_MESSAGE],
        COMPONENT,
    )
    return PlannedWrite(patch_status(workload, status), (event,))


def conditions_without_quota(workload: Object, message: str, now_s: float) -> list[Object]:
    """The conditions of the Workload after its quota is released."""
    updated = [each for each in conditions_of(workload) if each.get("type") != names.PODS_READY]
    updated = with_condition_set(
        workload, updated, names.QUOTA_RESERVED, False, names.PENDING_EVALUATION, message, now_s
    )
    for each in (names.ADMITTED, names.WAITING_FOR_TERMINATING_PODS):
        if conditions.find(updated, each) is not None:
            text = "The workload has no reservation"
            updated = with_condition_set(workload, updated, each, False, names.NO_RESERVATION, text, now_s)
    return updated


def with_condition_set(
    workload: Object, known: list[Object], type_: str, is_true: bool, reason: str, message: str, now_s: float
) -> list[Object]:
    new = {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "observedGeneration": workload["metadata"].get("generation", 0),
    }
    return conditions.with_condition(known, new, format_time(now_s))


def conditions_of(workload: Object) -> list[Object]:
    return get_path(workload, ("status", "conditions")) or []


def patch_status(workload: Object, status: Object) -> Patch:
    return patch_workload(workload, {"metadata": preconditions(workload), "status": status}, "status")


def patch_workload(workload: Object, body: Object, subresource: str = "") -> Patch:
    metadata = workload["metadata"]
    return Patch(WORKLOADS, metadata["namespace"], metadata["name"], body, "merge", subresource)


def preconditions(obj: Object) -> Object:
    return {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
