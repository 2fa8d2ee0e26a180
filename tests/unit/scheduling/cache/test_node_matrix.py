"""The node matrix: what each event does to its columns, and what it does with objects that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.kube.labels import Requirement
from headgate.scheduling.cache.change_log import ChangeLog, NodeChange
from headgate.scheduling.cache.node import NodeInfo, read_node
from headgate.scheduling.cache.node_matrix import NodeIndex, NodeMatrix
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable

Object = dict[str, Any]
SHAPES = ShapeTable()


def node(name: str, cpu: str = "4", **more: Any) -> NodeInfo:
    wire = {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {"taints": more.get("taints", [])},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}, "images": more.get("images", [])},
    }
    found = read_node(wire)
    assert isinstance(found, NodeInfo), found
    return found


def pod(name: str, node_name: str = "", cpu: str = "1", **more: Any) -> PodInfo:
    container = {"name": "c", "image": "a", "resources": {"requests": {"cpu": cpu}}, "ports": more.get("ports")}
    wire = {
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "spec": {"containers": [container], "nodeName": node_name},
        "status": {"phase": more.get("phase", "Running")},
    }
    found = read_pod(wire, SHAPES)
    assert isinstance(found, PodInfo), found
    return found


def free(matrix: NodeMatrix, name: str) -> int:
    row = matrix.row_of(name)
    assert row is not None
    return int(matrix.columns.free[matrix.columns.column("cpu"), row])


def row_of(matrix: NodeMatrix, name: str) -> NodeIndex:
    row = matrix.row_of(name)
    assert row is not None
    return row


def test_a_pod_takes_from_its_node_and_gives_back() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a"))
    assert free(matrix, "a") == 3000
    matrix.pod_applied(pod("p", "a"))
    assert free(matrix, "a") == 3000
    matrix.pod_removed("p")
    assert free(matrix, "a") == 4000


def test_a_pod_that_has_ended_takes_nothing() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a"))
    matrix.pod_applied(pod("p", "a", phase="Succeeded"))
    assert free(matrix, "a") == 4000


def test_a_resized_pod_counts_with_its_new_requests() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a", "1"))
    matrix.pod_applied(pod("p", "a", "2"))
    assert free(matrix, "a") == 2000


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    placed = matrix.assume(pod("p"), row_of(matrix, "a"))
    assert placed.node_name == "a"
    assert (free(matrix, "a"), matrix.is_assumed("p")) == (3000, True)
    matrix.forget("p")
    assert (free(matrix, "a"), matrix.is_assumed("p")) == (4000, False)


def test_a_confirmed_pod_cannot_be_forgotten() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.assume(pod("p"), row_of(matrix, "a"))
    matrix.pod_applied(pod("p", "a"))
    matrix.forget("p")
    assert free(matrix, "a") == 3000
    matrix.assume(pod("q"), row_of(matrix, "a"))
    matrix.confirm("q")
    matrix.forget("q")
    assert free(matrix, "a") == 2000


def test_a_pod_that_was_bound_elsewhere_moves() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.node_applied(node("b"))
    matrix.assume(pod("p"), row_of(matrix, "a"))
    matrix.pod_applied(pod("p", "b"))
    assert (free(matrix, "a"), free(matrix, "b")) == (4000, 3000)


def test_an_updated_node_keeps_its_requested_amounts() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a"))
    matrix.node_applied(node("a", "2"))
    assert free(matrix, "a") == 1000


def test_a_node_that_did_not_change_is_no_event() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    before = matrix.log.position
    matrix.node_applied(node("a"))
    assert matrix.log.position == before


def test_a_change_says_whether_labels_may_have_changed() -> None:
    matrix = NodeMatrix()
    taint = {"key": "k", "value": "", "effect": "NoSchedule"}
    states = [
        node("a"),
        node("a", cpu="8"),
        node("a", cpu="8", labels={"zone": "y"}),
        node("a", cpu="8", labels={"zone": "y"}, taints=[taint]),
    ]
    for each in states:
        matrix.node_applied(each)
    matrix.node_removed("a")
    matrix.node_applied(states[-1])
    changes = matrix.log.since(0)
    assert changes is not None
    assert [each.relabels for each in changes] == [True, False, True, True, True, True]


def test_pods_of_a_deleted_node_are_ignored_until_it_returns() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a"))
    matrix.node_removed("a")
    assert matrix.ignored_objects == {"pod/p": 'bound to node "a", which is not known'}
    matrix.node_applied(node("a"))
    assert (free(matrix, "a"), matrix.ignored_objects) == (3000, {})


def test_a_pod_on_a_node_that_is_not_known_yet_waits_for_it() -> None:
    matrix = NodeMatrix()
    matrix.pod_applied(pod("p", "a"))
    matrix.pod_applied(pod("q", "a"))
    matrix.pod_removed("p")
    matrix.node_applied(node("a"))
    assert free(matrix, "a") == 3000
    assert not matrix.ignored_objects


def test_an_assumed_pod_outlives_its_node_until_it_is_forgotten() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.assume(pod("p"), row_of(matrix, "a"))
    matrix.assume(pod("q"), row_of(matrix, "a"))
    matrix.node_removed("a")
    assert matrix.node_of("p") == "a"
    matrix.forget("p")
    assert matrix.node_of("p") == ""
    matrix.node_applied(node("a"))
    assert matrix.is_assumed("q")
    assert free(matrix, "a") == 3000


def test_a_node_with_negative_amounts_is_ignored_and_others_are_not_affected() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.node_applied(node("b"))
    reason = read_node({"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "-1"}}})
    assert reason == "status.allocatable.cpu: -1 is negative"
    matrix.node_refused("b", reason)
    assert (matrix.count, matrix.row_of("b")) == (1, None)
    assert matrix.ignored_objects == {"node/b": reason}
    matrix.node_applied(node("b"))
    assert (matrix.count, matrix.ignored_objects) == (2, {})


def test_a_bound_pod_with_impossible_requests_fills_its_node() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    matrix.pod_applied(pod("p", "a", "1E"))
    assert free(matrix, "a") < 0
    matrix.pod_removed("p")
    assert free(matrix, "a") == 4000


def test_rows_are_used_again_and_columns_grow() -> None:
    matrix = NodeMatrix(capacity=2)
    for name in "abcde":
        matrix.node_applied(node(name))
    matrix.node_removed("b")
    matrix.node_applied(node("f", "7"))
    assert (matrix.count, matrix.size, free(matrix, "f"), free(matrix, "e")) == (5, 5, 7000, 4000)
    assert [matrix.name(row) for row in matrix.by_name] == ["a", "c", "d", "e", "f"]


def test_labels_without_a_column_cost_nothing() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a", labels={f"l{i}": "v" for i in range(5000)}))
    matrix.node_applied(node("b"))
    assert matrix.labels.selected_keys() == ()
    column = matrix.labels.column("l4999")
    assert column.ids[:2].tolist() == [0, -1]
    assert column.matching(Requirement("l4999", "in", ("v",)), None, 2).tolist() == [True, False]


def test_a_label_column_follows_its_nodes() -> None:
    matrix = NodeMatrix(capacity=1)
    matrix.node_applied(node("a", labels={"zone": "x"}))
    column = matrix.labels.column("zone")
    matrix.node_applied(node("b", labels={"zone": "y"}))
    matrix.node_applied(node("a", labels={"zone": "y"}))
    column = matrix.labels.column("zone")
    assert column.ids[:2].tolist() == [1, 1]
    matrix.node_removed("a")
    assert matrix.labels.column("zone").ids[0] == -1


def test_a_port_is_in_use_until_its_last_user_is_removed() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    ports = [{"containerPort": 1, "hostPort": 80}]
    matrix.pod_applied(pod("p", "a", ports=ports))
    matrix.pod_applied(pod("q", "a", ports=ports))
    matrix.pod_removed("p")
    wanted = pod("r", ports=ports).shape.ports[0]
    assert list(matrix.ports.conflicting_rows(wanted)) == [0]
    matrix.pod_removed("q")
    assert list(matrix.ports.conflicting_rows(wanted)) == []


def test_an_image_is_forgotten_with_the_last_node_that_has_it() -> None:
    matrix = NodeMatrix()
    images = [{"names": ["x:1"], "sizeBytes": 5}]
    matrix.node_applied(node("a", images=images))
    matrix.node_applied(node("b", images=images))
    found = matrix.images.find("x:1")
    assert found is not None
    assert (found.size_bytes, found.rows) == (5, {0, 1})
    matrix.node_removed("a")
    matrix.node_applied(node("b"))
    assert matrix.images.find("x:1") is None


def test_a_reader_that_is_too_far_behind_gets_none() -> None:
    log: ChangeLog[NodeChange] = ChangeLog(kept=2)
    for row in range(5):
        log.add(NodeChange(row))
    assert log.since(0) is None
    assert [each.row for each in log.since(3) or ()] == [3, 4]
    assert log.since(log.position) == []


def test_a_dry_run_leaves_no_trace() -> None:
    matrix = NodeMatrix()
    matrix.node_applied(node("a"))
    before = matrix.columns.free.copy()
    matrix.count_pod(0, pod("p"), 1)
    matrix.count_pod(0, pod("p"), -1)
    assert np.array_equal(matrix.columns.free, before)
