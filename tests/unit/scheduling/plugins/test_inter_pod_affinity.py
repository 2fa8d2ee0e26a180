"""InterPodAffinity: each rule on a cluster small enough to check by hand."""

from __future__ import annotations

from typing import Any

from affinity_pods import (
    AFFINITY,
    ANTI,
    EXISTING,
    app,
    feasible_nodes,
    label,
    message_for,
    only_affinity,
    scores,
    term,
    weighted,
)
from clusters import Cluster, a_node
from headgate.kube.api_resources import NAMESPACES
from headgate.scheduling.config.types import InterPodAffinityArgs
from headgate.scheduling.framework.interface import Unplaced
from headgate.scheduling.plugins.interpodaffinity.plugin import InterPodAffinity

Object = dict[str, Any]


def node(name: str, zone: str = "", **labels: str) -> Object:
    return a_node(name, labels=labels | ({"zone": zone} if zone else {}))


def zones() -> Cluster:
    """Two nodes in zone x, one in y, and one that is in none."""
    return only_affinity(node("a", "x"), node("b", "x"), node("c", "y"), node("d"))


# -- required affinity --------------------------------------------------------------------------------------------


def test_required_affinity_allows_only_domains_with_matching_pods() -> None:
    cluster = zones()
    cluster.bind(app("web", "web"), "a")
    assert feasible_nodes(cluster, app("p", near=[term("web")])) == ["a", "b"]


def test_required_affinity_without_matching_pods_rejects_all_nodes() -> None:
    assert message_for(zones(), app("p", near=[term("web")])) == f"0/4 nodes are available: 4 {AFFINITY}."


def test_preemption_does_not_resolve_required_affinity() -> None:
    cluster = zones()
    found = cluster.cycle.decide(cluster.pod(app("p", near=[term("web")])))
    assert isinstance(found, Unplaced)
    assert found.resolvable == ()


def test_the_first_pod_that_matches_its_own_affinity_fits_every_node_with_the_label() -> None:
    cluster = zones()
    first = app("p", "web", near=[term("web")])
    assert feasible_nodes(cluster, first) == ["a", "b", "c"]
    cluster.bind(first, "c")
    assert feasible_nodes(cluster, app("q", "web", near=[term("web")])) == ["c"]


def test_later_pods_fit_only_the_domain_of_the_first_pod() -> None:
    cluster = only_affinity(*(node(f"n{i:02}", f"zone-{i}") for i in range(20)), hardPodAffinityWeight=0)
    first, second = (app(name, "web", near=[term("web")]) for name in "pq")
    assert len(feasible_nodes(cluster, first)) == 20
    cluster.bind(first, "n07")
    assert feasible_nodes(cluster, second) == ["n07"]
    cluster.matrix.pod_removed("uid-p")
    assert len(feasible_nodes(cluster, second)) == 20


def test_after_the_last_matching_pod_the_next_pod_is_the_first_again() -> None:
    cluster = zones()
    cluster.bind(app("p", "web", near=[term("web")]), "c")
    assert feasible_nodes(cluster, app("q", "web", near=[term("web")])) == ["c"]
    cluster.matrix.pod_removed("uid-p")
    assert feasible_nodes(cluster, app("q", "web", near=[term("web")])) == ["a", "b", "c"]


def test_a_matching_pod_on_a_node_without_the_label_does_not_count() -> None:
    cluster = zones()
    cluster.bind(app("web", "web"), "d")
    assert feasible_nodes(cluster, app("p", "web", near=[term("web")])) == ["a", "b", "c"]


def test_a_pod_that_does_not_match_its_own_terms_is_never_the_first() -> None:
    first = app("p", "web", near=[term("web"), term("db")])
    assert message_for(zones(), first) == f"0/4 nodes are available: 4 {AFFINITY}."


def test_one_pod_must_match_all_terms_together() -> None:
    cluster = only_affinity(node("a", "x", rack="1"), node("b", "x", rack="2"))
    both = {"labelSelector": {"matchLabels": {"app": "web", "tier": "front"}}}
    pod = app("p", near=[term("web"), {**term("web", "rack"), **both}])
    cluster.bind(app("web", "web"), "a")
    front = app("front", "web")
    front["metadata"]["labels"]["tier"] = "front"
    assert feasible_nodes(cluster, pod) == []
    cluster.bind(front, "b")
    assert feasible_nodes(cluster, pod) == ["b"]


def test_a_term_that_selects_no_pods_is_met_nowhere() -> None:
    cluster = zones()
    cluster.bind(app("web", "web"), "a")
    assert feasible_nodes(cluster, app("p", "web", near=[{"topologyKey": "zone"}])) == []
    assert feasible_nodes(cluster, app("q", "web", near=[{"topologyKey": "zone", "labelSelector": {}}])) == ["a", "b"]


# -- required anti-affinity ---------------------------------------------------------------------------------------


def test_required_anti_affinity_rejects_domains_with_matching_pods() -> None:
    cluster = zones()
    cluster.bind(app("web", "web"), "a")
    assert feasible_nodes(cluster, app("p", apart=[term("web")])) == ["c", "d"]
    cluster.bind(app("more", "web"), "c")
    pod = app("q", apart=[term("web")], nodeSelector={})
    cluster.matrix.node_removed("d")
    assert message_for(cluster, pod) == f"0/3 nodes are available: 3 {ANTI}."


def test_one_matching_anti_affinity_term_is_enough_to_reject() -> None:
    cluster = only_affinity(node("a", "x", rack="1"), node("b", "x", rack="2"), node("c", "y", rack="2"))
    cluster.bind(app("web", "web"), "a")
    cluster.bind(app("db", "db"), "c")
    assert feasible_nodes(cluster, app("p", apart=[term("web"), term("db", "rack")])) == []
    assert feasible_nodes(cluster, app("q", apart=[term("web", "rack"), term("db")])) == ["b"]


def test_anti_affinity_of_existing_pods_rejects_the_pod() -> None:
    cluster = zones()
    cluster.bind(app("loner", "loner", apart=[term("web")]), "a")
    assert feasible_nodes(cluster, app("p", "web")) == ["c", "d"]
    assert feasible_nodes(cluster, app("q", "db")) == ["a", "b", "c", "d"]
    for name in "cd":
        cluster.matrix.node_removed(name)
    assert message_for(cluster, app("r", "web")) == f"0/2 nodes are available: 2 {EXISTING}."
    cluster.matrix.pod_removed("uid-loner")
    assert feasible_nodes(cluster, app("s", "web")) == ["a", "b"]


def test_the_reported_reason_is_the_first_of_three() -> None:
    cluster = only_affinity(node("a", "x"))
    cluster.bind(app("loner", "web", apart=[term("web")]), "a")
    assert EXISTING in message_for(cluster, app("p", "web"))
    assert ANTI in message_for(cluster, app("q", "web", apart=[term("web")]))
    assert AFFINITY in message_for(cluster, app("r", "web", apart=[term("web")], near=[term("db")]))


def test_replicas_with_anti_affinity_use_one_domain_each() -> None:
    cluster = only_affinity(node("a", "x"), node("b", "x"), node("c", "y"))
    placed = []
    for i in range(3):
        pod = cluster.pod(app(f"p{i}", "web", apart=[term("web")]))
        placed.append(getattr(cluster.cycle.place(pod), "node_name", None))
    assert placed == ["a", "c", None]


def test_pods_are_counted_where_their_node_is_now() -> None:
    cluster = zones()
    cluster.bind(app("web", "web"), "a")
    pod = app("p", apart=[term("web")])
    assert feasible_nodes(cluster, pod) == ["c", "d"]
    cluster.apply(node("a", "y"))
    assert feasible_nodes(cluster, pod) == ["b", "d"]
    cluster.apply(node("a"))
    assert feasible_nodes(cluster, pod) == ["a", "b", "c", "d"]


def test_pods_count_by_the_labels_they_have_now() -> None:
    cluster = zones()
    pod = app("p", apart=[term("web")])
    cluster.bind(app("q", "web"), "a")
    assert feasible_nodes(cluster, pod) == ["c", "d"]
    cluster.bind(app("q", "db"), "a")
    assert feasible_nodes(cluster, pod) == ["a", "b", "c", "d"]


def test_a_dry_run_without_the_repelling_pod_passes() -> None:
    cluster = zones()
    loner = cluster.bind(app("loner", "loner", apart=[term("web")]), "a")
    web = cluster.pod(app("p", "web"))
    row = cluster.matrix.row_of("b")
    assert row is not None
    assert [each.text for each in cluster.cycle.probe(web, row)] == [EXISTING]
    row_a = cluster.matrix.row_of("a")
    assert row_a is not None
    assert cluster.cycle.probe(web, row_a, removed=[loner]) == ()
    assert [each.text for each in cluster.cycle.probe(web, row)] == [EXISTING]


# -- namespaces ---------------------------------------------------------------------------------------------------


def test_by_default_a_term_matches_pods_of_its_own_namespace() -> None:
    cluster = zones()
    cluster.bind(app("web", "web", namespace="blue"), "a")
    assert feasible_nodes(cluster, app("p", apart=[term("web")], namespace="red")) == ["a", "b", "c", "d"]
    assert feasible_nodes(cluster, app("q", apart=[term("web")], namespace="blue")) == ["c", "d"]


def test_a_term_may_name_namespaces() -> None:
    cluster = zones()
    cluster.bind(app("web", "web", namespace="blue"), "a")
    assert feasible_nodes(cluster, app("p", apart=[term("web", namespaces=["blue"])], namespace="red")) == ["c", "d"]
    assert len(feasible_nodes(cluster, app("q", apart=[term("web", namespaces=["red"])], namespace="blue"))) == 4


def test_a_namespace_selector_uses_the_current_labels() -> None:
    cluster = zones()
    cluster.bind(app("web", "web", namespace="blue"), "a")
    pod = app("p", apart=[term("web", namespaceSelector={"matchLabels": {"team": "one"}})], namespace="red")
    assert len(feasible_nodes(cluster, pod)) == 4
    label(cluster, "blue", team="one")
    assert feasible_nodes(cluster, pod) == ["c", "d"]
    label(cluster, "blue", team="two")
    assert len(feasible_nodes(cluster, pod)) == 4
    label(cluster, "blue", team="one")
    cluster.cluster.removed(NAMESPACES, "", "blue")
    assert len(feasible_nodes(cluster, pod)) == 4


def test_an_empty_namespace_selector_selects_all_namespaces() -> None:
    cluster = zones()
    cluster.bind(app("web", "web", namespace="blue"), "a")
    assert feasible_nodes(cluster, app("p", apart=[term("web", namespaceSelector={})], namespace="red")) == ["c", "d"]


def test_an_own_namespace_selector_that_only_excludes_means_all_namespaces_as_in_kube_scheduler() -> None:
    cluster = zones()
    label(cluster, "blue", team="one")
    cluster.bind(app("web", "web", namespace="blue"), "a")
    excluding = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    assert feasible_nodes(cluster, app("p", apart=[term("web", namespaceSelector=excluding)], namespace="red")) == [
        "c",
        "d",
    ]


def test_terms_of_existing_pods_match_the_labels_of_the_incoming_pods_namespace() -> None:
    cluster = zones()
    chosen = {"matchLabels": {"team": "one"}}
    cluster.bind(app("loner", apart=[term("web", namespaceSelector=chosen)], namespace="red"), "a")
    plain, own = app("p", "web", namespace="blue"), app("q", "web", namespace="blue", apart=[term("nobody")])
    for pod in (plain, own):
        assert len(feasible_nodes(cluster, pod)) == 4
    label(cluster, "blue", team="one")
    for pod in (plain, own):
        assert feasible_nodes(cluster, pod) == ["c", "d"]
    label(cluster, "blue", team="two")
    for pod in (plain, own):
        assert len(feasible_nodes(cluster, pod)) == 4


# -- preferences --------------------------------------------------------------------------------------------------


def test_preferred_terms_count_by_weight_and_number_of_pods() -> None:
    cluster = zones()
    for i, place in enumerate("aac"):
        cluster.bind(app(f"web{i}", "web"), place)
    likes = app("p", likes=[weighted(10, term("web"))])
    assert scores(cluster, likes) == {"a": 100, "b": 100, "c": 50, "d": 0}
    dislikes = app("q", dislikes=[weighted(10, term("web"))])
    assert scores(cluster, dislikes) == {"a": 0, "b": 0, "c": 50, "d": 100}
    mixed = app("r", likes=[weighted(30, term("web"))], dislikes=[weighted(20, term("web"))])
    assert scores(cluster, mixed) == {"a": 100, "b": 100, "c": 50, "d": 0}


def test_preferred_terms_of_existing_pods_count() -> None:
    cluster = zones()
    cluster.bind(app("fan", likes=[weighted(10, term("web"))]), "a")
    cluster.bind(app("foe", dislikes=[weighted(10, term("web"))]), "c")
    assert scores(cluster, app("p", "web")) == {"a": 100, "b": 100, "c": 0, "d": 50}
    assert scores(cluster, app("q", "db")) == dict.fromkeys("abcd", 0)


def test_required_affinity_of_an_existing_pod_attracts_matching_pods() -> None:
    cluster = zones()
    cluster.bind(app("db", "db"), "a")
    cluster.bind(app("web", "web", near=[term("db")]), "a")
    assert scores(cluster, app("p", "db")) == {"a": 100, "b": 100, "c": 0, "d": 0}


def test_hard_pod_affinity_weight_is_used() -> None:
    cluster = only_affinity(node("a", "x"), node("b", "y"), node("c"), hardPodAffinityWeight=20)
    cluster.bind(app("web", "web", near=[term("db")]), "a")
    cluster.bind(app("fan", likes=[weighted(10, term("db"))]), "b")
    assert scores(cluster, app("p", "db")) == {"a": 100, "b": 50, "c": 0}
    without = only_affinity(node("a", "x"), node("b", "y"), hardPodAffinityWeight=0)
    without.bind(app("web", "web", near=[term("db")]), "a")
    assert scores(without, app("p", "db")) == {"a": 0, "b": 0}


def test_preferred_terms_of_existing_pods_may_be_ignored() -> None:
    cluster = only_affinity(node("a", "x"), node("b", "y"), ignorePreferredTermsOfExistingPods=True)
    cluster.bind(app("fan", "fan", likes=[weighted(10, term("web"))]), "a")
    assert scores(cluster, app("p", "web")) == {"a": 0, "b": 0}
    assert scores(cluster, app("q", "web", apart=[term("db")])) == {"a": 0, "b": 0}
    assert scores(cluster, app("r", "web", likes=[weighted(1, term("db"))])) == {"a": 100, "b": 0}


def test_scores_follow_added_and_removed_pods() -> None:
    cluster = zones()
    pod = app("p", "web", apart=[term("nobody")])
    assert scores(cluster, pod) == dict.fromkeys("abcd", 0)
    cluster.bind(app("fan", likes=[weighted(10, term("web"))]), "c")
    assert scores(cluster, pod) == {"a": 0, "b": 0, "c": 100, "d": 0}
    cluster.matrix.pod_removed("uid-fan")
    assert scores(cluster, pod) == dict.fromkeys("abcd", 0)


# -- keys --------------------------------------------------------------------------------------------------------


def test_pods_that_no_term_matches_have_no_key() -> None:
    cluster = zones()
    cluster.bind(app("loner", apart=[term("web")]), "a")
    plugin = InterPodAffinity(InterPodAffinityArgs(), cluster.cluster)
    assert plugin.key(cluster.pod(app("p", "db"))) is None
    assert plugin.key(cluster.pod(app("q", "web", namespace="red"))) is None
    meant = plugin.key(cluster.pod(app("r", "web")))
    assert meant is not None
    other = app("s", "web")
    other["metadata"]["labels"]["index"] = "7"
    assert plugin.key(cluster.pod(other)) == meant
