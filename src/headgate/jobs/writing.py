"""The writes of jobs and Workloads, each as one guarded request with the Events that tell of it, in Kueue's words.

Which of them is due is ``plan.py``'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.jobs.kind import JobKind, Object, at, is_told_to_wait, put
from headgate.jobs.names import COMPONENT, QUEUE_NAME, STOPPING
from headgate.jobs.placing import merged, restored
from headgate.kube import conditions
from headgate.kube.references import controller_reference, owner_references
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time
from headgate.owners.effects import Create, Delete, Emit, Patch
from headgate.owners.families.pods import about
from headgate.quota import names
from headgate.quota.evictions import with_eviction
from headgate.quota.kinds.names import STORED, WORKLOADS

_MOST_TEXT = 1024
_WORKLOAD: Final = GroupVersionKind(names.GROUP, STORED, "Workload")


class Act(msgspec.Struct, frozen=True):
    """``starts``: it lets an admitted job or pod run."""

    write: Create | Patch | Delete | None
    events: tuple[Emit, ...] = ()
    starts: bool = False


def tell(kind: JobKind, job: Object, reason: str, message: str, *, is_warning: bool = False) -> Emit:
    return Emit(about(job, kind.kind), "Warning" if is_warning else "Normal", reason, message[:_MOST_TEXT], COMPONENT)


# -- the job -------------------------------------------------------------------------------------------------------


def start(kind: JobKind, job: Object, placement: Object, why: str) -> Act:
    body = merged(placement, put(kind.suspend, False))
    return Act(_patch_job(kind, job, body), (tell(kind, job, "Started", why),), starts=True)


def stop(kind: JobKind, job: Object, workload: Object | None, why: str) -> Act:
    """Suspended and marked at once; then, while nobody may start it, what starting added is taken off."""
    if not is_told_to_wait(kind, job):
        body = merged({"metadata": {"annotations": {STOPPING: "true"}}}, put(kind.suspend, True))
        return Act(_patch_job(kind, job, body), (tell(kind, job, "Stopped", why),))
    if kind.start_time and at(job, kind.start_time) is not None:
        return Act(_patch_job(kind, job, put(kind.start_time, None), "status"))
    body = {"metadata": {"annotations": {STOPPING: None}}, **restored(kind, job, workload)}
    return Act(_patch_job(kind, job, body))


def suspend_child(kind: JobKind, job: Object) -> Act:
    told = tell(kind, job, "Suspended", "Kueue managed child job suspended")
    return Act(_patch_job(kind, job, put(kind.suspend, True)), (told,))


def enqueue(kind: JobKind, job: Object, queue: str) -> Act:
    return Act(_patch_job(kind, job, {"metadata": {"labels": {QUEUE_NAME: queue}}}))


def _patch_job(kind: JobKind, job: Object, body: Object, subresource: str = "") -> Patch:
    metadata = job["metadata"]
    guarded = {**body, "metadata": {**body.get("metadata", {}), **guard(job)}}
    return Patch(kind.resource, metadata["namespace"], metadata["name"], guarded, "merge", subresource)


# -- the Workload --------------------------------------------------------------------------------------------------


def follow(kind: JobKind, job: Object, workload: Object, spec: Object, gates: str | None) -> Act:
    """``gates``: None if they stay."""
    metadata = guard(workload)
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    said = []
    if gates is not None:
        metadata["annotations"] = {names.ADMISSION_GATED_BY: gates or None}
        said.append(f'Updated workload AdmissionGatedBy to "{gates}"')
    if "podSets" in spec:
        said.append(f"Updated not matching Workload for suspended job: {key}")
    elif "priority" in spec:
        said.append(f"Updated workload priority class: {key}")
    body: Object = {"metadata": metadata, **({"spec": spec} if spec else {})}
    return Act(patch_workload(workload, body), tuple(tell(kind, job, "UpdatedWorkload", text) for text in said))


def adopt(kind: JobKind, job: Object, workload: Object) -> Act:
    """From now on it is the job's."""
    references = [*owner_references(workload), controller_reference(job, kind.kind)]
    labels = {names.JOB_UID_LABEL: job["metadata"]["uid"]}
    metadata = {"ownerReferences": references, "labels": labels, **guard(workload)}
    return Act(patch_workload(workload, {"metadata": metadata}))


def delete(kind: JobKind, job: Object, workload: Object) -> Act:
    metadata = workload["metadata"]
    options = {"preconditions": guard(workload)}
    text = f"Deleted not matching Workload: {metadata['namespace']}/{metadata['name']}"
    told = tell(kind, job, "DeletedWorkload", text)
    return Act(Delete(WORKLOADS, metadata["namespace"], metadata["name"], options), (told,))


def release_finalizer(workload: Object) -> Act:
    kept = [each for each in workload["metadata"].get("finalizers") or () if each != names.RESOURCE_IN_USE]
    return Act(patch_workload(workload, {"metadata": {"finalizers": kept or None, **guard(workload)}}))


def finish(workload: Object, reason: str, message: str, now_s: float, *told: Emit) -> Act:
    done = with_told(workload, told_of(workload), names.FINISHED, True, reason, message, now_s)
    return Act(patch_status(workload, {"conditions": done}), told)


def reclaim(workload: Object, counts: Mapping[str, int]) -> Act:
    listed = [{"name": name, "count": count} for name, count in counts.items()]
    return Act(patch_status(workload, {"reclaimablePods": listed}))


def pods_ready(workload: Object, are: bool, known: Object | None, now_s: float) -> Act:
    """For the first time, or again."""
    if are:
        again = known is not None and known.get("reason") == "WaitForRecovery"
        reason, text = (
            "Recovered" if again else "Started",
            "All pods reached readiness and the workload is running",
        )
    elif known is None:
        reason, text = "WaitForStart", "Not all pods are ready or succeeded"
    else:
        reason, text = "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    told = with_told(workload, told_of(workload), names.PODS_READY, are, reason, text, now_s)
    return Act(patch_status(workload, {"conditions": told}))


def release(workload: Object, eviction: Object, now_s: float) -> Act:
    """The quota of an evicted Workload whose job has stopped. Who made room waits again at once; the others until
    what they were evicted for is over."""
    reason, message = str(eviction.get("reason", "")), str(eviction.get("message", ""))
    told = without_quota(workload, message, now_s)
    told = with_told(workload, told, names.REQUEUED, reason == names.BY_PREEMPTION, reason, message, now_s)
    return Act(patch_status(workload, {"admission": None, "conditions": told}))


def start_refused(workload: Object, message: str, until_s: float, now_s: float) -> Act:
    """The server will not let it run: its quota goes to others, and it waits until then before it may have any."""
    why = f"The server refused the start: {message}"
    told = with_told(
        workload, without_quota(workload, why, now_s), names.EVICTED, True, names.BY_REFUSED_START, why, now_s
    )
    told = with_told(workload, told, names.REQUEUED, False, names.BY_REFUSED_START, why, now_s)
    status: Object = {
        "admission": None,
        "conditions": told,
        "requeueState": {"requeueAt": format_time(until_s)},
        "schedulingStats": {"evictions": with_eviction(workload, names.BY_REFUSED_START, "")},
    }
    event = Emit(
        about(workload, _WORKLOAD), "Warning", f"EvictedDueTo{names.BY_REFUSED_START}", why[:_MOST_TEXT], COMPONENT
    )
    return Act(patch_status(workload, status), (event,))


def without_quota(workload: Object, message: str, now_s: float) -> list[Object]:
    """Its conditions when it holds nothing any more."""
    told = [each for each in told_of(workload) if each.get("type") != names.PODS_READY]
    told = with_told(workload, told, names.QUOTA_RESERVED, False, names.PENDING_EVALUATION, message, now_s)
    for each in (names.ADMITTED, names.WAITING_FOR_TERMINATING_PODS):
        if conditions.find(told, each) is not None:
            text = "The workload has no reservation"
            told = with_told(workload, told, each, False, names.NO_RESERVATION, text, now_s)
    return told


def with_told(
    workload: Object, told: list[Object], type_: str, is_true: bool, reason: str, message: str, now_s: float
) -> list[Object]:
    new = {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message[:_MOST_TEXT],
        "observedGeneration": workload["metadata"].get("generation", 0),
    }
    return conditions.with_condition(told, new, format_time(now_s))


def told_of(workload: Object) -> list[Object]:
    return at(workload, ("status", "conditions")) or []


def patch_status(workload: Object, status: Object) -> Patch:
    return patch_workload(workload, {"metadata": guard(workload), "status": status}, "status")


def patch_workload(workload: Object, body: Object, subresource: str = "") -> Patch:
    metadata = workload["metadata"]
    return Patch(WORKLOADS, metadata["namespace"], metadata["name"], body, "merge", subresource)


def guard(obj: Object) -> Object:
    return {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
