"""Capacity of terminating pods in random clusters: no capacity is nominated twice, and no pod is forgotten.

Pods request only CPU, so a sum shows what fits, and they preempt no pod.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters import a_node, a_pod
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.effects import SetStatus
from unit.scheduling.terminating_world import QUOTA, TerminatingWorld

Told = dict[str, tuple[str, str]]
LATEST_S = 90.0

cpus = st.integers(1, 3)
clusters = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.tuples(cpus, st.sampled_from([None, 30.0, LATEST_S])), max_size=3)),
    min_size=1,
    max_size=4,
)
arrivals = st.lists(st.tuples(cpus, st.integers(0, 2), st.booleans()), min_size=1, max_size=6)
equals = arrivals.map(lambda listed: [(cpu, 0, has_quota) for cpu, _, has_quota in listed])


class Cluster:
    """The state that the test knows: nodes with their CPUs, pods that stay, terminating pods, and waiting pods."""

    def __init__(self, nodes: list[tuple[int, list[tuple[int, float | None]]]]) -> None:
        self.world = TerminatingWorld()
        self.cpus: dict[str, int] = {}
        self.stays: dict[str, int] = defaultdict(int)
        self.leaves: dict[str, list[str]] = defaultdict(list)
        self.asks: dict[str, tuple[int, int, bool]] = {}
        self.pods: dict[str, Any] = {}
        self.told: Told = {}
        for number, (size, residents) in enumerate(nodes):
            name = f"n{number}"
            self.cpus[name] = size
            self.world.scheduler.node_applied(a_node(name, cpu=str(size)), self.world.now_s)
            free = size
            for place, (cpu, in_s) in enumerate(residents):
                if cpu > free:
                    continue
                free -= cpu
                if in_s is None:
                    self.stays[name] += cpu
                    self.world.show_bound(a_pod(f"{name}-{place}", {"cpu": str(cpu)}), name)
                else:
                    self.leaves[name].append(f"{name}-{place}")
                    self.world.add_terminating_pod(f"{name}-{place}", name, in_s, cpu=str(cpu))

    def come(self, wanted: list[tuple[int, int, bool]]) -> None:
        for number, (cpu, priority, has_quota) in enumerate(wanted):
            name = f"p{number}"
            self.asks[name] = cpu, priority, has_quota
            labels = (QUOTA,) if has_quota else ()
            self.pods[name] = self.world.create_pod(name, str(cpu), labels, priority=priority, preemptionPolicy="Never")
            self.step()

    def step(self, after_s: float = 0.0) -> None:
        """Until nothing more is said: the watch shows what was."""
        self.world.step(after_s)
        while self._take():
            self.world.step()

    def _take(self) -> bool:
        for name, node in self.world.binds.items():
            self.stays[node] += self.asks.pop(name)[0]
            self.told.pop(name, None)
        said = [each for each in self.world.effects if isinstance(each, SetStatus) and each.pod.name in self.asks]
        for each in said:
            name = each.pod.name
            reason, node = self.told.get(name, ("", ""))
            node = node if each.nominated_node is None else each.nominated_node
            reason = reason if each.condition is None else each.condition["reason"]
            self.told[name] = reason, node
            condition = {"type": "PodScheduled", "status": "False", "reason": reason}
            status = {"conditions": [dict(each.condition or condition)], "nominatedNodeName": node}
            self.pods[name] = {**self.pods[name], "status": status}
            self.world.show(self.pods[name])
        return bool(said)

    def promised(self, node: str, least: int, but: str = "") -> int:
        """The CPUs on the node that are reserved for nominated pods of at least this priority."""
        return sum(
            self.asks[name][0]
            for name, (_, there) in self.told.items()
            if there == node and name != but and self.asks[name][1] >= least
        )


@given(clusters, arrivals)
def test_every_nomination_fits_when_terminating_pods_are_gone_and_every_pod_that_would_fit_is_nominated(
    nodes: list[tuple[int, list[tuple[int, float | None]]]], wanted: list[tuple[int, int, bool]]
) -> None:
    cluster = Cluster(nodes)
    cluster.come(wanted)
    for node, size in cluster.cpus.items():
        assert cluster.stays[node] + cluster.promised(node, 0) <= size
    for name, (reason, node) in cluster.told.items():
        cpu, priority, has_quota = cluster.asks[name]
        assert (reason == WAITING_FOR_TERMINATING_PODS) is bool(node)
        assert has_quota or not node, "as on any cluster"
        if has_quota and not node:
            for other, size in cluster.cpus.items():
                taken = cluster.stays[other] + cluster.promised(other, priority, name)
                assert not cluster.leaves[other] or taken + cpu > size, f"{name} could wait for {other}"


@given(clusters, arrivals)
def test_when_terminating_pods_are_overdue_all_waiting_pods_are_unschedulable_without_a_nomination(
    nodes: list[tuple[int, list[tuple[int, float | None]]]], wanted: list[tuple[int, int, bool]]
) -> None:
    cluster = Cluster(nodes)
    cluster.come(wanted)
    cluster.step(LATEST_S + OVERDUE_AFTER_S)
    cluster.step(60.0)
    assert set(cluster.told.values()) <= {("Unschedulable", "")}


@given(clusters, equals)
def test_when_terminating_pods_are_gone_nominated_pods_are_bound(
    nodes: list[tuple[int, list[tuple[int, float | None]]]], wanted: list[tuple[int, int, bool]]
) -> None:
    cluster = Cluster(nodes)
    cluster.come(wanted)
    waiting = {name for name, (_, node) in cluster.told.items() if node}
    for names in cluster.leaves.values():
        for name in names:
            cluster.world.remove(name)
    cluster.step(5.0)
    cluster.step(30.0)
    assert not waiting & set(cluster.asks)
