"""The next thing to do for one job and its Workload, as one write and the Events that tell of it.

One write at a time: after each the plan is made anew from what the server said, so a process that dies anywhere goes
on where it was. The order of the rules is Kueue's. Every write names the uid and the version it was decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.jobs import writing
from headgate.jobs.gating import gate_of
from headgate.jobs.kind import JobKind, Object, at, is_stopping, is_suspended, is_told_to_wait
from headgate.jobs.names import RESOURCE_IN_USE
from headgate.jobs.placing import placed
from headgate.jobs.workload import (
    Classes,
    gates_of,
    has_counts,
    has_pod_sets,
    has_priority,
    new_workload,
    pod_sets,
    priority,
    queue_of,
    workload_name,
)
from headgate.jobs.writing import Act
from headgate.kube import conditions
from headgate.owners.effects import Create
from headgate.quota import names
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.kinds.names import WORKLOADS


class Wait(msgspec.Struct, frozen=True):
    """Nothing can be done now, and the job's user should know why."""

    reason: str
    message: str
    is_warning: bool = True


class Around(msgspec.Struct, frozen=True):
    """What else a plan looks at. ``gating``: the feature gate SchedulingGatedBy."""

    flavors: Mapping[str, ResourceFlavor]
    classes: Classes
    gating: bool
    now_s: float


class Case(msgspec.Struct, frozen=True):
    kind: JobKind
    job: Object
    workload: Object | None
    around: Around


Next = Act | Wait | None
Rule = Callable[[Case], Next]
_GO_ON: Final = Act(None)
"""No write: nothing that comes later is asked."""


def next_for_orphan(workload: Object, now_s: float) -> Act | None:
    """Its job is gone: it gives back what it holds, and may go."""
    if not is_kept(workload):
        return None
    if not has_condition(workload, names.FINISHED):
        return writing.finish(workload, names.OWNER_NOT_FOUND, "The owner of the workload is gone", now_s)
    return writing.release_finalizer(workload)


def next_for_job(kind: JobKind, job: Object, workloads: Sequence[Object], around: Around) -> Next:
    if at(job, ("metadata", "deletionTimestamp")):
        return next((act for each in workloads if (act := next_for_orphan(each, around.now_s)) is not None), None)
    own = workload_name(kind, job)
    for each in workloads:
        if each["metadata"]["name"] != own or not queue_of(job):
            act = _drop(kind, job, each)
            if act is not None:
                return act
    if not queue_of(job):
        return None
    workload = next((each for each in workloads if each["metadata"]["name"] == own), None)
    case = Case(kind, job, workload, around)
    for rule in _RULES:
        step = rule(case)
        if step is not None:
            return None if step is _GO_ON else step
    return None


def _drop(kind: JobKind, job: Object, workload: Object) -> Act | None:
    """One too many."""
    if not is_leaving(workload):
        return writing.delete(kind, job, workload)
    return writing.release_finalizer(workload) if is_kept(workload) else None


def _finished(case: Case) -> Next:
    outcome = case.kind.outcome(case.job)
    if case.workload is not None and has_condition(case.workload, names.FINISHED):
        if is_leaving(case.workload) and is_kept(case.workload):
            return writing.release_finalizer(case.workload)
        return _GO_ON
    if outcome is None:
        return None
    if case.workload is None:
        return _GO_ON
    reason = "Succeeded" if outcome.succeeded else "Failed"
    told = writing.tell(
        case.kind, case.job, "FinishedWorkload", f"Workload '{_key(case.workload)}' is declared finished"
    )
    return writing.finish(case.workload, reason, outcome.message, case.around.now_s, told)


def _leaving(case: Case) -> Next:
    """Somebody deletes the Workload: the job stops first."""
    if case.workload is None or not is_leaving(case.workload):
        return None
    stop = _stop(case, "Workload is deleted")
    if stop is not None:
        return stop
    return writing.release_finalizer(case.workload) if is_kept(case.workload) else _GO_ON


def _gated(case: Case) -> Next:
    gate = gate_of(case.job) if case.around.gating else None
    if gate is None or (case.workload is not None and has_condition(case.workload, names.QUOTA_RESERVED)):
        return None  # who was admitted before is not put out
    if case.workload is not None:
        return writing.delete(case.kind, case.job, case.workload)
    message = f"No Workload is created while the job is gated by: {gate}"
    return _stop(case, f"Gated by {gate}") or Wait("SchedulingGated", message, is_warning=False)


def _missing(case: Case) -> Next:
    if case.workload is not None:
        return None
    stop = _stop(case, "Missing Workload; unable to restore pod templates")
    if stop is not None or case.kind.is_active(case.job):
        return stop or _GO_ON
    made = new_workload(case.kind, case.job, case.around.classes)
    if isinstance(made, str):
        return Wait("ErrWorkloadCompose", made)
    namespace = made["metadata"]["namespace"]
    text = f"Created Workload: {namespace}/{made['metadata']['name']}"
    return Act(Create(WORKLOADS, namespace, made), (writing.tell(case.kind, case.job, "CreatedWorkload", text),))


def _changed(case: Case) -> Next:
    """The job asks for something else than its Workload: that follows while it holds nothing, and goes otherwise."""
    workload, job = case.workload, case.job
    if workload is None or is_stopping(job):
        return None
    wanted = pod_sets(case.kind, job)
    if not is_suspended(case.kind, job):
        return None if has_counts(workload, wanted) else writing.delete(case.kind, job, workload)
    is_same = has_pod_sets(workload, wanted)
    if has_condition(workload, names.QUOTA_RESERVED):
        return None if is_same else writing.delete(case.kind, job, workload)
    spec: Object = {} if is_same else {"podSets": wanted}
    if at(workload, ("spec", "queueName")) != queue_of(job):
        spec["queueName"] = queue_of(job)
    told = priority(case.kind, job, case.around.classes)
    if not isinstance(told, str) and not has_priority(workload, told):
        spec.update({"priorityClassRef": None, **told})
    gates = gates_of(job)
    if not spec and gates == gates_of(workload):
        return None
    return writing.follow(case.kind, job, workload, spec, gates)


def _reclaimed(case: Case) -> Next:
    """Pods that are done give back their part of the quota before the job ends; what was given back stays so."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.QUOTA_RESERVED):
        return None
    known = {each["name"]: each["count"] for each in at(workload, ("status", "reclaimablePods")) or ()}
    more = {name: count for name, count in case.kind.reclaimable(case.job).items() if count > known.get(name, 0)}
    return writing.reclaim(workload, {**known, **more}) if more else None


def _ready(case: Case) -> Next:
    """Whether all pods run, while the Workload is admitted."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.ADMITTED) or has_condition(workload, names.EVICTED):
        return None
    known = conditions.find(at(workload, ("status", "conditions")), names.PODS_READY)
    were = known is not None and known.get("status") == "True"
    count = sum(each.count(case.job) for each in case.kind.pod_sets)
    are = not is_told_to_wait(case.kind, case.job) and case.kind.ready(case.job) >= count
    if known is not None and are == were:
        return None
    return writing.pods_ready(workload, are, known, case.around.now_s)


def _evicted(case: Case) -> Next:
    workload = case.workload
    if workload is None or not has_condition(workload, names.EVICTED):
        return None
    why = conditions.find(at(workload, ("status", "conditions")), names.EVICTED) or {}
    stop = _stop(case, str(why.get("message") or "The workload is evicted"))
    if stop is not None:
        return stop
    if case.kind.is_active(case.job):
        return _GO_ON
    return (
        writing.release(workload, why, case.around.now_s) if has_condition(workload, names.QUOTA_RESERVED) else _GO_ON
    )


def _started(case: Case) -> Next:
    workload, job = case.workload, case.job
    if workload is None or not has_condition(workload, names.ADMITTED):
        return _stop(case, "Not admitted by cluster queue")
    if not is_told_to_wait(case.kind, job):
        return None
    if is_stopping(job):
        return _stop(case, "")
    patch = placed(case.kind, workload, case.around.flavors)
    if isinstance(patch, str):
        if patch.endswith("not found"):
            return Wait("FailedToStart", patch)
        told = writing.tell(case.kind, job, "FailedToStart", patch, is_warning=True)
        return writing.finish(workload, "FailedToStart", patch, case.around.now_s, told)
    queue = at(workload, ("status", "admission", "clusterQueue"))
    return writing.start(case.kind, job, patch, f"Admitted by clusterQueue {queue}")


def _stop(case: Case, why: str) -> Act | None:
    """The next step until the job is suspended and what its user wrote; None when it is."""
    if is_suspended(case.kind, case.job):
        return None
    return writing.stop(case.kind, case.job, case.workload, why)


_RULES: Final[tuple[Rule, ...]] = (
    _finished,
    _leaving,
    _gated,
    _missing,
    _evicted,
    _changed,
    _reclaimed,
    _ready,
    _started,
)


def has_condition(workload: Object, condition: str) -> bool:
    return conditions.is_true(at(workload, ("status", "conditions")), condition)


def is_leaving(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_kept(workload: Object) -> bool:
    return RESOURCE_IN_USE in (workload["metadata"].get("finalizers") or ())


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
