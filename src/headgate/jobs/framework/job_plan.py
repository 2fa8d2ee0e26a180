"""Plans the next write for one job and its Workload, with the Events that report it.

There is one write at a time: after each write the plan is made again from the server's response, so a restarted process
continues where the last one stopped. A rule checks one aspect and returns the write that is needed, or None; the first
rule of ``_RULES`` that returns a write decides. The order of the rules is Kueue's. Every write has the uid and the
resourceVersion of the object that it was planned from as preconditions. ``job_writes.py`` builds the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

import msgspec

from headgate.controllers.framework.effects import Create
from headgate.jobs.framework import job_writes
from headgate.jobs.framework.activation_labels import keep_deactivation, plan_activation, requested_label
from headgate.jobs.framework.child_restores import plan_child_restore
from headgate.jobs.framework.job_writes import PassedOnLabel, PlannedWrite
from headgate.jobs.framework.management import NOT_FOUND, ManagedChild, ManagementScope, UnknownAncestor
from headgate.jobs.framework.pod_set_info import StartConflict, start_patch
from headgate.jobs.framework.release_mark import BY_UNINSTALL, RUNS_WITHOUT_ADMISSION, is_released
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.framework.workload import (
    PriorityClasses,
    admission_gates_of,
    has_priority,
    max_execution_s,
    new_workload,
    pod_sets,
    prebuilt_name,
    priority,
    queue_of,
    workload_name,
)
from headgate.jobs.framework.workload_equivalence import (
    digest,
    equals_pod_sets,
    has_admitted_counts,
    matches_stored_fields,
)
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import (
    JobKind,
    has_suspend_set,
    is_stopping,
    is_suspended,
    job_pod_sets,
    pod_set_problem,
)
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_of
from headgate.quota import names
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.kinds.names import WORKLOADS

OUT_OF_SYNC: Final = "OutOfSync"
_OUT_OF_SYNC_MESSAGE: Final = "The prebuilt workload is out of sync with its user job"


class JobBlocked(msgspec.Struct, frozen=True):
    """No write is possible now; an Event tells the user why. ``gate``: the name in the annotation
    ``scheduling-gated-by`` (Kueue's KEP-6915) if that is the reason, otherwise empty."""

    reason: str
    message: str
    is_warning: bool = True
    gate: str = ""


class JobPlanContext(msgspec.Struct, frozen=True):
    """Input of a plan that is not specific to one job. ``honours_scheduling_gates`` and ``honours_admission_gates``:
    whether the feature gates SchedulingGatedBy and AdmissionGatedBy are on. ``stored_digests``: by the uid of a
    Workload, the digest of the pod sets that Headgate sent, if the API server did not store all their fields.
    ``honours_activation``: whether the feature gate ActivationLabels is on. ``passed_on``: by the uid of a job, the
    label that was passed on to its Workload last. ``has_open_start``: whether a start of this version of the job was
    sent and its outcome is unknown, so that the job may run. ``lost_holds``: the uids of jobs whose Workload was
    deactivated by a label and is gone. ``may_restore``: whether the finalizer may be added to this Workload now.
    ``child_jobs`` returns the batch/v1 Jobs whose controller is a job."""

    flavors: Mapping[str, ResourceFlavor]
    classes: PriorityClasses
    scope: ManagementScope
    honours_scheduling_gates: bool
    honours_admission_gates: bool
    stored_digests: Mapping[str, str]
    now_s: float
    honours_activation: bool = False
    passed_on: Mapping[str, PassedOnLabel] = {}
    has_open_start: Callable[[Object], bool] = lambda job: False
    lost_holds: Container[str] = frozenset()
    may_restore: Callable[[Object], bool] = lambda workload: True
    child_jobs: Callable[[Object], Sequence[Object]] = lambda job: ()


class JobPlanInput(msgspec.Struct, frozen=True):
    """What the rules read. ``workload``: the Workload that the job owns. ``prebuilt``: the Workload that another client
    created for the job, whether the job owns it or not."""

    kind: JobKind
    job: Object
    workload: Object | None
    prebuilt: Object | None
    context: JobPlanContext

    @property
    def admission_gates(self) -> str:
        """The admission gates that the Workload copies from the job."""
        return admission_gates_of(self.job) if self.context.honours_admission_gates else ""

    @property
    def uses_quota(self) -> bool:
        """Whether pods of the job still use the quota."""
        return self.kind.is_active(self.job) or (
            self.releases_when_terminal and self.kind.has_terminating_pods(self.job)
        )

    @property
    def releases_when_terminal(self) -> bool:
        """Whether the quota is released only when the pods have ended."""
        return self.context.scope.settings.quota_release.get(self.kind.integration) == "OnTerminal"


JobPlanStep = PlannedWrite | JobBlocked | None
"""The result of a rule, and of the plan. None: the rule has nothing to do, and the next rule is evaluated."""
Rule = Callable[[JobPlanInput], JobPlanStep]
GATED: Final = "SchedulingGated"
_STOP_PLANNING: Final = PlannedWrite(None)
"""No write, and no later rule is evaluated."""


def plan_orphaned_workload(workload: Object, now_s: float) -> PlannedWrite | None:
    """The next write for a Workload whose job is deleted: finish it, then remove its finalizer."""
    if not has_finalizer(workload):
        return None
    if not has_condition(workload, names.FINISHED):
        return job_writes.finish(workload, names.OWNER_NOT_FOUND, "The owner of the workload is gone", now_s)
    return job_writes.remove_finalizer(workload)


def plan_job(
    kind: JobKind, job: Object, workloads: Sequence[Object], prebuilt: Object | None, context: JobPlanContext
) -> JobPlanStep:
    if get_path(job, ("metadata", "deletionTimestamp")):
        return next(
            (planned for each in workloads if (planned := plan_orphaned_workload(each, context.now_s)) is not None),
            None,
        )
    management = context.scope.management_of(kind, job)
    if isinstance(management, UnknownAncestor):
        return None if management.reason == NOT_FOUND else JobBlocked(management.reason, management.message)
    own_name = prebuilt_name(job) or workload_name(kind, job)
    workload = next((each for each in workloads if each["metadata"]["name"] == own_name), None)
    state = JobPlanInput(kind, job, workload, prebuilt, context)
    if management == "unmanaged":
        return _first_step(_UNMANAGED_RULES, state)
    if management in ("managed", "no queue") and context.honours_activation:
        kept = keep_deactivation(kind, job, workloads, context.lost_holds)
        if kept is not None:
            return kept
    for each in workloads:
        if each is not workload or management != "managed":
            planned = _delete_unneeded_workload(kind, job, each)
            if planned is not None:
                return planned
    if isinstance(management, ManagedChild):
        return _suspend_child(kind, job, context.scope.workload_of(management.ancestor))
    if management == "ignored":
        return None
    return _first_step(_RULES if management == "managed" else _RULES_WITHOUT_QUEUE, state)


def _first_step(rules: Sequence[Rule], state: JobPlanInput) -> JobPlanStep:
    for rule in rules:
        step = rule(state)
        if step is not None:
            return None if step is _STOP_PLANNING else step
    return None


def _suspend_child(kind: JobKind, job: Object, workload: Object | None) -> JobPlanStep:
    if has_suspend_set(kind, job) or kind.outcome(job) is not None:
        return None
    if workload is not None and may_start(workload):
        return job_writes.remove_release_mark(kind, job) if is_released(job) else None
    return None if is_released(job) else job_writes.suspend_child(kind, job)


def _set_default_queue(state: JobPlanInput) -> JobPlanStep:
    """Sets the default queue of the namespace on a running job without a queue: Headgate's admission did not handle its
    creation. A suspended job without a queue is not changed: its user has removed the queue name."""
    kind, job = state.kind, state.job
    if has_suspend_set(kind, job) or kind.outcome(job) is not None:
        return None
    queue = state.context.scope.default_queue(job)
    return job_writes.set_queue_name(kind, job, queue) if queue else None


def _delete_unneeded_workload(kind: JobKind, job: Object, workload: Object) -> PlannedWrite | None:
    """Deletes a Workload that the job does not need."""
    if not is_terminating(workload):
        return job_writes.delete(kind, job, workload)
    return job_writes.remove_finalizer(workload) if has_finalizer(workload) else None


def _consume_activation_labels(state: JobPlanInput) -> JobPlanStep:
    """Passes the labels ``activate`` and ``deactivate`` on to the Workload, and removes them from the job."""
    if not state.context.honours_activation:
        return None
    passed_on = state.context.passed_on.get(state.job["metadata"]["uid"])
    return plan_activation(state.kind, state.job, state.workload, passed_on)


def _finish_workload(state: JobPlanInput) -> JobPlanStep:
    """Sets the condition Finished of the Workload when the job has ended. If it is set, no later rule is evaluated."""
    outcome = state.kind.outcome(state.job)
    if state.workload is not None and has_condition(state.workload, names.FINISHED):
        if is_terminating(state.workload) and has_finalizer(state.workload):
            return job_writes.remove_finalizer(state.workload)
        if outcome is None and _reason(state.workload, names.FINISHED) == OUT_OF_SYNC:
            return _stop(state, _OUT_OF_SYNC_MESSAGE) or _STOP_PLANNING
        return _STOP_PLANNING
    if outcome is None:
        return None
    if state.workload is None:
        return _STOP_PLANNING
    reason = "Succeeded" if outcome.succeeded else "Failed"
    event = job_writes.job_event(
        state.kind, state.job, "FinishedWorkload", f"Workload '{_key(state.workload)}' is declared finished"
    )
    return job_writes.finish(state.workload, reason, outcome.message, state.context.now_s, event)


def _leave_released_job(state: JobPlanInput) -> JobPlanStep:
    """Does not stop a job that an uninstallation has let run. If it waits, or its Workload is admitted with as many
    pods as the job has, the mark is removed, and the later rules apply. Until then its Workload stays in its queue."""
    kind, job, workload = state.kind, state.job, state.workload
    if not is_released(job) or kind.outcome(job) is not None:
        return None
    has_admission = workload is not None and is_admitted(workload) and has_admitted_counts(kind, workload, job)
    if has_suspend_set(kind, job) or has_admission:
        return job_writes.remove_release_mark(kind, job)
    if workload is not None and is_terminating(workload) and has_finalizer(workload):
        return job_writes.remove_finalizer(workload)
    quota = "its Workload is admitted" if workload is not None else "it ends"
    text = f"{BY_UNINSTALL}; no quota is counted for it until {quota}; to queue it, suspend it"
    return JobBlocked(RUNS_WITHOUT_ADMISSION, text, is_warning=False)


def _stop_for_deleted_workload(state: JobPlanInput) -> JobPlanStep:
    """If the Workload is being deleted, stops the job, then removes the finalizer of the Workload."""
    if state.workload is None or not is_terminating(state.workload):
        return None
    stop = _stop(state, "Workload is deleted")
    if stop is not None or (state.releases_when_terminal and state.uses_quota):
        return stop or _STOP_PLANNING
    return job_writes.remove_finalizer(state.workload) if has_finalizer(state.workload) else _STOP_PLANNING


def _hold_gated_job(state: JobPlanInput) -> JobPlanStep:
    """A job with the annotation ``scheduling-gated-by`` gets no Workload and is stopped, unless its Workload has
    quota."""
    gate = gated_by(state.job) if state.context.honours_scheduling_gates else None
    if gate is None or (state.workload is not None and has_condition(state.workload, names.QUOTA_RESERVED)):
        return None  # a gate that is added later does not evict the job
    if state.workload is not None:
        return job_writes.delete(state.kind, state.job, state.workload)
    message = f"No Workload is created while the job is gated by: {gate}"
    return _stop(state, f"Gated by {gate}") or JobBlocked(GATED, message, is_warning=False, gate=gate)


def _adopt_prebuilt_workload(state: JobPlanInput) -> JobPlanStep:
    """If another client creates the Workload of the job, the job waits for the Workload and becomes its controller. A
    Workload that has another controller blocks the job."""
    name = prebuilt_name(state.job)
    if not name or state.workload is not None:
        return None
    stop = _stop(state, "missing workload")
    if stop is not None or state.uses_quota:
        return stop or _STOP_PLANNING
    if state.prebuilt is None:
        return JobBlocked("ErrWorkloadCompose", f'prebuilt workload "{name}" not found')
    if controller_of(state.prebuilt) is not None:
        return JobBlocked("ErrWorkloadCompose", f'prebuilt workload "{name}" is already controlled by another object')
    return _STOP_PLANNING if is_terminating(state.prebuilt) else job_writes.adopt(state.kind, state.job, state.prebuilt)


def _create_workload(state: JobPlanInput) -> JobPlanStep:
    """Stops a job without a Workload, then creates the Workload."""
    if state.workload is not None:
        return None
    stop = _stop(state, "Missing Workload; unable to restore pod templates")
    if stop is not None or state.uses_quota:
        return stop or _STOP_PLANNING
    created = new_workload(state.kind, state.job, state.context.classes, state.admission_gates)
    if isinstance(created, str):
        return JobBlocked("ErrWorkloadCompose", created)
    if state.context.honours_activation:
        created["metadata"]["labels"] |= requested_label(state.job)
    namespace = created["metadata"]["namespace"]
    text = f"Created Workload: {namespace}/{created['metadata']['name']}"
    return PlannedWrite(
        Create(WORKLOADS, namespace, created), (job_writes.job_event(state.kind, state.job, "CreatedWorkload", text),)
    )


def _restore_finalizer(state: JobPlanInput) -> JobPlanStep:
    """Adds the finalizer to a Workload that has lost it, for example by an uninstallation. The Workload of a job that
    another client creates is left as that client made it."""
    workload = state.workload
    if workload is None or prebuilt_name(state.job) or not lacks_finalizer(workload):
        return None
    return job_writes.add_finalizer(workload) if state.context.may_restore(workload) else None


def _update_workload(state: JobPlanInput) -> JobPlanStep:
    """Updates a Workload that differs from its job. If the Workload has quota, it is deleted instead; if another client
    created it, its condition Finished is set instead."""
    workload, job = state.workload, state.job
    if workload is None or is_stopping(job):
        return None
    if is_suspended(state.kind, job) and pod_set_problem(state.kind, job):
        return job_writes.delete(state.kind, job, workload)  # the next plan reports the problem
    is_reserved, is_prebuilt = has_condition(workload, names.QUOTA_RESERVED), bool(prebuilt_name(job))
    desired, max_time = pod_sets(state.kind, job), max_execution_s(job)
    is_same = _has_desired_pod_sets(state, workload, desired, is_reserved or is_prebuilt)
    is_same_time = get_path(workload, ("spec", "maximumExecutionTimeSeconds")) == max_time
    if is_prebuilt and not (is_same and is_same_time):
        return job_writes.finish(workload, OUT_OF_SYNC, _OUT_OF_SYNC_MESSAGE, state.context.now_s)
    if (is_reserved or not is_suspended(state.kind, job)) and not (is_same and is_same_time):
        return job_writes.delete(state.kind, job, workload)
    spec: Object = {} if is_same else {"podSets": desired}
    if not is_same_time:
        spec["maximumExecutionTimeSeconds"] = max_time
    if not is_reserved and (get_path(workload, ("spec", "queueName")) or "") != queue_of(job):
        spec["queueName"] = queue_of(job) or None
    priority_fields = priority(state.kind, job, state.context.classes)
    if (
        not isinstance(priority_fields, str)
        and not is_prebuilt
        and _may_change_priority(workload, priority_fields, is_reserved)
    ):
        spec.update({"priorityClassRef": None, **priority_fields})
    gates = (
        state.admission_gates
        if state.context.honours_admission_gates
        and not is_prebuilt
        and state.admission_gates != admission_gates_of(workload)
        else None
    )
    return None if not spec and gates is None else job_writes.update_workload(state.kind, job, workload, spec, gates)


def _has_desired_pod_sets(state: JobPlanInput, workload: Object, desired: list[Object], is_lenient: bool) -> bool:
    """Whether the Workload has the pod sets ``desired`` of the job. ``is_lenient``: fields may be missing that the API
    server did not store."""
    if not is_suspended(state.kind, state.job):
        return has_admitted_counts(state.kind, workload, state.job)
    if equals_pod_sets(workload, desired):
        return True
    is_stored_in_part = state.context.stored_digests.get(workload["metadata"]["uid"]) == digest(desired)
    return (is_lenient or is_stored_in_part) and matches_stored_fields(workload, desired)


def _may_change_priority(workload: Object, priority_fields: Object, is_reserved: bool) -> bool:
    """Whether the priority of the Workload has to be updated. A Workload with quota changes only from one
    WorkloadPriorityClass to another."""
    if not is_reserved:
        return not has_priority(workload, priority_fields)
    before, after = (
        get_path(workload, ("spec", "priorityClassRef")) or {},
        priority_fields.get("priorityClassRef") or {},
    )
    kinds = {before.get("kind"), after.get("kind")}
    return kinds == {"WorkloadPriorityClass"} and before.get("name") != after.get("name")


def _report_reclaimable_pods(state: JobPlanInput) -> JobPlanStep:
    """Reports pods that are no longer needed in ``status.reclaimablePods``. The counts never decrease."""
    workload = state.workload
    if workload is None or not has_condition(workload, names.QUOTA_RESERVED):
        return None
    current = {each["name"]: each["count"] for each in get_path(workload, ("status", "reclaimablePods")) or ()}
    desired = {each.get("name", "main"): each.get("count", 0) for each in get_path(workload, ("spec", "podSets")) or ()}
    counts = {each.name: each.count for each in job_pod_sets(state.kind, state.job)}
    increased = dict[str, int]()
    for name, unneeded in state.kind.reclaimable(state.job).items():
        if name not in counts:
            continue
        # After partial admission the job has fewer pods than the pod set requests; the difference is reclaimable, too.
        count = min(unneeded + max(desired.get(name, 0) - counts[name], 0), desired.get(name, 0))
        if count > current.get(name, 0):
            increased[name] = count
    return job_writes.set_reclaimable_pods(workload, {**current, **increased}) if increased else None


def _set_pods_ready(state: JobPlanInput) -> JobPlanStep:
    """Sets the condition PodsReady while the Workload is admitted."""
    workload = state.workload
    if workload is None or not has_condition(workload, names.ADMITTED) or has_condition(workload, names.EVICTED):
        return None
    current = conditions.find(get_path(workload, ("status", "conditions")), names.PODS_READY)
    was_ready = current is not None and current.get("status") == "True"
    count = sum(each.count for each in job_pod_sets(state.kind, state.job))
    is_ready = not has_suspend_set(state.kind, state.job) and state.kind.ready(state.job) >= count
    if current is not None and is_ready == was_ready:
        return None
    return job_writes.set_pods_ready(workload, is_ready, current, state.context.now_s)


def _stop_evicted_job(state: JobPlanInput) -> JobPlanStep:
    """Stops the job of an evicted Workload, then releases the quota."""
    workload = state.workload
    if workload is None or not has_condition(workload, names.EVICTED):
        return None
    eviction = conditions.find(get_path(workload, ("status", "conditions")), names.EVICTED) or {}
    stop = _stop(state, str(eviction.get("message") or "The workload is evicted"))
    if stop is not None:
        return stop
    if state.uses_quota:
        return _STOP_PLANNING
    # Without quota the later rules apply, as for every pending Workload.
    return (
        job_writes.release_quota(workload, eviction, state.context.now_s)
        if has_condition(workload, names.QUOTA_RESERVED)
        else None
    )


def _restore_children(state: JobPlanInput) -> JobPlanStep:
    """Removes what an earlier admission has added to child Jobs, before the job is started again."""
    if not is_suspended(state.kind, state.job):
        return None
    planned = plan_child_restore(state.kind, state.job, state.context.child_jobs(state.job))
    return _STOP_PLANNING if planned is not None and planned.write is None else planned


def _start_or_stop_job(state: JobPlanInput) -> JobPlanStep:
    """Starts the job if its Workload is admitted, and stops it otherwise."""
    workload, job = state.workload, state.job
    if workload is None or not has_condition(workload, names.ADMITTED):
        return _stop(state, "Not admitted by cluster queue")
    if not has_suspend_set(state.kind, job):
        return None
    if is_stopping(job):
        return _stop(state, "")
    if not may_start(workload):
        return wait_for_terminating_pods(workload)
    patch = start_patch(state.kind, job, workload, state.context.flavors)
    if isinstance(patch, StartConflict):
        if not patch.is_final:
            return JobBlocked("FailedToStart", patch.message)
        if state.context.has_open_start(job):
            return job_writes.withdraw_start(state.kind, job)
        event = job_writes.job_event(state.kind, job, "FailedToStart", patch.message, is_warning=True)
        return job_writes.finish(workload, "FailedToStart", patch.message, state.context.now_s, event)
    queue = get_path(workload, ("status", "admission", "clusterQueue"))
    return job_writes.start(state.kind, job, patch, f"Admitted by clusterQueue {queue}")


def _stop(state: JobPlanInput, message: str) -> PlannedWrite | None:
    """The next write to suspend the job and restore its templates; None if that is done."""
    if state.context.has_open_start(state.job):
        return job_writes.withdraw_start(state.kind, state.job)
    if is_suspended(state.kind, state.job):
        return None
    return job_writes.stop(state.kind, state.job, state.workload, message)


_RULES: Final[tuple[Rule, ...]] = (
    _consume_activation_labels,
    _leave_released_job,
    _finish_workload,
    _stop_for_deleted_workload,
    _hold_gated_job,
    _adopt_prebuilt_workload,
    _create_workload,
    _restore_finalizer,
    _stop_evicted_job,
    _update_workload,
    _report_reclaimable_pods,
    _set_pods_ready,
    _restore_children,
    _start_or_stop_job,
)
_RULES_WITHOUT_QUEUE: Final[tuple[Rule, ...]] = (_leave_released_job, _set_default_queue)
"""For a job that names no queue."""


def _delete_workload_if_unmanaged(state: JobPlanInput) -> JobPlanStep:
    """Deletes the Workload of a job that does not run, so that it neither waits for quota nor holds quota: the job is
    not started any more. A running job holds its quota until it ends."""
    workload = state.workload
    if workload is None:
        return _STOP_PLANNING
    if is_terminating(workload) and has_finalizer(workload):
        return job_writes.remove_finalizer(workload)
    is_needed = not is_suspended(state.kind, state.job) or state.uses_quota or state.context.has_open_start(state.job)
    if is_needed or is_terminating(workload) or prebuilt_name(state.job):
        return _STOP_PLANNING
    return job_writes.delete(state.kind, state.job, workload)


_UNMANAGED_RULES: Final[tuple[Rule, ...]] = (_finish_workload, _delete_workload_if_unmanaged)
"""For a job that still has a Workload though its kind or its namespace is not managed any more."""


def may_start(workload: Object) -> bool:
    """Whether the Workload is admitted and does not wait for terminating pods."""
    return has_condition(workload, names.ADMITTED) and not has_condition(workload, names.WAITING_FOR_TERMINATING_PODS)


def is_admitted(workload: Object) -> bool:
    """Whether the Workload is admitted and not finished, so that its job or its pods may run."""
    return has_condition(workload, names.ADMITTED) and not has_condition(workload, names.FINISHED)


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


def lacks_finalizer(workload: Object) -> bool:
    """Whether a Workload in use has no finalizer. Before a deletion the finalizer is not added."""
    is_in_use = not is_terminating(workload) and not has_condition(workload, names.FINISHED)
    return is_in_use and not has_finalizer(workload)


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
