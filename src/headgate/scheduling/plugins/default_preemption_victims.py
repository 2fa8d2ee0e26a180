"""Victims on one node: as few and as unimportant as will do, by kube-scheduler's rules.

All that may have to go (``scheduling/victim_rules.py``) go in thought. If the pod fits then, they are taken back one by
one as long as it still does: first those whose going would overdraw a disruption budget, then the others, the more
important before the less. Which node is best to make room on is ``default_preemption_choice.py``'s business.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from headgate.scheduling.budgets import Budgets
from headgate.scheduling.contract import Trial
from headgate.scheduling.pod import Pod

NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class Victims(msgspec.Struct, frozen=True):
    """``pods``: the most important first. ``violations``: how many of them overdraw a budget.

    ``lower`` are all that might have been victims, in order, and ``overdrawn`` what the budgets said to each.
    """

    pods: tuple[Pod, ...]
    violations: int
    lower: tuple[Pod, ...]
    overdrawn: tuple[bool, ...]


Hopeless = tuple[str, ...]
"""Why room cannot be made on the node."""


def importance(pod: Pod) -> tuple[int, float, str]:
    """The least key is the most important pod. One that has not started counts as if it did just now."""
    return -pod.priority, inf if pod.started_s is None else pod.started_s, pod.key


def select_victims(eligible: Iterable[Pod], trial: Trial, budgets: Budgets) -> Victims | Hopeless:
    lower = tuple(sorted(eligible, key=importance))
    if not lower:
        return (NO_VICTIMS,)
    for each in lower:
        trial.take(each)
    if reasons := trial.reasons():
        return tuple(each.text for each in reasons)
    overdrawn = budgets.overdrawn(lower)
    victims: list[Pod] = []
    violations = 0
    for hurts in (True, False):
        for each, is_overdrawn in zip(lower, overdrawn, strict=True):
            if is_overdrawn is hurts and not _is_spared(each, trial):
                victims.append(each)
                violations += hurts
    return Victims(tuple(sorted(victims, key=importance)), violations, lower, overdrawn)


def _is_spared(pod: Pod, trial: Trial) -> bool:
    trial.put(pod)
    if not trial.reasons():
        return True
    trial.take(pod)
    return False
