"""The line about nodes that `headgate up` prints: the nodes that the server has."""

from __future__ import annotations

from typing import Any

from headgate.cli.embedded.cluster import describe_nodes

NAMED = ("cpu", "memory")


def a_node(cpu: str = "8", ready: str = "True", **further: str) -> dict[str, Any]:
    capacity = {"cpu": cpu, "memory": "32Gi", "pods": "110", **further}
    return {"status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": ready}]}}


def test_nodes_of_one_size_are_counted_with_the_size_that_they_report() -> None:
    nodes = [a_node(), a_node()]
    assert describe_nodes(nodes, 2, NAMED) == "2 registered, 2 ready, each with cpu 8, memory 32Gi"
    with_gpu = [a_node(**{"nvidia.com/gpu": "4"})]
    assert describe_nodes(with_gpu, 1, NAMED).endswith("each with cpu 8, memory 32Gi, nvidia.com/gpu 4")


def test_nodes_that_are_missing_or_not_ready_are_reported() -> None:
    assert describe_nodes([a_node(ready="False")], 3, NAMED).startswith("1 registered of 3 so far, 0 ready, ")
    assert describe_nodes([], 3, NAMED) == "0 registered of 3 so far"
    assert describe_nodes([], 0, NAMED) == "none"
    assert describe_nodes([{"metadata": {}}], 1, NAMED) == "1 registered, 0 ready, each with nothing"


def test_nodes_of_an_earlier_start_are_reported_with_their_own_sizes() -> None:
    nodes = [a_node("4"), a_node("4"), a_node("16")]
    assert describe_nodes(nodes, 1, NAMED) == (
        "3 registered, 3 ready: 2 with cpu 4, memory 32Gi; 1 with cpu 16, memory 32Gi"
    )
