"""What is to be done next for a pod or a group and its Workload: writes that go out together, or why there are none.

After each batch the plan is made anew from what the server said, so a process that dies anywhere goes on where it was.
A pod cannot be suspended: to start it is to lift its gate, once, and to stop it is to delete it. Its user replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.jobs import writing as of_jobs
from headgate.jobs.kind import at
from headgate.jobs.matching import keeps_pod_sets
from headgate.jobs.placing import Unfit, telling
from headgate.jobs.plan import GATED, Wait, has_condition, is_kept, is_leaving, next_for_orphan
from headgate.jobs.pods import composing, writing
from headgate.jobs.pods.member import SUCCEEDED, Member
from headgate.jobs.pods.unit import (
    Unit,
    absent,
    by_role,
    counts_of,
    disagreement,
    excess,
    outcome_of,
    replaced,
    strangers,
    too_many,
)
from headgate.jobs.release import active_until_s, is_active
from headgate.jobs.settings import Release
from headgate.jobs.workload import Classes, gates_of, has_priority
from headgate.jobs.writing import Act
from headgate.kube import conditions
from headgate.owners.effects import Create
from headgate.quota import names
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.kinds.names import WORKLOADS

Object = dict[str, Any]


class Around(msgspec.Struct, frozen=True):
    """``held_by``: who holds a pod back, by the pod itself or by whose it is (KEP-6915). ``holding``: the feature gate
    AdmissionGatedBy."""

    flavors: Mapping[str, ResourceFlavor]
    classes: Classes
    release: Release
    held_by: Callable[[Object], str | None]
    holding: bool
    now_s: float


class Case(msgspec.Struct, frozen=True):
    unit: Unit
    workload: Object | None
    around: Around

    def has(self, condition: str) -> bool:
        return self.workload is not None and has_condition(self.workload, condition)

    @property
    def eviction(self) -> Object | None:
        if self.workload is None or not self.has(names.EVICTED):
            return None
        return conditions.find(at(self.workload, ("status", "conditions")), names.EVICTED)


class Sleep(msgspec.Struct, frozen=True):
    """Nothing is to be done before then, unless something changes."""

    until_s: float


class Unseen(msgspec.Struct, frozen=True):
    """These run without a Workload, as far as is known. Whether there really is none is to be asked first."""

    acts: tuple[Act, ...]


Acts = tuple[Act, ...]
Next = Acts | Wait | Sleep | Unseen | None
Rule = Callable[[Case], Next]
_ENOUGH: Final[Acts] = ()
"""Nothing that comes later is asked."""


def next_for_unit(unit: Unit, workloads: Sequence[Object], around: Around) -> Next:
    name = composing.workload_name(unit)
    workload = next((each for each in workloads if each["metadata"]["name"] == name), None)
    for each in workloads:
        if each is not workload:
            return (writing.drop(each),) if is_kept(each) or not is_leaving(each) else None
    case = Case(unit, workload, around)
    sleep: Sleep | None = None
    for rule in _RULES:
        step = rule(case)
        if isinstance(step, Sleep):
            sleep = step
        elif step is not None:
            return step or sleep
    return sleep


def _outlived(case: Case) -> Next:
    """A Workload of pods that are all gone: the group that is there now begins anew."""
    workload = case.workload
    if workload is None or not case.unit.is_group or not (is_leaving(workload) or case.has(names.FINISHED)):
        return None
    owners = {each.get("uid") for each in workload["metadata"].get("ownerReferences") or ()}
    if not owners or any(each.uid in owners for each in case.unit.members):
        return None
    return (writing.drop(workload),) if is_kept(workload) or not is_leaving(workload) else _ENOUGH


def _finished(case: Case) -> Next:
    workload, unit = case.workload, case.unit
    if workload is not None and case.has(names.FINISHED):
        if is_leaving(workload) and is_kept(workload):
            return (of_jobs.release_finalizer(workload),)
        return writing.let_go(unit.members) or _ENOUGH
    outcome = outcome_of(unit)
    if outcome is None:
        return None
    if workload is None:
        return writing.let_go(unit.members) or _ENOUGH
    key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    told = writing.tell(unit.first, "FinishedWorkload", f"Workload '{key}' is declared finished")
    reason = "Succeeded" if outcome.succeeded else "Failed"
    return (of_jobs.finish(workload, reason, outcome.message, case.around.now_s, told),)


def _deleted(case: Case) -> Next:
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
    return (of_jobs.release_finalizer(workload),) if is_kept(workload) else _ENOUGH


def _held(case: Case) -> Next:
    """No Workload while somebody holds one of them back. Who was admitted before is not put out."""
    gates = {gate: None for each in case.unit.filling if (gate := case.around.held_by(each.pod)) is not None}
    if not gates or case.has(names.QUOTA_RESERVED):
        return None
    if case.workload is not None:
        return (writing.drop(case.workload),)
    by = ", ".join(sorted(gates))
    running = [each for each in case.unit.members if each.runs]
    if running:
        return Unseen(writing.stop(running, "NotAdmitted", f"Gated by {by}", case.around.now_s))
    gone = writing.let_go([each for each in case.unit.members if each.is_history])
    return gone or Wait(GATED, f"No Workload is created while pods are gated by: {by}", is_warning=False, gate=by)


def _missing(case: Case) -> Next:
    """There is no Workload: pods that run without one are stopped, and one is made of those that wait."""
    if case.workload is not None:
        return None
    unit, around = case.unit, case.around
    running = [each for each in unit.members if each.runs]
    if running:
        return Unseen(writing.stop(running, "NoMatchingWorkload", "No matching Workload", around.now_s))
    gone = writing.let_go([each for each in unit.members if not each.fills_a_place])
    if gone:
        return gone
    if unit.is_leaving:
        return _ENOUGH
    active, until_s = is_active((each.pod for each in unit.members), around.release, around.now_s)
    if active:
        return _ENOUGH if until_s is None else Sleep(until_s)
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


def _owned(case: Case) -> Next:
    """Who fills a place owns the Workload, too: it must not go with those that were there before."""
    if case.workload is None or not case.unit.is_group:
        return None
    owners = {each.get("uid") for each in case.workload["metadata"].get("ownerReferences") or ()}
    new = [each for each in case.unit.filling if each.uid not in owners]
    return (writing.own(case.workload, new),) if new else None


def _evicted(case: Case) -> Next:
    workload, eviction, around = case.workload, case.eviction, case.around
    if workload is None or eviction is None:
        return None
    running = [each for each in case.unit.members if each.runs]
    if running:
        reason, message = f"WorkloadEvictedDueTo{eviction.get('reason', '')}", str(eviction.get("message") or "")
        return writing.stop(running, reason, message, around.now_s)
    return _released(case, workload, eviction)


def _abandoned(case: Case) -> Next:
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
    return (writing.release(workload, eviction, missing, case.unit.is_group, case.around.now_s),)


def _crowded(case: Case) -> Next:
    """Those without a place go, and those whose place somebody else has are let go."""
    if case.workload is None:
        return None
    unit, places = case.unit, counts_of(case.workload)
    if unit.is_group:
        many = excess(unit, places)
        if many:
            return writing.remove(many)
    gone = {each.uid: each for each in replaced(unit, places)}
    if not unit.is_unretriable or unit.is_leaving:  # a group that ends with its failures keeps them until it does
        gone |= {each.uid: each for each in unit.members if each.is_history and not each.fills_a_place}
    return writing.let_go(list(gone.values()) if unit.is_group or not unit.is_leaving else unit.members) or None


def _changed(case: Case) -> Next:
    """The Workload follows its pods while it holds nothing."""
    workload, unit = case.workload, case.unit
    if workload is None or unit.is_leaving or case.has(names.QUOTA_RESERVED):
        return None
    if unit.is_group and disagreement(unit):
        return Wait("ErrWorkloadCompose", disagreement(unit))
    if unit.is_group and not composing.problem_of(unit):
        wanted = {each["name"]: each["count"] for each in composing.pod_sets(unit)}
        if wanted != counts_of(workload):
            return (writing.drop(workload),)
    spec: Object = {}
    if not unit.is_group and unit.members[0].is_gated and not keeps_pod_sets(workload, composing.pod_sets(unit)):
        spec["podSets"] = composing.pod_sets(unit)
    if (at(workload, ("spec", "queueName")) or "") != unit.first.queue:
        spec["queueName"] = unit.first.queue or None
    told = composing.priority_of(unit, case.around.classes)
    if not isinstance(told, str) and not has_priority(workload, told):
        spec.update({"priorityClassRef": None, **told})
    known = {each.strip() for each in gates_of(workload).split(",")} - {""}
    left = {each for each in composing.gates_of_members(unit.filling).split(",") if each in known}
    if not case.around.holding:
        left = known
    if not spec and left == known:
        return None
    return (writing.follow(unit.first, workload, spec, ",".join(sorted(left))),)


def _replacing(case: Case) -> Next:
    if case.workload is None or not case.unit.is_group:
        return None
    missing = absent(case.unit, counts_of(case.workload)) > 0
    act = writing.wait_for_pods(case.workload, case.eviction, missing, case.around.now_s)
    return None if act is None else (act,)


def _reclaimed(case: Case) -> Next:
    """Pods that are done give back their part of the quota before the group ends; what was given back stays so."""
    workload, unit = case.workload, case.unit
    if workload is None or not case.has(names.QUOTA_RESERVED) or not unit.is_group or unit.is_serving:
        return None
    known = {each["name"]: each["count"] for each in at(workload, ("status", "reclaimablePods")) or ()}
    done = by_role(each for each in unit.members if each.phase == SUCCEEDED)
    places = counts_of(workload)
    counts = {role: min(len(done[role]), places[role]) for role in sorted(done) if role in places}
    more = {role: count for role, count in counts.items() if count > known.get(role, 0)}
    return (of_jobs.reclaim(workload, {**known, **more}),) if more else None


def _ready(case: Case) -> Next:
    """Whether all places are filled with pods that are ready, or done, while the Workload is admitted."""
    workload, unit = case.workload, case.unit
    if workload is None or not case.has(names.ADMITTED) or case.has(names.EVICTED):
        return None
    known = conditions.find(at(workload, ("status", "conditions")), names.PODS_READY)
    filling = unit.filling
    total = unit.first.total if unit.is_group else 1
    enough = isinstance(total, int) and len(filling) >= total
    are = enough and all(each.is_ready or each.phase == SUCCEEDED for each in filling)
    if known is not None and are == (known.get("status") == "True"):
        return None
    return (of_jobs.pods_ready(workload, are, known, case.around.now_s),)


def _started(case: Case) -> Next:
    workload, unit, around = case.workload, case.unit, case.around
    if workload is None or not case.has(names.ADMITTED):
        running = [each for each in unit.members if each.runs]
        text = "Not admitted by cluster queue"
        return writing.stop(running, "NotAdmitted", text, around.now_s) if running else None
    if case.has(names.EVICTED):
        return None
    acts: list[Act] = []
    places = counts_of(workload)
    for role, members in by_role(unit.members).items():
        what = telling(workload, role, around.flavors)
        for each in _next_in(members, places.get(role, 0), around):
            act = what if isinstance(what, Unfit) else writing.start(each, workload, what)
            if not isinstance(act, Unfit):
                acts.append(act)
                continue
            if not act.is_final:
                return Wait("FailedToStart", act.message)
            told = writing.tell(each, "FailedToStart", act.message, is_warning=True)
            return (of_jobs.finish(workload, "FailedToStart", act.message, around.now_s, told),)
    unknown = strangers(unit, places) if unit.is_group else []
    if unknown and not acts:
        text = f"pod '{unknown[0].name}' asks for something that Workload '{unit.key[2]}' was not admitted for"
        return Wait("ErrWorkloadCompose", text)
    if acts or not any(each.waits for each in unit.members):
        return tuple(acts) or None
    ends_s = [end_s for each in unit.members if (end_s := _ends_s(each, around)) > around.now_s]
    return Sleep(min(ends_s)) if ends_s else None


def _next_in(members: Sequence[Member], places: int, around: Around) -> list[Member]:
    """Who waits, as far as there are places that nobody else uses: a pod that was told to end uses its place as long
    as its quota is not free."""
    waiting = [each for each in members if each.waits]
    taken = sum(each.fills_a_place and not each.is_gated for each in members)
    taken += sum(_ends_s(each, around) > around.now_s for each in members)
    return sorted(waiting, key=lambda each: (each.created, each.name))[: max(places - taken, 0)]


def _ends_s(member: Member, around: Around) -> float:
    return (active_until_s(member.pod, around.release) or 0.0) if member.is_leaving else 0.0


_RULES: Final[tuple[Rule, ...]] = (
    _outlived,
    _finished,
    _deleted,
    _held,
    _missing,
    _owned,
    _evicted,
    _abandoned,
    _crowded,
    _changed,
    _replacing,
    _reclaimed,
    _started,
    _ready,
)
