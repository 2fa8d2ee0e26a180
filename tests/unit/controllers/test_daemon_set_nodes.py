"""The needs of a DaemonSet on one node, and the next steps of a rolling update, as tables of small cases."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.daemon_sets.daemon_nodes import DaemonNodes, DaemonSetCounts
from headgate.controllers.daemon_sets.node_state import (
    DaemonNodeActions,
    DaemonPod,
    DaemonSetRules,
    NodeUpdateState,
    needed_actions,
    observe_node,
)
from headgate.controllers.daemon_sets.placement import NodeFit, PlacementNode, placement_of, pod_for
from headgate.controllers.daemon_sets.rolling_update import (
    DaemonPodReplacement,
    DaemonRolloutLimits,
    limits_of,
    replace,
)

Object = dict[str, Any]
NOW_S = 1_000_000_000.0
LONG_AGO = "2001-01-01T00:00:00Z"


def pods(text: str) -> list[DaemonPod]:
    """``a:new,ready b:old,leaving``: in the order of their ages."""
    found = []
    for age, each in enumerate(text.split()):
        name, _, rest = each.partition(":")
        words = set(rest.split(","))
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}] if "ready" in words else []
        labels = {"controller-revision-hash": "h" if "new" in words else "g"}
        if "same" in words:
            labels["pod-template-generation"] = "7"
        phase = next((word.title() for word in ("failed", "succeeded") if word in words), "Running")
        metadata = {"name": name, "labels": labels, "creationTimestamp": f"2001-01-01T00:00:{age:02}Z"}
        spec = {} if "unbound" in words else {"nodeName": "n"}
        obj = {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": ready}}
        found.append(DaemonPod(obj, "leaving" in words))
    return found


def rules(*, surges: bool = False) -> DaemonSetRules:
    return DaemonSetRules(placement_of({"spec": {}}), "h", "7", 0, surges)


def short(wanted: DaemonNodeActions) -> str:
    named = [f"-{pod.name}" for pod in (*wanted.deletes, *wanted.failed, *wanted.succeeded)]
    return " ".join([*["+"] * wanted.creates, *sorted(named)])


@pytest.mark.parametrize(
    ("fit", "there", "wanted"),
    [
        (NodeFit.WANTED, "", "+"),
        (NodeFit.STAYS, "", ""),
        (NodeFit.NO, "", ""),
        (NodeFit.WANTED, "a:new", ""),
        (NodeFit.STAYS, "a:new", ""),
        (NodeFit.NO, "a:new b:old,leaving", "-a"),
        (NodeFit.GONE, "a:new b:new,unbound", "-b"),
        (NodeFit.WANTED, "a:new,leaving", ""),
        (NodeFit.WANTED, "a:new,failed,leaving", "+"),
        (NodeFit.WANTED, "a:new,failed", "-a"),
        (NodeFit.WANTED, "a:new,succeeded", "-a"),
        (NodeFit.WANTED, "a:new b:new", "-b"),
        (NodeFit.WANTED, "a:new,unbound b:new", "-a"),
    ],
)
def test_without_surge_a_node_has_one_pod(fit: NodeFit, there: str, wanted: str) -> None:
    assert short(needed_actions(fit, pods(there), rules(), NOW_S)) == wanted


@pytest.mark.parametrize(
    ("fit", "there", "wanted"),
    [
        (NodeFit.WANTED, "a:old,leaving", "+"),
        (NodeFit.STAYS, "a:old,leaving", ""),
        (NodeFit.WANTED, "a:old,ready b:new", ""),
        (NodeFit.WANTED, "a:old b:new", "-a"),
        (NodeFit.WANTED, "a:old,ready b:new,ready", "-a"),
        (NodeFit.WANTED, "a:old,ready b:old,ready c:new d:new", "-b -d"),
    ],
)
def test_with_surge_an_old_and_a_new_pod_coexist(fit: NodeFit, there: str, wanted: str) -> None:
    assert short(needed_actions(fit, pods(there), rules(surges=True), NOW_S)) == wanted


@pytest.mark.parametrize(
    ("there", "turn"),
    [
        ("", NodeUpdateState.EMPTY),
        ("a:new,leaving", NodeUpdateState.EMPTY),
        ("a:new", NodeUpdateState.NEW_WAITING),
        ("a:new,ready", NodeUpdateState.NEW),
        ("a:old,same,ready", NodeUpdateState.NEW),
        ("a:old", NodeUpdateState.OLD_WAITING),
        ("a:old,ready", NodeUpdateState.OLD),
        ("a:old,ready b:new", NodeUpdateState.BOTH_WAITING),
        ("a:old b:new,ready", NodeUpdateState.BOTH),
        ("a:new b:new,ready", NodeUpdateState.MIXED),
    ],
)
def test_the_update_state_of_a_node_follows_its_pods(there: str, turn: NodeUpdateState) -> None:
    assert observe_node(NodeFit.WANTED, pods(there), rules(), NOW_S).update_state == turn


def test_a_pod_on_a_deleted_node_is_not_misscheduled() -> None:
    nodes = {"n": PlacementNode("n", {}, ({"key": "k", "effect": "NoSchedule"},))}
    board = DaemonNodes(nodes)
    for name in ("n", "gone"):
        board.put(name, name, pods("a:new,ready")[0])
    board.refresh(rules(), NOW_S)
    assert board.counts == DaemonSetCounts(misscheduled=1, serving=2)


def test_with_surge_a_pod_on_an_unwanted_node_is_deleted_when_others_serve() -> None:
    groups = {(NodeUpdateState.OLD, False): {"a", "b"}, (NodeUpdateState.NEW, True): {"c", "d"}}
    limits = DaemonRolloutLimits(surge=1, unavailable=0)
    assert replace(groups, limits, desired=2, serving=3) == DaemonPodReplacement(deletes=("a",))
    assert replace(groups, limits, desired=2, serving=2) == DaemonPodReplacement()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"maxUnavailable": 1, "maxSurge": 0}, DaemonRolloutLimits(0, 1)),
        ({"maxUnavailable": "10%", "maxSurge": 0}, DaemonRolloutLimits(0, 2)),
        ({"maxUnavailable": 0, "maxSurge": "10%"}, DaemonRolloutLimits(2, 0)),
        ({"maxUnavailable": 0, "maxSurge": 0}, DaemonRolloutLimits(0, 1)),
    ],
)
def test_percentages_are_rounded_up_and_at_least_one_pod_may_be_replaced(
    given: Object, wanted: DaemonRolloutLimits
) -> None:
    assert limits_of({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": given}}}, 11) == wanted


def test_a_limited_toleration_is_replaced_by_an_unlimited_one_in_place() -> None:
    brief = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    own = {"key": "own", "operator": "Exists"}
    wishes = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}, "podAffinity": {}}
    spec = {"tolerations": [brief, own], "hostNetwork": True, "affinity": wishes}
    owner = {"metadata": {"name": "log", "namespace": "a", "uid": "u"}, "spec": {"template": {"spec": spec}}}
    pod = pod_for(owner, "n", "log-1", "h")
    keys = [each["key"].removeprefix("node.kubernetes.io/") for each in pod["spec"]["tolerations"]]
    pressure = ["disk-pressure", "memory-pressure", "pid-pressure"]
    assert keys == ["not-ready", "own", "unreachable", *pressure, "unschedulable", "network-unavailable"]
    assert "tolerationSeconds" not in pod["spec"]["tolerations"][0]
    assert pod["spec"]["affinity"].keys() == {"nodeAffinity", "podAffinity"}
    assert len(pod["spec"]["affinity"]["nodeAffinity"]) == 2
    assert spec["tolerations"] == [brief, own], "the template is as it was"
