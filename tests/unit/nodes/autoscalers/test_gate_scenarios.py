"""The stories of gates on and off, told to both models: a queue of 2 CPU, machines of 1 CPU, none at the start.

The same stories are told to the real Karpenter in `tests/real/test_karpenter.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler
from headgate.nodes.autoscalers.karpenter import Karpenter
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup
from unit.nodes.autoscalers.instance_type_fixtures import ONE_CPU, Market, Scheduler

EXECUTORS = tuple(f"executor-{number}" for number in range(1, 6))
MODELS: dict[str, Callable[[], AutoscalerModel]] = {
    "cluster-autoscaler": lambda: ClusterAutoscaler([NodeGroup("pool", ONE_CPU)]),
    "karpenter": lambda: Karpenter([NodePool("pool", (ONE_CPU,))]),
}
SOON_S = 120.0


@pytest.fixture(params=MODELS)
def market(request: pytest.FixtureRequest) -> Market:
    return Market(MODELS[request.param](), joins_s=5.0, boots_s=10.0).begin()


def submitted(market: Market, *, gated: bool) -> Scheduler:
    scheduler = Scheduler(market, 2, gated=gated)
    scheduler.submit("driver")
    scheduler.run(SOON_S)
    scheduler.submit(*EXECUTORS)
    scheduler.run(SOON_S)
    return scheduler


def test_without_gates_a_machine_is_bought_for_every_blocked_pod_and_stays_idle(market: Market) -> None:
    submitted(market, gated=False)
    assert len(market.bought) == 6
    assert len(market.idle()) == 4


def test_with_gates_exactly_those_machines_are_bought_that_the_queue_has_room_for(market: Market) -> None:
    submitted(market, gated=True)
    assert (len(market.bought), market.idle()) == (2, [])


def test_idle_machines_for_blocked_pods_never_go_while_gated_ones_let_them_go(market: Market) -> None:
    scheduler = submitted(market, gated=False)
    scheduler.run(3600.0)
    assert market.removed == []
    for name in EXECUTORS:
        if not market.pods[name]["spec"].get("nodeName"):
            market.say(name, "SchedulingGated")
    scheduler.gated = True
    scheduler.run(3600.0)
    assert len(market.removed) == 4


def test_when_the_queue_is_freed_the_next_pod_gets_its_machine(market: Market) -> None:
    scheduler = submitted(market, gated=True)
    gone = market.pods["executor-1"]["spec"]["nodeName"]
    market.nodes.pop(gone)
    market.delete_pod("executor-1")
    market.model.node_removed(gone, market.now_s)
    scheduler.work()
    scheduler.run(SOON_S)
    assert len(market.bought) == 3
    assert market.pods["executor-2"]["spec"]["nodeName"] == market.bought[-1]


def test_a_machine_that_is_there_is_used_before_another_is_bought(market: Market) -> None:
    scheduler = submitted(market, gated=True)
    scheduler.finish("executor-1")
    scheduler.run(SOON_S)
    assert len(market.bought) == 2


def test_a_pod_that_waits_for_its_victims_to_go_buys_nothing(market: Market) -> None:
    scheduler = submitted(market, gated=True)
    market.pod("preemptor", reason="")
    market.change("preemptor", nominatedNodeName=market.pods["executor-1"]["spec"]["nodeName"])
    market.run(SOON_S)
    assert len(market.bought) == 2
    assert scheduler.promised == ["driver", "executor-1"]


def test_a_pod_that_waits_for_terminating_pods_buys_nothing_until_they_are_overdue(market: Market) -> None:
    submitted(market, gated=True)
    node = market.pods["executor-1"]["spec"]["nodeName"]
    market.pods["executor-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    market.show("executor-1")
    market.pod("successor", reason="WaitingForTerminatingPods")
    market.change("successor", nominatedNodeName=node)
    market.run(SOON_S)
    assert len(market.bought) == 2
    market.change("successor", nominatedNodeName="")
    market.say("successor", "Unschedulable")
    market.run(SOON_S)
    assert len(market.bought) == 3
