"""What a promise counts for, who is counted as let in, and the three pods of the design, on both servers.

The statements E1 to E3 and R1 to R12 of `docs/volcano-defects.md`, each by its id.
"""

from __future__ import annotations

import signal

import pytest

from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.names import GATE, STAMP
from real.queue_cluster import FOREIGN, Object, Place, gates_of

pytestmark = pytest.mark.real

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GPU = "example.com/gpu"
HELD = ("Pending", "SchedulingGated", GATE)


# Groups that were let in to a queue, and those of their pods that cannot go on.


def a_group_that_was_let_in(place: Place, queue: str) -> None:
    """It lacks a member, so that its pods wait and what it was let in for is all that it counts for."""
    place.group("early", queue, 3, minResources={"cpu": "2"})
    place.pod("early-0", group="early", cpu="100m")
    wait_for(lambda: place.phase("early") == "Inqueue", place.scheduler)


def test_e1_pods_gated_by_us_alone_stay_in_what_their_group_was_let_in_for(place: Place) -> None:
    queue = place.queue("2")
    a_group_that_was_let_in(place, queue)
    place.pod("early-1", group="early", cpu="1900m")
    place.group("late", queue, 1, minResources={"cpu": "1"})
    place.pod("late-0", group="late")
    place.until_the_next_decision()
    assert place.is_gated("late-0")
    assert place.phase("late") != "Inqueue"


@pytest.mark.parametrize("gates", [(FOREIGN,), (FOREIGN, GATE)], ids=["alone", "with ours"])
def test_e2_pods_with_a_foreign_gate_are_deducted(place: Place, gates: tuple[str, ...]) -> None:
    queue = place.queue("2")
    a_group_that_was_let_in(place, queue)
    place.group("late", queue, 1, minResources={"cpu": "1"})
    place.pod("late-0", group="late")
    place.until_the_next_decision()
    assert place.is_gated("late-0")
    place.pod("early-1", group="early", gates=gates, opts_in=GATE in gates)
    place.until_bound("late-0")
    assert gates_of(place.get("early-1")) == list(gates)


def test_e3_no_more_is_deducted_than_there_was_and_only_what_was_asked_for(place: Place) -> None:
    queue = place.queue("", capability={"cpu": "2", GPU: "1"})
    a_group_that_was_let_in(place, queue)
    place.pod("early-1", group="early", gates=(FOREIGN, GATE), containers=[a_container({"cpu": "50", GPU: "1"})])
    place.group("late", queue, 1, minResources={"cpu": "2"})
    place.pod("late-0", group="late", cpu="2", wants="nowhere")
    place.until_unschedulable("late-0")
    for number, too_much in enumerate(({"cpu": "1"}, {GPU: "2"})):
        place.group(f"later-{number}", queue, 1, minResources=too_much)
        place.pod(f"later-{number}", group=f"later-{number}", containers=[a_container({GPU: "1"})])
    place.until_the_next_decision()
    for number in range(2):
        assert place.is_gated(f"later-{number}"), "50 from 2 leaves nothing, and not 48 more than there are"


def a_container(asks: Object) -> Object:
    limits = {name: amount for name, amount in asks.items() if name == GPU}
    return {"name": "main", "image": "app", "resources": {"requests": asks, "limits": limits}}


# Promises.


def test_r1_r6_a_promise_counts_until_its_pod_is_deleted(place: Place) -> None:
    queue = place.queue("2")
    place.pod("p", queue, wants="nowhere")
    place.until_unschedulable("p")
    place.until_used(queue, reserved="1")
    place.pod("large", queue, cpu="2")
    place.until_the_next_decision()
    assert place.is_gated("large")
    place.delete("p")
    place.until_bound("large")
    place.until_used(queue, allocated="2")


def test_r2_a_promise_does_not_stand_in_its_own_way(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p", queue, wants="r2")
    place.until_unschedulable("p")
    place.node("r2")
    place.until_bound("p")


def test_r3_what_is_placed_is_promised_no_longer(place: Place) -> None:
    queue = place.queue("2")
    place.pod("p", queue, wants="r3")
    place.until_unschedulable("p")
    place.until_used(queue, reserved="1")
    place.node("r3")
    place.until_used(queue, allocated="1")
    place.pod("q", queue)
    place.until_bound("q")
    place.until_used(queue, allocated="2")


def test_r4_a_gang_that_is_rolled_back_keeps_what_it_was_promised(place: Place) -> None:
    queue = place.queue("2")
    place.group("gang", queue, 2)
    for number in range(2):
        place.pod(f"gang-{number}", group="gang", wants="r4")
    place.until_unschedulable("gang-0", "gang-1")
    place.node("r4")

    def one_was_placed_and_taken_back() -> bool:
        return "Insufficient cpu" in str(place.get("gang-1")["status"]["conditions"])

    wait_for(one_was_placed_and_taken_back, place.scheduler)
    place.pod("other", queue)
    place.until_the_next_decision()
    assert place.is_gated("other"), "the member that found a node and had to give it back is promised its share"
    place.until_used(queue, reserved="2")
    send(place.server, "PATCH", "/api/v1/nodes/r4/status", {"status": TWO_CPU}, "application/merge-patch+json")
    place.until_bound("gang-0", "gang-1")
    place.until_used(queue, allocated="2")


TWO_CPU = {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}


def test_r5_whoever_starts_anew_has_promised_the_same(place: Place) -> None:
    queue = place.queue("2")
    place.pod("placed", queue)
    place.pod("promised", queue, wants="r5")
    place.until_bound("placed")
    stamp = place.until_unschedulable("promised")["metadata"]["annotations"][STAMP]
    place.killed()
    place.pod("a-first-by-name", queue)
    place.started_again()
    place.until_the_next_decision()
    assert place.is_gated("a-first-by-name")
    place.until_used(queue, allocated="1", reserved="1")
    place.node("r5")
    place.until_bound("promised")
    assert place.get("promised")["metadata"]["annotations"][STAMP] == stamp, "it was not promised a second time"


def test_r9_when_less_is_allowed_than_was_promised_the_oldest_promise_goes_on(place: Place) -> None:
    queue = place.queue("2")
    place.pod("older", queue, wants="r9")
    place.until_unschedulable("older")
    place.pod("another", queue, wants="r9")
    place.until_unschedulable("another")
    place.limit(queue, "1")
    place.until_reason("another", "WaitingForQueue")
    place.node("r9", cpu="4")
    place.until_bound("older")
    place.until_the_next_decision()
    assert not is_bound(place.get("another"))
    place.delete("older")
    place.until_bound("another")


def test_r10_a_watch_that_lags_does_not_let_two_in(place: Place) -> None:
    """The gate is off, and whoever lifted it knows by the answer; then the watch shows the pod as it was before."""
    queue = place.queue("1")
    place.pod("first", queue, gates=(GATE, FOREIGN))
    place.wire.refuse("PATCH", "/pods/promised")
    place.pod("promised", queue, wants="nowhere")
    place.until_the_next_decision()
    place.wire.hold_watches()
    place.patch("first", {"spec": {"schedulingGates": [{"name": GATE}]}})
    place.patch("promised", {"metadata": {"labels": {"seen": "late"}}})
    place.wire.allow()
    wait_for(lambda: not gates_of(place.get("promised")), place.scheduler)
    place.wire.let_watches_go(pause_s=0.2)
    place.until_unschedulable("promised")
    place.wire.heal()
    place.until_the_next_decision()
    assert place.is_gated("first")


def test_r11_pods_that_opted_in_and_lost_the_gate_to_somebody_else_were_promised_nothing(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p0", queue)
    place.until_bound("p0")
    for number in (1, 2):
        place.pod(f"p{number}", queue)
        place.patch(f"p{number}", {"spec": {"schedulingGates": None}})
    for number in (1, 2):
        place.until_reason(f"p{number}", "WaitingForQueue")
    place.until_used(queue, allocated="1")
    place.delete("p0")
    place.until_bound("p1")
    place.until_used(queue, allocated="1")
    assert scheduled_reason(place.get("p2")) == "WaitingForQueue"


def test_r12_a_victim_frees_its_share_before_it_is_gone(place: Place) -> None:
    queue = place.queue("1")
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    send(place.server, "POST", PRIORITY_CLASSES, {**urgent, "value": 1000})
    place.pod("victim", queue)
    place.until_bound("victim")
    place.pod("urgent", queue, priorityClassName="urgent")
    wait_for(lambda: not place.is_gated("urgent"), place.scheduler)
    victim = place.get("victim")
    assert "deletionTimestamp" in victim["metadata"], "nobody runs it: it is there until somebody deletes it"
    place.until_bound("urgent")
    place.until_used(queue, allocated="1")
    assert place.get("victim")["metadata"]["uid"] == victim["metadata"]["uid"]


# The three pods of the design.


def row(pod: Object) -> tuple[str, str, str]:
    """Phase, condition and gates, as the design's tables have them."""
    return (pod["status"]["phase"], scheduled_reason(pod), " ".join(gates_of(pod)))


def table(place: Place, *names: str) -> dict[str, tuple[str, str, str]]:
    return {name: row(place.get(name)) for name in names}


def runs(place: Place, name: str) -> None:
    """A kubelet says so of a pod that has a node."""
    place.until_bound(name)
    place.patch(name, {"status": {"phase": "Running"}}, "/status")


@pytest.mark.parametrize("end", ["deleted", "completed"])
def test_r7_the_three_pods_of_the_design(place: Place, end: str) -> None:
    """Each asks for all that the queue has; the second for a node that an autoscaler would have to buy."""
    queue, machine = place.queue("1"), f"machine-{end}"
    place.scheduler.signal(signal.SIGSTOP)
    place.pod("pod-1", queue)
    place.pod("pod-2", queue, wants=machine)
    place.pod("pod-3", queue)
    assert table(place, "pod-1", "pod-2", "pod-3") == {"pod-1": HELD, "pod-2": HELD, "pod-3": HELD}
    place.scheduler.signal(signal.SIGCONT)

    runs(place, "pod-1")
    place.until_the_next_decision()
    assert table(place, "pod-1", "pod-2", "pod-3") == {"pod-1": ("Running", "", ""), "pod-2": HELD, "pod-3": HELD}

    if end == "deleted":
        place.delete("pod-1")
    else:
        place.patch("pod-1", {"status": {"phase": "Succeeded"}}, "/status")
    place.until_unschedulable("pod-2")
    place.until_the_next_decision()
    assert table(place, "pod-2", "pod-3") == {"pod-2": ("Pending", "Unschedulable", ""), "pod-3": HELD}
    place.until_used(queue, reserved="1")

    place.node(machine)
    runs(place, "pod-2")
    place.until_the_next_decision()
    assert table(place, "pod-2", "pod-3") == {"pod-2": ("Running", "", ""), "pod-3": HELD}

    place.delete("pod-2")
    runs(place, "pod-3")
    assert table(place, "pod-3") == {"pod-3": ("Running", "", "")}


def test_r7_when_the_pod_with_the_promise_is_given_up_the_next_one_has_its_place(place: Place) -> None:
    queue = place.queue("1")
    place.pod("pod-2", queue, wants="never")
    place.until_unschedulable("pod-2")
    place.pod("pod-3", queue)
    place.until_the_next_decision()
    assert table(place, "pod-2", "pod-3") == {"pod-2": ("Pending", "Unschedulable", ""), "pod-3": HELD}
    place.delete("pod-2")
    runs(place, "pod-3")
    assert table(place, "pod-3") == {"pod-3": ("Running", "", "")}
