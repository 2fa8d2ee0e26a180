"""DefaultPreemption: a pod that fits no node preempts pods of lower priority, if it fits then.

For pods with queues other pods are eligible as victims (``scheduling/cluster/victim_rules.py``). Only nodes whose
rejection preemption can resolve are evaluated, in the order of their names (kube-scheduler starts at a random node),
until there are enough candidates. ``scheduling/preemption/victim_selection.py`` selects the victims of each node and
picks the node. The pod is nominated to it and held until the deletion of its victims was requested
(``scheduling/preemption/executor.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from headgate.kube.conditions import PREEMPTION_BY_SCHEDULER
from headgate.scheduling.cache.pod import PodInfo, PodLike
from headgate.scheduling.cluster.disruption_budgets import DisruptionBudgets
from headgate.scheduling.cluster.ongoing_preemptions import OngoingPreemptions
from headgate.scheduling.cluster.victim_rules import BY_PRIORITY, VictimRule
from headgate.scheduling.config.types import DefaultPreemptionArgs
from headgate.scheduling.framework import fit_error
from headgate.scheduling.framework.cluster_events import ASSIGNED_POD, DELETE, on
from headgate.scheduling.framework.interface import (
    Handle,
    PostFilterNomination,
    PostFilterUnschedulable,
    Rejection,
    Unplaced,
)
from headgate.scheduling.preemption.candidate_cache import CandidateCaches
from headgate.scheduling.preemption.victim_selection import Hopeless, Victims, pick_one_node

NAME: Final = "DefaultPreemption"
WAITING: Final = "waiting for the preemption for this pod to be finished"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_HELD: Final = Rejection(NAME, WAITING, on(ASSIGNED_POD, DELETE))


class DefaultPreemption:
    name: Final = NAME

    def __init__(
        self,
        args: DefaultPreemptionArgs,
        budgets: DisruptionBudgets,
        preemptions: OngoingPreemptions,
        rules: Mapping[str, VictimRule] | None = None,
    ) -> None:
        """``rules``: who may have to go, by scheduler name; by priority where none is given."""
        self._args = args
        self._preemptions = preemptions
        self._memories = CandidateCaches(budgets)
        self._rules = {} if rules is None else rules

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return _HELD if pod.uid in self._preemptions else None

    def post_filter(
        self, pod: PodInfo, unplaced: Unplaced, ground: Handle, /
    ) -> PostFilterNomination | PostFilterUnschedulable | str:
        if why_not := self._find_obstacle(pod, unplaced, ground):
            return f"preemption: {why_not}"
        key, looks_around = ground.cycle_state_key(pod)
        rule = self._rules.get(pod.scheduler_name, BY_PRIORITY)
        memory = self._memories.of((key, pod.priority, rule.kind(pod)))
        if known := memory.last_result(unplaced, ground):
            return known
        found = _Findings(self._enough(len(unplaced.resolvable)))
        matrix, promised = ground.matrix, ground.nominated_pods(pod)
        for name in unplaced.resolvable:
            row = matrix.row_of(name)
            if row is None:
                continue
            changes = matrix.log.position if looks_around else matrix.moves[row]
            found.add(name, memory.candidate(pod, row, ground, (changes, promised.get(row)), rule))
            if found.suffice:
                break
        if candidates := found.harmless | found.harmful:
            chosen = pick_one_node(candidates)
            return PostFilterNomination(chosen, candidates[chosen].pods)
        if found.broken:
            return (
                f"preemption: {found.broken[0]}"
                if len(found.broken) == 1
                else f"preemption: [{', '.join(found.broken)}]"
            )
        answer = PostFilterUnschedulable(f"preemption: {found.told(matrix.count, len(unplaced.resolvable))}")
        memory.keep(unplaced, ground, answer)
        return answer

    def _find_obstacle(self, pod: PodInfo, unplaced: Unplaced, ground: Handle) -> str:
        """Why the pod may not preempt, or not now; empty if it may."""
        if pod.preemption_policy == "Never":
            return NEVER
        promised = ground.nominated_node(pod)
        row = ground.matrix.row_of(promised) if promised and promised in unplaced.resolvable else None
        if row is None:
            return ""
        there, told = ground.matrix.pods_on(row), self._preemptions.victims_of(pod.uid)
        if any(uid in there for uid in told) or any(_is_leaving(each, pod) for each in there.values()):
            return TERMINATING
        return ""

    def _enough(self, nodes: int) -> int:
        """How many nodes that could be made free are worth comparing."""
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)


class _Findings:
    """What was found on node after node: where room can be made at what cost, and why it cannot elsewhere."""

    def __init__(self, enough: int) -> None:
        self.harmless: dict[str, Victims] = {}
        self.harmful: dict[str, Victims] = {}
        """Where a disruption budget would be overdrawn."""
        self.broken: list[str] = []
        self._enough = enough
        self._counts: Counter[str] = Counter()

    @property
    def suffice(self) -> bool:
        return bool(self.harmless) and len(self.harmless) + len(self.harmful) >= self._enough

    def add(self, name: str, found: Victims | Hopeless) -> None:
        if not isinstance(found, Victims):
            for reason in found:
                self._counts[reason] += 1
        elif not found.pods:
            self.broken.append(f'expected at least one victim pod on node "{name}"')
        else:
            group = self.harmful if found.violations else self.harmless
            if len(group) < self._enough:
                group[name] = found

    def told(self, nodes: int, resolvable: int) -> str:
        return fit_error.fit_error(nodes, (self._counts, +Counter({NOT_HELPFUL: nodes - resolvable})))


def _is_leaving(victim: PodInfo, pod: PodInfo) -> bool:
    return victim.priority < pod.priority and victim.deleting and victim.disruption == PREEMPTION_BY_SCHEDULER
