"""What head-of-line protection costs: it looks once at a queue, however many units wait there, and after a change only
at queues whose result can change."""

from __future__ import annotations

from typing import Any

import pytest

from capacity_builders import Queues, a_queue, a_task
from cost_growth import TIMES, cpu_s, too_steep
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import DEQUEUE_STRATEGY
from headgate.capacity.ordering.start_forecast import StartForecast, StartForecaster
from unit.capacity.test_head_of_line import NOW_S, on_node, runs, waits, with_strategy

pytestmark = pytest.mark.measured

_FEW = 100
_GPU = "nvidia.com/gpu"


@pytest.fixture
def forecasts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues for which a forecast is computed, in order."""
    found: list[str] = []
    forecast = StartForecaster.forecast

    def counted(self: StartForecaster, queue: str, *args: Any, **options: Any) -> StartForecast:
        found.append(queue)
        return forecast(self, queue, *args, **options)

    monkeypatch.setattr(StartForecaster, "forecast", counted)
    return found


def restarted(strategy: str, count: int) -> Queues:
    """An engine that has just got all objects: so many pods run until their limits, and the first in line needs the
    capacity of all of them. As many pods wait after it, with ten different asks."""
    queues = Queues(with_strategy(strategy, cpu=count + 10))
    queues.apply(*(runs(on_node(f"old-{n}", 1), 100.0 + n, started_s=NOW_S) for n in range(count)))
    queues.apply(waits("first", count + 10, 0), *(waits(f"p-{n}", 1 + n % 10, 1 + n) for n in range(count)))
    return queues


def explain_all(queues: Queues, count: int) -> None:
    assert queues.admit() == []
    assert {queues.wait_reason(f"p-{n}") for n in range(count)} == {WaitReason.BEHIND_FIRST}


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
@pytest.mark.parametrize("count", [_FEW, TIMES * _FEW])
def test_one_forecast_is_enough_for_all_units_of_a_queue(strategy: str, count: int, forecasts: list[str]) -> None:
    explain_all(restarted(strategy, count), count)
    assert forecasts == ["q"]


def test_a_change_of_another_queue_without_a_common_limit_needs_no_new_forecast(forecasts: list[str]) -> None:
    queues = restarted("backfill", _FEW)
    queues.apply(a_queue("r", 10))
    explain_all(queues, _FEW)
    for n in range(5):
        queues.apply(waits(f"r-{n}", 1, n, queue="r"))
        queues.engine.admit(queues.now_s, 1_000)
    assert {queues.wait_reason(f"p-{n}") for n in range(_FEW)} == {WaitReason.BEHIND_FIRST}
    assert forecasts == ["q"]


def test_a_unit_that_comes_or_a_pod_that_ends_needs_a_new_forecast(forecasts: list[str]) -> None:
    queues = restarted("backfill", _FEW)
    explain_all(queues, _FEW)
    queues.apply(waits("late", 1, 2 * _FEW))
    assert queues.wait_reason("late") is WaitReason.BEHIND_FIRST
    queues.engine.task_removed("u-old-0")
    assert queues.wait_reason("late") is WaitReason.BEHIND_FIRST
    assert forecasts == ["q"] * 3


def test_the_cost_of_a_restart_grows_with_the_number_of_pods() -> None:
    def cost(count: int) -> float:
        queues = restarted("backfill", count)
        return cpu_s(lambda: explain_all(queues, count))

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW))


def test_the_cost_of_a_forecast_does_not_grow_with_the_number_of_queues() -> None:
    """The first in line of ``q`` lacks what one pod of another queue holds; the other queues have a pod each."""

    def cost(count: int) -> float:
        queues = Queues(
            a_queue("p", capability={"cpu": count + 10, _GPU: 1}), with_strategy("backfill", "q", parent="p")
        )
        for n in range(count):
            queues.apply(a_queue(f"r-{n}", parent="p"), runs(on_node(f"old-{n}", 1, f"r-{n}"), 1e6, started_s=NOW_S))
        queues.apply(runs(waits("gpu", None, requests={_GPU: 1}, queue="r-0"), 10.0, started_s=NOW_S))
        queues.apply(waits("first", 1, 1, requests={_GPU: 1}), *(waits(f"p-{n}", 10, 1 + n) for n in range(10)))
        queues.admit()

        def ask_often() -> None:
            for n in range(100):
                queues.engine.set_time_of_day(NOW_S + n / 100)
                assert queues.wait_reason("p-0") is WaitReason.BEHIND_FIRST

        return cpu_s(ask_often)

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW), most=3.0)


# Many queues with a protected unit below one limit.


def crowded(
    count: int, strategy: str, run_times: str, *, limit_of_queues: bool = False, grace_s: float = 30.0
) -> Queues:
    """So many queues, and twice as many pods of 1 CPU that run. In each queue the first in line needs a quarter of the
    common limit, and smaller units wait after it. ``run_times``: whether ``all``, ``half`` or ``none`` of the running
    pods have a limit."""
    limit = 2 * count + 5
    queues = Queues(with_strategy(strategy, "p", limit))
    for n in range(count):
        queues.apply(a_queue(f"q-{n}", limit if limit_of_queues else None, "p"))
    for n in range(2 * count):
        pod = on_node(f"old-{n}", 1, f"q-{n % count}")
        has_limit = run_times == "all" or (run_times == "half" and n % 4 < 2)
        queues.apply(runs(pod, 1000.0 + n, NOW_S, grace_s) if has_limit else pod)
    for n in range(count):
        queues.apply(waits(f"first-{n}", count // 2 + n % 7, 1, f"q-{n}"))
        queues.apply(waits(f"a-{n}", 1, 2, f"q-{n}"), runs(waits(f"b-{n}", 2, 3, f"q-{n}"), 5000.0))
    assert queues.admit() == []
    return queues


def end_pods(queues: Queues, count: int = 10) -> None:
    for n in range(count):
        queues.engine.task_removed(f"u-old-{3 * n}")
        queues.now_s += 1
        assert queues.engine.admit(queues.now_s, 1_000) == []


_CROWDS = [
    ("fifo", "all", False),
    ("fifo", "none", False),
    ("backfill", "none", False),
    ("backfill", "none", True),
    ("backfill", "half", False),
    ("backfill", "half", True),
]


@pytest.mark.parametrize(("strategy", "run_times", "limit_of_queues"), _CROWDS)
def test_a_pod_that_ends_needs_one_forecast_however_many_queues_have_a_protected_unit(
    strategy: str, run_times: str, limit_of_queues: bool, forecasts: list[str]
) -> None:
    queues = crowded(_FEW, strategy, run_times, limit_of_queues=limit_of_queues)
    assert len(forecasts) == _FEW
    forecasts.clear()
    end_pods(queues)
    assert len(forecasts) == 10  # one for the queue of each pod


@pytest.mark.parametrize("grace_s", [0.0, 30.0])
def test_a_step_looks_at_a_limited_number_of_queues_whose_results_may_have_changed(
    grace_s: float, forecasts: list[str]
) -> None:
    """Here each pod that ends may let a unit of any queue pass: the first in line leaves nothing, or little more."""
    queues = crowded(_FEW, "backfill", "all", grace_s=grace_s)
    forecasts.clear()
    end_pods(queues)
    assert len(forecasts) <= 10 * 34
    while (deadline_s := queues.engine.next_deadline_s()) is not None:
        assert deadline_s <= queues.now_s
        before = len(forecasts)
        assert queues.engine.admit(queues.now_s, 1_000) == []
        assert before < len(forecasts) <= before + 34


def test_all_queues_are_looked_at_in_the_following_steps() -> None:
    """A pod that ends lets one unit of each queue pass. The first in line of each lacks a device."""
    queues = Queues(
        a_queue("p", capability={"cpu": 4 * _FEW, _GPU: 1}, annotations={DEQUEUE_STRATEGY: "backfill"}),
        a_queue("r", parent="p"),
        on_node("large", 3 * _FEW, "r"),
        a_task("device", None, queue="r", opted_in=False, node_name="n", requests={_GPU: 1}),
    )
    for n in range(_FEW):
        queues.apply(a_queue(f"q-{n}", parent="p"), waits(f"first-{n}", 2 * _FEW, 1, f"q-{n}", requests={_GPU: 1}))
        queues.apply(waits(f"small-{n}", 1, 2, f"q-{n}"))
    assert queues.admit() == []
    queues.engine.task_removed("u-large")
    granted, steps = queues.admit(), 1
    while queues.engine.next_deadline_s() is not None:
        granted += queues.admit()
        steps += 1
    assert sorted(granted) == sorted(f"small-{n}" for n in range(_FEW))
    assert steps > 1


@pytest.mark.parametrize(("strategy", "run_times"), [("fifo", "all"), ("backfill", "none"), ("backfill", "all")])
def test_the_cost_of_a_pod_that_ends_does_not_grow_with_queues_and_pods(strategy: str, run_times: str) -> None:
    def cost(count: int) -> float:
        queues = crowded(count, strategy, run_times, grace_s=0.0)
        return cpu_s(lambda: end_pods(queues))

    assert not too_steep(lambda: cost(_FEW // 2), lambda: cost(TIMES * _FEW // 2), most=3.0)


def test_the_cost_of_a_unit_that_comes_does_not_grow_with_the_pods_that_run() -> None:
    def cost(count: int) -> float:
        queues = restarted("backfill", count)
        queues.admit()

        def come() -> None:
            for n in range(20):
                queues.apply(waits(f"late-{n}", 1, 2 * count + n))
                assert queues.admit() == []

        return cpu_s(come)

    assert not too_steep(lambda: cost(_FEW), lambda: cost(TIMES * _FEW), most=3.0)
