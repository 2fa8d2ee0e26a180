"""Watches every pod of a server from the start and checks every revision against the guarantees of a scheduler.

A bound pod keeps its node, and no node ever has more pods than fit. The scheduler may be killed, disconnected or given
wrong answers meanwhile. The checker is that of ``headgate audit``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from harness.pod_watch import PodWatch
from harness.server import Server
from headgate.audit.node_judge import NodeJudge
from headgate.audit.pod_facts import read_pod

Object = dict[str, Any]
_MANY = 1_000_000


class SchedulerAudit(PodWatch):
    """``room``: the CPU of each node in whole CPUs, as the pods request it."""

    def __init__(self, server: Server, capacity: Mapping[str, int]) -> None:
        super().__init__(server)
        self._judge = NodeJudge()
        for name, cpu in capacity.items():
            amounts = {"cpu": str(cpu), "pods": str(_MANY)}
            self._judge.take_node({"metadata": {"name": name}, "status": {"allocatable": amounts}}, False)
        self.node_of = self._judge.node_of
        """By uid, of all pods that ever got a node."""

    @property
    def bound(self) -> int:
        return len(self.node_of)

    def judge(self, kind: str, pod: Object) -> None:
        found = len(self._judge.findings)
        self._judge.take_pod(read_pod(pod), pod, kind == "DELETED", time.time(), int(self._revision), True)
        self.problems += [each.line for each in self._judge.findings[found:]]


def cpu_of(pod: Object) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
