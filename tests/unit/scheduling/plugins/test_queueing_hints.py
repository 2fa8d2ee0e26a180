"""Which events wake a pod that a plugin rejected, and which do not."""

from __future__ import annotations

from typing import Any

from clusters import Cluster, a_node, a_pod
from hashed_texts import HashedText
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import HostPort
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import Unplaced
from headgate.scheduling.plugins.node_ports import PodFreesPort
from headgate.waiting.queueing_hints import ClusterEventWithHint, any_event_matches

Object = dict[str, Any]
CLUSTER = Cluster(a_node("far", cpu="0", pods="0"))


def wakers_of(pod: Object, *nodes: Object) -> tuple[ClusterEventWithHint, ...]:
    """Of the plugins that turn the pod away from these nodes."""
    cluster = Cluster(*nodes)
    found = cluster.cycle.decide(cluster.pod(pod))
    assert isinstance(found, Unplaced), found
    return tuple(waker for each in found.rejections for waker in each.wakers)


def read(pod: Object, node: str = "") -> PodInfo:
    return CLUSTER.pod({**pod, "spec": {**pod["spec"], **({"nodeName": node} if node else {})}})


def node_added(node: Object) -> ClusterEvent:
    return ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, node)


def pod_gone(pod: Object, node: str = "a") -> ClusterEvent:
    return ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, read(pod, node), None)


def wakes(wakers: tuple[ClusterEventWithHint, ...], *happened: ClusterEvent) -> bool:
    assert happened, "nothing happened"
    return any(any_event_matches(wakers, each) for each in happened)


def test_an_added_node_that_is_large_enough_wakes() -> None:
    waiting = wakers_of(a_pod("p", {"cpu": "2"}), a_node("a", cpu="1"))
    assert wakes(waiting, node_added(a_node("b", cpu="2")))
    assert not wakes(waiting, node_added(a_node("b", cpu="1")))
    assert not wakes(waiting, node_added(a_node("b", cpu="2", pods="0")))


def test_a_node_with_more_allocatable_wakes_only_for_needed_resources() -> None:
    waiting = wakers_of(a_pod("p", {"cpu": "2"}), a_node("a", cpu="1"))
    small, large = a_node("a", cpu="1"), a_node("a", cpu="2")
    assert wakes(waiting, *cluster_events.node_update_events(small, large))
    assert not wakes(waiting, *cluster_events.node_update_events(large, a_node("a", cpu="2", memory="16Gi")))


def test_any_deleted_pod_on_a_node_wakes() -> None:
    waiting = wakers_of(a_pod("p", {"cpu": "2"}), a_node("a", cpu="1"))
    assert wakes(waiting, pod_gone(a_pod("q")))
    deleted = ClusterEvent(cluster_events.UNSCHEDULABLE_POD, cluster_events.DELETE, read(a_pod("q")), None)
    assert not wakes(waiting, deleted)


def test_a_pod_that_scales_down_wakes_for_the_released_resources() -> None:
    waiting = wakers_of(a_pod("p", {"cpu": "2"}), a_node("a", cpu="1"))
    large, small = (
        read(a_pod("q", {"cpu": "2", "memory": "2Gi"}), "a"),
        read(a_pod("q", {"cpu": "1", "memory": "2Gi"}), "a"),
    )
    assert wakes(waiting, *cluster_events.pod_update_events(large, small))
    thin = read(a_pod("q", {"cpu": "2", "memory": "1Gi"}), "a")
    assert not wakes(waiting, *cluster_events.pod_update_events(large, thin))


def test_a_removed_taint_wakes_pods_that_did_not_tolerate_it() -> None:
    tainted = a_node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    waiting = wakers_of(a_pod("p"), tainted)
    assert wakes(waiting, *cluster_events.node_update_events(tainted, a_node("a")))
    other = a_node("a", taints=[{"key": "l", "effect": "NoSchedule"}])
    assert not wakes(waiting, *cluster_events.node_update_events(tainted, other))
    assert not wakes(waiting, pod_gone(a_pod("q")))


def test_an_added_label_wakes_pods_that_select_it() -> None:
    waiting = wakers_of(a_pod("p", nodeSelector={"zone": "x"}), a_node("a"))
    labelled = a_node("a", labels={"zone": "x"})
    assert wakes(waiting, *cluster_events.node_update_events(a_node("a"), labelled))
    assert not wakes(waiting, *cluster_events.node_update_events(a_node("a"), a_node("a", labels={"zone": "y"})))
    more = a_node("a", labels={"zone": "x", "other": ""})
    assert not wakes(waiting, *cluster_events.node_update_events(labelled, more))
    assert wakes(waiting, node_added(labelled))


def test_uncordoning_wakes_pods_that_waited_for_it() -> None:
    cordoned = a_node("a", cordoned=True)
    waiting = wakers_of(a_pod("p"), cordoned)
    assert wakes(waiting, *cluster_events.node_update_events(cordoned, a_node("a")))
    assert not wakes(waiting, node_added(a_node("b", cordoned=True)))


def test_a_toleration_that_the_pod_gained_wakes_it() -> None:
    waiting = wakers_of(a_pod("p"), a_node("a", cordoned=True))
    key = "node.kubernetes.io/unschedulable"
    tolerant = read(a_pod("p", tolerations=[{"key": key, "operator": "Exists"}]))
    unrelated = read(a_pod("p", tolerations=[{"key": "k", "operator": "Exists"}]))
    assert wakes(waiting, *cluster_events.pod_update_events(read(a_pod("p")), tolerant))
    assert not wakes(waiting, *cluster_events.pod_update_events(read(a_pod("p")), unrelated))


def test_only_a_pod_with_the_same_port_frees_it() -> None:
    def port(number: int) -> list[Object]:
        return [{"containerPort": 1, "hostPort": number}]

    cluster = Cluster(a_node("a"))
    cluster.bind(a_pod("q", ports=port(80)), "a")
    found = cluster.cycle.decide(cluster.pod(a_pod("p", ports=port(80))))
    assert isinstance(found, Unplaced)
    waiting = found.rejections[0].wakers
    assert wakes(waiting, pod_gone(a_pod("q", ports=port(80))))
    assert not wakes(waiting, pod_gone(a_pod("q", ports=port(81))))
    assert wakes(waiting, node_added(a_node("b")))


def test_the_ports_of_two_pods_are_not_compared_in_pairs() -> None:
    wanted = PodFreesPort(tuple(HostPort(HashedText("TCP"), number, "10.0.0.1") for number in range(1, 6)))
    used = [{"containerPort": 1, "hostPort": number, "protocol": "UDP"} for number in range(1, 6)]
    assert not wanted.matches(pod_gone(a_pod("q", ports=used)))
    addresses = {HashedText(f"10.0.1.{number}") for number in range(5)}
    assert not wanted.ports[0].conflicts_with(addresses)
    assert wanted.ports[0].conflicts_with({*addresses, "10.0.0.1"})


def test_pods_of_one_shape_share_their_guards() -> None:
    cluster = Cluster(a_node("a", cpu="1"))
    one, other = (cluster.cycle.decide(cluster.pod(a_pod(name, {"cpu": "2"}))) for name in "pq")
    assert isinstance(one, Unplaced)
    assert isinstance(other, Unplaced)
    assert set(one.rejections[0].wakers) == set(other.rejections[0].wakers)


def test_an_invalid_node_wakes_no_pod() -> None:
    waiting = wakers_of(a_pod("p", {"cpu": "2"}), a_node("a", cpu="1"))
    assert not wakes(waiting, node_added(a_node("b", cpu="-1")))


def test_a_node_that_was_not_cordoned_before_wakes_no_pod_that_waits_for_one_to_be_uncordoned() -> None:
    plain, tainted = a_node("b"), a_node("b", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    waiting = wakers_of(a_pod("p"), a_node("a", cordoned=True))
    assert wakes(waiting, node_added(plain))
    assert wakes(waiting, *cluster_events.node_update_events(a_node("b", cordoned=True), plain))
    assert not wakes(waiting, *cluster_events.node_update_events(plain, tainted))
    still = a_node("b", cordoned=True, taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert not wakes(waiting, *cluster_events.node_update_events(a_node("b", cordoned=True), still))
