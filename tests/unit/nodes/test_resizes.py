"""Resizes in place: allocated resources follow the spec if the node has room, else the pod says why it waits."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod

Object = dict[str, Any]


def a_world(*objects: Object) -> FakeCluster:
    return FakeCluster().start().add(a_node(), *objects)


def resize(world: FakeCluster, cpu: str, name: str = "p") -> FakeCluster:
    pod = world.pods[name]
    container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    pod["spec"] = {**pod["spec"], "containers": [container]}
    pod["metadata"]["generation"] += 1
    return world.edit(pod)


def cpu_of(world: FakeCluster, name: str = "p") -> str:
    (status,) = world.status(name)["containerStatuses"]
    assert status["allocatedResources"] == status["resources"]["requests"]
    cpu: str = status["allocatedResources"]["cpu"]
    return cpu


def pending(world: FakeCluster, name: str = "p") -> Object | None:
    found = [each for each in world.status(name)["conditions"] if each["type"] == "PodResizePending"]
    return found[0] if found else None


def reason(world: FakeCluster, name: str = "p") -> str:
    condition = pending(world, name)
    return "" if condition is None else condition["reason"]


def test_the_status_of_a_running_container_has_its_resources() -> None:
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "c", "image": "i", "resources": resources}, {"name": "d", "image": "i"}]
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    world = a_world(a_pod(containers=containers, initContainers=init))
    first, second = world.status()["containerStatuses"]
    assert (first["resources"], first["allocatedResources"]) == (resources, resources["requests"])
    assert second["resources"] == {}
    assert "allocatedResources" not in second
    assert world.status()["initContainerStatuses"][0]["allocatedResources"] == {"cpu": "3"}


def test_a_container_that_is_not_created_yet_has_no_resources_in_its_status() -> None:
    world = a_world(a_pod(annotations={"start-after": "1h"}))
    assert "resources" not in world.status()["containerStatuses"][0]


def test_a_resize_that_the_node_has_room_for_is_taken_over_with_one_write() -> None:
    world = a_world(a_pod())
    writes = len(world.done)
    resize(world, "4")
    assert (cpu_of(world), pending(world)) == ("4", None)
    assert world.status()["observedGeneration"] == 2
    assert len(world.done) == writes + 1


@pytest.mark.parametrize(("after", "admitted"), [("3", False), ("2", True), ("500m", True)])
def test_what_is_allocated_is_booked_on_the_node(after: str, admitted: bool) -> None:
    world = a_world(a_pod(cpu="3"))
    resize(world, after)
    world.add(a_pod("q", cpu="2"))
    assert (world.phase("q") == "Running") == admitted


def test_a_resize_beyond_the_node_is_infeasible_and_the_containers_keep_what_they_have() -> None:
    world = a_world(a_pod()).advance(7)
    writes = len(world.done)
    resize(world, "5")
    assert cpu_of(world) == "1"
    assert pending(world) == {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Infeasible",
        "message": "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000",
        "lastProbeTime": format_time(T0 + 7),
        "lastTransitionTime": format_time(T0 + 7),
        "observedGeneration": 2,
    }
    world.edit(world.pods["p"])
    assert len(world.done) == writes + 1, "what was said is not said again"
    world.add(a_pod("q", cpu="3"))
    assert world.phase("q") == "Running", "the larger request is not booked"


def test_a_resize_that_lacks_room_is_deferred_until_another_pod_ends() -> None:
    world = a_world(a_pod(), a_pod("q", cpu="3", annotations={"run-for": "60s"}))
    resize(world, "2")
    assert (cpu_of(world), reason(world)) == ("1", "Deferred")
    condition = pending(world) or {}
    assert condition["message"] == (
        "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
    )
    world.advance(60)
    assert (cpu_of(world), pending(world)) == ("2", None)


@pytest.mark.parametrize("how", ["deleted", "shrinks", "node grows"])
def test_a_deferred_resize_is_tried_again_when_room_is_released(how: str) -> None:
    world = a_world(a_pod(), a_pod("q", cpu="3"))
    resize(world, "2")
    assert reason(world) == "Deferred"
    if how == "deleted":
        world.delete_pod("q")
    elif how == "shrinks":
        resize(world, "1", "q")
    else:
        world.nodes["n"]["status"]["allocatable"] = {"cpu": "5", "memory": "8Gi", "pods": "110"}
        world.edit(world.nodes["n"])
    assert (cpu_of(world), pending(world)) == ("2", None)


def test_a_resize_that_is_taken_back_is_no_longer_pending() -> None:
    world = a_world(a_pod())
    resize(world, "9")
    assert reason(world) == "Infeasible"
    resize(world, "1")
    assert (cpu_of(world), pending(world)) == ("1", None)
    assert world.status()["observedGeneration"] == 3


def test_a_pending_resize_that_becomes_smaller_is_taken_over() -> None:
    world = resize(resize(a_world(a_pod()), "9"), "4")
    assert (cpu_of(world), pending(world)) == ("4", None)


def test_of_deferred_resizes_the_higher_priority_comes_first_then_the_one_that_waits_longer() -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c", priority=5), a_pod("q", cpu="1")]
    world = a_world(*pods)
    for name in ("b", "a", "c"):
        resize(world.advance(1), "2", name)
    assert [reason(world, name) for name in "abc"] == ["Deferred"] * 3
    world.delete_pod("q")
    assert [cpu_of(world, name) for name in "abc"] == ["1", "1", "2"]
    world.nodes["n"]["status"]["allocatable"] = {"cpu": "5", "memory": "8Gi", "pods": "110"}
    world.edit(world.nodes["n"])
    assert [cpu_of(world, name) for name in "abc"] == ["1", "2", "2"]


def test_the_room_that_one_resize_releases_is_given_to_another() -> None:
    """The deletion makes room for the CPU of ``a``, and ``a`` gives memory away that ``b`` waits for."""
    world = a_world(*(a_pod(name, containers=[asks(cpu, memory)]) for name, cpu, memory in SIZES))
    set_resources(world, "a", "2", "2Gi")
    set_resources(world, "b", "1", "4Gi")
    assert (reason(world, "a"), reason(world, "b")) == ("Deferred", "Deferred")
    world.delete_pod("q")
    assert (reason(world, "a"), reason(world, "b")) == ("", "")


SIZES = (("a", "1", "5Gi"), ("b", "1", "3Gi"), ("q", "2", "0"))


def asks(cpu: str, memory: str) -> Object:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def set_resources(world: FakeCluster, name: str, cpu: str, memory: str) -> None:
    pod = world.pods[name]
    pod["spec"] = {**pod["spec"], "containers": [asks(cpu, memory)]}
    pod["metadata"]["generation"] += 1
    world.edit(pod)


def test_what_was_allocated_survives_a_restart_of_the_kubelet() -> None:
    world = a_world(a_pod(), a_pod("q", cpu="3"))
    resize(world, "2")
    world.restart()
    assert "PatchPodStatus" not in world.kinds()
    assert (cpu_of(world), reason(world)) == ("1", "Deferred")
    world.delete_pod("q")
    assert (cpu_of(world), pending(world)) == ("2", None)


def test_a_resize_during_an_absence_of_the_kubelet_is_taken_over_when_it_is_back() -> None:
    world = a_world(a_pod())
    pod = world.pods["p"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    pod["metadata"]["generation"] = 2
    world.restart()
    assert (cpu_of(world), world.status()["observedGeneration"]) == ("2", 2)


def test_a_running_pod_whose_status_lacks_resources_gets_them_when_the_kubelet_starts() -> None:
    world = a_world(a_pod())
    for field in ("resources", "allocatedResources"):
        del world.status()["containerStatuses"][0][field]
    world.restart()
    assert cpu_of(world) == "1"


def test_a_pod_that_is_resized_before_it_is_admitted_is_admitted_with_what_it_asks_for_then() -> None:
    world = FakeCluster().start().add(a_node(boot_after="60s"), a_pod())
    resize(world, "4").advance(60)
    assert (world.phase(), cpu_of(world), pending(world)) == ("Running", "4", None)


def test_a_pod_that_terminates_is_not_resized() -> None:
    world = a_world(a_pod(annotations={"stop-after": "10s"}), a_pod("q", cpu="3"))
    resize(world, "2")
    world.delete_pod("p").delete_pod("q")
    assert cpu_of(world) == "1"
