"""PodTopologySpread, rule by rule, on clusters small enough to check by hand."""

from __future__ import annotations

from math import floor, log
from typing import Any

import numpy as np
import pytest

from clusters import a_node, a_pod
from headgate.scheduling.framework.cycle_state import CycleState, build_cycle_state
from headgate.scheduling.framework.interface import ScheduleResult, Unplaced
from headgate.scheduling.framework.plugin_timers import ProfileTimers
from headgate.scheduling.framework.shape_cache import ShapeCacheEntry
from unit.scheduling.spreading import HOSTNAME, WEB, cluster, feasible, in_zone, scores, spread, web

Object = dict[str, Any]

# -- hard constraints ---------------------------------------------------------------------------------------------


def test_a_zone_that_is_ahead_of_the_smallest_takes_no_more() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "x"), in_zone("c", "y"))
    assert feasible(spread_cluster, web("p", spread())) == ["a", "b", "c"]
    spread_cluster.bind(web("q"), "a")
    assert feasible(spread_cluster, web("p", spread())) == ["c"]
    assert feasible(spread_cluster, web("p", spread(maxSkew=2))) == ["a", "b", "c"]
    spread_cluster.bind(web("r"), "c")
    assert feasible(spread_cluster, web("p", spread())) == ["a", "b", "c"]


def test_a_pod_that_is_placed_counts_at_once() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    placed = [spread_cluster.cycle.place(spread_cluster.pod(web(f"p{i}", spread()))) for i in range(4)]
    assert [each.node_name for each in placed if isinstance(each, ScheduleResult)] == ["a", "b", "a", "b"]


def test_a_pod_that_does_not_match_its_own_selector_may_use_the_fullest_domain() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    spread_cluster.bind(web("q"), "a")
    assert feasible(spread_cluster, web("p", spread(), labels={"app": "other"})) == ["a", "b"]


def test_reasons_distinguish_skew_from_missing_labels() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y", cpu="0"), in_zone("c", None))
    spread_cluster.bind(web("q"), "a")
    text = "node(s) didn't match pod topology spread constraints"
    found = spread_cluster.cycle.decide(spread_cluster.pod(web("p", spread(), requests={"cpu": "1"})))
    assert isinstance(found, Unplaced)
    assert found.message == (
        f"0/3 nodes are available: 1 Insufficient cpu, 1 {text}, 1 {text} (missing required label)."
    )
    assert found.resolvable == ("a",), "no pod that leaves gives a node a label"


def test_the_first_constraint_that_is_not_met_gives_the_reason() -> None:
    """Zone x is full, and ``a`` has no rack."""
    nodes = in_zone("a", "x"), in_zone("b", "x", labels={"rack": "1"}), in_zone("c", "y", labels={"rack": "2"})
    spread_cluster = cluster(*nodes)
    spread_cluster.bind(web("q"), "b")
    row = spread_cluster.matrix.row_of("a")
    assert row is not None
    first, then = (
        spread_cluster.cycle.probe(spread_cluster.pod(web("p", *each)), row)
        for each in ((spread(), spread("rack")), (spread("rack"), spread()))
    )
    assert [each.text for each in first] == ["node(s) didn't match pod topology spread constraints"]
    assert [each.text for each in then] == [f"{first[0].text} (missing required label)"]


def test_only_nodes_with_all_topology_keys_make_domains() -> None:
    """The pods on ``c`` would fill zone y, but ``c`` has no rack; and without its zone the smallest is x."""
    nodes = in_zone("a", "x", labels={"rack": "1"}), in_zone("b", "y", labels={"rack": "2"}), in_zone("c", "z")
    spread_cluster = cluster(*nodes)
    spread_cluster.bind(web("q"), "a")
    spread_cluster.bind(web("r"), "b")
    assert feasible(spread_cluster, web("p", spread(), spread("rack"))) == ["a", "b"]
    assert feasible(spread_cluster, web("p", spread())) == ["c"]


def test_too_few_domains_count_as_if_there_were_an_empty_one() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    spread_cluster.bind(web("q"), "a")
    spread_cluster.bind(web("r"), "b")
    assert feasible(spread_cluster, web("p", spread(minDomains=2))) == ["a", "b"]
    assert feasible(spread_cluster, web("p", spread(minDomains=3))) == []


def test_nodes_that_affinity_rules_out_make_no_domain_unless_that_is_ignored() -> None:
    spread_cluster = cluster(in_zone("a", "x", labels={"disk": "ssd"}), in_zone("b", "y"))
    spread_cluster.bind(web("q"), "a")
    row_a = {"nodeSelector": {"disk": "ssd"}}
    assert feasible(spread_cluster, web("p", spread(), **row_a)) == ["a"]
    assert feasible(spread_cluster, web("p", spread(nodeAffinityPolicy="Ignore"), **row_a)) == []


def test_tainted_nodes_make_a_domain_unless_taints_are_honoured() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y", taints=[taint]))
    spread_cluster.bind(web("q"), "a")
    assert feasible(spread_cluster, web("p", spread())) == []
    assert feasible(spread_cluster, web("p", spread(nodeTaintsPolicy="Honor"))) == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "elsewhere"},
        {"labels": {"app": "db"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_pods_elsewhere_with_other_labels_or_being_deleted_do_not_count(other: Object) -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    pod = web("q")
    spread_cluster.bind(pod, "a")
    assert feasible(spread_cluster, web("p", spread())) == ["b"]
    pod["metadata"] |= other
    spread_cluster.matrix.pod_removed("uid-q")
    spread_cluster.bind(pod, "a")
    assert feasible(spread_cluster, web("p", spread())) == ["a", "b"]


def test_a_pod_counts_no_more_once_it_is_being_deleted_or_has_ended() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    asked = web("p", spread())
    for change in ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"status": {"phase": "Succeeded"}}):
        pod = web("q")
        spread_cluster.bind(pod, "a")
        assert feasible(spread_cluster, asked) == ["b"]
        for part, fields in change.items():
            pod[part] |= fields
        spread_cluster.bind(pod, "a")
        assert feasible(spread_cluster, asked) == ["a", "b"]


def test_a_selector_of_all_pods_counts_none_of_them_as_in_kubernetes() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    for i in range(3):
        spread_cluster.bind(web(f"q{i}"), "a")
    assert feasible(spread_cluster, web("p", spread(labelSelector={}))) == ["a", "b"]
    assert feasible(spread_cluster, web("p", spread(labelSelector=None))) == ["a", "b"]


def test_match_label_keys_count_only_pods_with_the_same_values() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    spread_cluster.bind(web("q", labels={**WEB, "hash": "1"}), "a")
    keyed = spread(matchLabelKeys=["hash", "no-such-label"])
    assert feasible(spread_cluster, web("p", keyed, labels={**WEB, "hash": "1"})) == ["b"]
    assert feasible(spread_cluster, web("p", keyed, labels={**WEB, "hash": "2"})) == ["a", "b"]
    assert feasible(spread_cluster, web("p", keyed)) == ["b"]


def test_a_node_that_moves_to_another_zone_takes_its_pods_along() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "x"), in_zone("c", "y"))
    spread_cluster.bind(web("q"), "a")
    assert feasible(spread_cluster, web("p", spread())) == ["c"]
    spread_cluster.apply(in_zone("a", "y"))
    assert feasible(spread_cluster, web("p", spread())) == ["b"]
    spread_cluster.matrix.node_removed("a")
    assert feasible(spread_cluster, web("p", spread())) == ["b", "c"]


# -- soft constraints ---------------------------------------------------------------------------------------------


def test_domains_with_fewer_pods_score_higher_weighed_by_how_many_domains_there_are() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), in_zone("c", "y"))
    for i in range(4):
        spread_cluster.bind(web(f"q{i}"), "a")
    spread_cluster.bind(web("r"), "b")
    many, few = floor(4 * log(2 + 2) + 0.5), floor(1 * log(2 + 2) + 0.5)
    low = 100 * few // many
    assert scores(spread_cluster, web("p", spread(soft=True))) == {"a": low, "b": 100, "c": 100}


def test_a_larger_skew_waters_differences_down() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    spread_cluster.bind(web("q"), "a")
    strict, lax = (scores(spread_cluster, web("p", spread(soft=True, maxSkew=skew)))["a"] for skew in (1, 5))
    assert strict == 0
    assert lax == 100 * 4 // floor(log(4) + 4 + 0.5)


def test_where_the_node_is_the_domain_only_its_own_pods_count() -> None:
    """Two nodes that call themselves the same are still two."""
    spread_cluster = cluster(a_node("a", labels={HOSTNAME: "same"}), a_node("b", labels={HOSTNAME: "same"}))
    spread_cluster.bind(web("q"), "a")
    assert scores(spread_cluster, web("p", spread(HOSTNAME, soft=True))) == {"a": 0, "b": 100}


def test_nodes_without_the_label_score_nothing_and_are_no_measure() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), in_zone("c", None))
    for i in range(2):
        spread_cluster.bind(web(f"q{i}"), "a")
        spread_cluster.bind(web(f"r{i}"), "c")
    assert scores(spread_cluster, web("p", spread(soft=True))) == {"a": 0, "b": 100, "c": 0}


def test_without_any_pod_all_nodes_are_equally_good() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    assert scores(spread_cluster, web("p", spread(soft=True))) == {"a": 100, "b": 100}


def test_pods_on_nodes_that_do_not_fit_count_but_their_domains_do_not() -> None:
    spread_cluster = cluster(
        in_zone("a", "x"), in_zone("b", "y"), in_zone("c", "z", cpu="0"), in_zone("d", "x", cpu="0")
    )
    spread_cluster.bind(web("q"), "b")
    for i in range(3):
        spread_cluster.bind(web(f"r{i}"), "d")
    most, least = floor(3 * log(2 + 2) + 0.5), floor(log(2 + 2) + 0.5)
    found = scores(spread_cluster, web("p", spread(soft=True), requests={"cpu": "1"}))
    assert found == {"a": 100 * least // most, "b": 100}


def test_scores_follow_when_another_node_becomes_full() -> None:
    """With ``c`` there are three domains, and a pod weighs more; without it two."""
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), in_zone("c", "z"))
    for i in range(5):
        spread_cluster.bind(web(f"q{i}"), "a")
    spread_cluster.bind(web("r"), "b")
    pod = web("p", spread(soft=True), requests={"cpu": "1"})
    three = [floor(5 * log(5) + 0.5), floor(log(5) + 0.5)]
    assert scores(spread_cluster, pod)["b"] == 100 * (three[0] - three[1]) // three[0]
    spread_cluster.bind(a_pod("large", {"cpu": "4"}), "c")
    two = [floor(5 * log(4) + 0.5), floor(log(4) + 0.5)]
    assert scores(spread_cluster, pod) == {"a": 100 * two[1] // two[0], "b": 100}


def test_among_named_nodes_only_those_make_domains() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), in_zone("c", "z"))
    for i in range(5):
        spread_cluster.bind(web(f"q{i}"), "a")
    spread_cluster.bind(web("r"), "b")
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    terms = {"nodeSelectorTerms": [{"matchFields": [each]} for each in fields]}
    named = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    most, least = floor(5 * log(4) + 0.5), floor(log(4) + 0.5)
    assert scores(spread_cluster, web("p", spread(soft=True), **named)) == {"a": 100 * least // most, "b": 100}


def test_among_a_sample_of_nodes_scores_are_those_of_the_sample() -> None:
    """Six nodes in two zones: pods on a node weigh more than pods in a zone. Two in two: they weigh the same."""
    spread_cluster = cluster(
        *(in_zone(name, "x") for name in ("z", "z1", "z2", "z3")), in_zone("b", "y"), in_zone("b1", "y")
    )
    for name in ("z1", "z2", "z3", "b", "b1"):
        spread_cluster.bind(web(f"on-{name}"), name)
    pod = spread_cluster.pod(web("p", spread(soft=True), spread(HOSTNAME, soft=True)))
    cycle_state = build_cycle_state(pod, spread_cluster.matrix, spread_cluster.cycle.plugins, ProfileTimers())
    assert isinstance(cycle_state, CycleState)
    entry = ShapeCacheEntry(cycle_state, spread_cluster.matrix)
    rows = {name: spread_cluster.matrix.row_of(name) for name in ("z", "b")}
    assert entry.best() == rows["z"]
    assert entry.best_of(np.array([rows["z"], rows["b"]], np.intp)) == rows["b"]
    assert entry.best_of(np.arange(6)) == entry.best() == rows["z"]
