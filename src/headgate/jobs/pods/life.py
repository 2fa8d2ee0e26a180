"""The beginning and the end of pods in a queue: when there is a Workload of them, and when they have to go.

A pod cannot be suspended: to stop it is to delete it. Its user replaces it, and so a group may come back.
"""

from __future__ import annotations

from headgate.jobs import writing as of_jobs
from headgate.jobs.ancestors import NOT_FOUND, Unsure
from headgate.jobs.kind import at
from headgate.jobs.plan import GATED, Wait, is_kept, is_leaving, next_for_orphan
from headgate.jobs.pods import composing, writing
from headgate.jobs.pods.case import ENOUGH, Acts, Case, Next, Object, Sleep, Unseen
from headgate.jobs.pods.member import SUCCEEDED
from headgate.jobs.pods.shape import gates_of_others
from headgate.jobs.pods.unit import absent, counts_of, outcome_of, surplus, too_many
from headgate.jobs.release import is_active
from headgate.jobs.writing import Act
from headgate.kube import conditions
from headgate.owners.effects import Create
from headgate.quota import names
from headgate.quota.kinds.names import WORKLOADS


def outlived(case: Case) -> Next:
    """A Workload of pods that are all gone: the group that is there now begins anew."""
    workload = case.workload
    if workload is None or not case.unit.is_group or not (is_leaving(workload) or case.has(names.FINISHED)):
        return None
    owners = {each.get("uid") for each in workload["metadata"].get("ownerReferences") or ()}
    if not owners or any(each.uid in owners for each in case.unit.members):
        return None
    return (writing.drop(workload),) if is_kept(workload) or not is_leaving(workload) else ENOUGH


def finished(case: Case) -> Next:
    workload, unit = case.workload, case.unit
    if workload is not None and case.has(names.FINISHED):
        if is_leaving(workload) and is_kept(workload):
            return (of_jobs.release_finalizer(workload),)
        return writing.let_go(unit.members) or _too_late(case, workload) or ENOUGH
    outcome = outcome_of(unit)
    if outcome is None:
        return None
    if workload is None:
        return writing.let_go(unit.members) or ENOUGH
    if unit.is_group and outcome.succeeded:
        removed = writing.remove(surplus(unit))
        if removed:
            return removed
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    told = writing.tell(unit.first, "FinishedWorkload", f"Workload '{key}' is declared finished")
    reason = "Succeeded" if outcome.succeeded else "Failed"
    return (of_jobs.finish(workload, reason, outcome.message, case.around.now_s, told),)


def _too_late(case: Case, workload: Object) -> Acts:
    """Replacements that came when all places of their group had a pod that succeeded: while one of those is there, they
    could only wait for ever."""
    told = conditions.find(at(workload, ("status", "conditions")), names.FINISHED) or {}
    is_kept_by = any(each.phase == SUCCEEDED and not each.is_leaving for each in case.unit.members)
    if not case.unit.is_group or told.get("reason") != "Succeeded" or not is_kept_by:
        return ENOUGH
    return writing.remove(surplus(case.unit))


def deleted(case: Case) -> Next:
    """Somebody deletes the Workload: its pods go first, those that wait and those that are done, too."""
    workload = case.workload
    if workload is None or not is_leaving(workload):
        return None
    there = [each for each in case.unit.members if not each.is_leaving]
    if there:
        return writing.stop(there, "WorkloadDeleted", "Workload is deleted", case.around.now_s)
    acts = writing.let_go(case.unit.members)
    if acts:
        return acts
    return (of_jobs.release_finalizer(workload),) if is_kept(workload) else ENOUGH


def held(case: Case) -> Next:
    """No Workload while one of them is held back: by the annotation ``scheduling-gated-by``, or by a scheduling gate of
    another controller, with which it could not use its quota. Pods that hold quota keep it."""
    filling = case.unit.filling
    holders = {case.around.held_by(each.pod): None for each in filling}
    gates = [each for each in holders if isinstance(each, str)]
    gates += {gate: None for each in filling if each.waits for gate in gates_of_others(each.pod)}
    unsure = next((each for each in holders if isinstance(each, Unsure)), None)
    if (unsure is None and not gates) or case.has(names.QUOTA_RESERVED):
        return None
    if unsure is not None and not gates:  # an owner that is not known yet comes, and wakes its pods
        return ENOUGH if unsure.reason == NOT_FOUND else Wait(unsure.reason, unsure.message)
    if case.workload is not None:
        return (writing.drop(case.workload),)
    by = ", ".join(sorted(set(gates)))
    running = [each for each in case.unit.members if each.runs]
    if running:
        return Unseen(writing.stop(running, "NotAdmitted", f"Gated by {by}", case.around.now_s))
    gone = writing.let_go([each for each in case.unit.members if each.is_history or case.unit.is_leaving])
    return gone or Wait(GATED, f"No Workload is created while pods are gated by: {by}", is_warning=False, gate=by)


def missing(case: Case) -> Next:
    """There is no Workload: pods that run without one are stopped, and one is made of those that wait."""
    if case.workload is not None:
        return None
    unit, around = case.unit, case.around
    running = [each for each in unit.members if each.runs]
    if running:
        return Unseen(writing.stop(running, "NoMatchingWorkload", "No matching Workload", around.now_s))
    gone = writing.let_go([each for each in unit.members if unit.is_leaving or not each.fills_a_place])
    if gone:
        return gone
    if unit.is_leaving:
        return ENOUGH
    active, until_s = is_active((each.pod for each in unit.members), around.release, around.now_s)
    if active:
        return ENOUGH if until_s is None else Sleep(until_s)
    problem = composing.problem_of(unit)
    if problem:
        return Wait("ErrWorkloadCompose", problem)
    if unit.is_group and isinstance(unit.first.total, int):
        many = too_many(unit.filling, unit.first.total)
        if many:
            return writing.remove(many)
    gates = composing.gates_of_members(unit.filling) if around.holding else ""
    made = composing.new_workload(unit, around.classes, gates)
    if isinstance(made, str):
        return Wait("ErrWorkloadCompose", made)
    told = writing.tell(unit.first, "CreatedWorkload", f"Created Workload: {unit.key[1]}/{made['metadata']['name']}")
    return (Act(Create(WORKLOADS, unit.key[1], made), (told,)),)


def owned(case: Case) -> Next:
    """Who fills a place owns the Workload, too: it must not go with those that were there before."""
    if case.workload is None or not case.unit.is_group:
        return None
    owners = {each.get("uid") for each in case.workload["metadata"].get("ownerReferences") or ()}
    new = [each for each in case.unit.filling if each.uid not in owners]
    return (writing.own(case.workload, new),) if new else None


def evicted(case: Case) -> Next:
    workload, eviction, around = case.workload, case.eviction, case.around
    if workload is None or eviction is None:
        return None
    running = [each for each in case.unit.members if each.runs]
    if running:
        reason, message = f"WorkloadEvictedDueTo{eviction.get('reason', '')}", str(eviction.get("message") or "")
        return writing.stop(running, reason, message, around.now_s)
    return _released(case, workload, eviction)


def abandoned(case: Case) -> Next:
    """Its user deletes all of it: what it holds is free as if it had been evicted."""
    workload, unit = case.workload, case.unit
    if workload is None or not unit.is_leaving:
        return None
    step = _released(case, workload, None)
    if step is not None or unit.is_group:
        return step
    orphaned = next_for_orphan(workload, case.around.now_s)
    return None if orphaned is None else (orphaned,)


def _released(case: Case, workload: Object, eviction: Object | None) -> Next:
    if not case.has(names.QUOTA_RESERVED):
        return None
    pods = (each.pod for each in case.unit.members)
    active, until_s = is_active(pods, case.around.release, case.around.now_s)
    if active:
        return None if until_s is None else Sleep(until_s)
    missing = case.unit.is_group and absent(case.unit, counts_of(workload)) > 0
    # A pod alone that was ended does not come back; one that still waits behind its gate was not ended.
    comes_back = case.unit.is_group or any(each.is_gated and not each.is_leaving for each in case.unit.members)
    return (writing.release(workload, eviction, missing, comes_back, case.around.now_s),)
