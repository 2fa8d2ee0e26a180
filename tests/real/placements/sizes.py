"""The sizes in a case: the allocatable resources of its nodes and the requests of its pods."""

from __future__ import annotations

from typing import NamedTuple

GPU = "example.com/gpu"


class Sizes(NamedTuple):
    cpu: list[str]
    memory: list[str]
    pods: list[int]
    taints: list[int]
    """How many a node has: one of these."""
    cordoned: float
    silent: float
    """How likely a node does not say at all how much it has of something."""
    asks: dict[str, tuple[float, list[str]]]
    """By resource how likely a container asks for it, and how much."""
    whole: float
    """How likely a pod asks as a whole."""


CLIMATES = {
    # All pods fit everywhere: other rules decide which node a pod gets.
    "roomy": Sizes(
        cpu=["8", "16", "15900m"],
        memory=["8Gi", "16Gi", "9000001k"],
        pods=[10, 110],
        taints=[0, 0, 0, 0, 0, 0, 1],
        cordoned=0.03,
        silent=0.01,
        asks={"cpu": (0.7, ["100m", "250m"]), "memory": (0.7, ["100Mi", "700Mi"]), GPU: (0.02, ["1"])},
        whole=0.02,
    ),
    # Some fit at once, and others when these are deleted.
    "snug": Sizes(
        cpu=["2", "4"],
        memory=["3Gi", "4Gi"],
        pods=[2, 3, 10],
        taints=[0, 0, 0, 0, 0, 0, 1],
        cordoned=0.03,
        silent=0.01,
        asks={"cpu": (0.9, ["500m", "1", "1500m"]), "memory": (0.8, ["500Mi", "1Gi", "1500Mi"]), GPU: (0.05, ["1"])},
        whole=0.02,
    ),
    # Something is wrong with most nodes for most pods.
    "harsh": Sizes(
        cpu=["0", "1", "1500m", "2", "4", "4", "16"],
        memory=["500Mi", "1Gi", "3Gi", "8Gi", "1000001k"],
        pods=[0, 1, 3, 10, 10, 110],
        taints=[0, 0, 1, 2],
        cordoned=0.1,
        silent=0.05,
        asks={
            "cpu": (0.7, ["0", "100m", "500m", "1", "1500m"]),
            "memory": (0.7, ["0", "100Mi", "700Mi", "1500Mi"]),
            GPU: (0.12, ["1", "2"]),
            "ephemeral-storage": (0.08, ["500Mi", "2Gi"]),
            "hugepages-2Mi": (0.04, ["32Mi"]),
        },
        whole=0.1,
    ),
}
