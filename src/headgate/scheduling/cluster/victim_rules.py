"""Which pods are eligible as preemption victims for a pod: by priority alone, or by the rules of its queue.

By priority, as in kube-scheduler, every pod of lower priority is eligible. For pods with queues
``capacity/preemption/victim_rules.py`` decides: by priority inside the queue, and by deserved amounts between queues.
``scheduling/plugins/default_preemption.py`` chooses the victims among the eligible pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import PREEMPTABLE
from headgate.capacity.preemption.victim_rules import VictimCandidate
from headgate.scheduling.cache.pod import PodInfo


class VictimRule(Protocol):
    def cache_key(self, pod: PodInfo, /) -> Hashable:
        """What the rule reads of the preemptor, besides its priority: pods with equal values and equal priority have
        the same eligible victims while the nodes do not change."""

    def eligible(self, pod: PodInfo, pods: Sequence[PodInfo], /) -> Sequence[PodInfo]:
        """Those of the ``pods`` on one node that ``pod`` may preempt."""
        ...


class PriorityVictimRule:
    def cache_key(self, pod: PodInfo, /) -> Hashable:
        return None

    def eligible(self, pod: PodInfo, pods: Sequence[PodInfo], /) -> Sequence[PodInfo]:
        return [each for each in pods if each.priority < pod.priority]


class QueueVictimRule:
    def __init__(self, queues: QueueEngine) -> None:
        self._queues = queues
        # The usage of queues and gangs changes independently of nodes: such results are not cached.
        self._depends_on_queues = queues.victim_rules.depends_on_queues

    def cache_key(self, pod: PodInfo, /) -> Hashable:
        # A new object is equal to no other key, so the result is not reused.
        return object() if self._depends_on_queues else self._queues.queue_of(pod.uid)

    def eligible(self, pod: PodInfo, pods: Sequence[PodInfo], /) -> Sequence[PodInfo]:
        candidates = [
            VictimCandidate(each.uid, each.namespace, each.priority, each.annotations.get(PREEMPTABLE) != "false")
            for each in pods
        ]
        found = frozenset(self._queues.victim_candidates(pod.uid, candidates))
        return [each for each in pods if each.uid in found]


BY_PRIORITY: Final = PriorityVictimRule()
