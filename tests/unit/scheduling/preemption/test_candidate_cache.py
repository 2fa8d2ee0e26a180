"""DefaultPreemption caches results of dry runs, and survives plugins that raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework.interface import READS_PODS, FilterReason, Reads
from unit.scheduling.full_clusters import WEB, a_cluster, add_budget, preempt, run_pod, try_to_place

# -- plugins that break


class Counts:
    """A filter whose state follows the pods, and breaks when one is taken away."""

    name = "Counts"
    reads: Reads = READS_PODS

    def __init__(self) -> None:
        self.pods = 0
        self.breaks = False

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Counts:
        return self

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Counts, /) -> Ints | None:
        return None

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return ()

    def follow(self, change: NodeChange, /) -> tuple[int, ...]:
        if self.breaks and change.sign < 0:
            raise ValueError("lost count")
        self.pods += change.sign
        return ()


def test_a_state_that_raises_in_a_dry_run_leaves_the_nodes_unchanged() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    cycle_plugins, counts = cluster.cycle.plugins, Counts()
    broken = Cluster(
        a_node("a", cpu="1"),
        cycle_plugins=msgspec.structs.replace(
            cycle_plugins, pre_filters=(*cycle_plugins.pre_filters, counts), filters=(*cycle_plugins.filters, counts)
        ),
    )
    run_pod(broken, "v", "a")
    assert preempt(broken) == ("a", ["v"])
    assert counts.pods == 0
    counts.breaks = True
    run_pod(broken, "w", "a", cpu="0")
    found = try_to_place(broken, a_pod("q", {"cpu": "1"}, priority=10))
    assert found.message.endswith('running PostFilter plugin "DefaultPreemption": ValueError: lost count')
    assert [each.name for each in broken.matrix.pods_on(0).values()] == ["w", "v"]
    assert broken.matrix.columns.free[broken.matrix.columns.column("cpu"), 0] == 0


# -- once, not for every pod


class CountedTrials:
    """Counts the dry runs of a cycle."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        original = cluster.cycle.dry_run

        def counted(pod: PodInfo, row: int, /) -> Any:
            self.count += 1
            return original(pod, row)

        monkeypatch.setattr(cluster.cycle, "dry_run", counted)


def test_a_thousand_hopeless_pods_are_one_search_and_one_node_more_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node(f"n{i:02}", cpu="2") for i in range(50)]
    cluster = a_cluster(*nodes)
    for i in range(50):
        run_pod(cluster, f"low{i:02}", f"n{i:02}", cpu="500m")
        run_pod(cluster, f"high{i:02}", f"n{i:02}", cpu="1500m", priority=20)
    dry_runs = CountedTrials(cluster, monkeypatch)
    for i in range(1000):
        assert try_to_place(cluster, a_pod(f"p{i}", {"cpu": "1"}, priority=10)).nominated is None
    assert dry_runs.count == 50
    cluster.matrix.pod_removed("uid-low07")
    assert try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10)).nominated is None
    assert dry_runs.count == 51
    cluster.matrix.pod_removed("uid-high07")
    run_pod(cluster, "new07", "n07", cpu="1500m")
    assert preempt(cluster) == ("n07", ["new07"])
    assert dry_runs.count == 52
    assert preempt(cluster, priority=11) == ("n07", ["new07"])
    assert dry_runs.count == 102


def test_what_is_known_of_a_node_follows_starts_and_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", started=1, labels={"app": "web"})
    run_pod(cluster, "w", "a", started=2)
    run_pod(cluster, "x", "b", priority=5)
    dry_runs = CountedTrials(cluster, monkeypatch)
    assert preempt(cluster) == ("a", ["w"])
    assert preempt(cluster) == ("a", ["w"])
    assert dry_runs.count == 2
    run_pod(cluster, "v", "a", started=3, labels={"app": "web"})
    assert preempt(cluster) == ("a", ["v"])
    assert dry_runs.count == 3
    add_budget(cluster, 0, WEB)
    assert preempt(cluster) == ("a", ["w"])
    assert dry_runs.count == 4
    add_budget(cluster, 0, {"matchLabels": {"app": "elsewhere"}})
    assert preempt(cluster) == ("a", ["w"])
    assert dry_runs.count == 4
