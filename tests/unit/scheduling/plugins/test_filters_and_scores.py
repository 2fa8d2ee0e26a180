"""Each filter and score on a cluster small enough to check by hand."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.kube.node_affinity import read_node_selector
from headgate.scheduling.framework.interface import (
    CyclePlugins,
    PreFilterPlugin,
    PreScorePlugin,
    ScheduleResult,
    Unplaced,
)
from headgate.scheduling.plugins.image_locality import ImageLocality
from headgate.scheduling.plugins.node_affinity import NodeAffinity
from headgate.scheduling.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from headgate.scheduling.plugins.noderesources.bin_pack import BinPack
from headgate.scheduling.plugins.noderesources.fit import NodeResourcesFit
from headgate.scheduling.plugins.noderesources.resource_allocation import most_allocated, requested_to_capacity_ratio
from headgate.scheduling.plugins.taint_toleration import TaintToleration

Object = dict[str, Any]


def alone(plugin: Any) -> CyclePlugins:
    """Only this plugin, at every point it knows, with a weight of one."""
    is_filter, is_score = hasattr(plugin, "filter"), hasattr(plugin, "score")
    return CyclePlugins(
        pre_filters=(plugin,) if isinstance(plugin, PreFilterPlugin) else (),
        filters=(plugin,) if is_filter else (),
        pre_scores=(plugin,) if isinstance(plugin, PreScorePlugin) else (),
        scores=((plugin, 1),) if is_score else (),
    )


def why(cluster: Cluster, pod: Object) -> str:
    found = cluster.cycle.decide(cluster.pod(pod))
    assert isinstance(found, Unplaced), found
    return found.message


def where(cluster: Cluster, pod: Object) -> str:
    found = cluster.cycle.decide(cluster.pod(pod))
    assert isinstance(found, ScheduleResult), found
    return found.node_name


def scores(plugin: Any, pod: Object, *nodes: Object) -> dict[str, int]:
    cluster = Cluster(*nodes, cycle_plugins=alone(plugin))
    return cluster.cycle.scores(cluster.pod(pod))


# -- NodeUnschedulable, NodeName ----------------------------------------------------------------------------------


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    cluster = Cluster(a_node("a", cordoned=True))
    assert why(cluster, a_pod("p")) == "0/1 nodes are available: 1 node(s) were unschedulable."
    tolerant = a_pod("q", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert where(cluster, tolerant) == "a"


def test_a_pod_that_names_its_node_fits_only_that_node() -> None:
    cluster = Cluster(a_node("a"), a_node("b"))
    assert where(cluster, a_pod("p", nodeName="b")) == "b"
    assert where(cluster, a_pod("q")) == "a"
    text = "0/2 nodes are available: 2 node(s) didn't match the requested node name."
    assert why(cluster, a_pod("r", nodeName="c")) == text


# -- TaintToleration ----------------------------------------------------------------------------------------------


def test_a_hard_taint_rejects_pods_that_do_not_tolerate_it() -> None:
    cluster = Cluster(a_node("a", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]))
    assert why(cluster, a_pod("p")) == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    assert where(cluster, a_pod("q", tolerations=[{"key": "k", "value": "v"}])) == "a"
    assert why(cluster, a_pod("r", tolerations=[{"key": "k", "value": "w"}]))


def test_mild_taints_count_against_a_node_relative_to_the_worst() -> None:
    def mild(*keys: str) -> list[Object]:
        return [{"key": key, "effect": "PreferNoSchedule"} for key in keys]

    nodes = a_node("a", taints=mild("k", "l", "m")), a_node("b", taints=mild("k")), a_node("c")
    assert scores(TaintToleration(), a_pod("p"), *nodes) == {"a": 0, "b": 67, "c": 100}
    tolerant = a_pod("q", tolerations=[{"operator": "Exists"}])
    assert scores(TaintToleration(), tolerant, *nodes) == {"a": 100, "b": 100, "c": 100}


# -- NodeAffinity -------------------------------------------------------------------------------------------------


def needs(*terms: Object) -> Object:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": rules}}


def label(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_selector_and_affinity_must_both_hold() -> None:
    cluster = Cluster(a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "x", "disk": "fast"}))
    assert where(cluster, a_pod("p", nodeSelector={"zone": "x"}, **needs(label("disk", "Exists")))) == "b"
    text = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert why(cluster, a_pod("q", nodeSelector={"zone": "y"}, **needs(label("disk", "Exists")))) == text


@pytest.mark.parametrize(
    ("expression", "matching"),
    [
        (label("size", "In", "5", "7"), {"a"}),
        (label("size", "NotIn", "5"), {"b", "c"}),
        (label("size", "Exists"), {"a", "b"}),
        (label("size", "DoesNotExist"), {"c"}),
        (label("size", "Gt", "5"), {"b"}),
        (label("size", "Lt", "9"), {"a"}),
        (label("size", "Gt", "five"), set()),
        ({}, set()),
    ],
)
def test_a_term_selects_by_every_operator(expression: Object, matching: set[str]) -> None:
    cluster = Cluster(a_node("a", labels={"size": "5"}), a_node("b", labels={"size": "10"}), a_node("c"))
    assert set(cluster.cycle.scores(cluster.pod(a_pod("p", **needs(expression))))) == matching


def by_name(*names: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]} for each in names]}


def test_a_pod_pinned_by_name_is_evaluated_for_that_node_only() -> None:
    cluster = Cluster(a_node("a"), a_node("b", cpu="0"), a_node("c"))
    assert where(cluster, a_pod("p", **needs(by_name("c")))) == "c"
    assert where(cluster, a_pod("q", **needs(by_name("gone"), by_name("a")))) == "a"
    text = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert why(cluster, a_pod("r", {"cpu": "1"}, **needs(by_name("b")))) == text
    text = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert why(cluster, a_pod("s", **needs(by_name("gone")))) == text


def test_terms_that_name_two_nodes_at_once_conflict() -> None:
    cluster = Cluster(a_node("a"), a_node("b"))
    found = cluster.cycle.decide(cluster.pod(a_pod("p", **needs(by_name("a", "b")))))
    assert isinstance(found, Unplaced)
    assert found.message == "0/2 nodes are available: pod affinity terms conflict."
    assert [each.plugin for each in found.rejections] == ["NodeAffinity"]


def test_the_name_can_also_be_excluded() -> None:
    cluster = Cluster(a_node("a"), a_node("b"))
    excluded = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}
    assert where(cluster, a_pod("p", **needs(excluded))) == "b"


def test_preferred_terms_score_relative_to_the_best_node() -> None:
    wishes = [
        {"weight": 3, "preference": label("zone", "In", "x")},
        {"weight": 1, "preference": label("disk", "Exists")},
    ]
    pod = a_pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}})
    nodes = a_node("a", labels={"zone": "x"}), a_node("b", labels={"disk": "", "zone": "x"}), a_node("c")
    assert scores(NodeAffinity(), pod, *nodes) == {"a": 75, "b": 100, "c": 0}


def test_affinity_that_the_configuration_adds_holds_for_every_pod() -> None:
    added = NodeAffinity(read_node_selector({"nodeSelectorTerms": [label("zone", "In", "x")]}))
    cluster = Cluster(a_node("a"), a_node("b", labels={"zone": "x"}), cycle_plugins=alone(added))
    assert where(cluster, a_pod("p")) == "b"
    text = (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match scheduler-enforced node affinity."
    )
    assert why(cluster, a_pod("q", nodeSelector={"zone": "z"})) == text


# -- NodePorts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
    ],
)
def test_a_port_clashes_on_the_same_address_or_on_all(used: Object, wanted: Object, fits: bool) -> None:
    cluster = Cluster(a_node("a"))
    cluster.bind(a_pod("p", ports=[{"containerPort": 1, **used}]), "a")
    found = cluster.cycle.decide(cluster.pod(a_pod("q", ports=[{"containerPort": 1, **wanted}])))
    assert isinstance(found, ScheduleResult) is fits
    if isinstance(found, Unplaced):
        text = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
        assert found.message == text
        assert found.resolvable == ("a",)


# -- NodeResourcesFit ---------------------------------------------------------------------------------------------


def test_a_node_counts_for_every_resource_that_it_lacks() -> None:
    cluster = Cluster(a_node("a", cpu="1", memory="1Gi", pods="0"), a_node("b", cpu="1"))
    text = "0/2 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu."
    assert why(cluster, a_pod("p", {"cpu": "2", "memory": "2Gi"})) == text


def test_a_resource_that_no_node_has_is_lacking_everywhere() -> None:
    cluster = Cluster(a_node("a"), a_node("b", allocatable={"example.com/gpu": "1"}))
    assert where(cluster, a_pod("p", {"example.com/gpu": "1"})) == "b"
    text = "0/2 nodes are available: 2 Insufficient example.com/gpu."
    assert why(cluster, a_pod("q", {"example.com/gpu": "2"})) == text
    assert where(cluster, a_pod("r", {"example.com/gpu": "0"})) == "a"


def test_what_is_in_use_is_not_free() -> None:
    cluster = Cluster(a_node("a", cpu="2"))
    cluster.bind(a_pod("p", {"cpu": "1500m"}), "a")
    assert where(cluster, a_pod("q", {"cpu": "500m"})) == "a"
    assert why(cluster, a_pod("r", {"cpu": "501m"})) == "0/1 nodes are available: 1 Insufficient cpu."


def test_preemption_helps_only_on_nodes_that_are_large_enough() -> None:
    cluster = Cluster(a_node("a", cpu="1"), a_node("b", cpu="2"), a_node("c", cpu="2", cordoned=True))
    cluster.bind(a_pod("p", {"cpu": "1"}), "b")
    found = cluster.cycle.decide(cluster.pod(a_pod("q", {"cpu": "2"})))
    assert isinstance(found, Unplaced)
    assert found.resolvable == ("b",)


def test_ignored_extended_resources_are_not_checked() -> None:
    fit = NodeResourcesFit(ignored_resources=frozenset({"a.io/x", "cpu"}), ignored_resource_groups=frozenset({"b.io"}))
    cluster = Cluster(a_node("a", cpu="1"), cycle_plugins=alone(fit))
    assert where(cluster, a_pod("p", {"a.io/x": "1", "b.io/y": "9"})) == "a"
    assert why(cluster, a_pod("q", {"a.io/x": "1", "cpu": "2"})) == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_least_allocated_node_is_the_one_with_the_largest_share_left() -> None:
    nodes = a_node("a", cpu="4", memory="8Gi"), a_node("b", cpu="1", memory="8Gi")
    # a: cpu (4000-1000)*100//4000 = 75, memory (8-2)*100//8 = 75; b: 0 and 75, 37 on average.
    assert scores(NodeResourcesFit(), a_pod("p", {"cpu": "1", "memory": "2Gi"}), *nodes) == {"a": 75, "b": 37}


def test_a_pod_without_requests_is_scored_with_defaults() -> None:
    # cpu (1000-100)*100//1000 = 90, memory (1000-200)*100//1000 = 80 in Mi.
    assert scores(NodeResourcesFit(), a_pod("p"), a_node("a", cpu="1", memory="1000Mi")) == {"a": 85}


def test_a_resource_that_the_node_does_not_have_is_left_out_of_its_score() -> None:
    assert scores(NodeResourcesFit(), a_pod("p", {"cpu": "1"}), a_node("a", cpu="2", memory="0")) == {"a": 50}


def test_the_most_allocated_node_is_the_fullest() -> None:
    nodes = a_node("a", cpu="4", memory="8Gi"), a_node("b", cpu="1", memory="8Gi")
    fit = NodeResourcesFit(most_allocated)
    assert scores(fit, a_pod("p", {"cpu": "1", "memory": "2Gi"}), *nodes) == {"a": 25, "b": 62}


def test_weights_decide_which_resource_counts_more() -> None:
    fit = NodeResourcesFit(most_allocated, (("cpu", 3), ("example.com/gpu", 1)))
    node = a_node("a", cpu="4", allocatable={"example.com/gpu": "2"})
    assert scores(fit, a_pod("p", {"cpu": "1", "example.com/gpu": "2"}), node) == {"a": (3 * 25 + 100) // 4}
    # The pod does not request the device, so it does not count.
    assert scores(fit, a_pod("q", {"cpu": "1"}), node) == {"a": 25}


def test_a_ratio_is_read_off_a_broken_line_and_rounded() -> None:
    fit = NodeResourcesFit(requested_to_capacity_ratio([(0, 0), (50, 10), (100, 5)]))
    # cpu 25 per cent: 50; memory 75 per cent: 100 + (50-100)*25/50 = 75; the mean is 62.5.
    assert scores(fit, a_pod("p", {"cpu": "1", "memory": "6Gi"}), a_node("a")) == {"a": 63}
    # cpu 0 per cent scores nothing and does not count at all.
    assert scores(fit, a_pod("q", {"cpu": "1m", "memory": "6Gi"}), a_node("a")) == {"a": 75}


# -- NodeResourcesBalancedAllocation ------------------------------------------------------------------------------


def test_a_balanced_node_scores_higher_than_an_unbalanced_one() -> None:
    balance = NodeResourcesBalancedAllocation()
    nodes = a_node("a", cpu="4", memory="8Gi"), a_node("b", cpu="1", memory="8Gi")
    # a: shares 1/4 and 2/8; b: 1 and 1/4, half the difference is 0.375.
    assert scores(balance, a_pod("p", {"cpu": "1", "memory": "2Gi"}), *nodes) == {"a": 100, "b": 62}


def test_a_pod_without_requests_is_not_scored_by_balanced_allocation() -> None:
    assert scores(NodeResourcesBalancedAllocation(), a_pod("p"), a_node("a")) == {"a": 0}


def test_of_three_resources_the_standard_deviation_counts() -> None:
    balance = NodeResourcesBalancedAllocation((("cpu", 1), ("memory", 1), ("example.com/gpu", 1)))
    pod = a_pod("p", {"cpu": "1", "memory": "2Gi", "example.com/gpu": "1"})
    gpu = {"example.com/gpu": "1"}
    # Shares 1/4, 1/4 and 1: mean 1/2, deviation sqrt((1/16 + 1/16 + 1/4) / 3) = 0.3535.
    assert scores(balance, pod, a_node("a", allocatable=gpu), a_node("b")) == {"a": 64, "b": 100}
    other = a_pod("q", {"cpu": "1", "memory": "4Gi"})
    assert scores(balance, other, a_node("a", allocatable=gpu)) == {"a": 87}


# -- BinPack ------------------------------------------------------------------------------------------------------


def test_bin_pack_uses_only_requested_resources_with_a_weight() -> None:
    pack = BinPack((("cpu", 1), ("memory", 3), ("example.com/gpu", 0)))
    nodes = a_node("a", cpu="4", memory="8Gi"), a_node("b", cpu="2", memory="8Gi")
    assert scores(pack, a_pod("p", {"cpu": "1"}), *nodes) == {"a": 25, "b": 50}
    assert scores(pack, a_pod("p", {"cpu": "1", "memory": "8Gi"}), *nodes) == {"a": (25 + 300) // 4, "b": 350 // 4}
    gpu = a_node("c", allocatable={"example.com/gpu": "2"})
    assert scores(pack, a_pod("p", {"example.com/gpu": "2"}), gpu) == {"c": 0}
    assert scores(pack, a_pod("p"), *nodes) == {"a": 0, "b": 0}


# -- ImageLocality ------------------------------------------------------------------------------------------------


def test_an_image_counts_by_its_size_and_by_how_many_nodes_have_it() -> None:
    size = 800 * 1024 * 1024
    have: Object = {"images": [(("app:1", "app:latest"), size)]}
    nodes = a_node("a", **have), a_node("b", **have), a_node("c"), a_node("d")
    # Half the nodes have it: 400 MB; (400-23)*100//(1000-23) = 38.
    assert scores(ImageLocality(), a_pod("p", image="app"), *nodes) == {"a": 38, "b": 38, "c": 0, "d": 0}


def test_a_new_node_changes_what_an_image_is_worth_everywhere() -> None:
    image: Object = {"images": [(("app:latest",), 800 * 1024 * 1024)]}
    cluster = Cluster(a_node("a", **image), cycle_plugins=alone(ImageLocality()))
    pod = cluster.pod(a_pod("p"))
    assert cluster.cycle.scores(pod) == {"a": 79}
    cluster.apply(a_node("b"))
    assert cluster.cycle.scores(pod) == {"a": 38, "b": 0}
