"""What a promise counts for, which pods count as admitted, and the three pods of the design, on both servers.

The statements E1 to E3 and R1 to R12 of `docs/volcano-defects.md`, each by its id.
"""

from __future__ import annotations

import signal

import pytest

from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.names import GATE, STAMP
from real.queue_cluster import FOREIGN, Object, QueueCluster, gates_of

pytestmark = pytest.mark.real

GPU = "example.com/gpu"
HELD = ("Pending", "SchedulingGated", GATE)


# Groups that were let in to a queue, and those of their pods that cannot go on.


def a_group_that_was_let_in(cluster: QueueCluster, queue: str) -> None:
    """It lacks a member, so that its pods wait and what it was let in for is all that it counts for."""
    cluster.group("early", queue, 3, minResources={"cpu": "2"})
    cluster.pod("early-0", group="early", cpu="100m")
    wait_for(lambda: cluster.phase("early") == "Inqueue", cluster.scheduler)


def test_e1_pods_with_only_our_gate_stay_in_the_request_of_their_admitted_group(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    a_group_that_was_let_in(cluster, queue)
    cluster.pod("early-1", group="early", cpu="1900m")
    cluster.group("late", queue, 1, minResources={"cpu": "1"})
    cluster.pod("late-0", group="late")
    cluster.until_the_next_decision()
    assert cluster.is_gated("late-0")
    assert cluster.phase("late") != "Inqueue"


@pytest.mark.parametrize("gates", [(FOREIGN,), (FOREIGN, GATE)], ids=["alone", "with ours"])
def test_e2_pods_with_a_foreign_gate_are_deducted(cluster: QueueCluster, gates: tuple[str, ...]) -> None:
    queue = cluster.queue("2")
    a_group_that_was_let_in(cluster, queue)
    cluster.group("late", queue, 1, minResources={"cpu": "1"})
    cluster.pod("late-0", group="late")
    cluster.until_the_next_decision()
    assert cluster.is_gated("late-0")
    cluster.pod("early-1", group="early", gates=gates, opts_in=GATE in gates)
    cluster.until_bound("late-0")
    assert gates_of(cluster.get("early-1")) == list(gates)


def test_e3_no_more_is_deducted_than_there_was_and_only_what_was_asked_for(cluster: QueueCluster) -> None:
    queue = cluster.queue("", capability={"cpu": "2", GPU: "1"})
    a_group_that_was_let_in(cluster, queue)
    cluster.pod("early-1", group="early", gates=(FOREIGN, GATE), containers=[a_container({"cpu": "50", GPU: "1"})])
    cluster.group("late", queue, 1, minResources={"cpu": "2"})
    cluster.pod("late-0", group="late", cpu="2", wants="nowhere")
    cluster.until_unschedulable("late-0")
    for number, too_much in enumerate(({"cpu": "1"}, {GPU: "2"})):
        cluster.group(f"later-{number}", queue, 1, minResources=too_much)
        cluster.pod(f"later-{number}", group=f"later-{number}", containers=[a_container({GPU: "1"})])
    cluster.until_the_next_decision()
    for number in range(2):
        assert cluster.is_gated(f"later-{number}"), "50 from 2 leaves nothing, and not 48 more than there are"


def a_container(asks: Object) -> Object:
    limits = {name: amount for name, amount in asks.items() if name == GPU}
    return {"name": "main", "image": "app", "resources": {"requests": asks, "limits": limits}}


# Promises.


def test_r1_r6_a_promise_counts_until_its_pod_is_deleted(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.pod("p", queue, wants="nowhere")
    cluster.until_unschedulable("p")
    cluster.until_used(queue, reserved="1")
    cluster.pod("large", queue, cpu="2")
    cluster.until_the_next_decision()
    assert cluster.is_gated("large")
    cluster.delete("p")
    cluster.until_bound("large")
    cluster.until_used(queue, allocated="2")


def test_r2_a_promise_is_not_counted_against_its_own_pod(cluster: QueueCluster) -> None:
    queue = cluster.queue("1")
    cluster.pod("p", queue, wants="r2")
    cluster.until_unschedulable("p")
    cluster.node("r2")
    cluster.until_bound("p")


def test_r3_what_is_placed_is_promised_no_longer(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.pod("p", queue, wants="r3")
    cluster.until_unschedulable("p")
    cluster.until_used(queue, reserved="1")
    cluster.node("r3")
    cluster.until_used(queue, allocated="1")
    cluster.pod("q", queue)
    cluster.until_bound("q")
    cluster.until_used(queue, allocated="2")


def test_r4_a_gang_that_is_rolled_back_keeps_what_it_was_promised(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.group("gang", queue, 2)
    for number in range(2):
        cluster.pod(f"gang-{number}", group="gang", wants="r4")
    cluster.until_unschedulable("gang-0", "gang-1")
    cluster.node("r4")

    def one_was_placed_and_taken_back() -> bool:
        return "Insufficient cpu" in str(cluster.get("gang-1")["status"]["conditions"])

    wait_for(one_was_placed_and_taken_back, cluster.scheduler)
    cluster.pod("other", queue)
    cluster.until_the_next_decision()
    assert cluster.is_gated("other"), "the member that found a node and had to give it back is promised its share"
    cluster.until_used(queue, reserved="2")
    send(cluster.server, "PATCH", "/api/v1/nodes/r4/status", {"status": TWO_CPU}, "application/merge-patch+json")
    cluster.until_bound("gang-0", "gang-1")
    cluster.until_used(queue, allocated="2")


TWO_CPU = {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}


def test_r5_a_restarted_scheduler_has_the_same_promises(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.pod("placed", queue)
    cluster.pod("promised", queue, wants="r5")
    cluster.until_bound("placed")
    stamp = cluster.until_unschedulable("promised")["metadata"]["annotations"][STAMP]
    cluster.killed()
    cluster.pod("a-first-by-name", queue)
    cluster.started_again()
    cluster.until_the_next_decision()
    assert cluster.is_gated("a-first-by-name")
    cluster.until_used(queue, allocated="1", reserved="1")
    cluster.node("r5")
    cluster.until_bound("promised")
    assert cluster.get("promised")["metadata"]["annotations"][STAMP] == stamp, "it was not promised a second time"


def test_r9_when_the_limit_is_below_the_promises_the_oldest_promise_stays_valid(cluster: QueueCluster) -> None:
    queue = cluster.queue("2")
    cluster.pod("older", queue, wants="r9")
    cluster.until_unschedulable("older")
    cluster.pod("another", queue, wants="r9")
    cluster.until_unschedulable("another")
    cluster.limit(queue, "1")
    cluster.until_reason("another", "WaitingForQueue")
    cluster.node("r9", cpu="4")
    cluster.until_bound("older")
    cluster.until_the_next_decision()
    assert not is_bound(cluster.get("another"))
    cluster.delete("older")
    cluster.until_bound("another")


def test_r10_a_stale_watch_does_not_admit_two_pods(cluster: QueueCluster) -> None:
    """The gate is removed, and the scheduler knows it by the response; then the watch delivers an older state of the
    pod."""
    queue = cluster.queue("1")
    cluster.pod("first", queue, gates=(GATE, FOREIGN))
    cluster.proxy.refuse("PATCH", "/pods/promised")
    cluster.pod("promised", queue, wants="nowhere")
    cluster.until_the_next_decision()
    cluster.proxy.hold_watches()
    cluster.patch("first", {"spec": {"schedulingGates": [{"name": GATE}]}})
    cluster.patch("promised", {"metadata": {"labels": {"seen": "late"}}})
    cluster.proxy.allow()
    wait_for(lambda: not gates_of(cluster.get("promised")), cluster.scheduler)
    cluster.proxy.resume_watches(pause_s=0.2)
    cluster.until_unschedulable("promised")
    cluster.proxy.end_faults()
    cluster.until_the_next_decision()
    assert cluster.is_gated("first")


def test_r11_pods_that_opted_in_and_whose_gate_another_client_removed_have_no_promise(cluster: QueueCluster) -> None:
    queue = cluster.queue("1")
    cluster.pod("p0", queue)
    cluster.until_bound("p0")
    for number in (1, 2):
        cluster.pod(f"p{number}", queue)
        cluster.patch(f"p{number}", {"spec": {"schedulingGates": None}})
    for number in (1, 2):
        cluster.until_reason(f"p{number}", "WaitingForQueue")
    cluster.until_used(queue, allocated="1")
    cluster.delete("p0")
    cluster.until_bound("p1")
    cluster.until_used(queue, allocated="1")
    assert scheduled_reason(cluster.get("p2")) == "WaitingForQueue"


def test_r12_a_victim_frees_its_share_before_it_is_gone(cluster: QueueCluster) -> None:
    queue = cluster.queue("1")
    cluster.priority_class("urgent", 1000)
    cluster.pod("victim", queue)
    cluster.until_bound("victim")
    cluster.pod("urgent", queue, priorityClassName="urgent")
    wait_for(lambda: not cluster.is_gated("urgent"), cluster.scheduler)
    victim = cluster.get("victim")
    assert "deletionTimestamp" in victim["metadata"], "nobody runs it: it is there until somebody deletes it"
    cluster.until_bound("urgent")
    cluster.until_used(queue, allocated="1")
    assert cluster.get("victim")["metadata"]["uid"] == victim["metadata"]["uid"]


# The three pods of the design.


def row(pod: Object) -> tuple[str, str, str]:
    """Phase, condition and gates, as the design's tables have them."""
    return (pod["status"]["phase"], scheduled_reason(pod), " ".join(gates_of(pod)))


def table(cluster: QueueCluster, *names: str) -> dict[str, tuple[str, str, str]]:
    return {name: row(cluster.get(name)) for name in names}


def runs(cluster: QueueCluster, name: str) -> None:
    """A kubelet says so of a pod that has a node."""
    cluster.until_bound(name)
    cluster.patch(name, {"status": {"phase": "Running"}}, "/status")


@pytest.mark.parametrize("end", ["deleted", "completed"])
def test_r7_the_three_pods_of_the_design(cluster: QueueCluster, end: str) -> None:
    """Each asks for all that the queue has; the second for a node that an autoscaler would have to buy."""
    queue, machine = cluster.queue("1"), f"machine-{end}"
    cluster.scheduler.signal(signal.SIGSTOP)
    cluster.pod("pod-1", queue)
    cluster.pod("pod-2", queue, wants=machine)
    cluster.pod("pod-3", queue)
    assert table(cluster, "pod-1", "pod-2", "pod-3") == {"pod-1": HELD, "pod-2": HELD, "pod-3": HELD}
    cluster.scheduler.signal(signal.SIGCONT)

    runs(cluster, "pod-1")
    cluster.until_the_next_decision()
    assert table(cluster, "pod-1", "pod-2", "pod-3") == {"pod-1": ("Running", "", ""), "pod-2": HELD, "pod-3": HELD}

    if end == "deleted":
        cluster.delete("pod-1")
    else:
        cluster.patch("pod-1", {"status": {"phase": "Succeeded"}}, "/status")
    cluster.until_unschedulable("pod-2")
    cluster.until_the_next_decision()
    assert table(cluster, "pod-2", "pod-3") == {"pod-2": ("Pending", "Unschedulable", ""), "pod-3": HELD}
    cluster.until_used(queue, reserved="1")

    cluster.node(machine)
    runs(cluster, "pod-2")
    cluster.until_the_next_decision()
    assert table(cluster, "pod-2", "pod-3") == {"pod-2": ("Running", "", ""), "pod-3": HELD}

    cluster.delete("pod-2")
    runs(cluster, "pod-3")
    assert table(cluster, "pod-3") == {"pod-3": ("Running", "", "")}


def test_r7_when_the_pod_with_the_promise_is_deleted_the_next_pod_gets_its_capacity(cluster: QueueCluster) -> None:
    queue = cluster.queue("1")
    cluster.pod("pod-2", queue, wants="never")
    cluster.until_unschedulable("pod-2")
    cluster.pod("pod-3", queue)
    cluster.until_the_next_decision()
    assert table(cluster, "pod-2", "pod-3") == {"pod-2": ("Pending", "Unschedulable", ""), "pod-3": HELD}
    cluster.delete("pod-2")
    runs(cluster, "pod-3")
    assert table(cluster, "pod-3") == {"pod-3": ("Running", "", "")}
