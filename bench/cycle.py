"""The pure cycle: placements a second on 5,000 nodes with twenty shapes, without a queue and without I/O.

Shapes come in turn (every pod asks another question than the one before) and in runs (as replicas do). CPU time is what
counts, in chunks: the machine may have other things to do. With ``percentageOfNodesToScore`` 0 a tenth of the nodes is
looked at per pod, as kube-scheduler does by itself.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from clusters import a_team
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.contract import Placement
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.node import Node, read_node
from headgate.scheduling.pod import Pod, read_pod
from headgate.scheduling.shape import Shapes

NODES: Final = 5_000
SHAPES: Final = 20
PODS: Final = 20_000
CHUNK: Final = 1_000
BAR: Final = 10_000
ZONES: Final = 3


def _node(number: int) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": f"zone-{number % ZONES}", "kubernetes.io/hostname": f"node-{number:05}"}
    taints = [{"key": "dedicated", "value": "batch", "effect": "PreferNoSchedule"}] if number % 10 == 0 else []
    return {
        "metadata": {"name": f"node-{number:05}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}},
    }


def _pod(number: int, shape: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + 10 * shape}m", "memory": f"{200 + shape}Mi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]}
    if shape % 2:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"zone-{shape % ZONES}"}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "bench", "uid": f"uid-{number}"},
        "spec": spec,
    }


def make_cluster(nodes: int = NODES) -> Cluster:
    cluster = Cluster()
    for number in range(nodes):
        read = read_node(_node(number))
        assert isinstance(read, Node)
        cluster.matrix.node_applied(read)
    return cluster


def pods(count: int, run: int, shapes: Shapes) -> list[Pod]:
    """``run`` pods of one shape after the other."""
    read = [read_pod(_pod(number, number // run % SHAPES), shapes) for number in range(count)]
    return [each for each in read if isinstance(each, Pod)]


def measure(run: int, percentage: int) -> list[float]:
    """Placements per second of CPU time, chunk by chunk."""
    shapes = Shapes()
    cluster, waiting = make_cluster(), pods(PODS, run, shapes)
    cycle = Cycle(cluster.matrix, a_team(cluster).lineup, percentage)
    rates = []
    for begin in range(0, PODS, CHUNK):
        start_s = time.process_time()
        for pod in waiting[begin : begin + CHUNK]:
            placed = cycle.place(pod)
            assert isinstance(placed, Placement), placed
        rates.append(CHUNK / (time.process_time() - start_s))
    return rates


def main() -> None:
    print(f"pure cycle, {NODES:,} nodes, {SHAPES} shapes, {PODS:,} pods, per second of CPU time")
    for title, run, percentage in (
        ("shapes in turn, all nodes", 1, 100),
        ("shapes in runs of 100, all nodes", 100, 100),
        ("shapes in turn, a share of the nodes", 1, 0),
    ):
        rates = measure(run, percentage)
        middle = statistics.median(rates)
        verdict = f"bar ≥ {BAR:,}/s{'' if middle >= BAR else ', missed'}"
        print(f"{title:40} median {middle:>7,.0f}/s, {min(rates):,.0f} to {max(rates):,.0f} ({verdict})")
