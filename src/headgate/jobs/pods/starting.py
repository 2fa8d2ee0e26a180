"""Who of the pods that wait may go, when their Workload is admitted; and that nobody goes on without that.

To start a pod is to lift its gate, which happens once in its life.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs import writing as of_jobs
from headgate.jobs.placing import Unfit, telling
from headgate.jobs.plan import Wait, may_start, wait_for_terminating_pods
from headgate.jobs.pods import writing
from headgate.jobs.pods.case import Around, Case, Next, Object, Sleep
from headgate.jobs.pods.member import Member
from headgate.jobs.pods.unit import by_role, counts_of, strangers
from headgate.jobs.release import active_until_s
from headgate.jobs.writing import Act
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.reservation import is_of_reservation, read_occupant


def started(case: Case) -> Next:
    workload, unit, around = case.workload, case.unit, case.around
    if workload is None or not case.has(names.ADMITTED):
        running = [each for each in unit.members if each.runs]
        text = "Not admitted by cluster queue"
        return writing.stop(running, "NotAdmitted", text, around.now_s) if running else None
    if case.has(names.EVICTED):
        return None
    if not may_start(workload):
        return wait_for_terminating_pods(workload) if any(each.waits for each in unit.members) else None
    acts: list[Act] = []
    places = counts_of(workload)
    for role, members in by_role(unit.members).items():
        what = telling(workload, role, around.flavors)
        for each in _next_in(members, places.get(role, 0), workload, around):
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
    ends = [(end_s, each.name) for each in unit.members if (end_s := _ends_s(each, workload, around)) > around.now_s]
    if not ends:
        return None
    until_s, name = min(ends)
    said = f"Terminating pod {unit.key[1]}/{name} uses the place until it has left, or until {format_time(until_s)}"
    return Sleep(until_s, Wait(names.WAITING_FOR_TERMINATING_PODS, said, is_warning=False))


def _next_in(members: Sequence[Member], places: int, workload: Object, around: Around) -> list[Member]:
    """Who waits, as far as there are places that nobody else uses: a terminating pod uses its place until it has left
    or is overdue."""
    waiting = [each for each in members if each.waits]
    taken = sum(each.fills_a_place and not each.is_gated for each in members)
    taken += sum(_ends_s(each, workload, around) > around.now_s for each in members)
    return sorted(waiting, key=lambda each: (each.created, each.name))[: max(places - taken, 0)]


def _ends_s(member: Member, workload: Object, around: Around) -> float:
    """Until when a terminating pod uses a place: with early release, one of this reservation of quota. Those of an
    earlier one are counted by ``quota/occupancy.py``."""
    if not member.is_leaving:
        return 0.0
    if around.release == "OnTerminal":
        return active_until_s(member.pod, around.release) or 0.0
    occupant = read_occupant(member.pod, around.max_wait_s) if around.starts_late else None
    if occupant is None or isinstance(occupant, str) or occupant.until_s is None:
        return 0.0
    return occupant.until_s if is_of_reservation(occupant, workload) else 0.0
