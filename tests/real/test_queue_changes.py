"""Changes while pods wait or hold a promise: limits, annotations, sizes, gates; on both servers.

Promises that no longer fit are retracted and block no other pod. Every change of group or queue takes effect. A resize
of a promised pod requests more; a resize of a running pod counts at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness.queues import QUEUES
from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, STAMP
from real.queue_cluster import GROUPS, MERGE, PODS, Object, QueueCluster

pytestmark = pytest.mark.real

NAMESPACE = "/api/v1/namespaces/default"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def namespace_word(cluster: QueueCluster) -> Iterator[str]:
    """The annotation of the namespace, which is taken off again."""
    yield QUEUE_NAME
    send(cluster.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {QUEUE_NAME: None}}}, MERGE)


def message_of(cluster: QueueCluster, name: str) -> str:
    conditions = cluster.get(name)["status"].get("conditions") or []
    return next((each.get("message") or "" for each in conditions if each["type"] == "PodScheduled"), "")


def until_message(cluster: QueueCluster, name: str, words: str) -> None:
    wait_for(lambda: words in message_of(cluster, name), cluster.scheduler)


def words_of(cluster: QueueCluster, name: str) -> Object:
    return cluster.get(name)["metadata"].get("annotations") or {}


def stamped_queue(cluster: QueueCluster, name: str) -> str:
    pod = cluster.get(name)
    stamp = read_stamp((pod["metadata"].get("annotations") or {}).get(STAMP), pod["metadata"]["uid"])
    return "" if stamp is None else stamp.queue


def say(cluster: QueueCluster, name: str, **words: str | None) -> None:
    keys = {"group": GROUP_NAMES[0], "alias": GROUP_NAMES[1], "queue": QUEUE_NAME, "opt_in": OPT_IN}
    cluster.patch(name, {"metadata": {"annotations": {keys[key]: value for key, value in words.items()}}})


def resize(cluster: QueueCluster, name: str, cpu: str) -> tuple[int, str]:
    """The answer of the API server."""
    container = cluster.get(name)["spec"]["containers"][0]["name"]
    body: Object = {"spec": {"containers": [{"name": container, "resources": {"requests": {"cpu": cpu}}}]}}
    answer = cluster.server.request(
        "PATCH", f"{PODS}/{name}/resize", {"Content-Type": STRATEGIC}, json.dumps(body).encode()
    )
    return answer.status, str(answer.json().get("message") or "")


def has_own_admission(cluster: QueueCluster) -> bool:
    """The embedded server answers for itself; beside the real one no webhook runs here."""
    return cluster.server.name == "embedded"


# Limits that are lowered


def test_a_promise_larger_than_a_lowered_limit_is_taken_back_and_siblings_go_on(cluster: QueueCluster) -> None:
    team = cluster.queue("5")
    t1, t2 = (cluster.queue("", parent=team) for _ in range(2))
    cluster.limit(t1, "5")
    cluster.pod("large", t1, cpu="5", wants="nowhere")
    cluster.until_unschedulable("large")
    cluster.pod("sibling", t2, cpu="2")
    cluster.until_the_next_decision()
    assert cluster.is_gated("sibling")
    cluster.limit(t1, "4")
    cluster.until_bound("sibling")
    cluster.until_reason("large", "WaitingForQueue")
    assert "its promise was revoked" in message_of(cluster, "large")
    wait_for(lambda: STAMP not in words_of(cluster, "large"), cluster.scheduler)
    cluster.pod("own", t1, cpu="3")
    cluster.until_bound("own")
    cluster.until_used(team, allocated="5")
    cluster.limit(t1, "5")
    for name in ("sibling", "own"):
        cluster.delete(name)
    cluster.until_unschedulable("large")
    cluster.until_used(team, reserved="5")


def test_a_restarted_scheduler_retracts_the_same_promise_and_grants_it_again(cluster: QueueCluster) -> None:
    queue = cluster.queue("3")
    cluster.pod("older", queue, cpu="2", wants="nowhere")
    cluster.until_unschedulable("older")
    cluster.pod("younger", queue, wants="nowhere")
    cluster.until_unschedulable("younger")
    cluster.killed()
    cluster.limit(queue, "2")
    cluster.started_again()
    cluster.until_reason("younger", "WaitingForQueue")
    assert scheduled_reason(cluster.get("older")) == "Unschedulable"
    cluster.until_used(queue, reserved="2")
    wait_for(lambda: STAMP not in words_of(cluster, "younger"), cluster.scheduler)
    cluster.killed()
    cluster.started_again()
    cluster.limit(queue, "3")
    cluster.until_unschedulable("younger")
    cluster.until_used(queue, reserved="3")


# Words


def test_a_corrected_group_name_takes_effect(cluster: QueueCluster) -> None:
    queue, other = cluster.queue("1"), cluster.queue("1")
    cluster.group("right", queue, 1)
    cluster.pod("p", other, group="rihgt")
    cluster.until_the_next_decision()
    assert cluster.is_gated("p")
    say(cluster, "p", group="right")
    cluster.until_bound("p")
    assert stamped_queue(cluster, "p") == queue


@pytest.mark.parametrize("word", ["group", "alias"])
def test_a_bare_pod_joins_a_group_and_leaves_it(cluster: QueueCluster, word: str) -> None:
    queue, full = cluster.queue("2"), cluster.queue("0")
    cluster.group("pair", queue, 2)
    cluster.pod("p", full)
    cluster.pod("q", group="pair")
    cluster.until_the_next_decision()
    assert cluster.is_gated("p")
    assert cluster.is_gated("q")
    say(cluster, "p", **{word: "pair"})
    cluster.until_bound("p", "q")
    cluster.pod("r", group="pair-of-two")
    cluster.until_the_next_decision()
    assert cluster.is_gated("r")
    third = cluster.queue("1")
    say(cluster, "r", group=None, queue=third)
    cluster.until_bound("r")
    assert stamped_queue(cluster, "r") == third


def test_a_new_queue_of_a_waiting_pod_group_or_namespace_takes_effect(
    cluster: QueueCluster, namespace_word: str
) -> None:
    full, free = cluster.queue("0"), cluster.queue("3")
    send(cluster.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {namespace_word: full}}}, MERGE)
    cluster.group("g", full, 1, minResources={"cpu": "1"})
    cluster.pod("named", full)
    cluster.pod("member", group="g")
    cluster.pod("bare")
    for name in ("named", "member", "bare"):
        until_message(cluster, name, full)
        assert cluster.is_gated(name)
    say(cluster, "named", queue=free)
    cluster.until_bound("named")
    send(cluster.server, "PATCH", f"{GROUPS}/g", {"spec": {"queue": free}}, MERGE)
    cluster.until_bound("member")
    send(cluster.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {namespace_word: free}}}, MERGE)
    cluster.until_bound("bare")
    assert {stamped_queue(cluster, name) for name in ("named", "member", "bare")} == {free}
    cluster.until_used(free, allocated="3")


def test_opting_in_later_takes_effect(cluster: QueueCluster) -> None:
    queue = cluster.queue("1")
    cluster.pod("p", queue, opts_in=False)
    cluster.until_the_next_decision()
    assert cluster.is_gated("p")
    say(cluster, "p", opt_in="true")
    cluster.until_bound("p")


# Sizes


def test_a_resize_of_a_promised_pod_asks_for_more_and_freezes_no_sibling(cluster: QueueCluster) -> None:
    team = cluster.queue("10")
    t1, t2 = (cluster.queue("", parent=team) for _ in range(2))
    cluster.pod("grows", t1, wants="nowhere")
    cluster.until_unschedulable("grows")
    assert resize(cluster, "grows", "100") == (200, "")
    cluster.until_reason("grows", "WaitingForQueue")
    assert "it was promised 1 cpu and asks for 100 cpu now" in message_of(cluster, "grows")
    cluster.pod("sibling", t2, cpu="9")
    cluster.until_bound("sibling")
    cluster.until_used(team, allocated="9", reserved="1")
    cluster.killed()
    cluster.started_again()
    cluster.until_used(team, allocated="9", reserved="1")
    cluster.delete("sibling")
    assert resize(cluster, "grows", "6") == (200, "")
    cluster.until_unschedulable("grows")
    cluster.until_used(team, reserved="6")


def test_a_resize_of_a_gated_pod_is_what_it_asks_for(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.pod("first", queue, cpu="2", wants="nowhere")
    cluster.until_unschedulable("first")
    cluster.pod("gated", queue)
    assert resize(cluster, "gated", "2") == (200, "")
    cluster.delete("first")
    cluster.until_bound("gated")
    cluster.until_used(queue, allocated="2")


def test_a_running_pod_that_outgrows_its_queue_counts_at_once_or_is_refused(cluster: QueueCluster) -> None:
    team = cluster.queue("4")
    queue, sibling = (cluster.queue("", parent=team) for _ in range(2))
    cluster.pod("runs", queue)
    cluster.until_bound("runs")
    for each in (team, queue):
        cluster.until_used(each, allocated="1")
    status, message = resize(cluster, "runs", "6")
    if has_own_admission(cluster):
        assert (status, f"queue {queue} has no capacity for 5 cpu: 1 of 4" in message) == (403, True), message
        assert resize(cluster, "runs", "4") == (200, "")
        cluster.until_used(team, allocated="4")
        return
    assert (status, message) == (200, "")
    cluster.until_used(team, allocated="6")
    for each in (team, queue):
        until_over(cluster, each, "6 of 4 cpu")
    cluster.pod("waits", sibling)
    cluster.until_the_next_decision()
    assert cluster.is_gated("waits")
    assert resize(cluster, "runs", "2") == (200, "")
    cluster.until_bound("waits")
    wait_for(lambda: condition_of(cluster, team) == "", cluster.scheduler)


def until_over(cluster: QueueCluster, queue: str, words: str) -> None:
    wait_for(lambda: words in condition_of(cluster, queue), cluster.scheduler)


def condition_of(cluster: QueueCluster, queue: str) -> str:
    status = send(cluster.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
    found = [each for each in status.get("conditions") or () if each["type"] == "WithinCapability"]
    return str(found[0].get("message")) if found and found[0]["status"] == "False" else ""


# Gates, groups and limits of nothing


def test_a_gate_that_a_human_removed_leaves_no_condition_that_names_it(cluster: QueueCluster) -> None:
    queue = cluster.queue("0")
    cluster.pod("p", queue)
    cluster.until_the_next_decision()
    cluster.patch("p", {"spec": {"schedulingGates": None}})
    cluster.until_reason("p", "WaitingForQueue")
    assert f"queue {queue} has no capacity" in message_of(cluster, "p")
    cluster.limit(queue, "1")
    cluster.until_bound("p")


def test_a_group_in_a_missing_queue_is_pending_with_that_reason_until_the_queue_is_there(cluster: QueueCluster) -> None:
    cluster.group("early", "comes-later", 1)
    cluster.pod("p", group="early")
    wait_for(lambda: cluster.phase("early") == "Pending", cluster.scheduler)
    wait_for(lambda: reason_of_group(cluster, "early") == "QueueNotFound", cluster.scheduler)
    send(cluster.server, "POST", QUEUES, {**send(cluster.server, "GET", f"{QUEUES}/default"), "metadata": a_name()})
    cluster.until_bound("p")
    wait_for(lambda: cluster.phase("early") == "Running", cluster.scheduler)


def a_name() -> Object:
    return {"name": "comes-later"}


def reason_of_group(cluster: QueueCluster, name: str) -> str:
    status = send(cluster.server, "GET", f"{GROUPS}/{name}").get("status") or {}
    found = [each for each in status.get("conditions") or () if each["type"] == "Scheduled"]
    return str(found[0].get("reason")) if found and found[0]["status"] == "False" else ""


def test_a_bare_pod_does_not_take_the_capacity_of_an_admitted_group(cluster: QueueCluster) -> None:
    queue = cluster.queue("3")
    cluster.group("g", queue, 2, minResources={"cpu": "2"})
    cluster.pod("g-0", group="g")
    wait_for(lambda: cluster.phase("g") == "Inqueue", cluster.scheduler)
    cluster.pod("large", queue, cpu="2")
    cluster.pod("small", queue)
    cluster.until_bound("small")
    assert cluster.is_gated("large")
    wait_for(lambda: "set aside for groups" in message_of(cluster, "large"), cluster.scheduler)
    cluster.pod("g-1", group="g")
    cluster.until_bound("g-0", "g-1")
    assert not is_bound(cluster.get("large"))
    assert GATE in str(cluster.get("large")["spec"].get("schedulingGates"))


def test_a_limit_of_nothing_lets_nothing_in(cluster: QueueCluster) -> None:
    queue = cluster.queue("0")
    cluster.pod("p", queue)
    cluster.until_the_next_decision()
    assert cluster.is_gated("p")
    answer = cluster.server.request(
        "PATCH",
        f"{QUEUES}/{queue}",
        {"Content-Type": MERGE},
        json.dumps({"spec": {"capability": {"memory": "0"}}}).encode(),
    )
    warned = "0 means that the queue may use no memory at all" in str(answer.header("warning"))
    assert warned == has_own_admission(cluster)
