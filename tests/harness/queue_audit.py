"""Watches every pod of a server with queues from the start and checks every revision against the guarantees of queues.

The checker is that of ``headgate audit`` (``headgate.audit.queue_judge``). This module adds what only a test knows:
which pods are created with the gate, and which foreign gates their owner removes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.scheduler_audit import SchedulerAudit, cpu_of
from harness.server import Server
from headgate.audit.pod_facts import PodFacts, read_pod
from headgate.audit.queue_judge import QueueJudge
from headgate.capacity.names import GATE, QUEUE_NAME, STAMP

Object = dict[str, Any]


class Limit(NamedTuple):
    parent: str
    cpu: int


class QueueAudit(SchedulerAudit):
    """``tree``: the queues by name, with what they may use, in whole cpus. The pods are created with our gate."""

    def __init__(self, server: Server, capacity: Mapping[str, int], tree: Mapping[str, Limit]) -> None:
        super().__init__(server, capacity)
        self._tree = tree
        self._queues = QueueJudge()
        self._queues.has_stamps = True
        for name, limit in tree.items():
            spec = {"parent": limit.parent, "capability": {"cpu": str(limit.cpu)}}
            self._queues.take_queue({"metadata": {"name": name}, "spec": spec}, False, 0.0)
        self._last: dict[str, PodFacts] = {}
        self.switched_off = False
        """Whether gates may go without a promise, because the feature was switched off."""
        self.let_go: set[str] = set()
        """Uids of pods whose other gates are lifted by their owner, which records them here first."""

    @property
    def used(self) -> Counter[str]:
        """By queue, what is bound or promised in it and below it, in whole cpus."""
        return Counter({name: self._queues.used.get(name, Counter())["cpu"] // 1000 for name in self._tree})

    @property
    def lifted(self) -> Counter[str]:
        """By uid, how often our gate went."""
        return self._queues.lifted

    def fits(self, pod: Object) -> bool:
        return self._queues.exceeded(queue_of(pod), {"cpu": cpu_of(pod) * 1000}, {}) is None

    def waiting(self) -> list[Object]:
        """Those that were promised nothing yet, and have no gate but ours."""
        return [pod for pod in self._without_node() if not stamp_of(pod) and gates_of(pod) in ((GATE,), ())]

    def promised(self) -> list[Object]:
        """Those that were let in and have no node yet."""
        return [pod for pod in self._without_node() if stamp_of(pod)]

    def stamp(self, uid: str) -> str:
        """What was promised to the pod, be it gone by now."""
        return self._last[uid].stamp_text

    def _without_node(self) -> list[Object]:
        return [pod for pod in list(self.pods.values()) if not pod["spec"].get("nodeName")]

    def running(self) -> list[Object]:
        return [pod for pod in list(self.pods.values()) if pod["spec"].get("nodeName")]

    def judge(self, kind: str, pod: Object) -> None:
        super().judge(kind, pod)
        facts = read_pod(pod)
        found = len(self._queues.findings)
        self._queues.take_pod(facts, kind == "DELETED", time.time(), int(self._revision), True)
        allowed = {"gate-lifted-without-promise"} if self.switched_off else set()
        self.problems += [each.line for each in self._queues.findings[found:] if each.rule not in allowed]
        problems = self._judge_gates(facts, self._last.get(facts.uid))
        self.problems += [f"{facts.name} ({facts.uid}) at {self._revision}: {each}" for each in problems]
        self._last[facts.uid] = facts

    def _judge_gates(self, pod: PodFacts, last: PodFacts | None) -> Iterator[str]:
        if last is None:
            if GATE not in pod.gates:
                yield "it has no gate from the beginning"
        elif last.foreign_gates != pod.foreign_gates and pod.uid not in self.let_go:
            yield f"a gate of somebody else was touched: {last.gates}, {pod.gates}"


def gates_of(pod: Object) -> tuple[str, ...]:
    return tuple(each["name"] for each in pod["spec"].get("schedulingGates") or ())


def queue_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][QUEUE_NAME])


def stamp_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"].get(STAMP, ""))
