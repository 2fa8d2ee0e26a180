"""The real Karpenter beside `headgate run` on a real API server: which pods make it buy machines.

And beside a `headgate up`, which adds the gates itself. How it is known that nothing was bought, and what machines
there are: `karpenter_cluster.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.karpenter import SHAPES, WITH_GPU, Karpenter
from harness.processes import Process
from harness.queues import API_VERSION, a_group
from harness.scheduler_process import (
    create_priority_class,
    delete_pod,
    get_pod,
    is_bound,
    patch_pod,
    scheduled_reason,
    send,
)
from headgate.capacity.names import GROUP_NAMES, OPT_IN
from real.karpenter_cluster import MERGE, KarpenterCluster, scheduled_cluster

pytestmark = pytest.mark.real

Object = dict[str, Any]
EVERYTHING = "apiserver,nodes,controllers,scheduler"
GPU = "nvidia.com/gpu"
FOREIGN = {"name": "example.com/somebody-elses"}
PODS = "/api/v1/namespaces/default/pods"
STOP_AFTER = "headgate.dev/stop-after"
ENDS_SLOWLY: dict[str, Any] = {"annotations": {STOP_AFTER: "100s"}, "terminationGracePeriodSeconds": 120}
"""More than enough for Karpenter to plan meanwhile."""
WITH_QUOTA = {"kueue.x-k8s.io/managed": "true"}
POD_GROUPS = f"/apis/{API_VERSION}/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def cluster(
    kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KarpenterCluster]:
    folder = tmp_path_factory.mktemp("karpenter")
    with scheduled_cluster(folder, kube_binaries, karpenter_binaries) as made:
        yield made


def test_in_a_cluster_without_nodes_each_pod_gets_a_node(cluster: KarpenterCluster) -> None:
    cluster.queue("plain", "2")
    cluster.pod("plain", "plain-1")
    cluster.pod("plain", "plain-2")
    cluster.until_bound("plain-1", "plain-2")
    cluster.settle()
    assert cluster.machines("plain") == 2


def test_a_pod_with_a_foreign_gate_gets_its_machine_only_after_the_gate_is_removed(
    cluster: KarpenterCluster,
) -> None:
    cluster.queue("foreign", "2")
    cluster.pod("foreign", "foreign-1", schedulingGates=[FOREIGN])
    cluster.settle()
    assert scheduled_reason(get_pod(cluster.server, "foreign-1")) == "SchedulingGated"
    assert cluster.machines("foreign") == 0
    patch_pod(cluster.server, "foreign-1", {"spec": {"schedulingGates": None}})
    cluster.until_bound("foreign-1")
    assert cluster.machines("foreign") == 1


def test_without_gates_machines_are_bought_for_the_pods_that_their_queue_blocks(cluster: KarpenterCluster) -> None:
    cluster.queue("off", "2")
    cluster.application("off", gated=False)
    cluster.until(lambda: cluster.machines("off") == 6)
    cluster.settle()
    assert cluster.machines("off") == 6
    assert cluster.reasons("off") == {"Unschedulable": 4}


def test_with_gates_exactly_the_machines_that_the_queue_limit_allows_are_bought(cluster: KarpenterCluster) -> None:
    cluster.queue("on", "2")
    cluster.application("on", gated=True)
    cluster.until_bound("on-driver", "on-executor-1")
    cluster.settle()
    assert cluster.machines("on") == 2
    assert cluster.reasons("on") == {"SchedulingGated": 4}


def test_when_the_queue_has_capacity_again_the_next_pod_gets_its_machine(cluster: KarpenterCluster) -> None:
    cluster.queue("freed", "2", SHAPES)
    cluster.pod("freed", "freed-small", gated=True)
    cluster.until_bound("freed-small")
    cluster.pod(
        "freed", "freed-large", requests={"cpu": "2"}, gated=True
    )  # does not fit on the machine that the small one leaves
    cluster.settle()
    assert cluster.machines("freed") == 1
    delete_pod(cluster.server, "freed-small")
    cluster.until_bound("freed-large")
    assert cluster.machines("freed") == 2


def test_a_machine_that_a_finished_pod_leaves_is_used_before_another_is_bought(cluster: KarpenterCluster) -> None:
    cluster.queue("reused", "1")
    cluster.pod("reused", "reused-1", gated=True)
    cluster.until_bound("reused-1")
    cluster.pod("reused", "reused-2", gated=True)
    delete_pod(cluster.server, "reused-1")
    cluster.until_bound("reused-2")
    cluster.settle()
    assert cluster.machines("reused") == 1


def test_after_a_queue_limit_is_raised_karpenter_adds_as_many_nodes(cluster: KarpenterCluster) -> None:
    cluster.queue("grown", "2")
    cluster.application("grown", gated=True)
    cluster.until_bound("grown-driver", "grown-executor-1")
    cluster.set_limit("grown", "3")
    cluster.until_bound("grown-executor-2")
    cluster.settle()
    assert cluster.machines("grown") == 3
    assert cluster.reasons("grown") == {"SchedulingGated": 3}


def test_nodes_with_a_resource_that_no_node_has_yet_are_added_up_to_the_queue_limit(cluster: KarpenterCluster) -> None:
    cluster.queue("gpu", "8", (*SHAPES, WITH_GPU), **{GPU: "1"})
    for name in ("gpu-first", "gpu-second"):
        cluster.pod("gpu", name, requests={"cpu": "1", GPU: "1"}, gated=True)
    cluster.until_bound("gpu-first")
    cluster.settle()
    assert cluster.machines("gpu") == 1
    assert scheduled_reason(get_pod(cluster.server, "gpu-second")) == "SchedulingGated"


def test_a_scheduler_that_is_killed_while_machines_are_bought_buys_none_twice(cluster: KarpenterCluster) -> None:
    cluster.queue("killed", "2")
    names = [f"killed-{number}" for number in range(5)]
    for name in names:
        cluster.pod("killed", name, gated=True)
    cluster.until(lambda: any(scheduled_reason(get_pod(cluster.server, name)) == "Unschedulable" for name in names))
    cluster.kill_scheduler()
    cluster.start_scheduler()
    cluster.until(lambda: sum(is_bound(get_pod(cluster.server, name)) for name in names) == 2)
    cluster.settle()
    assert cluster.machines("killed") == 2
    assert [scheduled_reason(get_pod(cluster.server, name)) for name in names].count("SchedulingGated") == 3


def test_a_gang_gets_all_its_nodes_when_its_queue_has_capacity_for_the_whole_gang_and_none_before(
    cluster: KarpenterCluster,
) -> None:
    cluster.queue("gang", "2")
    group = a_group("gang", queue="gang", minMember=3, minResources={"cpu": "3"})
    send(cluster.server, "POST", POD_GROUPS, group)
    members = [f"gang-{number}" for number in range(3)]
    for name in members:
        cluster.pod("gang", name, gated=True, annotations={GROUP_NAMES[0]: "gang"})
    cluster.settle()
    assert cluster.machines("gang") == 0
    cluster.set_limit("gang", "3")
    cluster.until_bound(*members)
    cluster.settle()
    assert cluster.machines("gang") == 3


def test_an_ungated_pod_buys_no_machine_until_its_queue_has_capacity(cluster: KarpenterCluster) -> None:
    cluster.queue("slipped", "1")
    cluster.pod("slipped", "slipped-1", gated=True)
    cluster.until_bound("slipped-1")
    cluster.pod("slipped", "slipped-2", annotations={OPT_IN: "true"})  # asked for the gate, and was created without
    cluster.settle()
    assert scheduled_reason(get_pod(cluster.server, "slipped-2")) == "WaitingForQueue"
    assert cluster.machines("slipped") == 1
    cluster.set_limit("slipped", "2")
    cluster.until_bound("slipped-2")
    assert cluster.machines("slipped") == 2


@pytest.mark.parametrize("limit", ["1", "2"], ids=["for capacity of its queue", "for a node"])
def test_a_preemption_adds_no_node(cluster: KarpenterCluster, limit: str) -> None:
    """The urgent pod is gated when it comes. Its queue is full, or has capacity and the only machine has none."""
    scenario = f"preempted-{limit}"
    victim, urgent = f"{scenario}-victim", f"{scenario}-urgent"
    cluster.queue(scenario, limit)
    create_priority_class(cluster.server, a_priority_class(scenario, 1000))
    cluster.pod(scenario, victim, gated=True, **ENDS_SLOWLY)
    cluster.until_bound(victim)
    cluster.pod(scenario, urgent, gated=True, priorityClassName=scenario)
    cluster.until(lambda: "deletionTimestamp" in get_pod(cluster.server, victim)["metadata"])
    cluster.settle()
    waiting = get_pod(cluster.server, urgent)
    assert (is_bound(waiting), scheduled_reason(waiting) == "Unschedulable") == (False, False)
    assert cluster.machines(scenario) == 1
    patch_pod(cluster.server, victim, {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    cluster.until_bound(urgent)
    assert cluster.machines(scenario) == 1


def test_no_machine_is_bought_for_a_pod_with_quota_that_fits_after_terminating_pods(cluster: KarpenterCluster) -> None:
    """Quota in Kueue's manner was given on while its holder still ends, which takes most of its grace period."""
    cluster.queue("left", "8")
    cluster.pod("left", "left-victim", **ENDS_SLOWLY)
    cluster.until_bound("left-victim")
    send(cluster.server, "DELETE", f"{PODS}/left-victim")
    cluster.pod("left", "left-next", labels=WITH_QUOTA)
    node = get_pod(cluster.server, "left-victim")["spec"]["nodeName"]
    cluster.until(lambda: get_pod(cluster.server, "left-next")["status"].get("nominatedNodeName") == node)
    cluster.settle()
    waiting = get_pod(cluster.server, "left-next")
    assert (is_bound(waiting), scheduled_reason(waiting)) == (False, "WaitingForTerminatingPods")
    assert cluster.machines("left") == 1
    patch_pod(cluster.server, "left-victim", {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    cluster.until_bound("left-next")
    assert cluster.machines("left") == 1


@pytest.mark.parametrize("kind", ["gated", "ungated", "gang"])
def test_no_machine_is_bought_for_the_next_pods_of_the_queue_of_terminating_pods(
    cluster: KarpenterCluster, kind: str
) -> None:
    """The queue is full, and its share is given on while its holders still end, which takes most of their grace."""
    scenario = f"slow-{kind}"
    cluster.queue(scenario, "2")
    old, new = [[f"{scenario}-{age}-{number}" for number in range(2)] for age in ("old", "new")]
    for name in old:
        cluster.pod(scenario, name, gated=True, **ENDS_SLOWLY)
    cluster.until_bound(*old)
    in_group = {}
    if kind == "gang":
        send(cluster.server, "POST", POD_GROUPS, a_group(scenario, queue=scenario, minMember=2))
        in_group = {GROUP_NAMES[0]: scenario}
    if kind != "ungated":
        for name in new:
            cluster.pod(scenario, name, gated=True, annotations=in_group)
        cluster.settle()
    for name in old:
        send(cluster.server, "DELETE", f"{PODS}/{name}")
    if kind == "ungated":  # one that did not opt in is a shortage while its queue is full, as with Volcano
        for name in new:
            cluster.pod(scenario, name)
    nodes = {get_pod(cluster.server, name)["spec"]["nodeName"] for name in old}
    cluster.until(lambda: {get_pod(cluster.server, name)["status"].get("nominatedNodeName") for name in new} == nodes)
    cluster.settle()
    waiting = [get_pod(cluster.server, name) for name in new]
    assert [(is_bound(pod), scheduled_reason(pod)) for pod in waiting] == [(False, "WaitingForTerminatingPods")] * 2
    assert cluster.machines(scenario) == 2
    for name in old:
        patch_pod(cluster.server, name, {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    cluster.until_bound(*new)
    assert cluster.machines(scenario) == 2


def test_a_machine_is_bought_when_terminating_pods_are_overdue(cluster: KarpenterCluster) -> None:
    cluster.queue("stuck", "8")
    slow = {STOP_AFTER: "6s"}  # more than enough for its kubelet to hear that it has fallen silent
    cluster.pod("stuck", "stuck-victim", annotations=slow, terminationGracePeriodSeconds=6)
    cluster.until_bound("stuck-victim")
    node = get_pod(cluster.server, "stuck-victim")["spec"]["nodeName"]
    silent = {"metadata": {"annotations": {"headgate.dev/silent-after": "0s"}}}
    send(cluster.server, "PATCH", f"/api/v1/nodes/{node}", silent, MERGE)  # no kubelet ends its pods any more
    send(cluster.server, "DELETE", f"{PODS}/stuck-victim")
    cluster.pod("stuck", "stuck-next", labels=WITH_QUOTA)
    cluster.until_bound("stuck-next")
    assert "deletionTimestamp" in get_pod(cluster.server, "stuck-victim")["metadata"]
    assert cluster.machines("stuck") == 2


def test_beside_a_cluster_in_one_process_it_buys_the_same_machines(karpenter_binaries: Path, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "server", flags=("--components", EVERYTHING, "--nodes", "0"))
    processes: list[Process] = []
    try:
        processes.append(Karpenter(server, karpenter_binaries, tmp_path / "karpenter"))
        cluster = KarpenterCluster(server, processes, tmp_path, adds_gates=True)
        cluster.queue("off", "2")
        cluster.queue("on", "2")
        cluster.application("off", gated=False)
        cluster.application("on", gated=True)
        cluster.until(lambda: cluster.machines("off") == 6)
        cluster.until_bound("on-driver", "on-executor-1")
        cluster.settle()
        assert (cluster.machines("off"), cluster.machines("on")) == (6, 2)
        assert (cluster.reasons("off"), cluster.reasons("on")) == ({"Unschedulable": 4}, {"SchedulingGated": 4})
    finally:
        for process in processes:
            process.stop()
        server.disconnect()
        server.stop()


def a_priority_class(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
