"""The model of Cluster Autoscaler, rule by rule: which pods cause a scale-up, when, and when nodes are removed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.node_groups import NodeGroup
from unit.nodes.autoscalers.instance_type_fixtures import ONE_CPU, FakeCloud


def a_cloud(*groups: NodeGroup, joins_s: float = 0.0, boots_s: float = 0.0, **flags: Any) -> FakeCloud:
    model = ClusterAutoscaler(groups or [NodeGroup("g", ONE_CPU)], ClusterAutoscalerFlags(**flags))
    return FakeCloud(model, join_s=joins_s, boot_s=boots_s).start()


def bought_for(cloud: FakeCloud, seconds: float = 60.0) -> int:
    cloud.run(seconds)
    return len(cloud.bought)


def test_ca_1_a_pod_at_its_end_or_of_a_scheduler_that_is_not_allowed_buys_nothing() -> None:
    cloud = a_cloud(allowed_scheduler_names=frozenset({"headgate"}))
    cloud.pod("ended")
    cloud.change("ended", phase="Succeeded")
    cloud.pod("foreign", schedulerName="volcano")
    assert bought_for(cloud) == 0
    cloud.pod("ours")
    assert bought_for(cloud) == 1


def test_ca_2_a_pod_with_a_node_or_on_its_way_out_buys_nothing() -> None:
    cloud = a_cloud()
    cloud.pod("bound", nodeName="somewhere")
    leaving = cloud.pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cloud.deliver_pod("leaving")
    assert bought_for(cloud) == 0


def test_ca_3_a_nominated_pod_buys_nothing_and_fills_its_node() -> None:
    cloud = a_cloud()
    cloud.node("n-0001")
    cloud.pod("preemptor")
    cloud.change("preemptor", nominatedNodeName="n-0001")
    assert bought_for(cloud) == 0
    cloud.pod("next")  # would fit on the node, were that not promised
    assert bought_for(cloud) == 1


@pytest.mark.parametrize(
    ("reason", "machines"),
    [
        ("Unschedulable", 1),
        ("SchedulingGated", 0),
        ("WaitingForQueue", 0),
        ("WaitingForTerminatingPods", 0),
        ("SchedulerError", 0),
        ("Schedulable", 0),
    ],
)
def test_ca_4_ca_5_only_the_reason_unschedulable_buys(reason: str, machines: int) -> None:
    cloud = a_cloud()
    cloud.pod("p", reason=reason)
    assert bought_for(cloud) == machines


def test_ca_4_unschedulable_counts_only_while_the_condition_is_false() -> None:
    cloud = a_cloud()
    cloud.pod("p", reason="")
    cloud.set_scheduled_condition("p", "Unschedulable", status="True")
    assert bought_for(cloud) == 0


def test_ca_6_pods_of_a_bypassed_scheduler_add_nodes_before_their_first_attempt_but_not_while_gated() -> None:
    cloud = a_cloud(bypassed_scheduler_names=frozenset({"headgate"}))
    cloud.pod("untouched", reason="")
    cloud.pod("gated", reason="SchedulingGated")
    assert bought_for(cloud) == 1
    plain = a_cloud()
    plain.pod("untouched", reason="")
    assert bought_for(plain) == 0


def test_ca_7_gates_are_not_read_so_unschedulable_on_a_gated_pod_would_buy() -> None:
    cloud = a_cloud()
    cloud.pod("p", schedulingGates=[{"name": "example.com/gate"}])
    assert bought_for(cloud) == 1


def test_ca_8_without_its_gate_a_pod_stays_hidden_until_its_scheduler_says_unschedulable() -> None:
    cloud = a_cloud()
    cloud.pod("p", reason="SchedulingGated", schedulingGates=[{"name": "example.com/gate"}])
    cloud.pods["p"]["spec"]["schedulingGates"] = []
    cloud.deliver_pod("p")
    assert bought_for(cloud) == 0
    cloud.set_scheduled_condition("p", "Unschedulable")
    assert bought_for(cloud) == 1


def test_ca_9_no_node_is_added_for_expendable_pods_and_their_capacity_counts_as_free() -> None:
    cloud = a_cloud()
    cloud.node("n-0001")
    cloud.pod("cheap", priority=-11)
    cloud.bind("cheap", "n-0001")
    cloud.pod("cheap-too", priority=-11)
    cloud.pod("dear")
    assert bought_for(cloud) == 0


def test_ca_11_a_pod_that_fits_on_a_node_buys_nothing_and_the_important_are_placed_first() -> None:
    cloud = a_cloud()
    cloud.node("n-0001")
    cloud.pod("lesser", priority=1)
    cloud.pod("greater", priority=2)
    cloud.run(60.0)
    assert [told.name for told in cloud.events] == ["lesser"]


def test_ca_12_a_blocked_pod_that_is_called_unschedulable_keeps_an_idle_node() -> None:
    cloud = a_cloud(scale_down_unneeded_time_s=60.0, scale_down_delay_after_add_s=0.0)
    cloud.node("g-0001", "g")
    cloud.pod("blocked-by-its-queue")
    cloud.run(600.0)
    assert cloud.removed == []
    cloud.set_scheduled_condition("blocked-by-its-queue", "SchedulingGated")
    cloud.run(600.0)
    assert cloud.removed == ["g-0001"]


def test_ca_13_pods_of_daemon_sets_buy_nothing() -> None:
    cloud = a_cloud()
    cloud.pod("daemon", owner="DaemonSet")
    assert bought_for(cloud) == 0


def test_ca_14_with_provisioning_requests_on_their_pods_buy_nothing() -> None:
    note = {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
    for enabled, machines in ((True, 0), (False, 1)):
        cloud = a_cloud(enable_provisioning_requests=enabled)
        cloud.pod("p", annotations=note)
        assert bought_for(cloud) == machines


def test_ca_16_the_delay_of_new_pods_counts_from_their_creation_gated_or_not() -> None:
    cloud = a_cloud(new_pod_scale_up_delay_s=60.0)
    cloud.pod("p", reason="SchedulingGated")
    cloud.run(120.0)
    cloud.set_scheduled_condition("p", "Unschedulable")
    assert bought_for(cloud, 11.0) == 1


def test_ca_16_a_pod_may_ask_for_a_longer_delay_and_not_for_a_shorter_one() -> None:
    key = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
    cloud = a_cloud(NodeGroup("g", ONE_CPU), new_pod_scale_up_delay_s=60.0)
    cloud.pod("patient", annotations={key: "5m"})
    cloud.pod("hasty", annotations={key: "1s"})
    assert bought_for(cloud, 50.0) == 0
    assert bought_for(cloud, 40.0) == 1
    assert bought_for(cloud, 300.0) == 2


def test_ca_17_pods_younger_than_two_seconds_are_waited_for() -> None:
    cloud = a_cloud(scan_interval_s=1.0)
    cloud.run(60.0)
    cloud.pod("first")
    assert bought_for(cloud, 1.0) == 0
    cloud.pod("second")
    cloud.run(2.0)
    assert len(cloud.bought) == 2


def test_ca_17_pods_that_want_a_gpu_are_waited_for_longer() -> None:
    instance_type = InstanceType("gpu", {**ONE_CPU.resources, "nvidia.com/gpu": "1"})
    cloud = a_cloud(NodeGroup("g", instance_type), scan_interval_s=1.0)
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    cloud.pod("p", containers=[{"name": "c", "resources": {"requests": requests}}])
    assert bought_for(cloud, 29.0) == 0
    assert bought_for(cloud, 3.0) == 1


def test_ca_17_while_new_pods_are_waited_for_no_node_goes() -> None:
    cloud = a_cloud(scan_interval_s=1.0)
    cloud.node("g-0001", "g")
    cloud.run(600.0)
    cloud.pod("new", cpu="64")
    cloud.run(1.5)
    assert cloud.tainted == []
    cloud.run(2.0)
    assert cloud.tainted == ["g-0001"]


def test_ca_18_a_pod_that_is_freshly_unschedulable_wakes_the_loop_one_that_was_gated_for_long_does_not() -> None:
    cloud = a_cloud(scan_interval_s=100.0)
    cloud.run(1.0)
    cloud.pod("long-gated", reason="SchedulingGated")
    since_s = cloud.now_s
    cloud.run(50.0)
    cloud.set_scheduled_condition(
        "long-gated", "Unschedulable", since_s=since_s
    )  # the transition time stays: the status was False before
    assert bought_for(cloud, 40.0) == 0
    assert bought_for(cloud, 20.0) == 1
    woken = a_cloud(scan_interval_s=100.0)
    woken.pod("fresh", reason="")
    woken.run(5.0)
    woken.set_scheduled_condition("fresh", "Unschedulable")
    assert bought_for(woken, 1.0) == 1


def test_ca_19_a_second_group_is_grown_at_once_if_the_first_could_not_help_all() -> None:
    plain, gpu = (InstanceType(kind, ONE_CPU.resources, labels={"kind": kind}) for kind in ("plain", "gpu"))
    cloud = a_cloud(NodeGroup("plain", plain), NodeGroup("gpu", gpu), scan_interval_s=100.0)
    cloud.run(1.0)
    cloud.pod("one", reason="", nodeSelector={"kind": "plain"})
    cloud.pod("two", reason="", nodeSelector={"kind": "gpu"})
    cloud.run(5.0)
    cloud.set_scheduled_condition("one", "Unschedulable")
    cloud.set_scheduled_condition("two", "Unschedulable")
    cloud.run(0.1)
    assert cloud.bought == ["gpu-0001", "plain-0001"]


def test_ca_20_a_full_group_and_the_most_nodes_in_all_are_limits() -> None:
    cloud = a_cloud(NodeGroup("g", ONE_CPU, max_size=2))
    for number in range(5):
        cloud.pod(f"p{number}")
    assert bought_for(cloud) == 2
    assert "NotTriggerScaleUp" in {told.reason for told in cloud.events}
    total = a_cloud(max_nodes_total=3)
    total.node("foreign")
    total.pod("there")
    total.bind("there", "foreign")
    for number in range(5):
        total.pod(f"p{number}")
    assert bought_for(total) == 2


def test_ca_21_machines_on_their_way_are_counted_before_more_are_bought() -> None:
    cloud = a_cloud(joins_s=120.0, boots_s=120.0)
    cloud.pod("one")
    cloud.pod("two")
    assert bought_for(cloud, 230.0) == 2


def test_ca_21_ca_20_machines_that_never_come_are_given_up_and_their_group_backs_off_longer_each_time() -> None:
    cloud = a_cloud(joins_s=1e9)
    cloud.pod("p")
    times: list[float] = []
    for _ in range(60):
        before = len(cloud.bought)
        cloud.run(60.0)
        times += [cloud.now_s] * (len(cloud.bought) - before)
    waits = [round((later - earlier) / 60) for earlier, later in itertools.pairwise(times)]
    assert waits[:2] == [20, 25]  # 15 minutes until it is given up, and 5 or 10 of backing off


def test_ca_22_a_node_that_is_not_ready_or_tainted_so_or_under_pressure_is_no_place_for_a_pod() -> None:
    tainted = InstanceType(
        "s", ONE_CPU.resources, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    )
    for instance_type, ready, pressure in (
        (ONE_CPU, "False", "False"),
        (tainted, "True", "False"),
        (ONE_CPU, "True", "True"),
    ):
        cloud = a_cloud()
        cloud.node("n-0001", instance_type=instance_type, ready=ready)
        conditions = cloud.nodes["n-0001"]["status"]["conditions"]
        conditions.append({"type": "DiskPressure", "status": pressure})
        cloud.model.node_applied(cloud.nodes["n-0001"], cloud.now_s)
        cloud.pod("p")
        assert bought_for(cloud) == 1


def test_a_group_with_a_taint_is_grown_only_for_pods_that_tolerate_it() -> None:
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    cloud = a_cloud(NodeGroup("g", InstanceType("s", ONE_CPU.resources, taints=[taint])))
    cloud.pod("plain")
    assert bought_for(cloud) == 0
    cloud.pod("tolerant", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert bought_for(cloud) == 1


def test_ca_23_an_event_says_whether_a_pod_triggered_a_scale_up() -> None:
    cloud = a_cloud()
    cloud.pod("helped")
    cloud.pod("too-large", cpu="64")
    cloud.run(60.0)
    assert cloud.reasons("helped") == ["TriggeredScaleUp"]
    assert cloud.reasons("too-large") == ["NotTriggerScaleUp"]


def test_ca_24_ca_25_a_node_goes_when_it_was_idle_for_ten_minutes_and_not_before() -> None:
    cloud = a_cloud()
    cloud.pod("p")
    cloud.run(30.0)
    cloud.bind("p", cloud.bought[0])
    cloud.run(3600.0)
    assert cloud.removed == []
    cloud.delete_pod("p")
    cloud.run(590.0)
    assert cloud.removed == []
    cloud.run(60.0)
    assert cloud.removed == cloud.bought


def test_ca_24_a_node_that_says_so_is_kept() -> None:
    note = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    cloud = a_cloud()
    cloud.node("g-0001", "g", InstanceType("s", ONE_CPU.resources, annotations=note))
    cloud.run(7200.0)
    assert cloud.removed == []


def test_ca_25_nothing_goes_below_the_least_size_nor_soon_after_something_was_bought() -> None:
    cloud = a_cloud(NodeGroup("g", ONE_CPU, min_size=1))
    cloud.node("g-0001", "g")
    cloud.node("g-0002", "g")
    cloud.run(7200.0)
    assert cloud.removed == ["g-0001"]
    late = a_cloud(NodeGroup("a", ONE_CPU), NodeGroup("b", InstanceType("s", ONE_CPU.resources, labels={"kind": "b"})))
    late.node("a-0001", "a")
    late.run(550.0)
    late.pod("buys", nodeSelector={"kind": "b"})
    late.run(590.0)
    assert (late.bought, late.removed) == (["b-0001"], [])
    late.run(60.0)
    assert late.removed == ["a-0001"]


def test_ca_27_a_node_is_tainted_first_and_kept_if_a_pod_was_faster() -> None:
    cloud = a_cloud()
    cloud.node("g-0001", "g")
    while not cloud.tainted:
        cloud.run(1.0)
    cloud.pod("quick")
    cloud.bind("quick", "g-0001")
    cloud.run(60.0)
    assert (cloud.removed, cloud.tainted) == ([], [])
    cloud.delete_pod("quick")
    cloud.run(1200.0)
    assert cloud.removed == ["g-0001"]


def test_the_same_facts_in_the_same_order_give_the_same_effects() -> None:
    def effects() -> list[Any]:
        cloud = a_cloud(NodeGroup("b", ONE_CPU), NodeGroup("a", ONE_CPU))
        for number in range(7):
            cloud.pod(f"p{number}")
        return cloud.run(60.0)

    assert effects() == effects() != []
