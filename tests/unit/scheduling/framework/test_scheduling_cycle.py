"""The scheduling cycle: decisions, assumed pods, updates, dry runs and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework.interface import (
    READS_PODS,
    CyclePlugins,
    FilterReason,
    Handle,
    PostFilterNomination,
    PostFilterUnschedulable,
    Reads,
    ScheduleResult,
    Unplaced,
)
from headgate.scheduling.framework.node_sampling import nodes_to_find, sample

Object = dict[str, Any]


def place(cluster: Cluster, pod: Object) -> str:
    found = cluster.cycle.place(cluster.pod(pod))
    return found.node_name if isinstance(found, ScheduleResult) else found.message


def test_equal_nodes_are_filled_in_the_order_of_their_names() -> None:
    cluster = Cluster(a_node("c"), a_node("a"), a_node("b"))
    assert [place(cluster, a_pod(f"p{i}", {"cpu": "1"})) for i in range(4)] == ["a", "b", "c", "a"]


def test_without_nodes_the_pod_is_unschedulable_and_waits_for_no_event() -> None:
    found = Cluster().cycle.place(Cluster().pod(a_pod("p")))
    assert found == Unplaced("no nodes available to schedule pods")


def test_decide_does_not_assume_the_pod() -> None:
    cluster = Cluster(a_node("a", cpu="1"))
    pod = cluster.pod(a_pod("p", {"cpu": "1"}))
    assert cluster.cycle.decide(pod) == cluster.cycle.decide(pod) == ScheduleResult("a", 0, 1)


def test_a_forgotten_pod_frees_its_capacity() -> None:
    cluster = Cluster(a_node("a", cpu="1"))
    assert place(cluster, a_pod("p", {"cpu": "1"})) == "a"
    assert place(cluster, a_pod("q", {"cpu": "1"})) == "0/1 nodes are available: 1 Insufficient cpu."
    cluster.matrix.forget("uid-p")
    assert place(cluster, a_pod("q", {"cpu": "1"})) == "a"


def test_an_entry_that_missed_many_changes_is_built_again() -> None:
    cluster = Cluster(a_node("a", cpu="1", pods="100000"), a_node("b", cpu="100", pods="100000"))
    pod = cluster.pod(a_pod("p", {"cpu": "1"}))
    assert cluster.cycle.decide(pod) == ScheduleResult("b", 1, 2)
    other = cluster.pod(a_pod("x", {"memory": "1Ki"}))
    for i in range(20_000):
        cluster.matrix.pod_applied(msgspec.structs.replace(other, uid=str(i), node_name="b"))
    assert cluster.cycle.decide(pod) == ScheduleResult("b", 1, 2)
    cluster.bind(a_pod("q", {"cpu": "100"}), "b")
    assert cluster.cycle.decide(pod) == ScheduleResult("a", 0, 1)


def test_an_added_node_is_used_and_a_deleted_one_is_not() -> None:
    cluster = Cluster(a_node("b"))
    pod = cluster.pod(a_pod("p", {"cpu": "1"}))
    assert cluster.cycle.decide(pod) == ScheduleResult("b", 0, 1)
    for name in "cda":
        cluster.apply(a_node(name))
    assert cluster.cycle.decide(pod) == ScheduleResult("a", 3, 4)
    cluster.matrix.node_removed("a")
    assert cluster.cycle.decide(pod) == ScheduleResult("b", 0, 3)


def test_the_nominated_node_is_used_if_it_is_feasible() -> None:
    cluster = Cluster(a_node("a"), a_node("b"), a_node("c", cpu="0"))
    assert place(cluster, a_pod("p", {"cpu": "1"}, status={"nominatedNodeName": "b"})) == "b"
    assert place(cluster, a_pod("q", {"cpu": "1"}, status={"nominatedNodeName": "c"})) == "a"
    assert place(cluster, a_pod("r", {"cpu": "1"}, status={"nominatedNodeName": "gone"})) == "a"


def nominate(cluster: Cluster, wire: Object, node: str) -> None:
    cluster.nominator.nominate(cluster.pod(wire), node)


def test_capacity_nominated_to_a_pod_of_equal_priority_counts_as_used() -> None:
    cluster = Cluster(a_node("a", cpu="4"), a_node("b", cpu="2"))
    nominate(cluster, a_pod("winner", {"cpu": "3"}, priority=5), "a")
    assert place(cluster, a_pod("p", {"cpu": "2"}, priority=5)) == "b"
    text = "0/2 nodes are available: 2 Insufficient cpu."
    assert place(cluster, a_pod("q", {"cpu": "2"}, priority=5)) == text
    assert place(cluster, a_pod("r", {"cpu": "2"}, priority=6)) == "a"


def test_reasons_include_nominated_pods_even_if_the_pod_does_not_fit_without_them() -> None:
    cluster = Cluster(a_node("a", cpu="4", memory="4Gi"))
    cluster.bind(a_pod("there", {"memory": "4Gi"}), "a")
    nominate(cluster, a_pod("winner", {"cpu": "3"}, priority=5), "a")
    text = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    assert place(cluster, a_pod("p", {"cpu": "2", "memory": "1Gi"}, priority=5)) == text


def test_nominated_pods_also_count_for_a_pod_that_names_its_node() -> None:
    cluster = Cluster(a_node("a", cpu="4"))
    nominate(cluster, a_pod("winner", {"cpu": "3"}, priority=5), "a")
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    pod = a_pod("p", {"cpu": "2"}, affinity={"nodeAffinity": rules})
    assert place(cluster, pod) == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_probe_evaluates_removed_and_added_pods_and_changes_nothing() -> None:
    cluster = Cluster(a_node("a", cpu="1"))
    existing = cluster.bind(a_pod("p", {"cpu": "1"}), "a")
    pod = cluster.pod(a_pod("q", {"cpu": "1"}))
    before = cluster.matrix.columns.free.copy()
    assert cluster.cycle.probe(pod, 0) == (FilterReason("Insufficient cpu"),)
    assert cluster.cycle.probe(pod, 0, removed=[existing]) == ()
    assert cluster.cycle.probe(pod, 0, added=[pod], removed=[existing]) == (FilterReason("Insufficient cpu"),)
    large = cluster.pod(a_pod("r", {"cpu": "2"}))
    assert cluster.cycle.probe(large, 0, removed=[existing]) == (FilterReason("Insufficient cpu", unresolvable=True),)
    assert np.array_equal(cluster.matrix.columns.free, before)


def test_every_plugin_that_rejected_a_node_is_named_with_its_counts() -> None:
    taint = [{"key": "k", "effect": "NoSchedule"}]
    cluster = Cluster(a_node("a", cpu="1"), a_node("b", taints=taint), a_node("c", taints=taint))
    found = cluster.cycle.decide(cluster.pod(a_pod("p", {"cpu": "2"})))
    assert isinstance(found, Unplaced)
    assert [(each.plugin, each.reason) for each in found.rejections] == [
        ("TaintToleration", "2 node(s) had untolerated taint(s)"),
        ("NodeResourcesFit", "1 Insufficient cpu"),
    ]
    text = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    assert found.message == text


def test_pods_of_one_shape_get_the_same_result_until_something_changes() -> None:
    cluster = Cluster(a_node("a", cpu="1"))
    one, other = (cluster.cycle.decide(cluster.pod(a_pod(name, {"cpu": "2"}))) for name in "pq")
    assert one is other
    cluster.apply(a_node("b", cpu="1"))
    later = cluster.cycle.decide(cluster.pod(a_pod("r", {"cpu": "2"})))
    assert isinstance(later, Unplaced)
    assert later.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_reasons_are_sorted_as_texts_so_ten_is_before_two() -> None:
    nodes = [a_node(f"n{i}", cpu="1") for i in range(10)]
    cluster = Cluster(*nodes, a_node("x", cordoned=True), a_node("y", cordoned=True))
    text = "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable."
    assert place(cluster, a_pod("p", {"cpu": "2"})) == text


def test_a_pod_with_invalid_requests_gets_a_message_and_others_are_scheduled() -> None:
    cluster = Cluster(a_node("a"))
    found = cluster.cycle.place(cluster.pod(a_pod("p", {"cpu": "much"})))
    assert isinstance(found, Unplaced)
    assert found.message.startswith("spec.containers[0].resources.requests.cpu: quantities must match")
    assert place(cluster, a_pod("q")) == "a"


class Broken:
    """Fails for pods of one shape."""

    name = "Broken"
    reads: Reads = READS_PODS

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Any, /) -> Ints | None:
        if shape.requests.get("cpu") == 1000:
            raise ZeroDivisionError("oops")
        return None

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return ()


def test_a_plugin_that_raises_fails_only_its_pod_and_is_named() -> None:
    cluster = Cluster(a_node("a"), cycle_plugins=CyclePlugins(filters=(Broken(),)))
    found = cluster.cycle.place(cluster.pod(a_pod("p", {"cpu": "1"})))
    assert isinstance(found, Unplaced)
    assert found.is_error
    assert found.message == 'running Filter plugin "Broken": ZeroDivisionError: oops'
    assert [each.plugin for each in found.rejections] == ["Broken"]
    assert place(cluster, a_pod("q", {"cpu": "2"})) == "a"


class Preempts:
    name = "Preempts"

    def __init__(self, result: PostFilterNomination | PostFilterUnschedulable | str) -> None:
        self.result = result

    def post_filter(
        self, pod: PodInfo, unplaced: Unplaced, handle: Handle, /
    ) -> PostFilterNomination | PostFilterUnschedulable | str:
        return self.result


def test_texts_of_post_filters_follow_the_reasons() -> None:
    cycle_plugins = Cluster().cycle.plugins
    with_post_filters = msgspec.structs.replace(
        cycle_plugins, post_filters=(Preempts("no victims"), Preempts("none at all"))
    )
    cluster = Cluster(a_node("a", cpu="0"), cycle_plugins=with_post_filters)
    text = "0/1 nodes are available: 1 Insufficient cpu. no victims, none at all"
    assert place(cluster, a_pod("p", {"cpu": "1"})) == text
    with_nomination = msgspec.structs.replace(
        cycle_plugins, post_filters=(Preempts(PostFilterNomination("a")), Preempts("never asked"))
    )
    found = Cluster(a_node("a", cpu="0"), cycle_plugins=with_nomination)
    outcome = found.cycle.place(found.pod(a_pod("p", {"cpu": "1"})))
    assert isinstance(outcome, Unplaced)
    assert outcome.nominated == PostFilterNomination("a")
    assert outcome.promise == "a"


@pytest.mark.parametrize(
    ("answers", "promise"),
    [
        ((), ""),
        (("not now",), None),
        (("not now", PostFilterUnschedulable("nowhere")), ""),
        ((PostFilterUnschedulable("no"), "x"), ""),
    ],
)
def test_a_nomination_is_kept_until_a_post_filter_clears_it(
    answers: tuple[PostFilterUnschedulable | str, ...], promise: str | None
) -> None:
    cycle_plugins = msgspec.structs.replace(Cluster().cycle.plugins, post_filters=tuple(map(Preempts, answers)))
    cluster = Cluster(a_node("a", cpu="0"), cycle_plugins=cycle_plugins)
    outcome = cluster.cycle.place(cluster.pod(a_pod("p", {"cpu": "1"})))
    assert isinstance(outcome, Unplaced)
    assert outcome.promise == promise


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [
        (10, 0, 10),
        (99, 30, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (1000, 5, 100),
        (5000, 0, 500),
        (6000, 0, 300),
        (6000, 100, 6000),
        (6000, 70, 4200),
    ],
)
def test_the_number_of_nodes_to_find_depends_on_size_and_percentage(nodes: int, percentage: int, wanted: int) -> None:
    assert nodes_to_find(nodes, percentage) == wanted


def test_a_sample_starts_where_the_last_one_ended() -> None:
    by_name = np.array([4, 3, 2, 1, 0])
    feasible = np.array([True, True, False, True, True])
    assert sample(feasible, by_name, 0, 2)[0].tolist() == [4, 3]
    rows, start = sample(feasible, by_name, 2, 2)
    assert (rows.tolist(), start) == ([1, 0], 0)
    rows, start = sample(feasible, by_name, 4, 2)
    assert (rows.tolist(), start) == ([0, 4], 1)
    rows, start = sample(feasible, by_name, 3, 9)
    assert (sorted(rows.tolist()), start) == ([0, 1, 3, 4], 3)


def test_with_a_percentage_each_search_starts_after_the_last() -> None:
    cluster = Cluster(*(a_node(f"n{i:03}") for i in range(200)), percentage=50)
    chosen = [place(cluster, a_pod(f"p{i}", {"cpu": "1"})) for i in range(4)]
    assert chosen == ["n000", "n100", "n001", "n101"]


class Versioned:
    """Rejects all nodes while ``is_shut``, which only its stamp shows."""

    name = "Shuttered"
    reads: Reads = READS_PODS
    is_shut = True

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> bool:
        return self.is_shut

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Any, /) -> Ints | None:
        return np.full(matrix.size if rows is None else len(rows), int(self.is_shut), np.int64)

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return (FilterReason("node(s) shut"),)


def test_a_cached_result_is_dropped_when_the_stamp_changes() -> None:
    versioned = Versioned()
    cluster = Cluster(a_node("n"), cycle_plugins=CyclePlugins(filters=(versioned,)))
    assert [place(cluster, a_pod(name)) for name in "ab"] == ["0/1 nodes are available: 1 node(s) shut."] * 2
    versioned.is_shut = False
    assert place(cluster, a_pod("c")) == "n"
