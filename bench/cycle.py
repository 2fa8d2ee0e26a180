"""The scheduling cycle alone: placements per second on 5,000 nodes with twenty shapes, without a queue and without I/O.

Shapes alternate (every pod has another shape than the pod before it) or come in runs (as replicas do). CPU time is
measured in chunks, because the machine may have other load. With ``percentageOfNodesToScore`` 0 a tenth of the nodes is
evaluated per pod, as in kube-scheduler. Then pods whose node depends on other pods: each shape is an application whose
pods are spread over zones and nodes, or have anti-affinity to each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bench import report
from clusters import a_framework
from headgate.kube.api_resources import SERVICES
from headgate.scheduling.cache.node import NodeInfo, read_node
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework.interface import ScheduleResult
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle

NODES: Final = 5_000
SHAPES: Final = 20
PODS: Final = 20_000
CHUNK: Final = 1_000
BAR: Final = 10_000
BAR_BETWEEN_PODS: Final = 1_500
ZONES: Final = 3
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

Object = dict[str, Any]
Specify = Callable[[Object], Object]
"""What the spec of a pod has beyond its requests, given its labels."""


def _node(number: int) -> dict[str, Any]:
    labels = {ZONE: f"zone-{number % ZONES}", HOSTNAME: f"node-{number:05}"}
    taints = [{"key": "dedicated", "value": "batch", "effect": "PreferNoSchedule"}] if number % 10 == 0 else []
    return {
        "metadata": {"name": f"node-{number:05}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}},
    }


def _pod(number: int, shape: int, specify: Specify) -> Object:
    requests = {"cpu": f"{100 + 10 * shape}m", "memory": f"{200 + shape}Mi"}
    labels = {"app": f"app-{shape}"}
    spec = {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
        **specify(labels),
    }
    name = f"pod-{number}"
    return {"metadata": {"name": name, "namespace": "bench", "uid": f"uid-{number}", "labels": labels}, "spec": spec}


def _plain(labels: Object) -> Object:
    """Every second application must run in one zone."""
    shape = int(labels["app"].removeprefix("app-"))
    return {"nodeSelector": {ZONE: f"zone-{shape % ZONES}"}} if shape % 2 else {}


def _spread(*keys: str, how: str = "DoNotSchedule") -> Specify:
    def specify(labels: Object) -> Object:
        shared = {"maxSkew": 1, "whenUnsatisfiable": how, "labelSelector": {"matchLabels": labels}}
        return {"topologySpreadConstraints": [{**shared, "topologyKey": key} for key in keys]}

    return specify


def _apart(labels: Object) -> Object:
    """At most one pod of an application per node."""
    terms = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _rather_apart(labels: Object) -> Object:
    """Prefers a zone with fewer pods of the application."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}
    wishes = [{"weight": 100, "podAffinityTerm": term}]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}


def _spread_and_apart(labels: Object) -> Object:
    return _spread(ZONE)(labels) | _apart(labels)


class Scenario(msgspec.Struct, frozen=True):
    title: str
    run: int = 1
    """The pods of one shape, then those of the next."""
    percentage: int = 100
    specify: Specify = _plain
    bar: int = BAR
    is_served: bool = False
    """Each application has a Service, so that its pods are spread by default."""


SCENARIOS: Final = (
    Scenario("shapes in turn, all nodes"),
    Scenario("shapes in runs of 100, all nodes", run=100),
    Scenario("shapes in turn, a share of the nodes", percentage=0),
    Scenario("hard spread over zones", specify=_spread(ZONE), bar=BAR_BETWEEN_PODS),
    Scenario("hard spread over nodes", specify=_spread(HOSTNAME), bar=BAR_BETWEEN_PODS),
    Scenario("hard spread over both", specify=_spread(ZONE, HOSTNAME), bar=BAR_BETWEEN_PODS),
    Scenario("hard spread over both, in runs of 100", run=100, specify=_spread(ZONE, HOSTNAME), bar=BAR_BETWEEN_PODS),
    Scenario("soft spread over both", specify=_spread(ZONE, HOSTNAME, how="ScheduleAnyway"), bar=BAR_BETWEEN_PODS),
    Scenario("spread by default", bar=BAR_BETWEEN_PODS, is_served=True),
    Scenario("anti-affinity on nodes", specify=_apart, bar=BAR_BETWEEN_PODS),
    Scenario("anti-affinity on nodes, in runs of 100", run=100, specify=_apart, bar=BAR_BETWEEN_PODS),
    Scenario("preferred anti-affinity in zones", specify=_rather_apart, bar=BAR_BETWEEN_PODS),
    Scenario("hard spread over zones, anti-affinity", specify=_spread_and_apart, bar=BAR_BETWEEN_PODS),
)


def make_cluster(nodes: int = NODES, services: int = 0) -> Cluster:
    cluster = Cluster()
    for number in range(services):
        name = f"app-{number}"
        service = {"metadata": {"name": name, "namespace": "bench"}, "spec": {"selector": {"app": name}}}
        cluster.applied(SERVICES, service)
    for number in range(nodes):
        read = read_node(_node(number))
        assert isinstance(read, NodeInfo)
        cluster.matrix.node_applied(read)
    return cluster


def pods(count: int, scenario: Scenario, shapes: ShapeTable) -> list[PodInfo]:
    wires = (_pod(number, number // scenario.run % SHAPES, scenario.specify) for number in range(count))
    return [each for each in (read_pod(wire, shapes) for wire in wires) if isinstance(each, PodInfo)]


def measure(scenario: Scenario) -> list[float]:
    """Placements per second of CPU time, chunk by chunk."""
    shapes = ShapeTable()
    cluster = make_cluster(services=SHAPES if scenario.is_served else 0)
    waiting = pods(PODS, scenario, shapes)
    cycle = SchedulingCycle(cluster.matrix, a_framework(cluster).cycle_plugins, scenario.percentage)
    rates = []
    for begin in range(0, PODS, CHUNK):
        start_s = time.process_time()
        for pod in waiting[begin : begin + CHUNK]:
            placed = cycle.place(pod)
            assert isinstance(placed, ScheduleResult), placed
        rates.append(CHUNK / (time.process_time() - start_s))
    return rates


def main() -> None:
    print(f"pure cycle, {NODES:,} nodes, {SHAPES} shapes, {PODS:,} pods, per second of CPU time")
    rows = []
    for scenario in SCENARIOS:
        rates = measure(scenario)
        middle = statistics.median(rates)
        rows.append([scenario.title, f"{middle:,.0f}/s"])
        result = f"bar ≥ {scenario.bar:,}/s{'' if middle >= scenario.bar else ', missed'}"
        print(f"{scenario.title:40} median {middle:>7,.0f}/s, {min(rates):,.0f} to {max(rates):,.0f} ({result})")
    report.record("pure cycle", report.table(("what", "placements per second of CPU"), rows))
