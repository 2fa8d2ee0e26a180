"""Scenarios with the gate on and off, for both models: a queue of 2 CPU, nodes of 1 CPU, no node at the start.

`tests/real/test_karpenter.py` runs the same scenarios with the real Karpenter.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler
from headgate.nodes.autoscalers.karpenter import Karpenter
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup
from unit.nodes.autoscalers.instance_type_fixtures import ONE_CPU, FakeCloud, Scheduler

EXECUTORS = tuple(f"executor-{number}" for number in range(1, 6))
MODELS: dict[str, Callable[[], AutoscalerModel]] = {
    "cluster-autoscaler": lambda: ClusterAutoscaler([NodeGroup("pool", ONE_CPU)]),
    "karpenter": lambda: Karpenter([NodePool("pool", (ONE_CPU,))]),
}
SOON_S = 120.0


@pytest.fixture(params=MODELS)
def cloud(request: pytest.FixtureRequest) -> FakeCloud:
    return FakeCloud(MODELS[request.param](), join_s=5.0, boot_s=10.0).start()


def submitted(cloud: FakeCloud, *, gated: bool) -> Scheduler:
    scheduler = Scheduler(cloud, 2, gated=gated)
    scheduler.submit("driver")
    scheduler.run(SOON_S)
    scheduler.submit(*EXECUTORS)
    scheduler.run(SOON_S)
    return scheduler


def test_without_gates_a_node_is_added_for_each_blocked_pod_and_stays_idle(cloud: FakeCloud) -> None:
    submitted(cloud, gated=False)
    assert len(cloud.bought) == 6
    assert len(cloud.idle()) == 4


def test_with_gates_exactly_the_nodes_that_the_queue_limit_allows_are_added(cloud: FakeCloud) -> None:
    submitted(cloud, gated=True)
    assert (len(cloud.bought), cloud.idle()) == (2, [])


def test_idle_machines_for_blocked_pods_never_go_while_gated_ones_let_them_go(cloud: FakeCloud) -> None:
    scheduler = submitted(cloud, gated=False)
    scheduler.run(3600.0)
    assert cloud.removed == []
    for name in EXECUTORS:
        if not cloud.pods[name]["spec"].get("nodeName"):
            cloud.set_scheduled_condition(name, "SchedulingGated")
    scheduler.gated = True
    scheduler.run(3600.0)
    assert len(cloud.removed) == 4


def test_when_the_queue_is_freed_the_next_pod_gets_its_machine(cloud: FakeCloud) -> None:
    scheduler = submitted(cloud, gated=True)
    gone = cloud.pods["executor-1"]["spec"]["nodeName"]
    cloud.nodes.pop(gone)
    cloud.delete_pod("executor-1")
    cloud.model.node_removed(gone, cloud.now_s)
    scheduler.work()
    scheduler.run(SOON_S)
    assert len(cloud.bought) == 3
    assert cloud.pods["executor-2"]["spec"]["nodeName"] == cloud.bought[-1]


def test_a_machine_that_is_there_is_used_before_another_is_bought(cloud: FakeCloud) -> None:
    scheduler = submitted(cloud, gated=True)
    scheduler.finish("executor-1")
    scheduler.run(SOON_S)
    assert len(cloud.bought) == 2


def test_a_pod_that_waits_for_its_victims_to_go_buys_nothing(cloud: FakeCloud) -> None:
    scheduler = submitted(cloud, gated=True)
    cloud.pod("preemptor", reason="")
    cloud.change("preemptor", nominatedNodeName=cloud.pods["executor-1"]["spec"]["nodeName"])
    cloud.run(SOON_S)
    assert len(cloud.bought) == 2
    assert scheduler.reserved == ["driver", "executor-1"]


def test_a_pod_that_waits_for_terminating_pods_buys_nothing_until_they_are_overdue(cloud: FakeCloud) -> None:
    submitted(cloud, gated=True)
    node = cloud.pods["executor-1"]["spec"]["nodeName"]
    cloud.pods["executor-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    cloud.deliver_pod("executor-1")
    cloud.pod("successor", reason="WaitingForTerminatingPods")
    cloud.change("successor", nominatedNodeName=node)
    cloud.run(SOON_S)
    assert len(cloud.bought) == 2
    cloud.change("successor", nominatedNodeName="")
    cloud.set_scheduled_condition("successor", "Unschedulable")
    cloud.run(SOON_S)
    assert len(cloud.bought) == 3
