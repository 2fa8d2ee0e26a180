"""Learned and declared run times: which observations count, and what is drawn from them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from headgate.estimates.run_times import RunTimeDraw, RunTimeHistory
from headgate.estimates.units import Unit

NOW_S = 10_000.0


def unit(name: str = "u", queue: str = "q", owner: str = "o", template: str = "t", **more: Any) -> Unit:
    return msgspec.structs.replace(Unit(name, queue, owner, template, 0.0), **more)


def ended(count: int, run_s: float, **more: Any) -> list[Unit]:
    return [unit(f"{more}-{number}", **more, started_s=100.0, ended_s=100.0 + run_s) for number in range(count)]


def drawn(history: RunTimeHistory, wanted: Unit, seeds: int = 200) -> list[float]:
    return sorted(RunTimeDraw(history, seed, NOW_S).total_s(wanted) for seed in range(seeds))


def test_the_most_similar_units_count_if_there_are_enough() -> None:
    history = RunTimeHistory([*ended(5, 10.0), *ended(5, 20.0, owner="x"), *ended(5, 30.0, owner="x", template="y")])
    assert history.basis_of(unit()).source == "owner"
    assert drawn(history, unit())[0] == 10.0
    assert history.basis_of(unit(owner="new")).source == "template"
    assert history.basis_of(unit(owner="x", template="new")).source == "owner"
    assert history.basis_of(unit(owner="new", template="new")).source == "queue"
    assert history.basis_of(unit(queue="other")).source == "unknown"


def test_four_observations_are_not_enough() -> None:
    assert RunTimeHistory(ended(4, 10.0)).basis_of(unit()).source == "unknown"


def test_what_is_declared_goes_before_what_is_learned_and_a_limit_after_it() -> None:
    history = RunTimeHistory(ended(5, 10.0))
    assert history.basis_of(unit(declared_s=7.0)).source == "declared"
    assert history.basis_of(unit(limit_s=7.0)).source == "owner"
    assert history.basis_of(unit(queue="other", limit_s=7.0)).source == "limit"
    assert history.basis_of(unit(is_service=True)).source == "service"


def test_a_limit_is_never_exceeded() -> None:
    observed = [unit(f"{n}", started_s=0.0, ended_s=float(50 * n)) for n in range(1, 20)]
    assert max(drawn(RunTimeHistory(observed), unit(limit_s=300.0))) == 300.0
    of_limit = drawn(RunTimeHistory([]), unit(limit_s=300.0, started_s=NOW_S - 100))
    assert 100.0 < of_limit[0] < 120.0
    assert 280.0 < of_limit[-1] <= 300.0


def test_a_running_unit_is_one_of_the_longer_ones() -> None:
    observed = [unit(f"{n}", started_s=0.0, ended_s=100.0 if n % 2 else 1000.0) for n in range(20)]
    found = drawn(RunTimeHistory(observed), unit(started_s=NOW_S - 200))
    assert found[0] >= 200.0
    assert found[len(found) // 2] == pytest.approx(1000.0, rel=0.05)


def test_units_that_run_are_observations_too() -> None:
    past = [unit(f"{n}", started_s=NOW_S - 1500, ended_s=NOW_S - 1400 + n) for n in range(10)]
    past += [unit(f"long-{n}", started_s=NOW_S - 3000, ended_s=NOW_S - 1000) for n in range(5)]
    running = [unit(f"r-{n}", started_s=NOW_S - 1200) for n in range(15)]

    def share(history: RunTimeHistory) -> float:
        found = drawn(history, unit(), seeds=1000)
        return sum(each > 1000 for each in found) / len(found)

    assert share(RunTimeHistory(past)) == pytest.approx(1 / 3, abs=0.06)
    assert share(RunTimeHistory(past, running, NOW_S)) == pytest.approx(2 / 3, abs=0.06)
    assert share(RunTimeHistory(past, running * 5, NOW_S)) == pytest.approx(2 / 3, abs=0.06)  # pods of one gang


def test_units_that_wait_and_services_are_no_observations() -> None:
    present = [unit("w"), unit("s", started_s=NOW_S - 900, is_service=True)]
    found = drawn(RunTimeHistory(ended(5, 10.0), present, NOW_S), unit())
    assert found[-1] == 10.0


def test_an_interrupted_unit_would_have_run_longer() -> None:
    stopped = [unit(f"{n}", started_s=0.0, ended_s=50.0, is_interrupted=True) for n in range(5)]
    assert RunTimeHistory(stopped).basis_of(unit()).source == "unknown"
    assert drawn(RunTimeHistory([*stopped, *ended(5, 80.0)]), unit())[0] == 80.0


def test_a_unit_that_starts_again_runs_longer_than_before_its_interruption() -> None:
    observed = [unit(f"{n}", started_s=0.0, ended_s=100.0 if n % 2 else 1000.0) for n in range(20)]
    history = RunTimeHistory(observed)
    assert drawn(history, unit())[0] == 100.0
    assert drawn(history, unit(ran_s=300.0))[0] == 1000.0
    assert drawn(history, unit(ran_s=300.0, started_s=NOW_S - 10))[0] == 1000.0


def test_draws_spread_as_the_observations_do() -> None:
    observed = [unit(f"{n}", started_s=0.0, ended_s=math.exp(5 + (n - 50) / 25)) for n in range(101)]
    found = drawn(RunTimeHistory(observed), unit(), seeds=600)
    assert math.log(found[300]) == pytest.approx(5.0, abs=0.3)
    assert math.log(found[60]) == pytest.approx(3.4, abs=0.4)
    assert math.log(found[540]) == pytest.approx(6.6, abs=0.4)


def test_one_draw_gives_one_unit_one_run_time() -> None:
    observed = [unit(f"{n}", started_s=0.0, ended_s=float(n + 1)) for n in range(50)]
    draw = RunTimeDraw(RunTimeHistory(observed), 3, NOW_S)
    assert draw.total_s(unit("a")) == draw.total_s(unit("a"))


def test_units_of_unknown_run_time_have_the_given_rest() -> None:
    history = RunTimeHistory([])
    running = unit(started_s=NOW_S - 30)
    assert RunTimeDraw(history, 0, NOW_S).total_s(running) == math.inf
    assert RunTimeDraw(history, 0, NOW_S, unknown_s=0.0).total_s(running) == 30.0
