"""Which events wake a pod that was turned away because of the pods it is or is not near, and which leave it alone."""

from __future__ import annotations

from typing import Any

from clusters import Cluster, a_node
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import Unplaced
from headgate.waiting.queueing_hints import ClusterEventWithHint, any_event_matches
from near import app, label, only_affinity, term

Object = dict[str, Any]


class Story:
    """A pod that waits, in a cluster with one node in zone x where somebody may be in its way."""

    def __init__(self, waiting: Object, *there: Object) -> None:
        self.cluster = only_affinity(a_node("a", labels={"zone": "x"}))
        for each in there:
            self.cluster.bind(each, "a")
        self.waiting = waiting

    @property
    def wakers(self) -> tuple[ClusterEventWithHint, ...]:
        found = self.cluster.cycle.decide(self.cluster.pod(self.waiting))
        assert isinstance(found, Unplaced), found
        return tuple(waker for each in found.rejections for waker in each.wakers)

    def wakes(self, *happened: ClusterEvent) -> bool:
        assert happened, "nothing happened"
        return any(any_event_matches(self.wakers, each) for each in happened)

    def read(self, pod: Object, node: str = "a") -> PodInfo:
        return bound(self.cluster, pod, node)

    def came(self, pod: Object, node: str = "a") -> bool:
        return self.wakes(ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.ADD, None, self.read(pod, node)))

    def went(self, pod: Object) -> bool:
        return self.wakes(ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, self.read(pod), None))

    def changed(self, old: Object, new: Object) -> bool:
        return self.wakes(*cluster_events.pod_update_events(self.read(old), self.read(new)))

    def node_came(self, **labels: str) -> bool:
        return self.wakes(ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, a_node("b", labels=labels)))

    def node_moved(self, old: Object, new: Object) -> bool:
        return self.wakes(*cluster_events.node_update_events(a_node("a", labels=old), a_node("a", labels=new)))


def bound(cluster: Cluster, pod: Object, node: str) -> PodInfo:
    return cluster.pod({**pod, "spec": {**pod["spec"], "nodeName": node}})


def wants_web(**more: Any) -> Story:
    return Story(app("p", near=[term("web", **more)]))


def shuns_web(**more: Any) -> Story:
    return Story(app("p", apart=[term("web", **more)]), app("web", "web"))


def test_a_pod_that_it_has_to_be_near_wakes_it_by_coming() -> None:
    story = wants_web()
    assert story.came(app("q", "web"))
    assert not story.came(app("q", "db"))
    assert not story.came(app("q", "web", space="red"))


def test_a_pod_that_comes_does_not_help_who_keeps_apart() -> None:
    assert not shuns_web().came(app("q", "web"))


def test_a_pod_must_match_all_terms_to_wake_by_coming() -> None:
    story = Story(app("p", near=[term("web"), {"topologyKey": "zone", "labelSelector": {"matchLabels": {"x": "y"}}}]))
    assert not story.came(app("q", "web"))
    both = app("q", "web")
    both["metadata"]["labels"]["x"] = "y"
    assert story.came(both)


def test_a_pod_that_it_keeps_apart_from_wakes_it_by_going() -> None:
    story = shuns_web()
    assert story.went(app("q", "web"))
    assert not story.went(app("q", "db"))


def test_one_term_of_several_is_enough_to_wake_by_going() -> None:
    story = Story(app("p", apart=[term("web"), term("db")]), app("web", "web"))
    assert story.went(app("q", "web"))
    assert story.went(app("q", "db"))


def test_a_pod_that_kept_it_away_wakes_it_by_going() -> None:
    story = Story(app("p", "web"), app("loner", apart=[term("web")]))
    assert story.went(app("loner", apart=[term("web")]))
    assert not story.went(app("q", "db"))
    own = Story(app("p", "web", apart=[term("web")]), app("web", "web"))
    assert own.went(app("loner", apart=[term("web")]))
    assert not own.went(app("loner", apart=[term("db")]))
    assert not own.went(app("loner", apart=[term("web")], space="red"))


def test_the_last_of_its_kind_wakes_it_by_going_since_it_is_then_the_first() -> None:
    story = Story(app("p", "web", near=[term("web"), term("web", "rack")]), app("web", "web"))
    assert story.went(app("web", "web"))
    assert not story.went(app("db", "db"))


def test_new_labels_of_a_pod_wake_only_if_they_matter() -> None:
    story = wants_web()
    assert story.changed(app("q", "db"), app("q", "web"))
    assert not story.changed(app("q", "db"), app("q", "cache"))
    apart = shuns_web()
    assert apart.changed(app("q", "web"), app("q", "db"))
    assert not apart.changed(app("q", "db"), app("q", "web"))


def test_own_new_labels_wake_it() -> None:
    story = Story(app("p", "web"), app("loner", apart=[term("web")]))
    old, new = story.cluster.pod(app("p", "web")), story.cluster.pod(app("p", "db"))
    assert story.wakes(*cluster_events.pod_update_events(old, new))


def test_a_node_wakes_by_coming_if_it_has_a_label_that_counts() -> None:
    story = wants_web()
    assert story.node_came(zone="y")
    assert not story.node_came(rack="1")
    assert shuns_web().node_came(rack="1")
    assert Story(app("p", "web"), app("loner", apart=[term("web")])).node_came()


def test_a_node_that_moves_between_domains_that_count_wakes() -> None:
    for story in (wants_web(), shuns_web(), Story(app("p", "web"), app("loner", apart=[term("web")]))):
        assert story.node_moved({"zone": "x"}, {"zone": "y"})
        assert story.node_moved({"zone": "x"}, {})
        assert story.node_moved({}, {"zone": "x"})
        assert not story.node_moved({"zone": "x"}, {"zone": "x", "rack": "1"})


def test_namespaces_chosen_by_labels_count_as_they_are_now() -> None:
    story = wants_web(namespaceSelector={"matchLabels": {"team": "one"}})
    assert not story.came(app("q", "web", space="blue"))
    label(story.cluster, "blue", team="one")
    assert story.came(app("q", "web", space="blue"))


def test_pods_that_wait_alike_are_woken_by_one_question() -> None:
    story = wants_web()
    other = Story(app("p", near=[term("web")]))
    other.cluster = story.cluster
    assert story.wakers == other.wakers
