"""Events of one viewer: what they contain, and how a viewer resumes."""

from __future__ import annotations

import json
from typing import Any

from capacity_builders import a_queue
from headgate.capacity.names import QUEUES
from headgate.client.connection import Connection
from headgate.dashboard.rights import EVERYTHING, ViewerRights
from headgate.dashboard.stream import ViewerStream, read_topics
from headgate.kube.api_resources import PODS
from viewed_clusters import ViewedCluster, a_pod

EPOCH = "epoch"


def parsed(event: bytes) -> tuple[str, str, Any]:
    lines = dict(line.split(": ", 1) for line in event.decode().strip().split("\n"))
    return lines["event"], lines["id"], json.loads(lines["data"])["topics"]


def a_cluster() -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(QUEUES, a_queue("team", 4))
    cluster.flush()
    return cluster


def test_the_first_event_has_all_rows_and_later_ones_the_changes() -> None:
    cluster = a_cluster()
    stream = ViewerStream(("queues", "overview"), EVERYTHING)
    event, _, topics = parsed(stream.next_event(cluster.views, EPOCH))
    assert (event, [row["key"] for row in topics["queues"]["rows"]]) == ("reset", ["team"])
    assert stream.next_event(cluster.views, EPOCH) == b""
    cluster.put(PODS, a_pod("p", queue="team"))
    cluster.flush()
    event, _, topics = parsed(stream.next_event(cluster.views, EPOCH))
    assert (event, topics["queues"]["rows"][0]["waiting"], topics["overview"]["rows"][0]["queued"]) == ("change", 1, 1)


def test_a_viewer_resumes_with_the_revision_that_it_has() -> None:
    cluster = a_cluster()
    first = ViewerStream(("queues",), EVERYTHING)
    _, last_id, _ = parsed(first.next_event(cluster.views, EPOCH))
    cluster.put(QUEUES, a_queue("new", 1))
    cluster.remove(QUEUES, "team")
    cluster.flush()
    event, _, topics = parsed(ViewerStream(("queues",), EVERYTHING, last_id).next_event(cluster.views, EPOCH))
    assert event == "change"
    assert ([row["key"] for row in topics["queues"]["rows"]], topics["queues"]["removed"]) == (["new"], ["team"])


def test_a_revision_of_another_process_leads_to_a_reset() -> None:
    cluster = a_cluster()
    for last_id in ("other.1", f"{EPOCH}.99", "nonsense", f"{EPOCH}.x"):
        event, _, _ = parsed(ViewerStream(("queues",), EVERYTHING, last_id).next_event(cluster.views, EPOCH))
        assert event == "reset"


def test_removed_keys_that_the_viewer_never_saw_are_not_named() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("secret", namespace="secret"), a_pod("mine", namespace="mine"))
    cluster.flush()
    stream = ViewerStream(("overview",), ViewerRights(namespaces={PODS: frozenset({"mine"})}))
    assert [row["key"] for row in parsed(stream.next_event(cluster.views, EPOCH))[2]["overview"]["rows"]] == ["mine"]
    cluster.remove(PODS, "secret/secret")
    cluster.flush()
    assert stream.next_event(cluster.views, EPOCH) == b""
    cluster.remove(PODS, "mine/mine")
    cluster.flush()
    assert parsed(stream.next_event(cluster.views, EPOCH))[2]["overview"]["removed"] == ["mine"]


def test_a_viewer_hears_once_that_the_api_server_is_not_reached_and_once_that_it_is_back() -> None:
    stream = ViewerStream(("queues",), EVERYTHING)
    assert stream.next_connection_event(Connection()) == b""
    lost = stream.next_connection_event(Connection("10.0.0.1 refused", 5.0))
    assert lost == b'event: connection\ndata: {"problem":"10.0.0.1 refused","since_s":5.0}\n\n'
    assert stream.next_connection_event(Connection("10.0.0.1 refused", 5.0)) == b""
    assert b'"problem":""' in stream.next_connection_event(Connection())


def test_a_viewer_of_some_rows_does_not_learn_why_the_api_server_is_not_reached() -> None:
    stream = ViewerStream(("queues",), ViewerRights())
    lost = stream.next_connection_event(Connection("10.0.0.1 refused", 5.0))
    assert b"10.0.0.1" not in lost
    assert b'"since_s":5.0' in lost
    assert stream.next_connection_event(Connection("10.0.0.1 reset", 5.0)) == b""


def test_other_rights_lead_to_a_reset() -> None:
    cluster = a_cluster()
    stream = ViewerStream(("queues",), EVERYTHING)
    stream.next_event(cluster.views, EPOCH)
    stream.set_rights(ViewerRights())
    event, _, topics = parsed(stream.next_event(cluster.views, EPOCH))
    assert (event, topics["queues"]["rows"]) == ("reset", [])


def test_units_that_wait_are_counted_and_not_sent() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("p", queue="team"))
    cluster.flush()
    _, _, topics = parsed(ViewerStream(("waiting",), EVERYTHING).next_event(cluster.views, EPOCH))
    assert (set(topics["waiting"]), topics["waiting"]["units"]) == ({"revision", "units"}, 1)


def test_an_event_is_one_line_of_data() -> None:
    cluster = ViewedCluster()
    cluster.put(QUEUES, a_queue("line\nbreak\n\ndata: x"))
    cluster.flush()
    event = ViewerStream(("queues",), EVERYTHING).next_event(cluster.views, EPOCH)
    assert event.count(b"\n") == 4


def test_unknown_topics_are_refused_with_the_known_ones() -> None:
    assert read_topics("waiting,queues") == ("queues", "waiting")
    assert "there is no topic pods; the topics are overview" in str(read_topics("pods"))
