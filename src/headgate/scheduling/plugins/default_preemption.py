"""DefaultPreemption: a pod that fits nowhere makes pods of lower priority go, if that makes room for it.

Pods that go by queues have rules of their own for who may have to go (``scheduling/victim_rules.py``).

Only nodes that were rejected for reasons that room would cure are looked at, in the order of their names (where
kube-scheduler begins is left to chance), until enough of them could be made free. What is lost on each is found in
``default_preemption_victims.py``, which is best in ``default_preemption_choice.py``. The pod is then promised that node
and held back until its victims have been told to go; telling them is the engine's and the shell's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from headgate.kube.conditions import PREEMPTION_BY_SCHEDULER
from headgate.scheduling import fit_error
from headgate.scheduling.budgets import Budgets
from headgate.scheduling.configuration.values import DefaultPreemptionArgs
from headgate.scheduling.contract import Ground, Nominated, NoWay, Rejection, Unplaced
from headgate.scheduling.events import ASSIGNED_POD, DELETE, on
from headgate.scheduling.plugins.default_preemption_choice import choose
from headgate.scheduling.plugins.default_preemption_memory import Memories
from headgate.scheduling.plugins.default_preemption_victims import Hopeless, Victims
from headgate.scheduling.pod import Pod
from headgate.scheduling.podlike import PodLike
from headgate.scheduling.preemptions import Preemptions
from headgate.scheduling.victim_rules import BY_PRIORITY, VictimRule

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
        budgets: Budgets,
        preemptions: Preemptions,
        rules: Mapping[str, VictimRule] | None = None,
    ) -> None:
        """``rules``: who may have to go, by scheduler name; by priority where none is given."""
        self._args = args
        self._preemptions = preemptions
        self._memories = Memories(budgets)
        self._rules = {} if rules is None else rules

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return _HELD if pod.uid in self._preemptions else None

    def post_filter(self, pod: Pod, unplaced: Unplaced, ground: Ground, /) -> Nominated | NoWay | str:
        if why_not := self._find_obstacle(pod, unplaced, ground):
            return f"preemption: {why_not}"
        key, looks_around = ground.question(pod)
        rule = self._rules.get(pod.scheduler_name, BY_PRIORITY)
        memory = self._memories.of((key, pod.priority, rule.kind(pod)))
        if known := memory.recall(unplaced, ground):
            return known
        found = _Findings(self._enough(len(unplaced.resolvable)))
        matrix, promised = ground.matrix, ground.promised(pod)
        for name in unplaced.resolvable:
            row = matrix.row_of(name)
            if row is None:
                continue
            changes = matrix.log.position if looks_around else matrix.moves[row]
            found.add(name, memory.look(pod, row, ground, (changes, promised.get(row)), rule))
            if found.suffice:
                break
        if candidates := found.harmless | found.harmful:
            chosen = choose(candidates)
            return Nominated(chosen, candidates[chosen].pods)
        if found.broken:
            return (
                f"preemption: {found.broken[0]}"
                if len(found.broken) == 1
                else f"preemption: [{', '.join(found.broken)}]"
            )
        answer = NoWay(f"preemption: {found.told(matrix.count, len(unplaced.resolvable))}")
        memory.keep(unplaced, ground, answer)
        return answer

    def _find_obstacle(self, pod: Pod, unplaced: Unplaced, ground: Ground) -> str:
        """Why the pod may not preempt, or not now; empty if it may."""
        if pod.preemption_policy == "Never":
            return NEVER
        promised = ground.promised_node(pod)
        row = ground.matrix.row_of(promised) if promised and promised in unplaced.resolvable else None
        if row is None:
            return ""
        there, told = ground.matrix.pods_on(row), self._preemptions.told(pod.uid)
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


def _is_leaving(victim: Pod, pod: Pod) -> bool:
    return victim.priority < pod.priority and victim.deleting and victim.disruption == PREEMPTION_BY_SCHEDULER
