"""Who may have to go for a pod that fits nowhere: by priority alone, or as its queue says.

Kubernetes lets every pod of lower priority go. Where pods go by queues, ``capacity/victims.py`` decides: inside the
queue by priority, and between queues by what they deserve. Who of them really has to go is the plugin's business
(``plugins/default_preemption.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from headgate.capacity.names import PREEMPTABLE
from headgate.capacity.queues import Queues
from headgate.capacity.victims import Resident
from headgate.scheduling.pod import Pod


class VictimRule(Protocol):
    def kind(self, pod: Pod, /) -> Hashable:
        """What stands for the answers: pods of one kind and priority have the same ones, as long as nodes do not
        change."""

    def eligible(self, pod: Pod, there: Sequence[Pod], /) -> Sequence[Pod]: ...


class ByPriority:
    def kind(self, pod: Pod, /) -> Hashable:
        return None

    def eligible(self, pod: Pod, there: Sequence[Pod], /) -> Sequence[Pod]:
        return [each for each in there if each.priority < pod.priority]


class ByQueue:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        # Shares and groups change without their nodes: such answers are not kept.
        self._is_fleeting = queues.victim_rules.looks_beyond_nodes

    def kind(self, pod: Pod, /) -> Hashable:
        return object() if self._is_fleeting else self._queues.queue_of(pod.uid)

    def eligible(self, pod: Pod, there: Sequence[Pod], /) -> Sequence[Pod]:
        residents = [
            Resident(each.uid, each.namespace, each.priority, each.annotations.get(PREEMPTABLE) != "false")
            for each in there
        ]
        found = frozenset(self._queues.victims(pod.uid, residents))
        return [each for each in there if each.uid in found]


BY_PRIORITY: Final = ByPriority()
