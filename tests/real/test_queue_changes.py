"""What changes while pods wait or hold a promise: limits, words, sizes, gates; on both servers.

Promises that no longer fit are taken back and stand in no other pod's way; every word that decides on group and queue
is heard; a resize of a promised pod asks for more, one of a running pod counts at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness.queues import QUEUES
from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, STAMP
from real.queue_cluster import GROUPS, MERGE, PODS, Object, Place

pytestmark = pytest.mark.real

NAMESPACE = "/api/v1/namespaces/default"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def namespace_word(place: Place) -> Iterator[str]:
    """The annotation of the namespace, which is taken off again."""
    yield QUEUE_NAME
    send(place.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {QUEUE_NAME: None}}}, MERGE)


def message_of(place: Place, name: str) -> str:
    conditions = place.get(name)["status"].get("conditions") or []
    return next((each.get("message") or "" for each in conditions if each["type"] == "PodScheduled"), "")


def until_message(place: Place, name: str, words: str) -> None:
    wait_for(lambda: words in message_of(place, name), place.scheduler)


def words_of(place: Place, name: str) -> Object:
    return place.get(name)["metadata"].get("annotations") or {}


def stamped_queue(place: Place, name: str) -> str:
    pod = place.get(name)
    stamp = read_stamp((pod["metadata"].get("annotations") or {}).get(STAMP), pod["metadata"]["uid"])
    return "" if stamp is None else stamp.queue


def say(place: Place, name: str, **words: str | None) -> None:
    keys = {"group": GROUP_NAMES[0], "alias": GROUP_NAMES[1], "queue": QUEUE_NAME, "opt_in": OPT_IN}
    place.patch(name, {"metadata": {"annotations": {keys[key]: value for key, value in words.items()}}})


def resize(place: Place, name: str, cpu: str) -> tuple[int, str]:
    """The answer of the API server."""
    container = place.get(name)["spec"]["containers"][0]["name"]
    body: Object = {"spec": {"containers": [{"name": container, "resources": {"requests": {"cpu": cpu}}}]}}
    answer = place.server.request(
        "PATCH", f"{PODS}/{name}/resize", {"Content-Type": STRATEGIC}, json.dumps(body).encode()
    )
    return answer.status, str(answer.json().get("message") or "")


def has_own_admission(place: Place) -> bool:
    """The embedded server answers for itself; beside the real one no webhook runs here."""
    return place.server.name == "embedded"


# Limits that are lowered


def test_a_promise_larger_than_a_lowered_limit_is_taken_back_and_siblings_go_on(place: Place) -> None:
    team = place.queue("5")
    t1, t2 = (place.queue("", parent=team) for _ in range(2))
    place.limit(t1, "5")
    place.pod("large", t1, cpu="5", wants="nowhere")
    place.until_unschedulable("large")
    place.pod("sibling", t2, cpu="2")
    place.until_the_next_decision()
    assert place.is_gated("sibling")
    place.limit(t1, "4")
    place.until_bound("sibling")
    place.until_reason("large", "WaitingForQueue")
    assert "what it was promised was taken back" in message_of(place, "large")
    wait_for(lambda: STAMP not in words_of(place, "large"), place.scheduler)
    place.pod("own", t1, cpu="3")
    place.until_bound("own")
    place.until_used(team, allocated="5")
    place.limit(t1, "5")
    for name in ("sibling", "own"):
        place.delete(name)
    place.until_unschedulable("large")
    place.until_used(team, reserved="5")


def test_a_scheduler_that_starts_anew_takes_back_the_same_and_grants_it_again(place: Place) -> None:
    queue = place.queue("3")
    place.pod("older", queue, cpu="2", wants="nowhere")
    place.until_unschedulable("older")
    place.pod("younger", queue, wants="nowhere")
    place.until_unschedulable("younger")
    place.killed()
    place.limit(queue, "2")
    place.started_again()
    place.until_reason("younger", "WaitingForQueue")
    assert scheduled_reason(place.get("older")) == "Unschedulable"
    place.until_used(queue, reserved="2")
    wait_for(lambda: STAMP not in words_of(place, "younger"), place.scheduler)
    place.killed()
    place.started_again()
    place.limit(queue, "3")
    place.until_unschedulable("younger")
    place.until_used(queue, reserved="3")


# Words


def test_a_corrected_group_name_is_heard(place: Place) -> None:
    queue, other = place.queue("1"), place.queue("1")
    place.group("right", queue, 1)
    place.pod("p", other, group="rihgt")
    place.until_the_next_decision()
    assert place.is_gated("p")
    say(place, "p", group="right")
    place.until_bound("p")
    assert stamped_queue(place, "p") == queue


@pytest.mark.parametrize("word", ["group", "alias"])
def test_a_bare_pod_joins_a_group_and_leaves_it(place: Place, word: str) -> None:
    queue, full = place.queue("2"), place.queue("0")
    place.group("pair", queue, 2)
    place.pod("p", full)
    place.pod("q", group="pair")
    place.until_the_next_decision()
    assert place.is_gated("p")
    assert place.is_gated("q")
    say(place, "p", **{word: "pair"})
    place.until_bound("p", "q")
    place.pod("r", group="pair-of-two")
    place.until_the_next_decision()
    assert place.is_gated("r")
    third = place.queue("1")
    say(place, "r", group=None, queue=third)
    place.until_bound("r")
    assert stamped_queue(place, "r") == third


def test_another_queue_of_a_waiting_pod_group_or_namespace_is_heard(place: Place, namespace_word: str) -> None:
    full, free = place.queue("0"), place.queue("3")
    send(place.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {namespace_word: full}}}, MERGE)
    place.group("g", full, 1, minResources={"cpu": "1"})
    place.pod("named", full)
    place.pod("member", group="g")
    place.pod("bare")
    for name in ("named", "member", "bare"):
        until_message(place, name, full)
        assert place.is_gated(name)
    say(place, "named", queue=free)
    place.until_bound("named")
    send(place.server, "PATCH", f"{GROUPS}/g", {"spec": {"queue": free}}, MERGE)
    place.until_bound("member")
    send(place.server, "PATCH", NAMESPACE, {"metadata": {"annotations": {namespace_word: free}}}, MERGE)
    place.until_bound("bare")
    assert {stamped_queue(place, name) for name in ("named", "member", "bare")} == {free}
    place.until_used(free, allocated="3")


def test_opting_in_later_is_heard(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p", queue, opts_in=False)
    place.until_the_next_decision()
    assert place.is_gated("p")
    say(place, "p", opt_in="true")
    place.until_bound("p")


# Sizes


def test_a_resize_of_a_promised_pod_asks_for_more_and_freezes_no_sibling(place: Place) -> None:
    team = place.queue("10")
    t1, t2 = (place.queue("", parent=team) for _ in range(2))
    place.pod("grows", t1, wants="nowhere")
    place.until_unschedulable("grows")
    assert resize(place, "grows", "100") == (200, "")
    place.until_reason("grows", "WaitingForQueue")
    assert "it was promised 1 cpu and asks for 100 cpu now" in message_of(place, "grows")
    place.pod("sibling", t2, cpu="9")
    place.until_bound("sibling")
    place.until_used(team, allocated="9", reserved="1")
    place.killed()
    place.started_again()
    place.until_used(team, allocated="9", reserved="1")
    place.delete("sibling")
    assert resize(place, "grows", "6") == (200, "")
    place.until_unschedulable("grows")
    place.until_used(team, reserved="6")


def test_a_resize_of_a_gated_pod_is_what_it_asks_for(place: Place) -> None:
    queue = place.queue("2")
    place.pod("first", queue, cpu="2", wants="nowhere")
    place.until_unschedulable("first")
    place.pod("gated", queue)
    assert resize(place, "gated", "2") == (200, "")
    place.delete("first")
    place.until_bound("gated")
    place.until_used(queue, allocated="2")


def test_a_running_pod_that_outgrows_its_queue_counts_at_once_or_is_refused(place: Place) -> None:
    team = place.queue("4")
    queue, sibling = (place.queue("", parent=team) for _ in range(2))
    place.pod("runs", queue)
    place.until_bound("runs")
    for each in (team, queue):
        place.until_used(each, allocated="1")
    status, message = resize(place, "runs", "6")
    if has_own_admission(place):
        assert (status, f"queue {queue} has no room for 5 cpu: 1 of 4" in message) == (403, True), message
        assert resize(place, "runs", "4") == (200, "")
        place.until_used(team, allocated="4")
        return
    assert (status, message) == (200, "")
    place.until_used(team, allocated="6")
    for each in (team, queue):
        until_over(place, each, "6 of 4 cpu")
    place.pod("waits", sibling)
    place.until_the_next_decision()
    assert place.is_gated("waits")
    assert resize(place, "runs", "2") == (200, "")
    place.until_bound("waits")
    wait_for(lambda: condition_of(place, team) == "", place.scheduler)


def until_over(place: Place, queue: str, words: str) -> None:
    wait_for(lambda: words in condition_of(place, queue), place.scheduler)


def condition_of(place: Place, queue: str) -> str:
    status = send(place.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
    found = [each for each in status.get("conditions") or () if each["type"] == "WithinCapability"]
    return str(found[0].get("message")) if found and found[0]["status"] == "False" else ""


# Gates, groups and limits of nothing


def test_a_gate_that_a_human_removed_leaves_no_condition_that_names_it(place: Place) -> None:
    queue = place.queue("0")
    place.pod("p", queue)
    place.until_the_next_decision()
    place.patch("p", {"spec": {"schedulingGates": None}})
    place.until_reason("p", "WaitingForQueue")
    assert f"queue {queue} has no room" in message_of(place, "p")
    place.limit(queue, "1")
    place.until_bound("p")


def test_a_group_in_a_missing_queue_is_pending_with_that_reason_until_the_queue_is_there(place: Place) -> None:
    place.group("early", "comes-later", 1)
    place.pod("p", group="early")
    wait_for(lambda: place.phase("early") == "Pending", place.scheduler)
    wait_for(lambda: reason_of_group(place, "early") == "QueueNotFound", place.scheduler)
    send(place.server, "POST", QUEUES, {**send(place.server, "GET", f"{QUEUES}/default"), "metadata": a_name()})
    place.until_bound("p")
    wait_for(lambda: place.phase("early") == "Running", place.scheduler)


def a_name() -> Object:
    return {"name": "comes-later"}


def reason_of_group(place: Place, name: str) -> str:
    status = send(place.server, "GET", f"{GROUPS}/{name}").get("status") or {}
    found = [each for each in status.get("conditions") or () if each["type"] == "Scheduled"]
    return str(found[0].get("reason")) if found and found[0]["status"] == "False" else ""


def test_a_bare_pod_leaves_room_for_a_group_that_was_let_in(place: Place) -> None:
    queue = place.queue("3")
    place.group("g", queue, 2, minResources={"cpu": "2"})
    place.pod("g-0", group="g")
    wait_for(lambda: place.phase("g") == "Inqueue", place.scheduler)
    place.pod("large", queue, cpu="2")
    place.pod("small", queue)
    place.until_bound("small")
    assert place.is_gated("large")
    wait_for(lambda: "set aside for groups" in message_of(place, "large"), place.scheduler)
    place.pod("g-1", group="g")
    place.until_bound("g-0", "g-1")
    assert not is_bound(place.get("large"))
    assert GATE in str(place.get("large")["spec"].get("schedulingGates"))


def test_a_limit_of_nothing_lets_nothing_in(place: Place) -> None:
    queue = place.queue("0")
    place.pod("p", queue)
    place.until_the_next_decision()
    assert place.is_gated("p")
    answer = place.server.request(
        "PATCH",
        f"{QUEUES}/{queue}",
        {"Content-Type": MERGE},
        json.dumps({"spec": {"capability": {"memory": "0"}}}).encode(),
    )
    warned = "0 means that the queue may use no memory at all" in str(answer.header("warning"))
    assert warned == has_own_admission(place)
