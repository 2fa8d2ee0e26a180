"""The bill: machines, hidden pods, and quota that is held in vain."""

from __future__ import annotations

import pytest

from headgate.audit.auditor import AuditSettings
from headgate.audit.prices import PriceTable, ResourcePrices, read_prices
from headgate.audit.report import bill_document, bill_lines, document, text_lines
from headgate.capacity.names import GATE
from headgate.kube.timestamps import format_time
from headgate.recording.history import Survey
from unit.audit.builders import (
    CLAIMS,
    CLUSTER_QUEUES,
    HOUR_S,
    JOBS,
    NODES,
    PODS,
    QUEUES,
    START_S,
    WORKLOADS,
    Told,
    a_cluster_queue,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_workload,
    promise,
    scheduled,
)

CPU, GIB = 0.031611, 0.004237


def test_a_machine_costs_what_its_parts_cost_unless_its_type_has_a_price() -> None:
    table = PriceTable(node_types={"m.big": 2.5}, spot_node_types={"m.big": 0.5})
    amounts = {"cpu": 2000, "memory": 4 << 30, "nvidia.com/gpu": 1}
    kind = "node.kubernetes.io/instance-type"
    assert table.node_cost({kind: "m.big"}, amounts) == 2.5
    assert table.node_cost({kind: "m.big", "karpenter.sh/capacity-type": "spot"}, amounts) == 0.5
    assert table.node_cost({kind: "other"}, amounts) == pytest.approx(2 * CPU + 4 * GIB + 0.95)
    assert table.node_cost({"karpenter.sh/capacity-type": "spot"}, amounts) == pytest.approx(
        2 * 0.006655 + 4 * 0.000892 + 0.95
    )


def test_prices_are_read_from_a_document_and_mistakes_are_named() -> None:
    found = read_prices({"currency": "EUR", "resources": {"cpu": 1.0, "memoryGib": 2.0}, "nodeTypes": {"a": 3}})
    assert found == PriceTable("EUR", ResourcePrices(1.0, 2.0), node_types={"a": 3.0})
    assert "nodetypes" in str(read_prices({"nodetypes": {}}))
    assert "Expected `float`" in str(read_prices({"resources": {"cpu": "cheap"}}))


def test_a_machine_is_idle_until_its_first_pod_and_after_its_last() -> None:
    told = Told()
    told.put(QUEUES, a_queue("root"))
    told.wait(HOUR_S)
    told.put(NODES, a_node("n", "2"))
    told.wait(HOUR_S)
    told.put(PODS, a_pod("a", node="n"))
    told.wait(3 * HOUR_S)
    told.put(PODS, a_pod("a", node="n", phase="Succeeded"))
    told.wait(HOUR_S)
    told.delete(NODES, a_node("n", "2"))
    told.wait(HOUR_S)
    (machine,) = told.audit().bill.machines
    price = 2 * CPU + 8 * GIB
    assert (machine.hours, machine.idle_hours, machine.never_used) == (5.0, 2.0, False)
    assert machine.cost == pytest.approx(5 * price)
    assert machine.idle_cost == pytest.approx(2 * price)


def test_a_daemon_pod_does_not_make_a_machine_used() -> None:
    told = Told()
    told.put(QUEUES, a_queue("root"))
    told.wait(1)
    told.put(NODES, a_node("n"))
    pod = a_pod("agent", queue="", node="n")
    pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]
    told.put(PODS, pod)
    told.wait(HOUR_S)
    (machine,) = told.audit().bill.unused
    assert (machine.idle_hours, machine.bought_for) == (1.0, ())


def test_a_machine_that_was_there_before_the_recording_is_not_bought() -> None:
    told = Told()
    told.wait(HOUR_S)
    told.put(NODES, a_node("old"), observed=False)
    told.wait(HOUR_S)
    bill = told.audit().bill
    assert (len(bill.machines), bill.wasted, bill.unused) == (1, (), ())
    assert bill.machines[0].idle_hours == 1.0


def pending(name: str, second: int, cpu: str = "1") -> dict[str, object]:
    pod = a_pod(name, cpu, conditions=scheduled("Unschedulable"))
    pod["metadata"]["creationTimestamp"] = format_time(START_S + second)
    return pod


def test_a_machine_is_bought_for_the_pods_that_the_queue_would_not_admit_in_their_order() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "3"))
    for number, cpu in enumerate(("1", "3", "1", "1", "1")):  # the second does not fit beside the first
        told.put(PODS, pending(f"p{number}", number, cpu))
    told.wait(60)
    told.put(NODES, a_node("n"))
    told.wait(HOUR_S)
    (machine,) = told.audit().bill.wasted
    assert machine.bought_for == ("ns/p1", "ns/p4")


def test_what_a_nodeclaim_was_ordered_for_counts_and_not_what_is_pending_when_the_node_appears() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "0"))
    pod = told.put(PODS, pending("p", 0))
    told.put(CLAIMS, {"metadata": {"name": "claim", "uid": "c"}, "spec": {}})
    told.delete(PODS, pod)
    told.wait(60)
    node = a_node("n")
    node["metadata"]["ownerReferences"] = [{"kind": "NodeClaim", "name": "claim", "uid": "c"}]
    told.put(NODES, node)
    told.wait(HOUR_S)
    (machine,) = told.audit().bill.wasted
    assert machine.bought_for == ("ns/p",)


def test_a_machine_for_pods_that_their_queue_admits_is_not_wasted_when_one_of_them_runs_there() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "1"))
    told.put(PODS, pending("a", 0))
    told.put(NODES, a_node("n"))
    told.wait(60)
    told.put(PODS, a_pod("a", node="n"))
    told.wait(HOUR_S)
    bill = told.audit().bill
    assert (bill.wasted, bill.unused) == ((), ())


def test_a_pod_with_a_promise_and_no_node_is_missed_unless_it_is_unschedulable() -> None:
    for reason, expected in (("SchedulerError", 2.0), ("Unschedulable", 0.0), ("WaitingForTerminatingPods", 0.0)):
        told = Told()
        told.put(QUEUES, a_queue("team", "1"))
        told.put(PODS, a_pod("a", "1", GATE))
        pod = promise(a_pod("a", "1", GATE))
        pod["status"]["conditions"] = scheduled(reason)
        told.put(PODS, pod)
        told.wait(2 * HOUR_S)
        assert sum(each.hours for each in told.audit().bill.missed) == expected, reason


def test_quota_hours_of_a_volcano_queue_are_counted_by_state() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "4"))
    told.put(PODS, promise(a_pod("a", "2", GATE)))
    told.wait(HOUR_S)
    placed = promise(a_pod("a", "2", GATE, node="n"))
    told.put(PODS, placed)
    told.wait(5 * HOUR_S)
    placed["metadata"]["deletionTimestamp"] = format_time(told.now_s)
    told.put(PODS, placed)
    told.wait(2 * HOUR_S)
    told.delete(PODS, placed)
    told.put(PODS, promise(a_pod("b", "1", GATE, "example.com/hold")))
    told.wait(HOUR_S)
    bills = told.audit().bill.quota
    assert {each.state: (each.queue, each.hours, each.amounts["cpu"]) for each in bills} == {
        "unplaced": ("team", 1.0, 2.0),
        "terminating": ("team", 2.0, 4.0),
        "behind a foreign gate": ("team", 1.0, 1.0),
    }
    assert [each.cost for each in bills] == pytest.approx([each.amounts["cpu"] * CPU for each in bills])


def test_quota_hours_of_a_workload_count_pods_that_do_not_exist_yet() -> None:
    told = Told()
    told.put(CLUSTER_QUEUES, a_cluster_queue())
    job = told.put(JOBS, a_job())
    told.put(WORKLOADS, a_workload("w", job, "Job", holds=True, count=3))
    told.wait(HOUR_S)
    owner = [{"kind": "Job", "name": "j", "uid": job["metadata"]["uid"], "controller": True}]
    pods = [a_pod(name, queue="", node="n") for name in ("a", "b")]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = owner
        told.put(PODS, pod)
    told.wait(HOUR_S)
    pods[0]["metadata"]["deletionTimestamp"] = format_time(told.now_s)
    told.put(PODS, pods[0])
    told.wait(HOUR_S)
    told.delete(WORKLOADS, a_workload("w", job, "Job", holds=True, count=3))
    told.wait(HOUR_S)
    found = {each.state: (each.queue, each.amounts["cpu"]) for each in told.audit().bill.quota}
    assert found == {"unplaced": ("cq", 3.0 + 1.0 + 1.0), "terminating": ("cq", 1.0)}


def test_the_report_has_all_sums_as_text_and_as_a_document() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "0"))
    told.put(PODS, pending("p", 0))
    told.put(NODES, a_node("n", "2", node_kubernetes_io__instance_type="m.big"))
    told.wait(2 * HOUR_S)
    result = told.audit(AuditSettings(prices=PriceTable("EUR", node_types={"m.big": 1.5})))
    lines = "\n".join(text_lines(result, Survey(skipped=("events",)), "torn"))
    assert "machines: 1, 2.0 h, " in lines
    assert "bought for pods that their queue would not admit: 1, 2.0 h, " in lines
    assert ", for ns/p" in lines
    assert "not recorded, and not checked: events" in lines
    assert "damaged: torn" in lines
    found = document(result, Survey(), "x.hgr")
    assert found["bill"] == bill_document(result.bill)
    assert found["bill"]["boughtForPodsThatTheirQueueWouldNotAdmit"][0]["pods"] == ["ns/p"]
    assert next(iter(bill_lines(result.bill))).endswith(" EUR")
