"""Which events wake a pod that InterPodAffinity rejected, and which do not."""

from __future__ import annotations

from typing import Any

from affinity_pods import app, label, only_affinity, term
from clusters import Cluster, a_node
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import Unplaced
from headgate.waiting.queueing_hints import ClusterEventWithHint, any_event_matches

Object = dict[str, Any]


class WaitingPod:
    """A waiting pod in a cluster with one node in zone x and existing pods on it."""

    def __init__(self, waiting: Object, *existing: Object) -> None:
        self.cluster = only_affinity(a_node("a", labels={"zone": "x"}))
        for each in existing:
            self.cluster.bind(each, "a")
        self.waiting = waiting

    @property
    def wakers(self) -> tuple[ClusterEventWithHint, ...]:
        found = self.cluster.cycle.decide(self.cluster.pod(self.waiting))
        assert isinstance(found, Unplaced), found
        return tuple(waker for each in found.rejections for waker in each.wakers)

    def is_woken_by(self, *events: ClusterEvent) -> bool:
        assert events, "nothing happened"
        return any(any_event_matches(self.wakers, each) for each in events)

    def read(self, pod: Object, node: str = "a") -> PodInfo:
        return bound(self.cluster, pod, node)

    def woken_by_added_pod(self, pod: Object, node: str = "a") -> bool:
        return self.is_woken_by(
            ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.ADD, None, self.read(pod, node))
        )

    def woken_by_deleted_pod(self, pod: Object) -> bool:
        return self.is_woken_by(ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, self.read(pod), None))

    def woken_by_updated_pod(self, old: Object, new: Object) -> bool:
        return self.is_woken_by(*cluster_events.pod_update_events(self.read(old), self.read(new)))

    def woken_by_added_node(self, **labels: str) -> bool:
        return self.is_woken_by(ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, a_node("b", labels=labels)))

    def woken_by_updated_node(self, old: Object, new: Object) -> bool:
        return self.is_woken_by(*cluster_events.node_update_events(a_node("a", labels=old), a_node("a", labels=new)))


def bound(cluster: Cluster, pod: Object, node: str) -> PodInfo:
    return cluster.pod({**pod, "spec": {**pod["spec"], "nodeName": node}})


def with_affinity_to_web(**more: Any) -> WaitingPod:
    return WaitingPod(app("p", near=[term("web", **more)]))


def with_anti_affinity_to_web(**more: Any) -> WaitingPod:
    return WaitingPod(app("p", apart=[term("web", **more)]), app("web", "web"))


def test_an_added_pod_that_matches_affinity_wakes_the_pod() -> None:
    waiting_pod = with_affinity_to_web()
    assert waiting_pod.woken_by_added_pod(app("q", "web"))
    assert not waiting_pod.woken_by_added_pod(app("q", "db"))
    assert not waiting_pod.woken_by_added_pod(app("q", "web", namespace="red"))


def test_an_added_pod_does_not_wake_a_pod_with_anti_affinity() -> None:
    assert not with_anti_affinity_to_web().woken_by_added_pod(app("q", "web"))


def test_an_added_pod_must_match_all_affinity_terms() -> None:
    waiting_pod = WaitingPod(
        app("p", near=[term("web"), {"topologyKey": "zone", "labelSelector": {"matchLabels": {"x": "y"}}}])
    )
    assert not waiting_pod.woken_by_added_pod(app("q", "web"))
    both = app("q", "web")
    both["metadata"]["labels"]["x"] = "y"
    assert waiting_pod.woken_by_added_pod(both)


def test_a_deleted_pod_that_matches_anti_affinity_wakes_the_pod() -> None:
    waiting_pod = with_anti_affinity_to_web()
    assert waiting_pod.woken_by_deleted_pod(app("q", "web"))
    assert not waiting_pod.woken_by_deleted_pod(app("q", "db"))


def test_a_deleted_pod_that_matches_one_anti_affinity_term_wakes_the_pod() -> None:
    waiting_pod = WaitingPod(app("p", apart=[term("web"), term("db")]), app("web", "web"))
    assert waiting_pod.woken_by_deleted_pod(app("q", "web"))
    assert waiting_pod.woken_by_deleted_pod(app("q", "db"))


def test_a_deleted_pod_whose_anti_affinity_rejected_the_pod_wakes_it() -> None:
    waiting_pod = WaitingPod(app("p", "web"), app("loner", apart=[term("web")]))
    assert waiting_pod.woken_by_deleted_pod(app("loner", apart=[term("web")]))
    assert not waiting_pod.woken_by_deleted_pod(app("q", "db"))
    own = WaitingPod(app("p", "web", apart=[term("web")]), app("web", "web"))
    assert own.woken_by_deleted_pod(app("loner", apart=[term("web")]))
    assert not own.woken_by_deleted_pod(app("loner", apart=[term("db")]))
    assert not own.woken_by_deleted_pod(app("loner", apart=[term("web")], namespace="red"))


def test_the_deletion_of_the_last_matching_pod_wakes_the_pod() -> None:
    waiting_pod = WaitingPod(app("p", "web", near=[term("web"), term("web", "rack")]), app("web", "web"))
    assert waiting_pod.woken_by_deleted_pod(app("web", "web"))
    assert not waiting_pod.woken_by_deleted_pod(app("db", "db"))


def test_new_labels_of_a_pod_wake_only_if_a_match_changes() -> None:
    waiting_pod = with_affinity_to_web()
    assert waiting_pod.woken_by_updated_pod(app("q", "db"), app("q", "web"))
    assert not waiting_pod.woken_by_updated_pod(app("q", "db"), app("q", "cache"))
    with_anti_affinity = with_anti_affinity_to_web()
    assert with_anti_affinity.woken_by_updated_pod(app("q", "web"), app("q", "db"))
    assert not with_anti_affinity.woken_by_updated_pod(app("q", "db"), app("q", "web"))


def test_new_labels_of_the_waiting_pod_wake_it() -> None:
    waiting_pod = WaitingPod(app("p", "web"), app("loner", apart=[term("web")]))
    old, new = waiting_pod.cluster.pod(app("p", "web")), waiting_pod.cluster.pod(app("p", "db"))
    assert waiting_pod.is_woken_by(*cluster_events.pod_update_events(old, new))


def test_an_added_node_wakes_if_it_has_a_topology_key() -> None:
    waiting_pod = with_affinity_to_web()
    assert waiting_pod.woken_by_added_node(zone="y")
    assert not waiting_pod.woken_by_added_node(rack="1")
    assert with_anti_affinity_to_web().woken_by_added_node(rack="1")
    assert WaitingPod(app("p", "web"), app("loner", apart=[term("web")])).woken_by_added_node()


def test_a_node_that_changes_its_domain_wakes() -> None:
    for waiting_pod in (
        with_affinity_to_web(),
        with_anti_affinity_to_web(),
        WaitingPod(app("p", "web"), app("loner", apart=[term("web")])),
    ):
        assert waiting_pod.woken_by_updated_node({"zone": "x"}, {"zone": "y"})
        assert waiting_pod.woken_by_updated_node({"zone": "x"}, {})
        assert waiting_pod.woken_by_updated_node({}, {"zone": "x"})
        assert not waiting_pod.woken_by_updated_node({"zone": "x"}, {"zone": "x", "rack": "1"})


def test_a_namespace_selector_uses_the_current_labels() -> None:
    waiting_pod = with_affinity_to_web(namespaceSelector={"matchLabels": {"team": "one"}})
    assert not waiting_pod.woken_by_added_pod(app("q", "web", namespace="blue"))
    label(waiting_pod.cluster, "blue", team="one")
    assert waiting_pod.woken_by_added_pod(app("q", "web", namespace="blue"))


def test_equal_pods_have_equal_hints() -> None:
    waiting_pod = with_affinity_to_web()
    other = WaitingPod(app("p", near=[term("web")]))
    other.cluster = waiting_pod.cluster
    assert waiting_pod.wakers == other.wakers
