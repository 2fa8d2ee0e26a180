"""Which events wake a pod that PodTopologySpread rejected, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import Unplaced
from headgate.scheduling.pod_lifecycle import PodState
from headgate.waiting.queueing_hints import ClusterEventWithHint, any_event_matches
from unit.scheduling.world import World

Object = dict[str, Any]
WEB = {"app": "web"}
HARD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": WEB},
}
SOFT = {**HARD, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
TAINT = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
CLUSTER = Cluster()


def spread_pod(**more: Any) -> Object:
    return a_pod("p", labels=WEB, topologySpreadConstraints=[{**HARD, **more}, SOFT])


def wakers_of(pod: Object, **profile: Any) -> tuple[ClusterEventWithHint, ...]:
    """Of a pod that finds its zone full and the other tainted."""
    cluster = Cluster(a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "y"}, taints=TAINT), **profile)
    wire = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    for resource in cluster.cluster.watched():
        if resource.plural == "services":
            cluster.cluster.applied(resource, wire)
    cluster.bind(a_pod("q", labels=WEB), "a")
    found = cluster.cycle.decide(cluster.pod(pod))
    assert isinstance(found, Unplaced), found
    return next(each.wakers for each in found.rejections if each.plugin == "PodTopologySpread")


def pod_of(wire: Object, node: str = "", namespace: str = "default") -> PodInfo:
    metadata = {**wire["metadata"], "namespace": namespace}
    return CLUSTER.pod({**wire, "metadata": metadata, "spec": {**wire["spec"], "nodeName": node}})


def wakes(wakers: tuple[ClusterEventWithHint, ...], *happened: ClusterEvent) -> bool:
    assert happened, "nothing happened"
    return any(any_event_matches(wakers, each) for each in happened)


@pytest.mark.parametrize("action", [cluster_events.ADD, cluster_events.DELETE])
def test_an_added_or_deleted_matching_pod_wakes(action: str) -> None:
    waiting = wakers_of(spread_pod())

    def happened(pod: PodInfo) -> ClusterEvent:
        resource = cluster_events.ASSIGNED_POD if pod.node_name else cluster_events.UNSCHEDULABLE_POD
        old, new = (pod, None) if action == cluster_events.DELETE else (None, pod)
        return ClusterEvent(resource, action, old, new)

    assert wakes(waiting, happened(pod_of(a_pod("q", labels=WEB), "a")))
    assert not wakes(waiting, happened(pod_of(a_pod("q", labels={"app": "db"}), "a")))
    assert not wakes(waiting, happened(pod_of(a_pod("q", labels=WEB), "a", namespace="other")))
    assert not wakes(waiting, happened(pod_of(a_pod("q", labels=WEB))))


def test_a_deleted_nominated_pod_wakes_like_a_bound_one() -> None:
    waiting = wakers_of(spread_pod())
    nominated = pod_of(a_pod("q", labels=WEB, status={"nominatedNodeName": "a"}))
    assert wakes(waiting, ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, nominated, None))


def test_a_pod_whose_labels_change_wakes_if_it_counts_otherwise_now() -> None:
    waiting = wakers_of(spread_pod())
    plain, more, other = (
        pod_of(a_pod("q", labels=each), "a") for each in (WEB, {**WEB, "version": "2"}, {"app": "db"})
    )
    assert wakes(waiting, *cluster_events.pod_update_events(plain, other))
    assert wakes(waiting, *cluster_events.pod_update_events(other, plain))
    assert not wakes(waiting, *cluster_events.pod_update_events(plain, more))


def test_the_pod_itself_wakes_when_it_counts_otherwise_or_is_compared_with_others() -> None:
    waiting = wakers_of(spread_pod(matchLabelKeys=["hash"]))
    wire = spread_pod(matchLabelKeys=["hash"])

    def relabelled(labels: dict[str, str]) -> PodInfo:
        return pod_of({**wire, "metadata": {**wire["metadata"], "labels": labels}})

    plain = relabelled(WEB)
    assert wakes(waiting, *cluster_events.pod_update_events(plain, relabelled({"app": "db"})))
    assert wakes(waiting, *cluster_events.pod_update_events(plain, relabelled({**WEB, "hash": "1"})))
    assert not wakes(waiting, *cluster_events.pod_update_events(plain, relabelled({**WEB, "version": "1"})))


def test_a_new_toleration_wakes_only_where_taints_are_honoured() -> None:
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    for policy, expected in (("Honor", True), ("Ignore", False)):
        # Tainted zones count unless they are honoured; then the pod waits for a second zone to make up the number.
        wire = spread_pod(nodeTaintsPolicy=policy, minDomains=2)
        waiting = wakers_of(wire)
        more = {**wire, "spec": {**wire["spec"], **tolerant}}
        assert wakes(waiting, *cluster_events.pod_update_events(pod_of(wire), pod_of(more))) is expected


def test_a_node_that_joins_leaves_or_changes_a_domain_wakes() -> None:
    waiting = wakers_of(spread_pod())
    plain, existing, moved = (a_node("c", labels=each) for each in ({}, {"zone": "z"}, {"zone": "x"}))
    assert wakes(waiting, ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, existing))
    assert not wakes(waiting, ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, plain))
    assert wakes(waiting, ClusterEvent(cluster_events.NODE, cluster_events.DELETE, existing, None))
    assert not wakes(waiting, ClusterEvent(cluster_events.NODE, cluster_events.DELETE, plain, None))
    assert wakes(waiting, *cluster_events.node_update_events(plain, existing))
    assert wakes(waiting, *cluster_events.node_update_events(existing, plain))
    assert wakes(waiting, *cluster_events.node_update_events(existing, moved))
    other = a_node("c", labels={"zone": "z", "rack": "1"})
    assert not wakes(waiting, *cluster_events.node_update_events(existing, other)), "racks are a soft matter"


def test_a_node_with_other_taints_wakes_if_it_has_a_domain() -> None:
    waiting = wakers_of(spread_pod())
    cases: list[tuple[dict[str, str], bool]] = [({"zone": "z"}, True), ({}, False)]
    for labels, expected in cases:
        old, new = a_node("c", labels=labels, taints=TAINT), a_node("c", labels=labels)
        assert wakes(waiting, *cluster_events.node_update_events(old, new)) is expected


def test_pods_rejected_by_default_constraints_wake_with_every_pod_or_domain_change() -> None:
    listed = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    args = {"defaultingType": "List", "defaultConstraints": listed}
    waiting = wakers_of(a_pod("p", labels=WEB), pluginConfig=[{"name": "PodTopologySpread", "args": args}])
    assert wakes(
        waiting,
        ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, pod_of(a_pod("q", labels=WEB), "a"), None),
    )
    assert wakes(
        waiting, ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, a_node("c", labels={"zone": "z"}))
    )
    assert not wakes(waiting, ClusterEvent(cluster_events.NODE, cluster_events.ADD, None, a_node("c")))


def test_a_pod_rejected_by_skew_is_scheduled_when_a_matching_pod_is_deleted() -> None:
    """Zone y counts, but is full: zone x has one pod more until that pod is deleted."""
    world = World(nodes=(a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "y"}, cordoned=True)))
    world.show_bound(a_pod("there", labels=WEB), "a")
    world.show_bound(a_pod("other", labels={"app": "db"}), "a")
    world.show(spread_pod())
    world.step()
    assert world.binds == {}
    assert "1 node(s) didn't match pod topology spread constraints" in world.statuses["p"]
    world.remove("other")
    world.step(after_s=60)
    assert world.binds == {}
    assert world.where("p") is PodState.UNSCHEDULABLE
    world.remove("there")
    world.step(after_s=60)
    assert world.binds == {"p": "a"}
