"""The model of Karpenter, rule by rule: which pods are provisioned, in which batches, and when a node is removed."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.karpenter import Karpenter, KarpenterSettings
from headgate.nodes.autoscalers.model import AddMachine
from headgate.nodes.autoscalers.node_claims import NodePool
from unit.nodes.autoscalers.instance_type_fixtures import ONE_CPU, FakeCloud

FOUR_CPU = InstanceType("four-cpu", {"cpu": "4", "memory": "16Gi", "pods": "110"}, price=3.0)


def a_cloud(*pools: NodePool, joins_s: float = 0.0, boots_s: float = 0.0, **settings: Any) -> FakeCloud:
    model = Karpenter(pools or [NodePool("p", (ONE_CPU,))], KarpenterSettings(**settings))
    return FakeCloud(model, join_s=joins_s, boot_s=boots_s).start()


def bought_for(cloud: FakeCloud, seconds: float = 20.0) -> int:
    cloud.run(seconds)
    return len(cloud.bought)


def test_kp_1_pods_with_a_node_or_a_promise_of_one_or_of_daemons_buy_nothing() -> None:
    cloud = a_cloud()
    cloud.pod("bound", nodeName="somewhere")
    cloud.pod("promised")
    cloud.change("promised", nominatedNodeName="somewhere")
    cloud.pod("daemon", owner="DaemonSet")
    cloud.pod("static", owner="Node")
    assert bought_for(cloud) == 0
    cloud.change("promised", nominatedNodeName="")
    assert bought_for(cloud) == 1


@pytest.mark.parametrize(
    ("reason", "machines"),
    [
        ("Unschedulable", 1),
        ("SchedulingGated", 0),
        ("WaitingForQueue", 0),
        ("WaitingForTerminatingPods", 0),
        ("SchedulerError", 0),
        ("", 0),
    ],
)
def test_kp_2_only_the_reason_unschedulable_buys(reason: str, machines: int) -> None:
    cloud = a_cloud()
    cloud.pod("p", reason=reason)
    assert bought_for(cloud) == machines


def test_kp_2_neither_the_conditions_status_nor_gates_are_looked_at() -> None:
    cloud = a_cloud()
    cloud.pod("p", schedulingGates=[{"name": "example.com/gate"}])
    cloud.set_scheduled_condition("p", "Unschedulable", status="True")
    assert bought_for(cloud) == 1


def test_kp_3_age_priority_and_scheduler_do_not_matter() -> None:
    cloud = a_cloud()
    cloud.pod("p", priority=-1000, schedulerName="whoever")
    assert bought_for(cloud, 1.0) == 1


def test_kp_4_pods_within_a_second_of_each_other_are_one_batch_slower_ones_are_not() -> None:
    fast, slow = (a_cloud(NodePool("p", (ONE_CPU, FOUR_CPU)), joins_s=300.0) for _ in range(2))
    for number in range(4):
        fast.pod(f"p{number}")
        fast.run(0.5)
        slow.pod(f"p{number}")
        slow.run(1.5)
    assert bought_for(fast) == 1
    assert bought_for(slow) == 4


def test_kp_4_a_batch_ends_after_ten_seconds_even_if_pods_keep_coming() -> None:
    cloud = a_cloud()
    for number in range(21):
        cloud.pod(f"p{number}")
        cloud.run(0.5)
    assert cloud.bought


def test_kp_5_pods_use_existing_and_starting_nodes_before_nodes_are_added() -> None:
    cloud = a_cloud(joins_s=60.0, boots_s=60.0)
    cloud.node("there")
    cloud.pod("one")
    cloud.pod("two")
    assert bought_for(cloud, 300.0) == 1


def test_kp_5_the_limit_of_a_pool_holds_and_pods_beyond_it_get_an_event() -> None:
    cloud = a_cloud(NodePool("p", (ONE_CPU,), limits={"cpu": 2000}))
    for number in range(3):
        cloud.pod(f"p{number}")
    assert bought_for(cloud, 100.0) == 2
    assert "FailedScheduling" in {told.reason for told in cloud.events}


def test_kp_5_the_heavier_pool_and_the_cheapest_shape_that_holds_the_pods_are_taken() -> None:
    pools = NodePool("a-light", (ONE_CPU,)), NodePool("b-heavy", (FOUR_CPU, ONE_CPU), weight=10)
    cloud = a_cloud(*pools)
    cloud.pod("small")
    (machine,) = [each for each in cloud.run(2.0) if isinstance(each, AddMachine)]
    labels = machine.node["metadata"]["labels"]
    assert (labels["headgate.dev/node-group"], labels["node.kubernetes.io/instance-type"]) == ("b-heavy", "one-cpu")
    assert machine.pods == ("default/small",)


def test_kp_5_of_planned_machines_the_one_with_the_fewest_pods_is_filled_first() -> None:
    cloud = a_cloud(NodePool("p", (FOUR_CPU,)))
    for name, cpu in (("two", "2"), ("one-and-a-half", "1500m"), ("one", "1"), ("quarter", "250m")):
        cloud.pod(name, cpu=cpu)
    machines = [each.pods for each in cloud.run(2.0) if isinstance(each, AddMachine)]
    assert machines == [("default/two", "default/one-and-a-half"), ("default/one", "default/quarter")]


def test_kp_5_pods_on_a_node_that_is_being_deleted_are_provided_for_again() -> None:
    cloud = a_cloud()
    cloud.node("going")
    cloud.pod("p")
    cloud.bind("p", "going")
    cloud.nodes["going"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cloud.report("going", "True")
    cloud.pod("other")
    assert bought_for(cloud) == 2


def test_kp_6_a_blocked_pod_that_is_unschedulable_keeps_an_idle_node_without_end() -> None:
    cloud = a_cloud()
    cloud.node("p-0001", "p")
    cloud.pod("blocked-by-its-queue")
    cloud.run(3600.0)
    assert cloud.removed == []
    cloud.set_scheduled_condition("blocked-by-its-queue", "SchedulingGated")
    cloud.run(60.0)
    assert cloud.removed == ["p-0001"]


def test_kp_8_an_idle_node_goes_after_its_pools_time_and_a_second_look() -> None:
    cloud = a_cloud(NodePool("p", (ONE_CPU,), consolidate_after_s=100.0))
    cloud.pod("p")
    cloud.run(5.0)
    cloud.bind("p", "p-0001")
    cloud.run(500.0)
    cloud.delete_pod("p")
    cloud.run(100.0)
    assert cloud.removed == []
    cloud.run(30.0)
    assert cloud.removed == ["p-0001"]


def test_kp_8_a_pod_that_comes_before_the_second_look_saves_the_node() -> None:
    cloud = a_cloud()
    cloud.node("p-0001", "p")
    cloud.run(12.0)
    cloud.pod("quick")
    cloud.bind("quick", "p-0001")
    cloud.run(60.0)
    assert cloud.removed == []


def test_kp_8_never_means_never_and_a_node_may_ask_to_be_left_alone() -> None:
    note = {"karpenter.sh/do-not-disrupt": "true"}
    cloud = a_cloud(NodePool("never", (ONE_CPU,), consolidate_after_s=None), NodePool("p", (ONE_CPU,)))
    cloud.node("never-0001", "never")
    cloud.node("p-0001", "p", InstanceType("s", ONE_CPU.resources, annotations=note))
    cloud.node("foreign")
    cloud.run(3600.0)
    assert cloud.removed == []


def test_kp_9_a_machine_that_does_not_join_in_fifteen_minutes_is_replaced() -> None:
    cloud = a_cloud(joins_s=1e9)
    cloud.pod("p")
    assert bought_for(cloud, 890.0) == 1
    assert bought_for(cloud, 30.0) == 2


def test_kp_9_a_node_that_starts_is_planned_with_though_it_is_tainted_not_ready() -> None:
    taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    cloud = a_cloud()
    cloud.node("p-0001", "p", InstanceType("s", ONE_CPU.resources, taints=taints), ready="")
    cloud.pod("p")
    assert bought_for(cloud) == 0


def test_kp_10_events_name_the_node_of_a_pod_or_say_that_no_node_helps() -> None:
    cloud = a_cloud()
    cloud.pod("small")
    cloud.pod("large", cpu="64")
    cloud.run(20.0)
    assert cloud.reasons("small")[0] == "Nominated"
    assert cloud.reasons("large") == ["FailedScheduling"]


def test_the_same_facts_in_the_same_order_give_the_same_effects() -> None:
    def effects() -> list[Any]:
        cloud = a_cloud(NodePool("b", (ONE_CPU,)), NodePool("a", (FOUR_CPU, ONE_CPU)))
        for number in range(7):
            cloud.pod(f"p{number}")
        return cloud.run(60.0)

    assert effects() == effects() != []
