"""Spreading by default: whose pods are siblings, and which constraints hold for them."""

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
    cluster,
    feasible,
    in_zone,
    owned,
    scores,
    spread,
    tell,
    web,
)

Object = dict[str, Any]


def test_pods_behind_a_service_are_spread_by_default_over_nodes_and_zones() -> None:
    made = cluster(in_zone("a", "x"), in_zone("b", "x"), in_zone("c", "y"))
    made.bind(a_pod("q", labels=WEB), "a")
    asked = a_pod("p", labels=WEB)
    assert set(scores(made, asked).values()) == {0}, "nobody selects it"
    tell(made, SERVICES, "web", WEB)
    raw = {
        "a": floor(log(5) + 2 + log(4) + 4 + 0.5),
        "b": floor(2 + log(4) + 4 + 0.5),
        "c": 6,
    }
    assert scores(made, asked) == {name: 100 * (raw["a"] + 6 - each) // raw["a"] for name, each in raw.items()}
    assert list(made.around.removed(SERVICES, "default", "web")) == []
    assert set(scores(made, asked).values()) == {0}


def test_the_system_defaults_score_nodes_without_a_zone_by_their_own_pods() -> None:
    made = cluster(a_node("a", labels={HOSTNAME: "a"}), a_node("b", labels={HOSTNAME: "b"}))
    tell(made, SERVICES, "web", WEB)
    for i in range(9):
        made.bind(a_pod(f"q{i}", labels=WEB), "a")
    found = scores(made, a_pod("p", labels=WEB))
    assert found["b"] == 100 > found["a"]


def test_by_default_nodes_without_a_zone_are_in_that_of_the_empty_name() -> None:
    made = cluster(in_zone("a", ""), in_zone("b", None), in_zone("c", "x"))
    tell(made, SERVICES, "web", WEB)
    for i in range(3):
        made.bind(a_pod(f"q{i}", labels=WEB), "b")
    raw = {"a": floor(2 + 3 * log(4) + 4 + 0.5), "b": floor(3 * log(5) + 2 + 0.5), "c": 6}
    most = max(raw.values())
    assert scores(made, a_pod("p", labels=WEB)) == {name: 100 * (most + 6 - each) // most for name, each in raw.items()}


@pytest.mark.parametrize(
    ("kind", "resource", "selector"),
    [
        ("ReplicaSet", REPLICA_SETS, {"matchLabels": WEB}),
        ("StatefulSet", STATEFUL_SETS, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        ("ReplicationController", REPLICATION_CONTROLLERS, WEB),
    ],
)
def test_pods_of_a_controller_are_spread_by_default(kind: str, resource: APIResource, selector: Object) -> None:
    made = cluster(in_zone("a", "x"), in_zone("b", "y"))
    tell(made, resource, "r", selector)
    tell(made, resource, "r", selector, namespace="elsewhere")
    made.bind(a_pod("q", labels=WEB), "a")
    found = scores(made, owned(a_pod("p", labels=WEB), kind, "r"))
    assert found["b"] == 100 > found["a"]
    assert set(scores(made, owned(a_pod("p", labels=WEB), kind, "other")).values()) == {0}
    assert set(scores(made, owned(a_pod("p", labels=WEB), "Job", "r")).values()) == {0}


def test_a_pod_with_constraints_of_its_own_gets_no_defaults() -> None:
    made = cluster(in_zone("a", "x"), in_zone("b", "y"))
    tell(made, SERVICES, "web", WEB)
    made.bind(a_pod("q", labels=WEB), "a")
    assert set(scores(made, web("p", spread(maxSkew=5))).values()) == {0}


def test_default_constraints_of_the_configuration_hold_as_well() -> None:
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    made = cluster(in_zone("a", "x"), in_zone("b", "y"), pluginConfig=[{"name": NAME, "args": args}])
    made.bind(a_pod("q", labels=WEB), "a")
    assert feasible(made, a_pod("p", labels=WEB)) == ["a", "b"]
    tell(made, SERVICES, "web", WEB)
    assert feasible(made, a_pod("p", labels=WEB)) == ["b"]
    assert feasible(made, a_pod("p", labels={"app": "other"})) == ["a", "b"]


def test_siblings_are_those_that_all_services_and_the_controller_select() -> None:
    made = cluster(in_zone("a", "x"), in_zone("b", "y"))
    tell(made, SERVICES, "web", WEB)
    tell(made, SERVICES, "green", {"colour": "green"})
    tell(made, SERVICES, "db", {"app": "db"})
    tell(made, SERVICES, "headless", None)
    tell(made, REPLICA_SETS, "r", {"matchLabels": {"hash": "1"}})
    pod = owned(a_pod("p", labels={**WEB, "colour": "green", "hash": "1"}), "ReplicaSet", "r")
    assert str(made.around.pod_selectors.of(made.pod(pod))) == "app=web,colour=green,hash=1"
    tell(made, SERVICES, "green", {"colour": "blue"})
    assert str(made.around.pod_selectors.of(made.pod(pod))) == "app=web,hash=1"
    made.around.removed(REPLICA_SETS, "default", "r")
    assert str(made.around.pod_selectors.of(made.pod(pod))) == "app=web"
    assert made.around.pod_selectors.of(made.pod(a_pod("p", labels={"colour": "green"}))) is None


def test_selectors_that_change_under_the_same_name_are_noticed() -> None:
    made = cluster(in_zone("a", "x"))
    pod = made.pod(owned(a_pod("p", labels={**WEB, "colour": "green"}), "ReplicaSet", "r"))
    tell(made, SERVICES, "web", WEB)
    tell(made, REPLICA_SETS, "r", {"matchLabels": WEB})
    assert str(made.around.pod_selectors.of(pod)) == "app=web"
    tell(made, SERVICES, "web", {**WEB, "colour": "green"})
    assert str(made.around.pod_selectors.of(pod)) == "app=web,colour=green"
    tell(made, REPLICA_SETS, "r", {"matchLabels": {"hash": "1"}})
    assert str(made.around.pod_selectors.of(pod)) == "app=web,colour=green,hash=1"


def test_a_replication_controller_has_the_last_word_about_a_label() -> None:
    made = cluster(in_zone("a", "x"))
    tell(made, SERVICES, "web", WEB)
    tell(made, REPLICATION_CONTROLLERS, "r", {"app": "old"})
    pod = owned(a_pod("p", labels=WEB), "ReplicationController", "r")
    assert str(made.around.pod_selectors.of(made.pod(pod))) == "app=old"


def test_an_owner_that_is_not_the_controller_has_no_say() -> None:
    made = cluster(in_zone("a", "x"))
    tell(made, REPLICA_SETS, "r", {"matchLabels": WEB})
    pod = owned(a_pod("p", labels=WEB), "ReplicaSet", "r")
    assert made.around.pod_selectors.of(made.pod(pod)) is not None
    pod["metadata"]["ownerReferences"][0]["controller"] = False
    assert made.around.pod_selectors.of(made.pod(pod)) is None


def test_a_pod_that_its_controller_does_not_select_is_no_sibling_of_its_own() -> None:
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    made = cluster(in_zone("a", "x"), in_zone("b", "y"), pluginConfig=[{"name": NAME, "args": args}])
    tell(made, REPLICA_SETS, "r", {"matchLabels": WEB})
    made.bind(a_pod("q", labels=WEB), "a")
    assert feasible(made, owned(a_pod("p", labels=WEB), "ReplicaSet", "r")) == ["b"]
    assert feasible(made, owned(a_pod("p", labels={"app": "stray"}), "ReplicaSet", "r")) == ["a", "b"]
