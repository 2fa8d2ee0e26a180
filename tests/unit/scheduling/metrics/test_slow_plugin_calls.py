"""A plugin that is not built in and takes too long is named in the log and in a metric."""

from __future__ import annotations

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.metrics.slow_plugin_calls import NAME, SLOW_S, SlowPluginCalls
from headgate.scheduling.scheduler import Scheduler
from unit.scheduling.world import a_pod, configured


class Time:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


class SometimesSlow:
    """A PreEnqueue plugin that takes long for some pods."""

    name = "SometimesSlow"

    def __init__(self, time: Time) -> None:
        self._time = time

    def pre_enqueue(self, pod: PodInfo, /) -> Rejection | None:
        self._time.now_s += 0.04 if pod.name.startswith("slow") else 0.0001
        return None


class AScheduler:
    def __init__(self) -> None:
        self.time = Time()
        self.problems: list[str] = []
        configuration, factories = configured([SometimesSlow(self.time)])
        self.scheduler = Scheduler(configuration, factories, self.problems.append, SchedulerMetrics(self.time))

    def show(self, *names: str) -> None:
        for name in names:
            self.scheduler.pod_applied(a_pod(name), self.time.now_s)
        self.scheduler.step(self.time.now_s, 0)

    def counted(self) -> dict[tuple[str, str], float]:
        page = self.scheduler.metrics_exposition(self.time.now_s).decode()
        samples = (each for family in text_string_to_metric_families(page) for each in family.samples)
        return {
            (each.labels["plugin"], each.labels["extension_point"]): each.value for each in samples if each.name == NAME
        }


def test_a_single_slow_call_among_quick_ones_is_counted_and_named() -> None:
    world = AScheduler()
    world.show(*(f"quick{number}" for number in range(25)))
    assert (world.counted(), world.problems) == ({}, [])
    world.show("slow")
    assert world.counted() == {("SometimesSlow", "PreEnqueue"): 1}
    (problem,) = world.problems
    assert problem.startswith("plugin SometimesSlow is slow: 1 of its PreEnqueue calls took 20 ms or longer")
    assert "the longest 40 ms" in problem


def test_many_slow_calls_are_named_once_a_minute_with_their_number() -> None:
    world = AScheduler()
    world.show(*(f"slow{number}" for number in range(500)))
    assert world.counted() == {("SometimesSlow", "PreEnqueue"): 500}
    assert len(world.problems) == 1
    world.time.now_s += 60
    world.show("slow-again")
    assert len(world.problems) == 2
    assert "500 of its PreEnqueue calls" in world.problems[1]


def test_calls_that_are_only_timed_to_find_slow_ones_do_not_change_the_histogram() -> None:
    world = AScheduler()
    world.show(*(f"quick{number}" for number in range(30)))
    page = world.scheduler.metrics_exposition(world.time.now_s).decode()
    name = "scheduler_plugin_execution_duration_seconds_count"
    counts = [
        each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
        if each.name == name and each.labels["plugin"] == "SometimesSlow"
    ]
    assert counts == [3]


@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "BinPack", "QueueAllocation"])
def test_built_in_plugins_are_not_timed_at_each_call(plugin: str) -> None:
    assert not SchedulerMetrics().times_always(plugin)


def test_a_call_below_the_limit_is_not_slow() -> None:
    calls = SlowPluginCalls()
    calls.took("P", "Filter", SLOW_S - 0.001, 0.0)
    assert (list(calls.samples()), calls.messages()) == ([], [])
    calls.took("P", "Filter", SLOW_S, 0.0)
    assert [msgspec.structs.asdict(each)["value"] for each in calls.samples()] == [1]
