"""What the protection of the first in line costs: work follows change, and queues without protection pay nothing."""

from __future__ import annotations

from typing import Any

import pytest

from cost_growth import TIMES, cpu_s, too_steep
from headgate.quota.cycle import start_forecast
from headgate.quota.cycle.line_protection import LineProtection
from headgate.quota.cycle.start_forecast import LimitedWorkloads, LineForecast
from headgate.quota.engine import QuotaEngine
from kueue_builders import START_S, a_cluster_queue, a_flavor, a_local_queue, a_pod_set, a_workload, reserved

pytestmark = pytest.mark.measured

_BACKFILL = {"headgate.dev/dequeue-strategy": "backfill"}
_FEW = 50


class Cluster:
    """An engine without an API: nothing is written."""

    def __init__(self, *queues: dict[str, Any]) -> None:
        self.engine, self.now_s = QuotaEngine(), START_S + 100
        self.engine.namespace_applied("ns", {}, self.now_s)
        self.engine.flavor_applied(a_flavor(), self.now_s)
        for queue in queues:
            name = queue["metadata"]["name"]
            self.engine.cluster_queue_applied(queue, self.now_s)
            self.engine.local_queue_applied(a_local_queue(name, name), self.now_s)

    def submit(self, name: str, cpu: int, queue: str = "cq", **more: Any) -> None:
        self.engine.workload_applied(a_workload(name, cpu=cpu, queue=queue, **more), self.now_s)

    def run(self, name: str, cpu: int, limit_s: int, queue: str = "cq") -> None:
        self.submit(name, cpu, queue, status=reserved(queue, cpu=cpu), maximumExecutionTimeSeconds=limit_s)

    def cycle(self) -> None:
        self.engine.run_cycle(self.now_s)

    def reason(self, name: str) -> str:
        found = self.engine.queue_manager.pending_reason(f"ns/{name}")
        return "" if found is None else found.reason


@pytest.fixture
def forecasts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues for which a forecast is computed, in order."""
    found: list[str] = []
    forecast = LimitedWorkloads.forecast

    def counted(self: LimitedWorkloads, first: start_forecast.ProtectedWorkload, now_s: float) -> LineForecast:
        found.append(first.queue)
        return forecast(self, first, now_s)

    monkeypatch.setattr(LimitedWorkloads, "forecast", counted)
    return found


def restarted(count: int) -> Cluster:
    """An engine that has just got all objects: so many workloads run until their limits, and the first in line needs
    the quota of all of them. As many workloads of different shapes wait after it."""
    cluster = Cluster(a_cluster_queue("cq", {"default": {"cpu": 2 * count}}, annotations=_BACKFILL))
    for n in range(count):
        cluster.run(f"old-{n}", 1, 1000 + n)
    cluster.submit("first", 2 * count)
    for n in range(count):
        requests = {"cpu": 1, f"example.com/r{n}": 0}
        cluster.engine.workload_applied(
            a_workload(f"w-{n}", a_pod_set(requests=requests), queue="cq", at_s=1 + n), cluster.now_s
        )
    return cluster


@pytest.mark.parametrize("count", [_FEW, 4 * _FEW])
def test_one_forecast_is_enough_for_all_workloads_behind_the_first(count: int, forecasts: list[str]) -> None:
    cluster = restarted(count)
    cluster.cycle()
    assert {cluster.reason(f"w-{n}") for n in range(count)} == {"FirstInLineProtected"}
    assert forecasts == ["cq"]


def test_workloads_that_pass_and_end_in_time_need_no_new_forecast(forecasts: list[str]) -> None:
    cluster = restarted(_FEW)
    cluster.cycle()
    for n in range(10):
        cluster.submit(f"short-{n}", 1, at_s=2000 + n, maximumExecutionTimeSeconds=100 + n)
    cluster.cycle()
    assert all(f"ns/short-{n}" not in cluster.engine.queue_manager for n in range(10))
    assert forecasts == ["cq"]
    cluster.engine.workload_removed("ns/old-0", cluster.now_s)
    cluster.submit("late", 1, at_s=3000)
    cluster.cycle()
    assert forecasts == ["cq", "cq"]


def test_the_cost_of_a_restart_grows_with_the_number_of_workloads() -> None:
    def cost(count: int) -> float:
        cluster = restarted(count)
        return cpu_s(cluster.cycle)

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW))


def test_a_workload_that_comes_does_not_cost_more_in_a_long_line() -> None:
    def cost(count: int) -> float:
        cluster = restarted(count)
        cluster.cycle()

        def come() -> None:
            for n in range(20):
                cluster.submit(f"new-{n}", 1, at_s=10_000 + n)
                cluster.cycle()

        return cpu_s(come)

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW), most=3.0)


def test_queues_of_other_trees_do_not_matter() -> None:
    def cost(count: int) -> float:
        cluster = restarted(_FEW)
        for n in range(count):
            name = f"other-{n}"
            queue = a_cluster_queue(name, {"default": {"cpu": 2}}, annotations=_BACKFILL)
            cluster.engine.cluster_queue_applied(queue, cluster.now_s)
            cluster.engine.local_queue_applied(a_local_queue(name, name), cluster.now_s)
            cluster.run(f"running-{n}", 1, 1000, name)
            cluster.submit(f"waiting-{n}", 2, name)
        cluster.cycle()

        def come() -> None:
            for n in range(20):
                cluster.submit(f"new-{n}", 1, at_s=10_000 + n)
                cluster.cycle()

        return cpu_s(come)

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW), most=3.0)


def test_without_protection_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        pytest.fail("no queue protects its first in line")

    for name in ("avoid_delay", "_first_in_line", "_forecast", "_idle_tree"):
        monkeypatch.setattr(LineProtection, name, fail)
    cluster = Cluster(a_cluster_queue("cq", {"default": {"cpu": 10}}))
    cluster.run("old", 5, 1000)
    cluster.submit("first", 6)
    cluster.submit("small", 1, at_s=1, maximumExecutionTimeSeconds=10)
    cluster.submit("small-too", 1, at_s=2, maximumExecutionTimeSeconds=20)
    cluster.cycle()
    assert "ns/small-too" not in cluster.engine.queue_manager
    cluster.submit("large", 6, at_s=3, maximumExecutionTimeSeconds=10)
    cluster.submit("as-large", 6, at_s=4, maximumExecutionTimeSeconds=20)
    cluster.cycle()
    shapes = {each.shape for each in cluster.engine.queue_manager.pending("cq")}
    assert len(shapes) == 1, "without protection a limit makes no difference"
