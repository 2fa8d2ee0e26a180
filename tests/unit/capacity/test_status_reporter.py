"""The status of queues: its content, and the number of writes."""

from __future__ import annotations

from typing import Any

from headgate.capacity.status.status_reporter import CreateMissingObject, StatusPatch
from status_reporting import NOTHING, Cluster, phases, started

Object = dict[str, Any]


UNUSED: dict[str, dict[str, str]] = {"allocated": {}, "reserved": {}, "terminating": {}}


def test_nothing_is_written_before_synced() -> None:
    cluster = Cluster()
    cluster.queue("blue")
    assert cluster.run() == 0
    assert cluster.reporter.next_deadline_s() is None


def test_a_new_queue_is_open_and_empty() -> None:
    cluster = started()
    assert cluster.status("blue") == {"state": "Open", **NOTHING, **UNUSED, "conditions": []}


def test_an_idle_cluster_gets_no_writes() -> None:
    cluster = started()
    assert cluster.run(3_600, 5) == 0
    assert cluster.reporter.next_deadline_s() is None


def test_the_root_and_default_queues_are_created_if_missing_and_again_if_deleted() -> None:
    cluster = Cluster()
    cluster.synced()
    cluster.run(1)
    created = [each.obj["metadata"]["name"] for each in cluster.writes if isinstance(each, CreateMissingObject)]
    assert created == ["root", "default"]
    cluster.run(60)
    cluster.writes.clear()
    cluster.remove_queue("default")
    cluster.run()
    assert [each.obj["metadata"]["name"] for each in cluster.writes if isinstance(each, CreateMissingObject)] == [
        "default"
    ]


def test_a_failed_creation_of_a_queue_is_retried_later() -> None:
    cluster = Cluster()
    cluster.failures_left = 4
    cluster.synced()
    assert cluster.run(25) == 2
    cluster.run(60)
    assert sorted(cluster.queues) == ["default", "root"]


def test_allocated_and_reserved_are_reported_for_the_queue_and_its_ancestors() -> None:
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
        **UNUSED,
        "conditions": [],
    }


def test_terminating_amounts_are_separate_from_allocated() -> None:
    """Its share of the queue is free at its deletion timestamp: what is used may then be more than the capability."""
    cluster = started()
    cluster.queue("leaf", parent="blue", capability={"cpu": "2"})
    cluster.pod("old", queue="leaf", node="n1", phase="Running", cpu=2000)
    cluster.pod("old", leaving=True)
    cluster.pod("new", queue="leaf", node="n2", phase="Running", cpu=1500)
    cluster.run()
    for name in ("leaf", "blue", "root"):
        status = cluster.status(name)
        assert (status["allocated"], status["terminating"]) == ({"cpu": "1500m"}, {"cpu": "2"})
    cluster.pod("old", phase="Failed")
    cluster.run()
    assert cluster.status("leaf")["terminating"] == {}
    cluster.pod("new", leaving=True)
    cluster.remove_pod("new")
    cluster.run()
    assert cluster.status("root") | {"conditions": []} == {"state": "Open", **NOTHING, **UNUSED, "conditions": []}


def test_a_busy_queue_is_written_once_per_interval_and_the_last_status_is_correct() -> None:
    cluster = started()
    for number in range(400):
        cluster.pod(f"p{number}", queue="blue", node="n1", phase="Running", cpu=100)
        cluster.run(0.1, 0.1)
    cluster.run(10)
    about_blue = [each for each in cluster.writes if isinstance(each, StatusPatch) and each.name == "blue"]
    assert len(about_blue) <= 40 / 2 + 2
    assert cluster.status("blue")["allocated"] == {"cpu": "40"}
    assert phases(cluster, "blue") == {"running": 400}


def test_ten_thousand_pods_at_once_cause_one_write_per_queue() -> None:
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


def test_a_server_that_stores_less_than_it_is_sent_gets_one_write() -> None:
    def without_ours(status: Object) -> Object:
        return {name: value for name, value in status.items() if name not in ("reserved", "terminating", "conditions")}

    cluster = started(stored_part=without_ours)
    cluster.pod("a", queue="blue", admitted="blue")
    assert cluster.run(600) == 2
    cluster.queue("blue", affinity={"nodeGroupAffinity": {}})
    assert cluster.run(600) == 1


def test_a_status_that_another_client_reverts_is_written_with_back_off() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    cluster.writes.clear()
    for _ in range(3_600):
        found = cluster.queues["blue"]
        cluster.queues["blue"] = {**found, "status": {**found["status"], "allocated": {"cpu": "99"}}}
        cluster.reporter.queue_applied(cluster.queues["blue"], cluster.now_s)
        cluster.run(1, 0.5)
    assert 2 <= len(cluster.writes) <= 16


def test_a_write_that_fails_is_tried_again() -> None:
    cluster = started()
    cluster.failures_left = 3
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "1"}


def test_a_rejected_write_is_not_repeated_until_the_status_changes() -> None:
    cluster = started()
    cluster.pod("a", queue="blue", node="n1", phase="Running")
    cluster.now_s += 10
    for _ in range(2):
        for effect in cluster.reporter.due_patches(cluster.now_s, "2026-01-01T00:00:00Z", 100):
            assert isinstance(effect, StatusPatch)
            cluster.reporter.patch_rejected(effect, cluster.now_s)
            cluster.writes.append(effect)
        cluster.now_s += 10
    assert len(cluster.writes) == 2
    assert cluster.run(600) == 0
    cluster.pod("b", queue="blue", node="n1", phase="Running")
    cluster.run()
    assert cluster.status("blue")["allocated"] == {"cpu": "2"}


def test_a_recreated_queue_gets_its_full_status() -> None:
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
    cluster.queue("blue", annotation="Closed")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closing"
    assert cluster.reasons("blue") == {"Open": "Closed"}
    cluster.remove_pod("a")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closed"
    cluster.queue("blue")
    cluster.run()
    assert cluster.status("blue")["state"] == "Closed", "what was closed stays closed until somebody opens it"
    cluster.queue("blue", annotation="Open")
    cluster.run()
    assert cluster.status("blue")["state"] == "Open"
    assert cluster.reasons("blue") == {}


def test_a_client_can_close_and_open_a_queue_by_its_state() -> None:
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


def test_queues_below_a_closed_queue_close_and_open_with_it_unless_closed_themselves() -> None:
    cluster = started()
    cluster.queue("left", parent="blue")
    cluster.queue("right", parent="blue", annotation="Closed")
    cluster.pod("a", queue="left", node="n1", phase="Running")
    cluster.run()
    cluster.queue("blue", annotation="Closed")
    cluster.run()
    states = {name: cluster.status(name)["state"] for name in ("blue", "left", "right")}
    assert states == {"blue": "Closing", "left": "Closing", "right": "Closed"}
    assert cluster.reasons("left") == {"Open": "AncestorClosed"}
    cluster.remove_pod("a")
    cluster.run()
    assert {cluster.status(name)["state"] for name in ("blue", "left", "right")} == {"Closed"}
    cluster.queue("blue", annotation="Open")
    cluster.run()
    assert [cluster.status(name)["state"] for name in ("blue", "left", "right")] == ["Open", "Open", "Closed"]


def test_an_invalid_queue_and_the_queues_below_have_a_condition_until_it_is_valid() -> None:
    cluster = started()
    cluster.queue("leaf", parent="blue")
    cluster.queue("blue", capability={"cpu": "1"}, deserved={"cpu": "2"})
    cluster.run()
    (own,) = cluster.status("blue")["conditions"]
    assert (own["type"], own["status"], own["reason"]) == ("Valid", "False", "InvalidQueue")
    assert "spec.deserved.cpu" in own["message"] or "deserved" in own["message"]
    (inherited,) = cluster.status("leaf")["conditions"]
    assert "queue blue" in inherited["message"]
    assert cluster.reasons("default") == {}
    cluster.queue("blue", capability={"cpu": "2"}, deserved={"cpu": "2"})
    cluster.run()
    assert cluster.reasons("blue") == {}
    assert cluster.reasons("leaf") == {}


def test_conditions_of_other_clients_stay_and_times_change_only_with_the_status() -> None:
    cluster = started()
    theirs = {"type": "Theirs", "status": "True", "reason": "Because", "message": "x"}
    cluster.queues["blue"]["status"]["conditions"] = [theirs]
    cluster.queue("blue", affinity={"nodeGroupAffinity": {}})
    cluster.run()
    first, ours = cluster.status("blue")["conditions"]
    assert first == theirs
    assert ours["type"] == "Supported"
    cluster.queue("blue", affinity={"nodeGroupAffinity": {}}, extendClusters=[{"name": "far"}])
    cluster.run()
    again = cluster.status("blue")["conditions"][1]
    assert again["message"] != ours["message"]
    assert again["lastTransitionTime"] == ours["lastTransitionTime"]
