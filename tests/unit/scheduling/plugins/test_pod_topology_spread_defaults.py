"""Default spread constraints: the selectors of Services and owners, and the constraints that apply."""

from __future__ import annotations

from math import floor, log
from typing import Any

import pytest

from clusters import a_node, a_pod
from headgate.kube.api_resources import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, APIResource
from unit.scheduling.spreading import (
    HOSTNAME,
    NAME,
    WEB,
    ZONE,
    apply,
    cluster,
    feasible,
    in_zone,
    owned,
    scores,
    spread,
    web,
)

Object = dict[str, Any]


def test_pods_behind_a_service_are_spread_by_default_over_nodes_and_zones() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "x"), in_zone("c", "y"))
    spread_cluster.bind(a_pod("q", labels=WEB), "a")
    pod = a_pod("p", labels=WEB)
    assert set(scores(spread_cluster, pod).values()) == {0}, "nobody selects it"
    apply(spread_cluster, SERVICES, "web", WEB)
    raw = {
        "a": floor(log(5) + 2 + log(4) + 4 + 0.5),
        "b": floor(2 + log(4) + 4 + 0.5),
        "c": 6,
    }
    assert scores(spread_cluster, pod) == {name: 100 * (raw["a"] + 6 - each) // raw["a"] for name, each in raw.items()}
    assert list(spread_cluster.cluster.removed(SERVICES, "default", "web")) == []
    assert set(scores(spread_cluster, pod).values()) == {0}


def test_the_system_defaults_score_nodes_without_a_zone_by_their_own_pods() -> None:
    spread_cluster = cluster(a_node("a", labels={HOSTNAME: "a"}), a_node("b", labels={HOSTNAME: "b"}))
    apply(spread_cluster, SERVICES, "web", WEB)
    for i in range(9):
        spread_cluster.bind(a_pod(f"q{i}", labels=WEB), "a")
    found = scores(spread_cluster, a_pod("p", labels=WEB))
    assert found["b"] == 100 > found["a"]


def test_by_default_nodes_without_a_zone_are_in_that_of_the_empty_name() -> None:
    spread_cluster = cluster(in_zone("a", ""), in_zone("b", None), in_zone("c", "x"))
    apply(spread_cluster, SERVICES, "web", WEB)
    for i in range(3):
        spread_cluster.bind(a_pod(f"q{i}", labels=WEB), "b")
    raw = {"a": floor(2 + 3 * log(4) + 4 + 0.5), "b": floor(3 * log(5) + 2 + 0.5), "c": 6}
    most = max(raw.values())
    assert scores(spread_cluster, a_pod("p", labels=WEB)) == {
        name: 100 * (most + 6 - each) // most for name, each in raw.items()
    }


@pytest.mark.parametrize(
    ("kind", "resource", "selector"),
    [
        ("ReplicaSet", REPLICA_SETS, {"matchLabels": WEB}),
        ("StatefulSet", STATEFUL_SETS, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        ("ReplicationController", REPLICATION_CONTROLLERS, WEB),
    ],
)
def test_pods_of_a_controller_are_spread_by_default(kind: str, resource: APIResource, selector: Object) -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    apply(spread_cluster, resource, "r", selector)
    apply(spread_cluster, resource, "r", selector, namespace="elsewhere")
    spread_cluster.bind(a_pod("q", labels=WEB), "a")
    found = scores(spread_cluster, owned(a_pod("p", labels=WEB), kind, "r"))
    assert found["b"] == 100 > found["a"]
    assert set(scores(spread_cluster, owned(a_pod("p", labels=WEB), kind, "other")).values()) == {0}
    assert set(scores(spread_cluster, owned(a_pod("p", labels=WEB), "Job", "r")).values()) == {0}


def test_a_pod_with_constraints_of_its_own_gets_no_defaults() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    apply(spread_cluster, SERVICES, "web", WEB)
    spread_cluster.bind(a_pod("q", labels=WEB), "a")
    assert set(scores(spread_cluster, web("p", spread(maxSkew=5))).values()) == {0}


def test_default_constraints_of_the_configuration_hold_as_well() -> None:
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), pluginConfig=[{"name": NAME, "args": args}])
    spread_cluster.bind(a_pod("q", labels=WEB), "a")
    assert feasible(spread_cluster, a_pod("p", labels=WEB)) == ["a", "b"]
    apply(spread_cluster, SERVICES, "web", WEB)
    assert feasible(spread_cluster, a_pod("p", labels=WEB)) == ["b"]
    assert feasible(spread_cluster, a_pod("p", labels={"app": "other"})) == ["a", "b"]


def test_siblings_are_those_that_all_services_and_the_controller_select() -> None:
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"))
    apply(spread_cluster, SERVICES, "web", WEB)
    apply(spread_cluster, SERVICES, "green", {"colour": "green"})
    apply(spread_cluster, SERVICES, "db", {"app": "db"})
    apply(spread_cluster, SERVICES, "headless", None)
    apply(spread_cluster, REPLICA_SETS, "r", {"matchLabels": {"hash": "1"}})
    pod = owned(a_pod("p", labels={**WEB, "colour": "green", "hash": "1"}), "ReplicaSet", "r")
    assert str(spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod))) == "app=web,colour=green,hash=1"
    apply(spread_cluster, SERVICES, "green", {"colour": "blue"})
    assert str(spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod))) == "app=web,hash=1"
    spread_cluster.cluster.removed(REPLICA_SETS, "default", "r")
    assert str(spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod))) == "app=web"
    assert spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(a_pod("p", labels={"colour": "green"}))) is None


def test_selectors_that_change_under_the_same_name_are_noticed() -> None:
    spread_cluster = cluster(in_zone("a", "x"))
    pod = spread_cluster.pod(owned(a_pod("p", labels={**WEB, "colour": "green"}), "ReplicaSet", "r"))
    apply(spread_cluster, SERVICES, "web", WEB)
    apply(spread_cluster, REPLICA_SETS, "r", {"matchLabels": WEB})
    assert str(spread_cluster.cluster.pod_selectors.of(pod)) == "app=web"
    apply(spread_cluster, SERVICES, "web", {**WEB, "colour": "green"})
    assert str(spread_cluster.cluster.pod_selectors.of(pod)) == "app=web,colour=green"
    apply(spread_cluster, REPLICA_SETS, "r", {"matchLabels": {"hash": "1"}})
    assert str(spread_cluster.cluster.pod_selectors.of(pod)) == "app=web,colour=green,hash=1"


def test_the_selector_of_a_replication_controller_wins_for_a_label() -> None:
    spread_cluster = cluster(in_zone("a", "x"))
    apply(spread_cluster, SERVICES, "web", WEB)
    apply(spread_cluster, REPLICATION_CONTROLLERS, "r", {"app": "old"})
    pod = owned(a_pod("p", labels=WEB), "ReplicationController", "r")
    assert str(spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod))) == "app=old"


def test_an_owner_that_is_not_the_controller_is_ignored() -> None:
    spread_cluster = cluster(in_zone("a", "x"))
    apply(spread_cluster, REPLICA_SETS, "r", {"matchLabels": WEB})
    pod = owned(a_pod("p", labels=WEB), "ReplicaSet", "r")
    assert spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod)) is not None
    pod["metadata"]["ownerReferences"][0]["controller"] = False
    assert spread_cluster.cluster.pod_selectors.of(spread_cluster.pod(pod)) is None


def test_a_pod_that_its_controller_does_not_select_is_no_sibling_of_its_own() -> None:
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    spread_cluster = cluster(in_zone("a", "x"), in_zone("b", "y"), pluginConfig=[{"name": NAME, "args": args}])
    apply(spread_cluster, REPLICA_SETS, "r", {"matchLabels": WEB})
    spread_cluster.bind(a_pod("q", labels=WEB), "a")
    assert feasible(spread_cluster, owned(a_pod("p", labels=WEB), "ReplicaSet", "r")) == ["b"]
    assert feasible(spread_cluster, owned(a_pod("p", labels={"app": "stray"}), "ReplicaSet", "r")) == ["a", "b"]
