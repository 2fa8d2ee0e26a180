"""What is to be done next for a pod or a group and its Workload: writes that go out together, or why there are none.

After each batch the plan is made anew from what the server said, so a process that dies anywhere goes on where it was.
The rules are asked in this order; the first one that has something to say is heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.jobs.plan import is_kept, is_leaving
from headgate.jobs.pods import composing, life, starting, upkeep, writing
from headgate.jobs.pods.case import Around, Case, Next, Object, Rule, Sleep
from headgate.jobs.pods.unit import Unit

_RULES: Final[tuple[Rule, ...]] = (
    life.outlived,
    life.finished,
    life.deleted,
    life.held,
    life.missing,
    life.owned,
    life.evicted,
    life.abandoned,
    upkeep.crowded,
    upkeep.changed,
    upkeep.replacing,
    upkeep.reclaimed,
    starting.started,
    upkeep.ready,
)


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
