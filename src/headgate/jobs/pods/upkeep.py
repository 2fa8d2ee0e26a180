"""A Workload and its pods kept in step: who has a place in it, what it asks for, and what it says of its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.jobs import writing as of_jobs
from headgate.jobs.kind import at
from headgate.jobs.matching import keeps_pod_sets
from headgate.jobs.plan import Wait
from headgate.jobs.pods import composing, writing
from headgate.jobs.pods.case import Case, Next, Object
from headgate.jobs.pods.member import SUCCEEDED, Member
from headgate.jobs.pods.unit import Unit, absent, by_role, counts_of, disagreement, excess, replaced
from headgate.jobs.workload import gates_of, has_priority
from headgate.kube import conditions
from headgate.quota import names


def crowded(case: Case) -> Next:
    """Those without a place go, and those whose place somebody else has are let go."""
    if case.workload is None:
        return None
    unit, places = case.unit, counts_of(case.workload)
    if unit.is_group:
        many = excess(unit, places)
        if many:
            return writing.remove(many)
    return writing.let_go(_over(unit, places)) or None


def _over(unit: Unit, places: Mapping[str, int]) -> Sequence[Member]:
    """Of whom nothing more is to be seen."""
    if unit.is_leaving and (not unit.is_group or all(each.is_history for each in unit.members)):
        return unit.members
    gone = {each.uid: each for each in replaced(unit, places)}
    if not unit.is_unretriable or unit.is_leaving:  # a group that ends with its failures keeps them until it does
        gone |= {each.uid: each for each in unit.members if each.is_history and not each.fills_a_place}
    return list(gone.values())


def changed(case: Case) -> Next:
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


def replacing(case: Case) -> Next:
    if case.workload is None or not case.unit.is_group:
        return None
    missing = absent(case.unit, counts_of(case.workload)) > 0
    act = writing.wait_for_pods(case.workload, case.eviction, missing, case.around.now_s)
    return None if act is None else (act,)


def reclaimed(case: Case) -> Next:
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


def ready(case: Case) -> Next:
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
