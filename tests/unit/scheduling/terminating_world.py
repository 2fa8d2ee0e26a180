"""A scheduler that waits for terminating pods, with the steps of such tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters import a_node, a_pod
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import SetStatus
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.scheduler import Scheduler
from unit.scheduling.world import World, configured

Object = dict[str, Any]

QUOTA = "kueue.x-k8s.io/managed"
EPOCH_S = 1_700_000_000.0


class TerminatingWorld(World):
    """The wall clock advances with the clock of the test."""

    def __init__(self, *nodes: str, **document: Any) -> None:
        super().__init__()
        self.nodes = nodes
        self.start_scheduler(**document)

    def start_scheduler(self, **document: Any) -> None:
        """A scheduler that knows the nodes and nothing else."""
        configuration, factories = configured((), **document)
        queueing = QueueAdmissionSettings(time_of_day=lambda: EPOCH_S + self.now_s)
        self.scheduler = Scheduler(
            configuration, factories, self.problems.append, queueing=queueing, waiting_labels=(QUOTA,)
        )
        for node in self.nodes:
            self.scheduler.node_applied(a_node(node, cpu="1"), self.now_s)

    @property
    def nominations(self) -> dict[str, str]:
        found = (each for each in self.effects if isinstance(each, SetStatus))
        return {each.pod.name: each.nominated_node for each in found if each.nominated_node is not None}

    @property
    def reasons(self) -> dict[str, str]:
        return {name: text.partition(":")[0] for name, text in self.statuses.items()}

    def add_terminating_pod(self, name: str, node: str, in_s: float, cpu: str = "1", **spec: Any) -> None:
        pod = a_pod(name, {"cpu": cpu}, **spec)
        pod["metadata"]["deletionTimestamp"] = format_time(EPOCH_S + self.now_s + in_s)
        self.show_bound(pod, node)

    def create_pod(self, name: str, cpu: str = "1", labels: Sequence[str] = (QUOTA,), **spec: Any) -> Object:
        pod = a_pod(name, {"cpu": cpu}, labels=dict.fromkeys(labels, "true"), **spec)
        self.show(pod)
        return pod
