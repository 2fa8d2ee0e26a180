"""DefaultPreemption: a pod that fits no node preempts pods of lower priority, if it fits then.

In a profile with queues, the rules of the queues decide which pods are eligible as victims, not the priority alone
(``scheduling/cluster/victim_rules.py``). The plugin evaluates the nodes on which a removal of pods can help
(``Unplaced.resolvable``), in the order of their names (kube-scheduler starts at a random node), until there are enough
candidates. ``scheduling/preemption/victim_selection.py`` selects the victims of each node and picks the node. The pod
is nominated to that node, and PreEnqueue rejects it until the deletion of its victims was requested
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
from headgate.scheduling.preemption.victim_selection import FailureReasons, Victims, pick_one_node

NAME: Final = "DefaultPreemption"
WAITING: Final = "waiting for the preemption for this pod to be finished"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_WAITING_FOR_VICTIMS: Final = Rejection(NAME, WAITING, on(ASSIGNED_POD, DELETE))


class DefaultPreemption:
    name: Final = NAME

    def __init__(
        self,
        args: DefaultPreemptionArgs,
        budgets: DisruptionBudgets,
        preemptions: OngoingPreemptions,
        rules: Mapping[str, VictimRule] | None = None,
    ) -> None:
        """``rules``: the victim rule by scheduler name; the default rule compares priorities."""
        self._args = args
        self._preemptions = preemptions
        self._caches = CandidateCaches(budgets)
        self._rules = {} if rules is None else rules

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return _WAITING_FOR_VICTIMS if pod.uid in self._preemptions else None

    def post_filter(
        self, pod: PodInfo, unplaced: Unplaced, handle: Handle, /
    ) -> PostFilterNomination | PostFilterUnschedulable | str:
        """``unplaced``: the failed scheduling cycle. ``handle.matrix`` is the snapshot of all nodes, one row per node.
        A text as the result says why the plugin did not search for a node, or could not."""
        if ineligibility := self._find_ineligibility(pod, unplaced, handle):
            return f"preemption: {ineligibility}"
        # Pods with equal filter_inputs get equal Filter results on the same node.
        filter_inputs, depends_on_other_nodes = handle.cycle_state_key(pod)
        rule = self._rules.get(pod.scheduler_name, BY_PRIORITY)
        cache = self._caches.for_key((filter_inputs, pod.priority, rule.cache_key(pod)))
        if last_result := cache.last_result(unplaced, handle):
            return last_result
        found = _Candidates(self._max_candidates(len(unplaced.resolvable)))
        matrix, nominated = handle.matrix, handle.nominated_pods(pod)
        for name in unplaced.resolvable:
            row = matrix.row_of(name)
            if row is None:
                continue
            generation = matrix.log.position if depends_on_other_nodes else matrix.generations[row]
            node_version = (generation, nominated.get(row))
            found.add(name, cache.candidate(pod, row, handle, node_version, rule))
            if found.is_enough:
                break
        if candidates := found.without_violations | found.with_violations:
            chosen = pick_one_node(candidates)
            return PostFilterNomination(chosen, candidates[chosen].pods)
        if found.errors:
            return (
                f"preemption: {found.errors[0]}"
                if len(found.errors) == 1
                else f"preemption: [{', '.join(found.errors)}]"
            )
        result = PostFilterUnschedulable(f"preemption: {found.message(matrix.count, len(unplaced.resolvable))}")
        cache.store(unplaced, handle, result)
        return result

    def _find_ineligibility(self, pod: PodInfo, unplaced: Unplaced, handle: Handle) -> str:
        """Why the pod may not preempt, or not now; empty if it may."""
        if pod.preemption_policy == "Never":
            return NEVER
        nominated = handle.nominated_node(pod)
        row = handle.matrix.row_of(nominated) if nominated and nominated in unplaced.resolvable else None
        if row is None:
            return ""
        pods, victims = handle.matrix.pods_on(row), self._preemptions.victims_of(pod.uid)
        if any(uid in pods for uid in victims) or any(_is_terminating_victim(each, pod) for each in pods.values()):
            return TERMINATING
        return ""

    def _max_candidates(self, nodes: int) -> int:
        """The number of candidate nodes to compare."""
        candidates = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(candidates, self._args.min_candidate_nodes_absolute), nodes)


class _Candidates:
    """The results of the dry runs: nodes with their victims, and counted reasons of nodes where preemption fails."""

    def __init__(self, max_candidates: int) -> None:
        self.without_violations: dict[str, Victims] = {}
        self.with_violations: dict[str, Victims] = {}
        """Nodes where a disruption budget would be violated."""
        self.errors: list[str] = []
        self._max_candidates = max_candidates
        self._counts: Counter[str] = Counter()

    @property
    def is_enough(self) -> bool:
        return (
            bool(self.without_violations)
            and len(self.without_violations) + len(self.with_violations) >= self._max_candidates
        )

    def add(self, name: str, found: Victims | FailureReasons) -> None:
        if not isinstance(found, Victims):
            for reason in found:
                self._counts[reason] += 1
        elif not found.pods:
            self.errors.append(f'expected at least one victim pod on node "{name}"')
        else:
            group = self.with_violations if found.violations else self.without_violations
            if len(group) < self._max_candidates:
                group[name] = found

    def message(self, nodes: int, resolvable: int) -> str:
        return fit_error.fit_error(nodes, (self._counts, +Counter({NOT_HELPFUL: nodes - resolvable})))


def _is_terminating_victim(victim: PodInfo, pod: PodInfo) -> bool:
    return victim.priority < pod.priority and victim.deleting and victim.disruption == PREEMPTION_BY_SCHEDULER
