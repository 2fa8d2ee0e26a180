"""Incremental plugin results equal fresh ones, also for plugins that examine pods on other nodes.

The two plugins here are as small as possible and show how the contract is meant: a state that counts pods per row and
per domain, follows every change, and reports which further rows may have changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework.interface import READS_PODS, FilterReason, Reads
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle


class Counts:
    """Pods per zone. The zones of nodes are kept here, because the matrix is ahead of the changes that are followed."""

    def __init__(self, matrix: NodeMatrix) -> None:
        self.matrix = matrix
        self.zone_of: dict[int, int] = {}
        self.on_row: dict[int, int] = {}
        for row in range(matrix.size):
            self._read_node(row)
            self.on_row[row] = len(matrix.pods_on(row))

    def _read_node(self, row: int) -> None:
        self.zone_of.pop(row, None)
        if self.matrix.is_node[row]:
            self.zone_of[row] = int(self.matrix.labels.column("zone").ids[row])

    def in_zone(self, row: int) -> int:
        zone = self.zone_of.get(row)
        return sum(self.on_row.get(each, 0) for each in self._rows(zone))

    def _rows(self, zone: int | None) -> list[int]:
        return [row for row, each in self.zone_of.items() if each == zone]

    def smallest(self) -> int:
        return min(map(self.in_zone, self.zone_of), default=0)

    def follow(self, change: NodeChange, /) -> Iterable[int] | None:
        if change.pod is None:
            self._read_node(change.row)
            return None
        before = self.smallest()
        self.on_row[change.row] = self.on_row.get(change.row, 0) + change.sign
        return None if self.smallest() != before else self._rows(self.zone_of.get(change.row))


class Spread:
    """No zone may have two pods more than the zone with the fewest."""

    name = "Spread"
    reads: Reads = READS_PODS

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Counts:
        return Counts(matrix)

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Counts, /) -> Ints | None:
        looked_at = range(matrix.size) if rows is None else rows.tolist()
        least = state.smallest()
        return np.array([state.in_zone(row) > least + 1 for row in looked_at], np.int64)

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return (FilterReason("too many there"),)


class Crowd:
    """Scores by pods per zone, and by the number of feasible nodes."""

    name = "Crowd"
    reads: Reads = READS_PODS

    class State(Counts):
        feasible = 0

        def see(self, mask: Mask, /) -> bool:
            changed = self.feasible != int(mask.sum())
            self.feasible = int(mask.sum())
            return changed

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> State:
        return Crowd.State(matrix)

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        looked_at = range(matrix.size) if rows is None else rows.tolist()
        return np.array([state.in_zone(row) * state.feasible + row % 3 for row in looked_at], np.int64)

    def scale(self, feasible: Ints, /) -> Hashable:
        return (int(feasible.min()), int(feasible.max())) if len(feasible) else (0, 0)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        least, most = scale
        scores: Ints = 100 * (raw - least) // max(most - least, 1)
        return scores


LINEUP = Cluster().cycle.plugins
LINEUP = msgspec.structs.replace(
    LINEUP,
    pre_filters=(*LINEUP.pre_filters, Spread()),
    filters=(*LINEUP.filters[:-1], Spread(), LINEUP.filters[-1]),
    pre_scores=(*LINEUP.pre_scores, Crowd()),
    scores=((Crowd(), 2), *LINEUP.scores),
)

names = st.sampled_from(["a", "b", "c", "d", "e"])
cpus = st.sampled_from(["0", "500m", "1", "2"])
nodes = st.builds(
    lambda name, zone, cpu, mild: a_node(
        name,
        cpu=cpu,
        labels={"zone": zone} if zone else {},
        taints=[{"key": "k", "effect": "PreferNoSchedule"}] if mild else None,
    ),
    names,
    st.sampled_from(["", "x", "y"]),
    cpus,
    st.booleans(),
)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes),
        st.tuples(st.just("gone"), names),
        st.tuples(st.just("pod"), st.tuples(st.integers(0, 9), names, cpus)),
        st.tuples(st.just("pod gone"), st.integers(0, 9)),
        st.tuples(st.just("place"), st.tuples(st.integers(10, 19), cpus)),
    ),
    max_size=15,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(nodes, min_size=1, max_size=5), happenings)
def test_incremental_results_equal_fresh_ones(first: list[Any], steps: list[tuple[str, Any]]) -> None:
    cluster = Cluster(*first, cycle_plugins=LINEUP)
    for kind, what in steps:
        match kind:
            case "node":
                cluster.apply(what)
            case "gone":
                cluster.matrix.node_removed(what)
            case "pod":
                cluster.bind(a_pod(f"p{what[0]}", {"cpu": what[2]}), what[1])
            case "pod gone":
                cluster.matrix.pod_removed(f"uid-p{what}")
            case "place":
                cluster.cycle.place(cluster.pod(a_pod(f"p{what[0]}", {"cpu": what[1]})))
        for cpu in ("500m", "1"):
            check(cluster, cluster.pod(a_pod("asked", {"cpu": cpu})))


def check(cluster: Cluster, pod: PodInfo) -> None:
    cycle, matrix = cluster.cycle, cluster.matrix
    anew = SchedulingCycle(matrix, LINEUP)
    assert cycle.decide(pod) == anew.decide(pod)
    if matrix.count:
        assert cycle.scores(pod) == anew.scores(pod)
    row = matrix.row_of("a")
    if row is not None:
        there = list(matrix.pods_on(row).values())
        assert cycle.probe(pod, row, removed=there) == anew.probe(pod, row, removed=there)
        assert cycle.scores(pod) == SchedulingCycle(matrix, LINEUP).scores(pod)
