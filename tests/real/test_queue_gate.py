"""The queue-allocation gate, story by story, on the embedded server and on the real one.

Whose gate is lifted when, and what may go wrong on the way: A1 to A10 (`docs/volcano-defects.md`). What a promise
counts for is told in `test_queue_promises.py`, what the webhook does in `test_admission.py`.
"""

from __future__ import annotations

import pytest

from clusters import a_pod
from harness.queues import QUEUES, a_queue
from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, STAMP
from real.queue_cluster import FOREIGN, PODS, Object, Place, gates_of

pytestmark = pytest.mark.real


def test_a1_with_room_in_its_queue_and_a_node_the_pod_is_lifted_stamped_and_bound(place: Place) -> None:
    queue = place.queue("2")
    made = place.pod("p", queue, "1500m")
    place.until_bound("p")
    pod = place.get("p")
    stamp = read_stamp(pod["metadata"]["annotations"][STAMP], made["metadata"]["uid"])
    assert stamp is not None
    assert (stamp.queue, stamp.requests) == (queue, {"cpu": 1500})
    assert gates_of(pod) == []


def test_a2_in_a_full_queue_the_gate_stays_and_says_so_after_a_while(place: Place) -> None:
    queue = place.queue("1")
    place.pod("first", queue)
    place.until_bound("first")
    place.pod("second", queue)

    def told() -> str:
        pod = place.get("second")
        assert scheduled_reason(pod) == "SchedulingGated"
        message = pod["status"]["conditions"][0].get("message") or ""
        return message if queue in message else ""

    message = wait_for(told, place.scheduler)
    assert "cpu" in message
    assert place.is_gated("second")


def test_a3_a_foreign_gate_is_waited_for_and_never_touched(place: Place) -> None:
    queue = place.queue("1")
    place.pod("held", queue, gates=("example.com/other", GATE, FOREIGN))
    place.pod("p", queue)
    place.until_bound("p")
    place.delete("p")
    place.patch("held", {"spec": {"schedulingGates": [{"name": GATE}, {"name": FOREIGN}]}})
    place.pod("q", queue)
    place.until_bound("q")
    assert gates_of(place.get("held")) == [GATE, FOREIGN]
    place.patch("held", {"spec": {"schedulingGates": [{"name": GATE}]}})
    place.delete("q")
    place.until_bound("held")


def test_a4_a_gate_without_the_annotation_is_never_lifted_and_the_pod_says_why(place: Place) -> None:
    pod = a_pod("p", {"cpu": "1"}, schedulerName="headgate", schedulingGates=[{"name": GATE}])
    pod["metadata"] = {"name": "p"}
    send(place.server, "POST", PODS, pod)

    def told() -> bool:
        conditions = place.get("p")["status"]["conditions"]
        return "annotation" in (conditions[0].get("message") or "")

    wait_for(told, place.scheduler)
    assert place.is_gated("p")


def test_a7_a_pod_re_created_under_the_same_name_keeps_its_gate_until_its_own_turn(place: Place) -> None:
    queue = place.queue("1")
    for _ in range(5):
        first = place.pod("p", queue)
        place.delete("p")
        place.pod("other", queue)
        second = place.pod("p", queue)
        wait_for(lambda: is_bound(place.get("p")) or is_bound(place.get("other")), place.scheduler)
        bound = [name for name in ("p", "other") if is_bound(place.get(name))]
        assert len(bound) == 1, "the queue has room for one"
        stamp = place.get("p")["metadata"]["annotations"].get(STAMP)
        assert read_stamp(stamp, first["metadata"]["uid"]) is None
        assert (read_stamp(stamp, second["metadata"]["uid"]) is not None) == ("p" in bound)
        place.delete("p")
        place.delete("other")


def test_a5_an_api_error_is_tried_again_and_holds_up_nobody_else(place: Place) -> None:
    queue = place.queue("1")
    place.wire.refuse("PATCH", "/pods/p")
    place.pod("p", queue)
    place.until_the_next_decision()
    place.pod("q", queue)
    place.until_the_next_decision()
    assert place.is_gated("p")
    assert place.is_gated("q"), "what was promised stays promised"
    place.wire.heal()
    place.until_bound("p")
    assert place.is_gated("q")


def test_a5_a_removal_whose_answer_was_lost_is_sent_again_and_changes_nothing(place: Place) -> None:
    """The removal carries the uid, names the gate, and has the same stamp: the second one finds nothing to do."""
    queue = place.queue("1")
    place.wire.lose("PATCH", "/pods/twice")
    created = place.pod("twice", queue, wants="nowhere")["metadata"]
    place.until_unschedulable("twice")

    def is_sent_twice() -> bool:
        sent = [path for _, method, path in place.wire.writes if method == "PATCH" and path.endswith("/pods/twice")]
        return len(sent) == 2

    wait_for(is_sent_twice, place.scheduler)
    place.until_the_next_decision()
    assert is_sent_twice()
    pod = place.get("twice")
    assert pod["metadata"]["generation"] == created["generation"] + 1
    assert gates_of(pod) == []
    place.until_used(queue, reserved="1")


def test_a6_a_pod_that_is_deleted_before_its_gate_is_lifted_harms_nobody(place: Place) -> None:
    queue = place.queue("1")
    place.wire.refuse("PATCH", "/pods/p")
    place.pod("p", queue)
    place.pod("q", queue)
    place.until_the_next_decision()
    assert place.is_gated("p")
    assert place.is_gated("q")
    place.wire.hold_watches()
    place.delete("p")
    place.wire.allow()
    wait_for(lambda: not place.is_gated("q"), place.scheduler)  # the answer says that the pod is gone, no watch does
    place.wire.heal()
    place.until_bound("q")


def test_a8_with_quota_and_no_node_the_pod_is_a_true_shortage(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p", queue, wants="fast")
    pod = place.until_unschedulable("p")
    assert gates_of(pod) == []
    assert pod["metadata"]["annotations"][STAMP]


def test_a9_a_pod_that_asks_for_nothing_is_let_in_to_a_full_queue(place: Place) -> None:
    queue = place.queue("1")
    place.pod("full", queue)
    place.until_bound("full")
    place.pod("p", queue, cpu="")
    place.until_bound("p")


def test_a10_a_resource_that_no_node_has_yet_is_admitted_and_becomes_a_shortage(place: Place) -> None:
    queue = place.queue("")
    place.pod("p", queue, cpu="", containers=[gpu_container()])
    place.until_unschedulable("p")


def gpu_container() -> Object:
    amounts = {"example.com/gpu": "1"}
    return {"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}


def test_r8_the_parent_counts_what_all_its_children_promised(place: Place) -> None:
    parent, name = place.queue("1"), "child"
    for number in range(2):
        queue = a_queue(f"{parent}-{name}-{number}", parent=parent, capability={"cpu": "1"})
        send(place.server, "POST", QUEUES, queue)
    place.pod("p0", f"{parent}-{name}-0", wants="not-yet")
    place.until_unschedulable("p0")
    place.pod("p1", f"{parent}-{name}-1")
    place.until_the_next_decision()
    assert place.is_gated("p1")
    place.delete("p0")
    place.until_bound("p1")


def test_a_limit_that_is_raised_lets_the_next_one_in(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p1", queue)
    place.until_bound("p1")
    place.pod("p2", queue)
    place.limit(queue, "2")
    place.until_bound("p2")
