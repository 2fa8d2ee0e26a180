"""The next thing to do for one job and its Workload, as one write and the Events that tell of it.

One write at a time: after each the plan is made anew from what the server said, so a process that dies anywhere goes
on where it was. The order of the rules is Kueue's. Every write names the uid and the version it was decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from headgate.jobs import writing
from headgate.jobs.ancestors import NOT_FOUND, Unsure
from headgate.jobs.gating import gate_of
from headgate.jobs.kind import (
    JobKind,
    Object,
    at,
    is_stopping,
    is_suspended,
    is_told_to_wait,
    places_of,
    pod_set_problem,
)
from headgate.jobs.matching import digest, has_counts, has_pod_sets, keeps_pod_sets
from headgate.jobs.placing import Unfit, placed
from headgate.jobs.scope import Child, Scope
from headgate.jobs.workload import (
    Classes,
    gates_of,
    has_priority,
    longest_s,
    new_workload,
    pod_sets,
    prebuilt_name,
    priority,
    queue_of,
    workload_name,
)
from headgate.jobs.writing import Act
from headgate.kube import conditions
from headgate.kube.references import controller_of
from headgate.owners.effects import Create
from headgate.quota import names
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.kinds.names import WORKLOADS

OUT_OF_SYNC: Final = "OutOfSync"
_OUT_OF_SYNC: Final = "The prebuilt workload is out of sync with its user job"


class Wait(msgspec.Struct, frozen=True):
    """Nothing can be done now, and the job's user should know why. ``gate``: if one holds it back (KEP-6915)."""

    reason: str
    message: str
    is_warning: bool = True
    gate: str = ""


class Around(msgspec.Struct, frozen=True):
    """What else a plan looks at. ``gating``: the feature gate SchedulingGatedBy. ``holding``: AdmissionGatedBy.
    ``kept``: by the uid of a Workload, the digest of pod sets of which its server keeps what it can."""

    flavors: Mapping[str, ResourceFlavor]
    classes: Classes
    scope: Scope
    gating: bool
    holding: bool
    kept: Mapping[str, str]
    now_s: float


class Case(msgspec.Struct, frozen=True):
    """``offered``: the Workload that somebody else made for the job, whoever has it."""

    kind: JobKind
    job: Object
    workload: Object | None
    offered: Object | None
    around: Around

    @property
    def gates(self) -> str:
        """Who holds the Workload back."""
        return gates_of(self.job) if self.around.holding else ""

    @property
    def holds(self) -> bool:
        """Whether its pods still use what was given."""
        return self.kind.is_active(self.job) or (self.is_patient and self.kind.is_ending(self.job))

    @property
    def is_patient(self) -> bool:
        return self.around.scope.settings.quota_release.get(self.kind.integration) == "OnTerminal"


Next = Act | Wait | None
Rule = Callable[[Case], Next]
GATED: Final = "SchedulingGated"
_GO_ON: Final = Act(None)
"""No write: nothing that comes later is asked."""


def next_for_orphan(workload: Object, now_s: float) -> Act | None:
    """Its job is gone: it gives back what it holds, and may go."""
    if not is_kept(workload):
        return None
    if not has_condition(workload, names.FINISHED):
        return writing.finish(workload, names.OWNER_NOT_FOUND, "The owner of the workload is gone", now_s)
    return writing.release_finalizer(workload)


def next_for_job(
    kind: JobKind, job: Object, workloads: Sequence[Object], offered: Object | None, around: Around
) -> Next:
    if at(job, ("metadata", "deletionTimestamp")):
        return next((act for each in workloads if (act := next_for_orphan(each, around.now_s)) is not None), None)
    standing = around.scope.standing(job)
    if isinstance(standing, Unsure):
        return None if standing.reason == NOT_FOUND else Wait(standing.reason, standing.message)
    own = prebuilt_name(job) or workload_name(kind, job)
    workload = next((each for each in workloads if each["metadata"]["name"] == own), None)
    case = Case(kind, job, workload, offered, around)
    if standing == "elsewhere":
        return _first(_ELSEWHERE, case)
    for each in workloads:
        if each is not workload or standing != "managed":
            act = _drop(kind, job, each)
            if act is not None:
                return act
    if isinstance(standing, Child):
        return _child(kind, job, around.scope.workload_of(standing.ancestor))
    return _first(_RULES, case) if standing == "managed" else _defaulted(kind, job, around.scope)


def _first(rules: Sequence[Rule], case: Case) -> Next:
    for rule in rules:
        step = rule(case)
        if step is not None:
            return None if step is _GO_ON else step
    return None


def _child(kind: JobKind, job: Object, workload: Object | None) -> Next:
    if is_told_to_wait(kind, job) or kind.outcome(job) is not None:
        return None
    return None if workload is not None and may_start(workload) else writing.suspend_child(kind, job)


def _defaulted(kind: JobKind, job: Object, scope: Scope) -> Next:
    """A job that runs and names no queue came in past admission: it gets the one of its namespace. Who waits of his
    own will has left his queue, and is left alone."""
    if is_told_to_wait(kind, job) or kind.outcome(job) is not None:
        return None
    queue = scope.default_queue(job)
    return writing.enqueue(kind, job, queue) if queue else None


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
        if outcome is None and _reason(case.workload, names.FINISHED) == OUT_OF_SYNC:
            return _stop(case, _OUT_OF_SYNC) or _GO_ON
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
    if stop is not None or (case.is_patient and case.holds):
        return stop or _GO_ON
    return writing.release_finalizer(case.workload) if is_kept(case.workload) else _GO_ON


def _gated(case: Case) -> Next:
    gate = gate_of(case.job) if case.around.gating else None
    if gate is None or (case.workload is not None and has_condition(case.workload, names.QUOTA_RESERVED)):
        return None  # who was admitted before is not put out
    if case.workload is not None:
        return writing.delete(case.kind, case.job, case.workload)
    message = f"No Workload is created while the job is gated by: {gate}"
    return _stop(case, f"Gated by {gate}") or Wait(GATED, message, is_warning=False, gate=gate)


def _prebuilt(case: Case) -> Next:
    """Somebody else makes the Workload: the job waits for it and takes it, unless another one has it."""
    name = prebuilt_name(case.job)
    if not name or case.workload is not None:
        return None
    stop = _stop(case, "missing workload")
    if stop is not None or case.holds:
        return stop or _GO_ON
    if case.offered is None:
        return Wait("ErrWorkloadCompose", f'prebuilt workload "{name}" not found')
    if controller_of(case.offered) is not None:
        return Wait("ErrWorkloadCompose", f'prebuilt workload "{name}" is already controlled by another object')
    return _GO_ON if is_leaving(case.offered) else writing.adopt(case.kind, case.job, case.offered)


def _missing(case: Case) -> Next:
    if case.workload is not None:
        return None
    stop = _stop(case, "Missing Workload; unable to restore pod templates")
    if stop is not None or case.holds:
        return stop or _GO_ON
    made = new_workload(case.kind, case.job, case.around.classes, case.gates)
    if isinstance(made, str):
        return Wait("ErrWorkloadCompose", made)
    namespace = made["metadata"]["namespace"]
    text = f"Created Workload: {namespace}/{made['metadata']['name']}"
    return Act(Create(WORKLOADS, namespace, made), (writing.tell(case.kind, case.job, "CreatedWorkload", text),))


def _changed(case: Case) -> Next:
    """The job asks for something else than its Workload: that follows while it holds nothing, and goes otherwise. One
    that its user made is at its end instead."""
    workload, job = case.workload, case.job
    if workload is None or is_stopping(job):
        return None
    if is_suspended(case.kind, job) and pod_set_problem(case.kind, job):
        return writing.delete(case.kind, job, workload)  # and the next look tells the job's user why
    is_reserved, is_prebuilt = has_condition(workload, names.QUOTA_RESERVED), bool(prebuilt_name(job))
    wanted, longest = pod_sets(case.kind, job), longest_s(job)
    is_same = _is_same(case, workload, wanted, is_reserved or is_prebuilt)
    is_as_long = at(workload, ("spec", "maximumExecutionTimeSeconds")) == longest
    if is_prebuilt and not (is_same and is_as_long):
        return writing.finish(workload, OUT_OF_SYNC, _OUT_OF_SYNC, case.around.now_s)
    if (is_reserved or not is_suspended(case.kind, job)) and not (is_same and is_as_long):
        return writing.delete(case.kind, job, workload)
    spec: Object = {} if is_same else {"podSets": wanted}
    if not is_as_long:
        spec["maximumExecutionTimeSeconds"] = longest
    if not is_reserved and (at(workload, ("spec", "queueName")) or "") != queue_of(job):
        spec["queueName"] = queue_of(job) or None
    told = priority(case.kind, job, case.around.classes)
    if not isinstance(told, str) and not is_prebuilt and _may_follow(workload, told, is_reserved):
        spec.update({"priorityClassRef": None, **told})
    gates = case.gates if case.around.holding and not is_prebuilt and case.gates != gates_of(workload) else None
    return None if not spec and gates is None else writing.follow(case.kind, job, workload, spec, gates)


def _is_same(case: Case, workload: Object, wanted: list[Object], is_lenient: bool) -> bool:
    if not is_suspended(case.kind, case.job):
        return has_counts(case.kind, workload, case.job)
    if has_pod_sets(workload, wanted):
        return True
    was_tried = case.around.kept.get(workload["metadata"]["uid"]) == digest(wanted)
    return (is_lenient or was_tried) and keeps_pod_sets(workload, wanted)


def _may_follow(workload: Object, told: Object, is_reserved: bool) -> bool:
    """Whether the Workload gets another priority. Who holds quota may go from one WorkloadPriorityClass to another."""
    if not is_reserved:
        return not has_priority(workload, told)
    before, after = at(workload, ("spec", "priorityClassRef")) or {}, told.get("priorityClassRef") or {}
    kinds = {before.get("kind"), after.get("kind")}
    return kinds == {"WorkloadPriorityClass"} and before.get("name") != after.get("name")


def _reclaimed(case: Case) -> Next:
    """Pods that are done give back their part of the quota before the job ends; what was given back stays so."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.QUOTA_RESERVED):
        return None
    known = {each["name"]: each["count"] for each in at(workload, ("status", "reclaimablePods")) or ()}
    wanted = {each.get("name", "main"): each.get("count", 0) for each in at(workload, ("spec", "podSets")) or ()}
    places, more = {each.name: each for each in places_of(case.kind, case.job)}, dict[str, int]()
    for name, spare in case.kind.reclaimable(case.job).items():
        if name not in places:
            continue
        # Counted from what was asked for, which may be more than was admitted.
        count = min(spare + max(wanted.get(name, 0) - places[name].count(case.job), 0), wanted.get(name, 0))
        if count > known.get(name, 0):
            more[name] = count
    return writing.reclaim(workload, {**known, **more}) if more else None


def _ready(case: Case) -> Next:
    """Whether all pods run, while the Workload is admitted."""
    workload = case.workload
    if workload is None or not has_condition(workload, names.ADMITTED) or has_condition(workload, names.EVICTED):
        return None
    known = conditions.find(at(workload, ("status", "conditions")), names.PODS_READY)
    were = known is not None and known.get("status") == "True"
    count = sum(each.count(case.job) for each in places_of(case.kind, case.job))
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
    if case.holds:
        return _GO_ON
    # Who holds nothing any more waits like everybody else: what its user changes counts.
    return writing.release(workload, why, case.around.now_s) if has_condition(workload, names.QUOTA_RESERVED) else None


def _started(case: Case) -> Next:
    workload, job = case.workload, case.job
    if workload is None or not has_condition(workload, names.ADMITTED):
        return _stop(case, "Not admitted by cluster queue")
    if not is_told_to_wait(case.kind, job):
        return None
    if is_stopping(job):
        return _stop(case, "")
    if not may_start(workload):
        return wait_for_terminating_pods(workload)
    patch = placed(case.kind, job, workload, case.around.flavors)
    if isinstance(patch, Unfit):
        if not patch.is_final:
            return Wait("FailedToStart", patch.message)
        told = writing.tell(case.kind, job, "FailedToStart", patch.message, is_warning=True)
        return writing.finish(workload, "FailedToStart", patch.message, case.around.now_s, told)
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
    _prebuilt,
    _missing,
    _evicted,
    _changed,
    _reclaimed,
    _ready,
    _started,
)


def _ending(case: Case) -> Next:
    """Nobody looks after it any more, and nobody waits for it."""
    if case.workload is None or not is_leaving(case.workload) or not is_kept(case.workload):
        return _GO_ON
    return writing.release_finalizer(case.workload)


_ELSEWHERE: Final[tuple[Rule, ...]] = (_finished, _ending)
"""For who is not managed here and has a Workload all the same: what it holds comes back when it ends."""


def may_start(workload: Object) -> bool:
    """Whether it is admitted, and no terminating pods are waited for that still use what it was given."""
    return has_condition(workload, names.ADMITTED) and not has_condition(workload, names.WAITING_FOR_TERMINATING_PODS)


def wait_for_terminating_pods(workload: Object) -> Wait:
    found = conditions.find(at(workload, ("status", "conditions")), names.WAITING_FOR_TERMINATING_PODS) or {}
    return Wait(names.WAITING_FOR_TERMINATING_PODS, str(found.get("message", "")), is_warning=False)


def has_condition(workload: Object, condition: str) -> bool:
    return conditions.is_true(at(workload, ("status", "conditions")), condition)


def _reason(workload: Object, condition: str) -> str:
    found = conditions.find(at(workload, ("status", "conditions")), condition) or {}
    return str(found.get("reason", ""))


def is_leaving(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_kept(workload: Object) -> bool:
    return names.RESOURCE_IN_USE in (workload["metadata"].get("finalizers") or ())


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
