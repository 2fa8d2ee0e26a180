"""Plans the next write for one job and its Workload, with the Events that report it.

There is one write at a time: after each the plan is made again from the server's response, so a restarted process
continues where the last one stopped. The order of the rules is Kueue's. Every write names the uid and the version it
was decided on. ``job_writes.py`` builds the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.controllers.framework.effects import Create
from headgate.jobs.framework import job_writes
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.management import NOT_FOUND, ManagedChild, ManagementScope, UnknownAncestor
from headgate.jobs.framework.pod_set_info import StartConflict, start_patch
from headgate.jobs.framework.scheduling_gated_by import gate_of
from headgate.jobs.framework.workload import (
    PriorityClasses,
    gates_of,
    has_priority,
    max_execution_s,
    new_workload,
    pod_sets,
    prebuilt_name,
    priority,
    queue_of,
    workload_name,
)
from headgate.jobs.framework.workload_equivalence import digest, equals_pod_sets, has_counts, is_equivalent_as_stored
from headgate.jobs.kinds.job_kind import (
    JobKind,
    Object,
    has_suspend_set,
    is_stopping,
    is_suspended,
    pod_set_problem,
    pod_set_sources,
)
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_of
from headgate.quota import names
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.kinds.names import WORKLOADS

OUT_OF_SYNC: Final = "OutOfSync"
_OUT_OF_SYNC: Final = "The prebuilt workload is out of sync with its user job"


class JobBlocked(msgspec.Struct, frozen=True):
    """No write is possible now, and the user gets the reason. ``gate``: holds the job, if set (KEP-6915)."""

    reason: str
    message: str
    is_warning: bool = True
    gate: str = ""


class JobPlanContext(msgspec.Struct, frozen=True):
    """Other input of a plan. ``scheduling_gated_by`` and ``admission_gated_by``: the feature gates. ``stored_digests``:
    by the uid of a Workload, the digest of pod sets that its server stores only in part."""

    flavors: Mapping[str, ResourceFlavor]
    classes: PriorityClasses
    scope: ManagementScope
    scheduling_gated_by: bool
    admission_gated_by: bool
    stored_digests: Mapping[str, str]
    now_s: float


class JobPlanInput(msgspec.Struct, frozen=True):
    """``prebuilt``: the Workload that another client made for the job, with any owner."""

    kind: JobKind
    job: Object
    workload: Object | None
    prebuilt: Object | None
    context: JobPlanContext

    @property
    def gates(self) -> str:
        """The admission gates for the Workload."""
        return gates_of(self.job) if self.context.admission_gated_by else ""

    @property
    def holds(self) -> bool:
        """Whether its pods still use the quota."""
        return self.kind.is_active(self.job) or (
            self.releases_when_terminal and self.kind.has_terminating_pods(self.job)
        )

    @property
    def releases_when_terminal(self) -> bool:
        return self.context.scope.settings.quota_release.get(self.kind.integration) == "OnTerminal"


Next = PlannedWrite | JobBlocked | None
Rule = Callable[[JobPlanInput], Next]
GATED: Final = "SchedulingGated"
_STOP_PLANNING: Final = PlannedWrite(None)
"""No write, and no later rule is evaluated."""


def plan_orphaned_workload(workload: Object, now_s: float) -> PlannedWrite | None:
    """The next write for a Workload whose job is deleted: finish it, then remove its finalizer."""
    if not has_finalizer(workload):
        return None
    if not has_condition(workload, names.FINISHED):
        return job_writes.finish(workload, names.OWNER_NOT_FOUND, "The owner of the workload is gone", now_s)
    return job_writes.release_finalizer(workload)


def plan_job(
    kind: JobKind, job: Object, workloads: Sequence[Object], prebuilt: Object | None, context: JobPlanContext
) -> Next:
    if get_path(job, ("metadata", "deletionTimestamp")):
        return next(
            (planned for each in workloads if (planned := plan_orphaned_workload(each, context.now_s)) is not None),
            None,
        )
    management = context.scope.management_of(job)
    if isinstance(management, UnknownAncestor):
        return None if management.reason == NOT_FOUND else JobBlocked(management.reason, management.message)
    own_name = prebuilt_name(job) or workload_name(kind, job)
    workload = next((each for each in workloads if each["metadata"]["name"] == own_name), None)
    case = JobPlanInput(kind, job, workload, prebuilt, context)
    if management == "elsewhere":
        return _first(_UNMANAGED_RULES, case)
    for each in workloads:
        if each is not workload or management != "managed":
            planned = _delete_surplus(kind, job, each)
            if planned is not None:
                return planned
    if isinstance(management, ManagedChild):
        return _suspend_child(kind, job, context.scope.workload_of(management.ancestor))
    return _first(_RULES, case) if management == "managed" else _set_default_queue(kind, job, context.scope)


def _first(rules: Sequence[Rule], case: JobPlanInput) -> Next:
    for rule in rules:
        step = rule(case)
        if step is not None:
            return None if step is _STOP_PLANNING else step
    return None


def _suspend_child(kind: JobKind, job: Object, workload: Object | None) -> Next:
    if has_suspend_set(kind, job) or kind.outcome(job) is not None:
        return None
    return None if workload is not None and may_start(workload) else job_writes.suspend_child(kind, job)


def _set_default_queue(kind: JobKind, job: Object, scope: ManagementScope) -> Next:
    """Sets the default queue of the namespace on a running job without a queue: it was created without admission. A
    suspended job without a queue has left its queue on purpose and is not changed."""
    if has_suspend_set(kind, job) or kind.outcome(job) is not None:
        return None
    queue = scope.default_queue(job)
    return job_writes.set_queue_name(kind, job, queue) if queue else None


def _delete_surplus(kind: JobKind, job: Object, workload: Object) -> PlannedWrite | None:
    """Deletes a Workload that the job does not need."""
    if not is_terminating(workload):
        return job_writes.delete(kind, job, workload)
    return job_writes.release_finalizer(workload) if has_finalizer(workload) else None


def _finished(case: JobPlanInput) -> Next:
    outcome = case.kind.outcome(case.job)
    if case.workload is not None and has_condition(case.workload, names.FINISHED):
        if is_terminating(case.workload) and has_finalizer(case.workload):
            return job_writes.release_finalizer(case.workload)
        if outcome is None and _reason(case.workload, names.FINISHED) == OUT_OF_SYNC:
            return _stop(case, _OUT_OF_SYNC) or _STOP_PLANNING
        return _STOP_PLANNING
    if outcome is None:
        return None
    if case.workload is None:
        return _STOP_PLANNING
    reason = "Succeeded" if outcome.succeeded else "Failed"
    event = job_writes.job_event(
        case.kind, case.job, "FinishedWorkload", f"Workload '{_key(case.workload)}' is declared finished"
    )
    return job_writes.finish(case.workload, reason, outcome.message, case.context.now_s, event)


def _workload_deleted(case: JobPlanInput) -> Next:
    """The Workload is being deleted: the job stops first."""
    if case.workload is None or not is_terminating(case.workload):
        return None
    stop = _stop(case, "Workload is deleted")
    if stop is not None or (case.releases_when_terminal and case.holds):
        return stop or _STOP_PLANNING
    return job_writes.release_finalizer(case.workload) if has_finalizer(case.workload) else _STOP_PLANNING


def _gated(case: JobPlanInput) -> Next:
    gate = gate_of(case.job) if case.context.scheduling_gated_by else None
    if gate is None or (case.workload is not None and has_condition(case.workload, names.QUOTA_RESERVED)):
        return None  # a gate does not evict
    if case.workload is not None:
        return job_writes.delete(case.kind, case.job, case.workload)
    message = f"No Workload is created while the job is gated by: {gate}"
    return _stop(case, f"Gated by {gate}") or JobBlocked(GATED, message, is_warning=False, gate=gate)


def _prebuilt(case: JobPlanInput) -> Next:
    """Another client creates the Workload: the job waits for it and adopts it, unless it has another controller."""
    name = prebuilt_name(case.job)
    if not name or case.workload is not None:
        return None
    stop = _stop(case, "missing workload")
    if stop is not None or case.holds:
        return stop or _STOP_PLANNING
    if case.prebuilt is None:
        return JobBlocked("ErrWorkloadCompose", f'prebuilt workload "{name}" not found')
    if controller_of(case.prebuilt) is not None:
        return JobBlocked("ErrWorkloadCompose", f'prebuilt workload "{name}" is already controlled by another object')
    return _STOP_PLANNING if is_terminating(case.prebuilt) else job_writes.adopt(case.kind, case.job, case.prebuilt)


def _missing(case: JobPlanInput) -> Next:
    if case.workload is not None:
        return None
    stop = _stop(case, "Missing Workload; unable to restore pod templates")
    if stop is not None or case.holds:
        return stop or _STOP_PLANNING
    created = new_workload(case.kind, case.job, case.context.classes, case.gates)
    if isinstance(created, str):
        return JobBlocked("ErrWorkloadCompose", created)
    namespace = created["metadata"]["namespace"]
    text = f"Created Workload: {namespace}/{created['metadata']['name']}"
    return PlannedWrite(
        Create(WORKLOADS, namespace, created), (job_writes.job_event(case.kind, case.job, "CreatedWorkload", text),)
    )


def _changed(case: JobPlanInput) -> Next:
    """The job differs from its Workload. The Workload is updated while it holds no quota, and deleted otherwise; a
    prebuilt Workload is finished."""
    workload, job = case.workload, case.job
    if workload is None or is_stopping(job):
        return None
    if is_suspended(case.kind, job) and pod_set_problem(case.kind, job):
        return job_writes.delete(case.kind, job, workload)  # the next plan reports the problem
    is_reserved, is_prebuilt = has_condition(workload, names.QUOTA_RESERVED), bool(prebuilt_name(job))
    wanted, max_time = pod_sets(case.kind, job), max_execution_s(job)
    is_same = _is_same(case, workload, wanted, is_reserved or is_prebuilt)
    is_same_time = get_path(workload, ("spec", "maximumExecutionTimeSeconds")) == max_time
    if is_prebuilt and not (is_same and is_same_time):
        return job_writes.finish(workload, OUT_OF_SYNC, _OUT_OF_SYNC, case.context.now_s)
    if (is_reserved or not is_suspended(case.kind, job)) and not (is_same and is_same_time):
        return job_writes.delete(case.kind, job, workload)
    spec: Object = {} if is_same else {"podSets": wanted}
    if not is_same_time:
        spec["maximumExecutionTimeSeconds"] = max_time
    if not is_reserved and (get_path(workload, ("spec", "queueName")) or "") != queue_of(job):
        spec["queueName"] = queue_of(job) or None
    priority_fields = priority(case.kind, job, case.context.classes)
    if (
        not isinstance(priority_fields, str)
        and not is_prebuilt
        and _may_change_priority(workload, priority_fields, is_reserved)
    ):
        spec.update({"priorityClassRef": None, **priority_fields})
    gates = (
        case.gates if case.context.admission_gated_by and not is_prebuilt and case.gates != gates_of(workload) else None
    )
    return None if not spec and gates is None else job_writes.update_workload(case.kind, job, workload, spec, gates)


def _is_same(case: JobPlanInput, workload: Object, wanted: list[Object], is_lenient: bool) -> bool:
    if not is_suspended(case.kind, case.job):
        return has_counts(case.kind, workload, case.job)
    if equals_pod_sets(workload, wanted):
        return True
    was_tried = case.context.stored_digests.get(workload["metadata"]["uid"]) == digest(wanted)
    return (is_lenient or was_tried) and is_equivalent_as_stored(workload, wanted)


def _may_change_priority(workload: Object, priority_fields: Object, is_reserved: bool) -> bool:
    """Whether the priority of the Workload is updated. With quota, only from one WorkloadPriorityClass to another."""
    if not is_reserved:
        return not has_priority(workload, priority_fields)
    before, after = (
        get_path(workload, ("spec", "priorityClassRef")) or {},
        priority_fields.get("priorityClassRef") or {},
    )
    kinds = {before.get("kind"), after.get("kind")}
    return kinds == {"WorkloadPriorityClass"} and before.get("name") != after.get("name")


def _reclaimed(case: JobPlanInput) -> Next:
    """Reports pods that are no longer needed as reclaimable. The counts never decrease."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.QUOTA_RESERVED):
        return None
    known = {each["name"]: each["count"] for each in get_path(workload, ("status", "reclaimablePods")) or ()}
    wanted = {each.get("name", "main"): each.get("count", 0) for each in get_path(workload, ("spec", "podSets")) or ()}
    sources, more = {each.name: each for each in pod_set_sources(case.kind, case.job)}, dict[str, int]()
    for name, spare in case.kind.reclaimable(case.job).items():
        if name not in sources:
            continue
        # The count refers to the requested pods, which may be more than the admitted ones.
        count = min(spare + max(wanted.get(name, 0) - sources[name].count(case.job), 0), wanted.get(name, 0))
        if count > known.get(name, 0):
            more[name] = count
    return job_writes.reclaim(workload, {**known, **more}) if more else None


def _ready(case: JobPlanInput) -> Next:
    """Sets the condition PodsReady while the Workload is admitted."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.ADMITTED) or has_condition(workload, names.EVICTED):
        return None
    known = conditions.find(get_path(workload, ("status", "conditions")), names.PODS_READY)
    was_ready = known is not None and known.get("status") == "True"
    count = sum(each.count(case.job) for each in pod_set_sources(case.kind, case.job))
    is_ready = not has_suspend_set(case.kind, case.job) and case.kind.ready(case.job) >= count
    if known is not None and is_ready == was_ready:
        return None
    return job_writes.pods_ready(workload, is_ready, known, case.context.now_s)


def _evicted(case: JobPlanInput) -> Next:
    workload = case.workload
    if workload is None or not has_condition(workload, names.EVICTED):
        return None
    eviction = conditions.find(get_path(workload, ("status", "conditions")), names.EVICTED) or {}
    stop = _stop(case, str(eviction.get("message") or "The workload is evicted"))
    if stop is not None:
        return stop
    if case.holds:
        return _STOP_PLANNING
    # Without quota the later rules apply, as for every pending Workload.
    return (
        job_writes.release_quota(workload, eviction, case.context.now_s)
        if has_condition(workload, names.QUOTA_RESERVED)
        else None
    )


def _started(case: JobPlanInput) -> Next:
    workload, job = case.workload, case.job
    if workload is None or not has_condition(workload, names.ADMITTED):
        return _stop(case, "Not admitted by cluster queue")
    if not has_suspend_set(case.kind, job):
        return None
    if is_stopping(job):
        return _stop(case, "")
    if not may_start(workload):
        return wait_for_terminating_pods(workload)
    patch = start_patch(case.kind, job, workload, case.context.flavors)
    if isinstance(patch, StartConflict):
        if not patch.is_final:
            return JobBlocked("FailedToStart", patch.message)
        event = job_writes.job_event(case.kind, job, "FailedToStart", patch.message, is_warning=True)
        return job_writes.finish(workload, "FailedToStart", patch.message, case.context.now_s, event)
    queue = get_path(workload, ("status", "admission", "clusterQueue"))
    return job_writes.start(case.kind, job, patch, f"Admitted by clusterQueue {queue}")


def _stop(case: JobPlanInput, message: str) -> PlannedWrite | None:
    """The next write to suspend the job and restore its templates; None if that is done."""
    if is_suspended(case.kind, case.job):
        return None
    return job_writes.stop(case.kind, case.job, case.workload, message)


_RULES: Final[tuple[Rule, ...]] = (
    _finished,
    _workload_deleted,
    _gated,
    _prebuilt,
    _missing,
    _evicted,
    _changed,
    _reclaimed,
    _ready,
    _started,
)


def _finalize_unmanaged(case: JobPlanInput) -> Next:
    """Removes the finalizer of a deleted Workload whose job is not managed."""
    if case.workload is None or not is_terminating(case.workload) or not has_finalizer(case.workload):
        return _STOP_PLANNING
    return job_writes.release_finalizer(case.workload)


_UNMANAGED_RULES: Final[tuple[Rule, ...]] = (_finished, _finalize_unmanaged)
"""For a job that is not managed and has a Workload: its quota is released when it ends."""


def may_start(workload: Object) -> bool:
    """Whether the Workload is admitted and does not wait for terminating pods."""
    return has_condition(workload, names.ADMITTED) and not has_condition(workload, names.WAITING_FOR_TERMINATING_PODS)


def wait_for_terminating_pods(workload: Object) -> JobBlocked:
    found = conditions.find(get_path(workload, ("status", "conditions")), names.WAITING_FOR_TERMINATING_PODS) or {}
    return JobBlocked(names.WAITING_FOR_TERMINATING_PODS, str(found.get("message", "")), is_warning=False)


def has_condition(workload: Object, condition: str) -> bool:
    return conditions.is_true(get_path(workload, ("status", "conditions")), condition)


def _reason(workload: Object, condition: str) -> str:
    found = conditions.find(get_path(workload, ("status", "conditions")), condition) or {}
    return str(found.get("reason", ""))


def is_terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def has_finalizer(workload: Object) -> bool:
    return names.RESOURCE_IN_USE in (workload["metadata"].get("finalizers") or ())


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
