"""The status of PodGroups, including invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.capacity.names import GATE
from headgate.capacity.status.status_reporter import CreateMissingObject
from status_reporting import Cluster, phases, started

Object = dict[str, Any]


def test_a_group_goes_through_all_phases() -> None:
    cluster = started()
    cluster.queue("blue", capability={"cpu": "2"})
    seen = []

    def record() -> None:
        cluster.run()
        status = cluster.status("g")
        seen.append((status["phase"], status["running"], status["succeeded"], *cluster.reasons("g").items()))
        assert phases(cluster, "blue") == {status["phase"].lower(): 1}

    cluster.group("g", queue="blue", minMember=2)
    record()
    for name in ("a", "b"):
        cluster.pod(name, group="g", gates=[GATE])
    record()
    for name in ("a", "b"):
        cluster.pod(name, gates=[], admitted="blue", unschedulable=True)
    record()
    for name in ("a", "b"):
        cluster.pod(name, node="n1", phase="Running", unschedulable=False)
    record()
    for name in ("a", "b"):
        cluster.pod(name, phase="Succeeded")
    record()
    ready = "tasks in gang are ready to be scheduled"
    assert seen == [
        ("Inqueue", 0, 0, ("Unschedulable", "NotEnoughTasks")),
        ("Inqueue", 0, 0, ("Scheduled", "WaitingForQueue")),
        ("Inqueue", 0, 0, ("Unschedulable", "NotEnoughResources")),
        ("Running", 2, 0, ("Scheduled", ready)),
        ("Completed", 0, 2, ("Scheduled", ready)),
    ]


def test_a_group_is_pending_until_it_is_enqueued() -> None:
    cluster = started()
    cluster.queue("blue", capability={"cpu": "2"})
    cluster.pod("big", queue="blue", node="n1", phase="Running", cpu=2000)
    cluster.group("g", queue="blue", minMember=1, minResources={"cpu": "2"})
    cluster.run()
    cluster.engine.admit(cluster.now_s, 10)
    cluster.run()
    assert cluster.status("g")["phase"] == "Pending"
    cluster.remove_pod("big")
    cluster.engine.admit(cluster.now_s, 10)
    cluster.run()
    assert cluster.status("g")["phase"] == "Inqueue"


def test_a_pod_that_moves_to_the_watch_of_ended_pods_is_counted_once() -> None:
    cluster = started()
    cluster.group("g", queue="blue", minMember=1)
    pod = cluster.pod("a", group="g", node="n1", phase="Running")
    cluster.pod("a", phase="Succeeded")
    cluster.reporter.pod_removed(pod["uid"], cluster.now_s)
    cluster.run()
    assert (cluster.status("g")["phase"], cluster.status("g")["succeeded"]) == ("Completed", 1)
    cluster.reporter.pod_removed(pod["uid"], cluster.now_s, from_terminal_watch=True)
    cluster.run()
    assert cluster.status("g")["succeeded"] == 0


def test_groups_of_other_schedulers_are_counted_and_not_written() -> None:
    cluster = Cluster("headgate")
    for name in ("root", "default", "blue"):
        cluster.queue(name)
    cluster.synced()
    cluster.group("theirs", queue="blue", minMember=1)
    cluster.pod("a", group="theirs", scheduler="volcano", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("theirs") == {}
    assert phases(cluster, "blue") == {"pending": 1}


def test_a_group_with_hard_topology_gets_a_not_supported_condition() -> None:
    cluster = started()
    cluster.group("g", queue="blue", minMember=1, networkTopology={"mode": "hard", "highestTierAllowed": 1})
    cluster.pod("a", group="g", node="n1", phase="Running")
    cluster.run()
    assert cluster.reasons("g")["Supported"] == "NotSupported"


def test_pods_without_a_group_get_generated_groups_only_by_option() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", gates=[GATE])
    cluster.run()
    assert cluster.groups == {}
    with_groups = started(creates_groups=True)
    uid = with_groups.pod("a", queue="blue", gates=[GATE])["uid"]
    with_groups.run()
    (created,) = (each for each in with_groups.writes if isinstance(each, CreateMissingObject))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": True}
    assert created.obj["metadata"] == {"namespace": "ns", "name": f"podgroup-{uid}", "ownerReferences": [owner]}
    assert created.obj["spec"] == {"minMember": 1, "queue": "blue"}
    assert (phases(with_groups, "blue"), with_groups.reasons(f"podgroup-{uid}")) == (
        {"pending": 1},
        {"Scheduled": "WaitingForQueue"},
    )
    with_groups.pod("a", gates=[], admitted="blue")
    with_groups.run()
    assert phases(with_groups, "blue") == {"inqueue": 1}
    with_groups.pod("a", node="n1", phase="Running")
    with_groups.run()
    assert (phases(with_groups, "blue"), with_groups.status(f"podgroup-{uid}")["running"]) == ({"running": 1}, 1)
    with_groups.pod("a", phase="Succeeded")
    with_groups.run()
    assert phases(with_groups, "blue") == {"completed": 1}
    assert len([each for each in with_groups.writes if isinstance(each, CreateMissingObject)]) == 1


def test_a_deleted_generated_group_is_created_again_while_its_pod_is_alive() -> None:
    cluster = started(creates_groups=True)
    uid = cluster.pod("a", queue="blue", node="n1", phase="Running")["uid"]
    cluster.run()
    cluster.remove_group(f"podgroup-{uid}")
    cluster.run()
    assert f"podgroup-{uid}" in cluster.groups
    cluster.remove_pod("a")
    cluster.remove_group(f"podgroup-{uid}")
    cluster.run(120)
    assert cluster.groups == {}
    assert phases(cluster, "blue") == {}


@pytest.mark.parametrize("spec", [{"minMember": "many"}, {"minMember": 1, "minResources": {"cpu": "-1"}}])
def test_an_invalid_group_gets_a_condition_and_others_are_not_affected(spec: Object) -> None:
    cluster = started()
    cluster.group("bad", queue="blue", **spec)
    cluster.group("good", queue="blue", minMember=1)
    cluster.pod("a", group="good", node="n1", phase="Running")
    cluster.run()
    assert cluster.reasons("bad")["Unschedulable"] == "Invalid"
    assert cluster.status("good")["phase"] == "Running"


def test_malformed_objects_do_not_stop_the_reporter() -> None:
    cluster = started()
    for wire in (
        {},
        {"metadata": {"name": "x"}, "spec": 7, "status": [1]},
        {"metadata": {"name": "y"}, "status": {"conditions": 3}},
    ):
        cluster.reporter.queue_applied(wire, cluster.now_s)
        cluster.reporter.group_applied(wire, cluster.now_s)
        cluster.reporter.pod_applied(wire, cluster.now_s)
    cluster.run()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "1"}


def test_a_group_waits_for_its_queue_even_if_some_of_its_pods_have_no_gate() -> None:
    """The promises of those pods were taken back, because the group was incomplete."""
    cluster = started()
    cluster.queue("blue", capability={"cpu": "4"})
    cluster.group("g", queue="blue", minMember=3)
    for name in ("a", "b"):
        cluster.pod(name, group="g", reason="WaitingForQueue")
    cluster.run()
    assert cluster.reasons("g") == {"Unschedulable": "NotEnoughTasks"}
    cluster.pod("c", group="g", gates=[GATE], cpu=9000)
    cluster.run()
    assert cluster.reasons("g") == {"Scheduled": "WaitingForQueue"}
