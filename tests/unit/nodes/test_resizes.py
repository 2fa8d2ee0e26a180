"""In-place resizes: allocated resources follow the spec if the node has the capacity, else a condition says why not."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod

Object = dict[str, Any]


def a_cluster(*objects: Object) -> FakeCluster:
    return FakeCluster().start().add(a_node(), *objects)


def resize(cluster: FakeCluster, cpu: str, name: str = "p") -> FakeCluster:
    pod = cluster.pods[name]
    container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    pod["spec"] = {**pod["spec"], "containers": [container]}
    pod["metadata"]["generation"] += 1
    return cluster.edit(pod)


def cpu_of(cluster: FakeCluster, name: str = "p") -> str:
    (status,) = cluster.status(name)["containerStatuses"]
    assert status["allocatedResources"] == status["resources"]["requests"]
    cpu: str = status["allocatedResources"]["cpu"]
    return cpu


def pending(cluster: FakeCluster, name: str = "p") -> Object | None:
    found = [each for each in cluster.status(name)["conditions"] if each["type"] == "PodResizePending"]
    return found[0] if found else None


def reason(cluster: FakeCluster, name: str = "p") -> str:
    condition = pending(cluster, name)
    return "" if condition is None else condition["reason"]


def test_the_status_of_a_running_container_has_its_resources() -> None:
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "c", "image": "i", "resources": resources}, {"name": "d", "image": "i"}]
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    cluster = a_cluster(a_pod(containers=containers, initContainers=init))
    first, second = cluster.status()["containerStatuses"]
    assert (first["resources"], first["allocatedResources"]) == (resources, resources["requests"])
    assert second["resources"] == {}
    assert "allocatedResources" not in second
    assert cluster.status()["initContainerStatuses"][0]["allocatedResources"] == {"cpu": "3"}


def test_a_container_that_is_not_created_yet_has_no_resources_in_its_status() -> None:
    cluster = a_cluster(a_pod(annotations={"start-after": "1h"}))
    assert "resources" not in cluster.status()["containerStatuses"][0]


def test_a_resize_that_fits_on_the_node_is_applied_with_one_write() -> None:
    cluster = a_cluster(a_pod())
    writes = len(cluster.effects_done)
    resize(cluster, "4")
    assert (cpu_of(cluster), pending(cluster)) == ("4", None)
    assert cluster.status()["observedGeneration"] == 2
    assert len(cluster.effects_done) == writes + 1


@pytest.mark.parametrize(("after", "admitted"), [("3", False), ("2", True), ("500m", True)])
def test_what_is_allocated_is_booked_on_the_node(after: str, admitted: bool) -> None:
    cluster = a_cluster(a_pod(cpu="3"))
    resize(cluster, after)
    cluster.add(a_pod("q", cpu="2"))
    assert (cluster.phase("q") == "Running") == admitted


def test_a_resize_beyond_the_node_is_infeasible_and_the_containers_keep_what_they_have() -> None:
    cluster = a_cluster(a_pod()).advance(7)
    writes = len(cluster.effects_done)
    resize(cluster, "5")
    assert cpu_of(cluster) == "1"
    assert pending(cluster) == {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Infeasible",
        "message": "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000",
        "lastProbeTime": format_time(T0 + 7),
        "lastTransitionTime": format_time(T0 + 7),
        "observedGeneration": 2,
    }
    cluster.edit(cluster.pods["p"])
    assert len(cluster.effects_done) == writes + 1, "what was said is not said again"
    cluster.add(a_pod("q", cpu="3"))
    assert cluster.phase("q") == "Running", "the larger request is not booked"


def test_a_resize_that_does_not_fit_is_deferred_until_another_pod_ends() -> None:
    cluster = a_cluster(a_pod(), a_pod("q", cpu="3", annotations={"run-for": "60s"}))
    resize(cluster, "2")
    assert (cpu_of(cluster), reason(cluster)) == ("1", "Deferred")
    condition = pending(cluster) or {}
    assert condition["message"] == (
        "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
    )
    cluster.advance(60)
    assert (cpu_of(cluster), pending(cluster)) == ("2", None)


@pytest.mark.parametrize("how", ["deleted", "shrinks", "node grows"])
def test_a_deferred_resize_is_tried_again_when_capacity_is_released(how: str) -> None:
    cluster = a_cluster(a_pod(), a_pod("q", cpu="3"))
    resize(cluster, "2")
    assert reason(cluster) == "Deferred"
    if how == "deleted":
        cluster.delete_pod("q")
    elif how == "shrinks":
        resize(cluster, "1", "q")
    else:
        cluster.nodes["n"]["status"]["allocatable"] = {"cpu": "5", "memory": "8Gi", "pods": "110"}
        cluster.edit(cluster.nodes["n"])
    assert (cpu_of(cluster), pending(cluster)) == ("2", None)


def test_a_resize_that_is_taken_back_is_no_longer_pending() -> None:
    cluster = a_cluster(a_pod())
    resize(cluster, "9")
    assert reason(cluster) == "Infeasible"
    resize(cluster, "1")
    assert (cpu_of(cluster), pending(cluster)) == ("1", None)
    assert cluster.status()["observedGeneration"] == 3


def test_a_pending_resize_that_becomes_smaller_is_taken_over() -> None:
    cluster = resize(resize(a_cluster(a_pod()), "9"), "4")
    assert (cpu_of(cluster), pending(cluster)) == ("4", None)


def test_of_deferred_resizes_the_higher_priority_comes_first_then_the_one_that_waits_longer() -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c", priority=5), a_pod("q", cpu="1")]
    cluster = a_cluster(*pods)
    for name in ("b", "a", "c"):
        resize(cluster.advance(1), "2", name)
    assert [reason(cluster, name) for name in "abc"] == ["Deferred"] * 3
    cluster.delete_pod("q")
    assert [cpu_of(cluster, name) for name in "abc"] == ["1", "1", "2"]
    cluster.nodes["n"]["status"]["allocatable"] = {"cpu": "5", "memory": "8Gi", "pods": "110"}
    cluster.edit(cluster.nodes["n"])
    assert [cpu_of(cluster, name) for name in "abc"] == ["1", "2", "2"]


def test_the_capacity_that_one_resize_releases_is_given_to_another() -> None:
    """The deletion frees CPU for ``a``, and the resize of ``a`` frees memory that ``b`` waits for."""
    cluster = a_cluster(*(a_pod(name, containers=[asks(cpu, memory)]) for name, cpu, memory in SIZES))
    set_resources(cluster, "a", "2", "2Gi")
    set_resources(cluster, "b", "1", "4Gi")
    assert (reason(cluster, "a"), reason(cluster, "b")) == ("Deferred", "Deferred")
    cluster.delete_pod("q")
    assert (reason(cluster, "a"), reason(cluster, "b")) == ("", "")


SIZES = (("a", "1", "5Gi"), ("b", "1", "3Gi"), ("q", "2", "0"))


def asks(cpu: str, memory: str) -> Object:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def set_resources(cluster: FakeCluster, name: str, cpu: str, memory: str) -> None:
    pod = cluster.pods[name]
    pod["spec"] = {**pod["spec"], "containers": [asks(cpu, memory)]}
    pod["metadata"]["generation"] += 1
    cluster.edit(pod)


def test_what_was_allocated_survives_a_restart_of_the_kubelet() -> None:
    cluster = a_cluster(a_pod(), a_pod("q", cpu="3"))
    resize(cluster, "2")
    cluster.restart()
    assert "PatchPodStatus" not in cluster.kinds()
    assert (cpu_of(cluster), reason(cluster)) == ("1", "Deferred")
    cluster.delete_pod("q")
    assert (cpu_of(cluster), pending(cluster)) == ("2", None)


def test_a_resize_during_an_absence_of_the_kubelet_is_taken_over_when_it_is_back() -> None:
    cluster = a_cluster(a_pod())
    pod = cluster.pods["p"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    pod["metadata"]["generation"] = 2
    cluster.restart()
    assert (cpu_of(cluster), cluster.status()["observedGeneration"]) == ("2", 2)


def test_a_running_pod_whose_status_lacks_resources_gets_them_when_the_kubelet_starts() -> None:
    cluster = a_cluster(a_pod())
    for field in ("resources", "allocatedResources"):
        del cluster.status()["containerStatuses"][0][field]
    cluster.restart()
    assert cpu_of(cluster) == "1"


def test_a_pod_that_is_resized_before_it_is_admitted_is_admitted_with_what_it_asks_for_then() -> None:
    cluster = FakeCluster().start().add(a_node(boot_after="60s"), a_pod())
    resize(cluster, "4").advance(60)
    assert (cluster.phase(), cpu_of(cluster), pending(cluster)) == ("Running", "4", None)


def test_a_pod_that_terminates_is_not_resized() -> None:
    cluster = a_cluster(a_pod(annotations={"stop-after": "10s"}), a_pod("q", cpu="3"))
    resize(cluster, "2")
    cluster.delete_pod("p").delete_pod("q")
    assert cpu_of(cluster) == "1"
