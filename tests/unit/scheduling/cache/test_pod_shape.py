"""What of a pod belongs to its shape, and what the shape makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.resource_amounts import MAX_POD_AMOUNT
from headgate.scheduling.cache.pod import PodInfo, PodScheduledCondition, read_pod
from headgate.scheduling.cache.pod_fields import HostPort
from headgate.scheduling.cache.pod_shape import ShapeTable

Object = dict[str, Any]
MI = 1024 * 1024


def wire(requests: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "app", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }


def read(obj: Object, shapes: ShapeTable | None = None) -> PodInfo:
    found = read_pod(obj, ShapeTable() if shapes is None else shapes)
    assert isinstance(found, PodInfo), found
    return found


def test_equal_specifications_have_the_very_same_shape() -> None:
    shapes = ShapeTable()
    one, other = read(wire({"cpu": "1"}), shapes), read(wire({"cpu": "1"}), shapes)
    assert one.shape is other.shape
    assert len(shapes) == 1


def test_names_and_labels_and_mounted_tokens_are_no_part_of_a_shape() -> None:
    shapes = ShapeTable()
    one = wire({"cpu": "1"}, volumes=[{"name": "kube-api-access-abcde", "projected": {}}])
    other = wire({"cpu": "1"}, volumes=[{"name": "kube-api-access-fghij", "projected": {}}])
    other["metadata"] = {"name": "q", "namespace": "else", "uid": "v", "labels": {"app": "db"}}
    assert read(one, shapes).shape is read(other, shapes).shape


def test_labels_are_part_of_a_shape_that_spreads() -> None:
    shapes = ShapeTable()
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    one, other = wire(topologySpreadConstraints=[rule]), wire(topologySpreadConstraints=[rule])
    other["metadata"] = {**other["metadata"], "labels": {"app": "db"}}
    first, second = read(one, shapes).shape, read(other, shapes).shape
    assert first is not second
    assert first.labels == {"app": "web"}
    assert first.spread[0].is_hard
    assert first.namespace == "default"


def test_a_shape_is_dropped_with_its_last_pod() -> None:
    shapes = ShapeTable()
    pod = read(wire({"cpu": "1"}), shapes)
    del pod
    assert len(shapes) == 0


def test_requests_are_exact_and_rounded_up() -> None:
    shape = read(wire({"cpu": "100500u", "memory": "1.5Ki", "example.com/gpu": "2", "storage": "1"})).shape
    assert shape.requests == {"cpu": 101, "example.com/gpu": 2, "memory": 1536}


def test_an_init_container_counts_by_its_peak_and_a_sidecar_for_good() -> None:
    def container(cpu: str, **more: Any) -> Object:
        return {"image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1")],
        "initContainers": [container("100m", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "50m"},
    }
    shape = read({"metadata": {"name": "p", "uid": "u"}, "spec": spec}).shape
    assert shape.requests == {"cpu": 3150}


def test_a_container_without_requests_is_scored_with_defaults() -> None:
    shape = read(wire()).shape
    assert shape.requests == {}
    assert (shape.held_milli_cpu, shape.held_memory) == (100, 200 * MI)
    assert shape.scored == {"cpu": 100, "memory": 200 * MI}


def test_pod_level_requests_replace_those_of_containers_except_in_scores() -> None:
    shape = read(wire({"cpu": "1"}, resources={"requests": {"cpu": "2", "memory": "1Mi"}})).shape
    assert shape.requests == {"cpu": 2000, "memory": MI}
    assert (shape.held_milli_cpu, shape.held_memory) == (2000, MI)
    assert shape.scored == {"cpu": 1000, "memory": 200 * MI}


def test_host_ports_of_plain_init_containers_do_not_count() -> None:
    port = {"containerPort": 1, "hostPort": 80}
    spec = {
        "containers": [{"image": "a", "ports": [{**port, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}]}],
        "initContainers": [{"image": "b", "ports": [port]}, {"image": "c", "ports": [port], "restartPolicy": "Always"}],
    }
    shape = read({"metadata": {"name": "p", "uid": "u"}, "spec": spec}).shape
    assert shape.ports == (HostPort("TCP", 80, "0.0.0.0"), HostPort("UDP", 81, "10.0.0.1"))


def test_an_image_without_tag_means_latest() -> None:
    containers = [{"image": "a"}, {"image": "host:5000/b"}, {"image": "c:1"}, {"image": "d@sha256:0"}]
    shape = read({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers}}).shape
    assert shape.images == ("a:latest", "host:5000/b:latest", "c:1", "d@sha256:0")


def named(*terms: list[str]) -> Object:
    fields = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]} for each in term]}
        for term in terms
    ]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    return {"affinity": {"nodeAffinity": rules}}


def test_affinity_that_names_nodes_pins_the_pod_to_them() -> None:
    assert read(wire(**named(["a"], ["b"]))).shape.pinned == frozenset({"a", "b"})
    assert read(wire(**named(["a", "b"]))).shape.pinned == frozenset()
    assert read(wire(**named(["a"], []))).shape.pinned is None
    assert read(wire()).shape.pinned is None


def test_an_impossible_amount_is_a_problem_that_names_its_field() -> None:
    def problem(value: str) -> str:
        return read(wire({"cpu": value})).shape.problem

    assert problem("lots").startswith("spec.containers[0].resources.requests.cpu: quantities must match")
    assert problem("-1") == "spec.containers[0].resources.requests.cpu: -1 is negative"
    assert problem("1E").endswith("cpu: 1E is larger than any node can have")
    assert problem("64") == ""


def test_too_many_resources_are_a_problem() -> None:
    many = {f"example.com/r{i}": "1" for i in range(31)}
    shape = read(wire({"cpu": "1", **many})).shape
    assert "more than 30 kinds" in shape.problem
    assert (shape.requests["cpu"], len(shape.requests)) == (1000, 32), "another scheduler may have given it a node"


@pytest.mark.parametrize("kinds", [300, 3_000], ids=["a specification that is read", "one that is too long"])
def test_a_bounded_number_of_kinds_of_resource_is_counted_on_a_node_the_usual_ones_first(kinds: int) -> None:
    requests = {f"example.com/r{number}": "1" for number in range(kinds)}
    shape = read(wire({**requests, "cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Mi"})).shape
    assert len(shape.requests) == 256
    assert {"cpu", "memory", "ephemeral-storage"} <= shape.requests.keys()


def test_requests_whose_sum_is_too_large_are_a_problem() -> None:
    one = {"name": "main", "image": "app", "resources": {"requests": {"memory": str(MAX_POD_AMOUNT)}}}
    shape = read(wire(containers=[one] * 2000)).shape
    assert shape.problem == "spec: the containers together ask for more memory than any node can have"
    assert (shape.requests["memory"], shape.held_memory, shape.scored["memory"]) == (MAX_POD_AMOUNT,) * 3


def test_a_pod_that_is_being_resized_holds_the_larger_amount() -> None:
    obj = wire({"cpu": "1"})
    obj["status"] = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    assert read(obj).shape.requests == {"cpu": 2000}


def test_a_pod_is_read_with_what_engines_need() -> None:
    obj = wire({}, nodeName="n", schedulerName="s", priority=7, schedulingGates=[{"name": "g"}])
    obj["metadata"] |= {"resourceVersion": "12", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    obj["status"] = {"phase": "Failed", "nominatedNodeName": "o", "conditions": [condition]}
    pod = read(obj)
    assert (pod.node_name, pod.scheduler_name, pod.priority, pod.gates) == ("n", "s", 7, ("g",))
    assert (pod.revision, pod.created_s, pod.generation, pod.key) == ("12", 1767225600.0, 3, "default/p")
    assert (pod.terminal, pod.deleting, pod.nominated_node) == (True, False, "o")
    assert pod.scheduled == PodScheduledCondition("False", "Unschedulable", "m", 0)


def test_an_invalid_pod_gives_a_reason() -> None:
    found = read_pod({"metadata": {"name": "p", "namespace": "n"}, "spec": {}}, ShapeTable())
    assert isinstance(found, str)
    assert found.startswith("pod n/p cannot be read:")


def test_only_those_annotations_are_kept_that_some_plugin_reads() -> None:
    obj = wire()
    obj["metadata"]["annotations"] = {"a/read": "1", "b/huge": "x" * 100_000}
    found = read_pod(obj, ShapeTable(), ("a/read", "c/absent"))
    assert isinstance(found, PodInfo)
    assert found.annotations == {"a/read": "1"}
    assert read(obj).annotations == {}
