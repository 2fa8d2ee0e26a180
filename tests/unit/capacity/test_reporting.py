"""The status of queues and groups: what it comes to say, and how few writes that takes."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.capacity.names import GATE
from headgate.capacity.reporting import Make, Report
from reported import Cluster

Object = dict[str, Any]

NOTHING = {"pending": 0, "inqueue": 0, "running": 0, "unknown": 0, "completed": 0}


def started(**limits: Any) -> Cluster:
    """With the queues root, default and blue, all reported."""
    cluster = Cluster("volcano", **limits)
    for name in ("root", "default", "blue"):
        cluster.queue(name)
    cluster.synced()
    cluster.run()
    cluster.writes.clear()
    return cluster


def phases(cluster: Cluster, queue: str) -> Object:
    status = cluster.status(queue)
    return {name: status[name] for name in NOTHING if status[name]}


def test_nothing_is_written_before_all_was_told() -> None:
    cluster = Cluster()
    cluster.queue("blue")
    assert cluster.run() == 0
    assert cluster.reporting.next_deadline_s() is None


def test_a_new_queue_is_open_and_empty() -> None:
    cluster = started()
    assert cluster.status("blue") == {"state": "Open", **NOTHING, "allocated": {}, "reserved": {}, "conditions": []}


def test_a_cluster_in_which_nothing_happens_is_left_alone() -> None:
    cluster = started()
    assert cluster.run(3_600, 5) == 0
    assert cluster.reporting.next_deadline_s() is None


def test_the_two_first_queues_are_made_if_they_are_missing_and_again_if_they_go() -> None:
    cluster = Cluster()
    cluster.synced()
    cluster.run(1)
    made = [each.obj["metadata"]["name"] for each in cluster.writes if isinstance(each, Make)]
    assert made == ["root", "default"]
    cluster.run(60)
    cluster.writes.clear()
    cluster.remove_queue("default")
    cluster.run()
    assert [each.obj["metadata"]["name"] for each in cluster.writes if isinstance(each, Make)] == ["default"]


def test_a_queue_that_cannot_be_made_is_tried_again_but_not_at_once() -> None:
    cluster = Cluster()
    cluster.fails = 4
    cluster.synced()
    assert cluster.run(25) == 2
    cluster.run(60)
    assert sorted(cluster.queues) == ["default", "root"]


def test_what_pods_hold_and_what_they_are_promised_is_told_at_the_queue_and_above() -> None:
    cluster = started()
    cluster.queue("leaf", parent="blue")
    cluster.pod("a", queue="leaf", node="n1", phase="Running", cpu=1500)
    cluster.pod("b", queue="leaf", admitted="leaf", cpu=500)
    cluster.run()
    for name in ("leaf", "blue", "root"):
        status = cluster.status(name)
        assert (status["allocated"], status["reserved"]) == ({"cpu": "1500m"}, {"cpu": "500m"})
    assert phases(cluster, "leaf") == {"running": 1, "inqueue": 1}
    assert phases(cluster, "blue") == {}
    cluster.remove_pod("a")
    cluster.remove_pod("b")
    cluster.run()
    assert cluster.status("leaf") | {"conditions": []} == {
        "state": "Open",
        **NOTHING,
        "allocated": {},
        "reserved": {},
        "conditions": [],
    }


def test_a_queue_that_never_rests_is_written_every_other_second_and_its_last_word_is_true() -> None:
    cluster = started()
    for number in range(400):
        cluster.pod(f"p{number}", queue="blue", node="n1", phase="Running", cpu=100)
        cluster.run(0.1, 0.1)
    cluster.run(10)
    about_blue = [each for each in cluster.writes if isinstance(each, Report) and each.name == "blue"]
    assert len(about_blue) <= 40 / 2 + 2
    assert cluster.status("blue")["allocated"] == {"cpu": "40"}
    assert phases(cluster, "blue") == {"running": 400}


def test_ten_thousand_pods_that_come_at_once_are_one_write_for_each_queue_above_them() -> None:
    cluster = started()
    for number in range(10_000):
        cluster.pod(f"p{number}", queue="blue", node="n1", phase="Running", cpu=1)
    assert cluster.run() == 2
    assert cluster.status("root")["allocated"] == {"cpu": "10"}


def test_u20_reservations_are_in_the_status() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", admitted="blue", cpu=250)
    cluster.run()
    assert cluster.status("blue")["reserved"] == {"cpu": "250m"}


def test_a_server_that_keeps_less_than_it_is_sent_is_not_told_twice() -> None:
    def without_ours(status: Object) -> Object:
        return {name: value for name, value in status.items() if name not in ("reserved", "conditions")}

    cluster = started(keeps=without_ours)
    cluster.pod("a", queue="blue", admitted="blue")
    assert cluster.run(600) == 2
    cluster.queue("blue", affinity={"nodeGroupAffinity": {}})
    assert cluster.run(600) == 1


def test_whoever_changes_a_status_back_is_answered_ever_more_rarely() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    cluster.writes.clear()
    for _ in range(3_600):
        found = cluster.queues["blue"]
        cluster.queues["blue"] = {**found, "status": {**found["status"], "allocated": {"cpu": "99"}}}
        cluster.reporting.queue_applied(cluster.queues["blue"], cluster.now_s)
        cluster.run(1, 0.5)
    assert 2 <= len(cluster.writes) <= 16


def test_a_write_that_fails_is_tried_again() -> None:
    cluster = started()
    cluster.fails = 3
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "1"}


def test_a_write_that_is_refused_for_good_is_not_sent_again_until_there_is_something_else_to_say() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.now_s += 10
    for _ in range(2):
        for effect in cluster.reporting.step(cluster.now_s, "2026-01-01T00:00:00Z", 100):
            assert isinstance(effect, Report)
            cluster.reporting.gave_up(effect, cluster.now_s)
            cluster.writes.append(effect)
        cluster.now_s += 10
    assert len(cluster.writes) == 2
    assert cluster.run(600) == 0
    cluster.pod("b", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "2"}


def test_a_queue_made_anew_under_the_same_name_is_told_everything() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    cluster.queues["blue"] = {"metadata": {"name": "blue", "uid": "another"}, "spec": {}, "status": {}}
    cluster.queue("blue")
    cluster.run()
    assert cluster.status("blue")["state"] == "Open"
    assert cluster.status("blue")["allocated"] == {"cpu": "1"}


def test_a_queue_closes_when_it_is_empty_and_opens_by_the_annotation() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.queue("blue", asked="Closed")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closing"
    assert cluster.said("blue") == {"Open": "Closed"}
    cluster.remove_pod("a")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closed"
    cluster.queue("blue")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closed", "what was closed stays closed until somebody opens it"
    cluster.queue("blue", asked="Open")
    cluster.run()
    assert cluster.status("blue")["state"] == "Open"
    assert cluster.said("blue") == {}


def test_a_queue_is_closed_and_opened_by_who_writes_its_state() -> None:
    cluster = started()
    cluster.group("g", queue="blue", minMember=1)
    cluster.run()
    cluster.queue("blue", state="Closed")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closing"
    cluster.remove_group("g")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closed"
    cluster.queue("blue", state="Open")
    cluster.run()
    assert cluster.status("blue")["state"] == "Open"


def test_queues_below_a_closed_one_close_and_open_with_it_unless_they_were_closed_themselves() -> None:
    cluster = started()
    cluster.queue("left", parent="blue")
    cluster.queue("right", parent="blue", asked="Closed")
    cluster.pod("a", queue="left", node="n1", phase="Running")
    cluster.run()
    cluster.queue("blue", asked="Closed")
    cluster.run()
    states = {name: cluster.status(name)["state"] for name in ("blue", "left", "right")}
    assert states == {"blue": "Closing", "left": "Closing", "right": "Closed"}
    assert cluster.said("left") == {"Open": "AncestorClosed"}
    cluster.remove_pod("a")
    cluster.run()
    assert {cluster.status(name)["state"] for name in ("blue", "left", "right")} == {"Closed"}
    cluster.queue("blue", asked="Open")
    cluster.run()
    assert [cluster.status(name)["state"] for name in ("blue", "left", "right")] == ["Open", "Open", "Closed"]


def test_a_queue_that_cannot_be_trusted_says_why_and_so_do_those_below_until_it_is_mended() -> None:
    cluster = started()
    cluster.queue("leaf", parent="blue")
    cluster.queue("blue", capability={"cpu": "1"}, deserved={"cpu": "2"})
    cluster.run()
    (own,) = cluster.status("blue")["conditions"]
    assert (own["type"], own["status"], own["reason"]) == ("Valid", "False", "InvalidQueue")
    assert "spec.deserved.cpu" in own["message"] or "deserved" in own["message"]
    (inherited,) = cluster.status("leaf")["conditions"]
    assert "queue blue" in inherited["message"]
    assert cluster.said("default") == {}
    cluster.queue("blue", capability={"cpu": "2"}, deserved={"cpu": "2"})
    cluster.run()
    assert cluster.said("blue") == {}
    assert cluster.said("leaf") == {}


def test_conditions_of_others_stay_and_times_move_with_the_status_only() -> None:
    cluster = started()
    theirs = {"type": "Theirs", "status": "True", "reason": "Because", "message": "x"}
    cluster.queues["blue"]["status"]["conditions"] = [theirs]
    cluster.queue("blue", dequeueStrategy="fifo")
    cluster.run()
    first, ours = cluster.status("blue")["conditions"]
    assert first == theirs
    assert ours["type"] == "Supported"
    cluster.queue("blue", dequeueStrategy="fifo", extendClusters=[{"name": "far"}])
    cluster.run()
    again = cluster.status("blue")["conditions"][1]
    assert again["message"] != ours["message"]
    assert again["lastTransitionTime"] == ours["lastTransitionTime"]


def test_a_group_goes_from_its_queue_to_its_end() -> None:
    cluster = started()
    cluster.queue("blue", capability={"cpu": "2"})
    seen = []

    def look() -> None:
        cluster.run()
        status = cluster.status("g")
        seen.append((status["phase"], status["running"], status["succeeded"], *cluster.said("g").items()))
        assert phases(cluster, "blue") == {status["phase"].lower(): 1}

    cluster.group("g", queue="blue", minMember=2)
    look()
    for name in ("a", "b"):
        cluster.pod(name, group="g", gates=[GATE])
    look()
    for name in ("a", "b"):
        cluster.pod(name, gates=[], admitted="blue", unschedulable=True)
    look()
    for name in ("a", "b"):
        cluster.pod(name, node="n1", phase="Running", unschedulable=False)
    look()
    for name in ("a", "b"):
        cluster.pod(name, phase="Succeeded")
    look()
    ready = "tasks in gang are ready to be scheduled"
    assert seen == [
        ("Inqueue", 0, 0, ("Unschedulable", "NotEnoughTasks")),
        ("Inqueue", 0, 0, ("Scheduled", "WaitingForQueue")),
        ("Inqueue", 0, 0, ("Unschedulable", "NotEnoughResources")),
        ("Running", 2, 0, ("Scheduled", ready)),
        ("Completed", 0, 2, ("Scheduled", ready)),
    ]


def test_a_group_that_has_to_wait_for_its_queue_is_pending_until_it_is_let_in() -> None:
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


def test_a_pod_that_moves_from_the_watch_on_live_pods_to_the_other_is_counted_once() -> None:
    cluster = started()
    cluster.group("g", queue="blue", minMember=1)
    pod = cluster.pod("a", group="g", node="n1", phase="Running")
    cluster.pod("a", phase="Succeeded")
    cluster.reporting.pod_removed(pod["uid"], cluster.now_s)
    cluster.run()
    assert (cluster.status("g")["phase"], cluster.status("g")["succeeded"]) == ("Completed", 1)
    cluster.reporting.pod_removed(pod["uid"], cluster.now_s, ended=True)
    cluster.run()
    assert cluster.status("g")["succeeded"] == 0


def test_groups_of_others_are_counted_and_left_alone() -> None:
    cluster = Cluster("headgate")
    for name in ("root", "default", "blue"):
        cluster.queue(name)
    cluster.synced()
    cluster.group("theirs", queue="blue", minMember=1)
    cluster.pod("a", group="theirs", scheduler="volcano", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("theirs") == {}
    assert phases(cluster, "blue") == {"pending": 1}


def test_a_group_that_asks_for_hard_topology_is_told_that_it_is_not_there() -> None:
    cluster = started()
    cluster.group("g", queue="blue", minMember=1, networkTopology={"mode": "hard", "highestTierAllowed": 1})
    cluster.pod("a", group="g", node="n1", phase="Running")
    cluster.run()
    assert cluster.said("g")["Supported"] == "NotSupported"


def test_pods_of_their_own_get_groups_of_one_only_if_that_was_asked_for() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", gates=[GATE])
    cluster.run()
    assert cluster.groups == {}
    asked = started(makes_groups=True)
    uid = asked.pod("a", queue="blue", gates=[GATE])["uid"]
    asked.run()
    (made,) = (each for each in asked.writes if isinstance(each, Make))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": True}
    assert made.obj["metadata"] == {"namespace": "ns", "name": f"podgroup-{uid}", "ownerReferences": [owner]}
    assert made.obj["spec"] == {"minMember": 1, "queue": "blue"}
    assert (phases(asked, "blue"), asked.said(f"podgroup-{uid}")) == ({"pending": 1}, {"Scheduled": "WaitingForQueue"})
    asked.pod("a", gates=[], admitted="blue")
    asked.run()
    assert phases(asked, "blue") == {"inqueue": 1}
    asked.pod("a", node="n1", phase="Running")
    asked.run()
    assert (phases(asked, "blue"), asked.status(f"podgroup-{uid}")["running"]) == ({"running": 1}, 1)
    asked.pod("a", phase="Succeeded")
    asked.run()
    assert phases(asked, "blue") == {"completed": 1}
    assert len([each for each in asked.writes if isinstance(each, Make)]) == 1


def test_a_group_of_one_that_somebody_deletes_is_made_again_while_its_pod_lives() -> None:
    cluster = started(makes_groups=True)
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
def test_a_poisoned_group_says_what_is_wrong_and_the_others_go_on(spec: Object) -> None:
    cluster = started()
    cluster.group("bad", queue="blue", **spec)
    cluster.group("good", queue="blue", minMember=1)
    cluster.pod("a", group="good", node="n1", phase="Running")
    cluster.run()
    assert cluster.said("bad")["Unschedulable"] == "Invalid"
    assert cluster.status("good")["phase"] == "Running"


def test_hostile_objects_do_not_stop_the_reporter() -> None:
    cluster = started()
    for wire in (
        {},
        {"metadata": {"name": "x"}, "spec": 7, "status": [1]},
        {"metadata": {"name": "y"}, "status": {"conditions": 3}},
    ):
        cluster.reporting.queue_applied(wire, cluster.now_s)
        cluster.reporting.group_applied(wire, cluster.now_s)
        cluster.reporting.pod_applied(wire, cluster.now_s)
    cluster.run()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "1"}
