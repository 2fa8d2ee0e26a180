"""DefaultPreemption: a pod that fits nowhere makes pods of lower priority go, if that makes room for it.

Only nodes that were rejected for reasons that room would cure are looked at, in the order of their names (where
kube-scheduler begins is left to chance), until enough of them could be made free. What is lost on each is found in
``default_preemption_victims.py``, which is best in ``default_preemption_choice.py``. The pod is then promised that node
and held back until its victims have been told to go; telling them is the engine's and the shell's business.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from headgate.kube.conditions import PREEMPTION_BY_SCHEDULER
from headgate.scheduling import fit_error
from headgate.scheduling.budgets import Budgets
from headgate.scheduling.configuration.values import DefaultPreemptionArgs
from headgate.scheduling.contract import Ground, Nominated, NoWay, Rejection, Unplaced
from headgate.scheduling.events import ASSIGNED_POD, DELETE, on
from headgate.scheduling.plugins.default_preemption_choice import choose
from headgate.scheduling.plugins.default_preemption_memory import Memories
from headgate.scheduling.plugins.default_preemption_victims import Victims
from headgate.scheduling.pod import Pod
from headgate.scheduling.podlike import PodLike
from headgate.scheduling.preemptions import Preemptions

NAME: Final = "DefaultPreemption"
WAITING: Final = "waiting for the preemption for this pod to be finished"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_HELD: Final = Rejection(NAME, WAITING, on(ASSIGNED_POD, DELETE))


class DefaultPreemption:
    name: Final = NAME

    def __init__(self, args: DefaultPreemptionArgs, budgets: Budgets, preemptions: Preemptions) -> None:
        self._args = args
        self._preemptions = preemptions
        self._memories = Memories(budgets)

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return _HELD if pod.uid in self._preemptions else None

    def post_filter(self, pod: Pod, unplaced: Unplaced, ground: Ground, /) -> Nominated | NoWay | str:
        if why_not := _find_obstacle(pod, unplaced, ground):
            return f"preemption: {why_not}"
        key, looks_around = ground.question(pod)
        memory = self._memories.of((key, pod.priority))
        if known := memory.recall(unplaced, ground):
            return known
        enough = self._enough(len(unplaced.resolvable))
        harmless: dict[str, Victims] = {}
        harmful: dict[str, Victims] = {}
        broken: list[str] = []
        counts: Counter[str] = Counter({NOT_HELPFUL: ground.matrix.count - len(unplaced.resolvable)})
        for name in unplaced.resolvable:
            row = ground.matrix.row_of(name)
            found = () if row is None else memory.look(pod, row, ground, is_local=not looks_around)
            if not isinstance(found, Victims):
                counts.update(found)
                continue
            if not found.pods:
                broken.append(f'expected at least one victim pod on node "{name}"')
                continue
            group = harmful if found.violations else harmless
            if len(group) < enough:
                group[name] = found
            if harmless and len(harmless) + len(harmful) >= enough:
                break
        candidates = harmless | harmful
        if not candidates and broken:
            return f"preemption: {broken[0]}" if len(broken) == 1 else f"preemption: [{', '.join(broken)}]"
        if not candidates:
            answer = NoWay(f"preemption: {fit_error.fit_error(ground.matrix.count, (+counts,))}")
            memory.keep(unplaced, ground, answer)
            return answer
        chosen = choose(candidates)
        return Nominated(chosen, candidates[chosen].pods)

    def _enough(self, nodes: int) -> int:
        """How many nodes that could be made free are worth comparing."""
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)


def _find_obstacle(pod: Pod, unplaced: Unplaced, ground: Ground) -> str:
    """Why the pod may not preempt, or not now; empty if it may."""
    if pod.preemption_policy == "Never":
        return NEVER
    promised = ground.promised_node(pod)
    row = ground.matrix.row_of(promised) if promised and promised in unplaced.resolvable else None
    if row is not None and any(_is_leaving(each, pod) for each in ground.matrix.pods_on(row).values()):
        return TERMINATING
    return ""


def _is_leaving(victim: Pod, pod: Pod) -> bool:
    return victim.priority < pod.priority and victim.deleting and victim.disruption == PREEMPTION_BY_SCHEDULER
