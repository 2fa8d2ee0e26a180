"""Resizes are validated with the limits of the engine; running pods count with their current amounts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity_builders import Queues, a_queue, a_task, stamped
from headgate.capacity.api.queue import QueueIndex
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import QueueEngine
from headgate.capacity.kinds.resize_validation import limits_of
from status_reporting import Cluster
from unit.scheduling.queued_world import QueuedWorld
from unit.scheduling.queued_world import a_queue as a_wire_queue

NAMES = ("root", "a", "b", "a1", "a2")
PARENTS = {"root": "", "a": "root", "b": "root", "a1": "a", "a2": "a"}
amounts = st.sampled_from([None, 0, 1, 2, 5, 9])


@settings(max_examples=60)
@given(st.fixed_dictionaries({name: st.tuples(amounts, amounts, st.booleans()) for name in NAMES}))
def test_limits_are_those_of_the_engine(drawn: dict[str, tuple[int | None, int | None, bool]]) -> None:
    queues, index = QueueEngine(), QueueIndex()
    for name, (capability, guarantee, is_there) in drawn.items():
        if is_there:
            guarantee_amounts = None if guarantee is None or name == "root" else {"cpu": guarantee}
            wire = a_queue(name, cpu=capability, parent=PARENTS[name], guarantee=guarantee_amounts)
            queues.queue_applied(wire)
            index.apply(wire)
    for name in NAMES:
        if drawn[name][2]:
            found = limits_of(name, index)
            assert found[name] == queues.limits(name).capability, name
            assert next(iter(found)) == name


def on_node(cpu: str) -> TaskInfo:
    return a_task("runs", cpu, queue="q", node_name="n1", gates=())


@pytest.mark.parametrize("is_stamped", [False, True])
def test_a_running_pod_that_is_resized_up_counts_at_once_and_the_next_pod_waits(is_stamped: bool) -> None:
    """Also if its queue has promised it less than that before it had a node."""
    first = on_node("1")
    stamp = stamped(first, "q").stamp if is_stamped else None
    queues = Queues(a_queue("q", cpu=4), msgspec.structs.replace(first, stamp=stamp))
    queues.apply(msgspec.structs.replace(on_node("6"), stamp=stamp), a_task("next", queue="q"))
    assert (queues.usage("q"), queues.admit()) == ((6000, 0), [])
    queues.apply(msgspec.structs.replace(on_node("3"), stamp=stamp))
    assert queues.admit() == ["next"]


def a_running_pod(cpu: str, status: dict[str, Any] | None = None) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "nodeName": "a", "containers": [container]}
    annotations = {"scheduling.volcano.sh/queue-name": "q"}
    metadata = {"name": "p", "namespace": "default", "uid": "uid-p", "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **(status or {})}}


def test_a_resize_in_progress_counts_and_an_infeasible_one_does_not() -> None:
    world = QueuedWorld(a_wire_queue("q", "4"))
    wait = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}

    def used(cpu: str, **status: Any) -> int:
        world.show(a_running_pod(cpu, {**wait, **status}))
        return world.scheduler.queues.usage("q").allocated["cpu"]

    assert used("1") == 1000
    assert used("6") == 6000
    pending = {"type": "PodResizePending", "status": "True"}
    assert used("6", conditions=[{**pending, "reason": "Deferred"}]) == 6000
    assert used("6", conditions=[{**pending, "reason": "Infeasible"}]) == 1000
    larger = [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "3"}}]
    assert used("1", containerStatuses=larger) == 3000


def condition(cluster: Cluster, queue: str) -> tuple[str, str] | None:
    listed = cluster.queues[queue]["status"].get("conditions") or ()
    return next(((each["status"], each["message"]) for each in listed if each["type"] == "WithinCapability"), None)


def test_a_queue_has_a_condition_while_its_pods_exceed_its_limit() -> None:
    cluster = Cluster()
    for name in ("root", "default"):
        cluster.queue(name)
    cluster.queue("team", capability={"cpu": "4", "memory": "1Gi"})
    cluster.queue("t1", parent="team")
    cluster.synced()
    cluster.pod("p", queue="t1", node="n1", gates=[], cpu=4000)
    cluster.run(5)
    assert condition(cluster, "team") is None
    cluster.pod("p", cpu=6000)
    cluster.run(5)
    for name in ("team", "t1"):
        assert condition(cluster, name) == (
            "False",
            "pods on nodes hold more than the queue may use: 6 of 4 cpu; nothing more is granted until they fit",
        )
    assert condition(cluster, "root") is None
    cluster.pod("p", cpu=1000)
    cluster.run(5)
    assert condition(cluster, "team") is None
