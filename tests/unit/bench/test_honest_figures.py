"""Benchmarks run on a quiet machine, in turns, with the CPU time of each process, and are written down:
`bench/quiet.py`, `bench/standings.py`, `bench/report.py`, `bench/history.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as program
from bench import history, quiet, quota, report, scheduler, standings
from bench.contenders import CONTENDERS
from bench.rounds import Round

STAT = "cpu  400 100 300 9000 700 0 50 50 11 22\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
LINES = ["| what | few | many |", "| --- | --- | --- |", "| one admission | 1,000 µs | 55 µs (bar ≤ 60) |"]


def test_busy_seconds_are_those_of_all_cores_that_were_not_idle() -> None:
    assert quiet.busy_s(STAT) == 900 / os.sysconf("SC_CLK_TCK")


def test_a_quiet_machine_is_measured_on() -> None:
    assert quiet.check(0.1, anyway=False).startswith("quiet: other processes keep 0.10 of ")


def test_a_busy_machine_is_refused_with_the_figure_and_the_way_around() -> None:
    with pytest.raises(quiet.Busy, match=r"keep 1\.50 of .* cores busy \(limit 0\.2\).*HEADGATE_BENCH_ANYWAY=1"):
        quiet.check(1.5, anyway=False)
    assert quiet.check(1.5, anyway=True).startswith("WARNING: not quiet")


@pytest.mark.parametrize("arguments", [["size"], ["quota", "--rounds", "1"], []])
def test_nothing_is_measured_on_a_busy_machine(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def measure(*arguments: Any) -> None:
        measured.append("measured")

    monkeypatch.setattr(program, "watch_over", lambda: None)  # it is for a process of its own
    monkeypatch.setattr(program, "BENCHES", dict.fromkeys(program.BENCHES, measure))
    monkeypatch.setattr(program, "WITH_OPTIONS", dict.fromkeys(program.WITH_OPTIONS, measure))
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    monkeypatch.setattr(quiet, "busy_cores", lambda: 1.5)
    monkeypatch.delenv(quiet.ANYWAY, raising=False)
    with pytest.raises(quiet.Busy):
        program.main()
    assert measured == []
    monkeypatch.setenv(quiet.ANYWAY, "1")
    assert program.main() == 0
    assert measured


def test_a_process_that_computes_is_seen_as_a_busy_core() -> None:
    before_s = quiet.busy_s(quiet.STAT.read_text())
    began_s = sum(os.times()[:2])
    while sum(os.times()[:2]) < began_s + 0.3:
        pass
    assert quiet.busy_s(quiet.STAT.read_text()) - before_s >= 0.2


def test_every_table_is_appended_and_compared_with_the_last_one_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    first = history.entry("queues", LINES, 0.05)
    assert history.append(first, file) is None
    assert history.append(history.entry("other", LINES, 0.05), file) is None
    new = history.entry("queues", [*LINES[:2], "| one admission | 1,500 µs | 55 ms |"], None)
    last = history.append(new, file)
    assert last == first
    assert history.changes(first, new) == ["one admission, few: 1,000 µs → 1,500 µs (1.50×)"]
    assert [each.name for each in history.read(file)] == ["queues", "other", "queues"]
    assert (first.heads, first.rows) == (["what", "few", "many"], [["one admission", "1,000 µs", "55 µs (bar ≤ 60)"]])
    assert first.busy_cores == 0.05
    assert first.commit


def test_a_table_that_is_written_is_in_the_history_with_the_busy_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, file = tmp_path / "benchmarks.md", tmp_path / "history.jsonl"
    page.write_text("# Figures\n\n<!-- measured: queues -->\n<!-- end -->\n")
    monkeypatch.setattr(report, "FILE", page)
    monkeypatch.setattr(history, "FILE", file)
    monkeypatch.setattr(report, "_busy_cores", [0.05])
    report.write("queues", LINES)
    report.write("queues", [*LINES[:2], "| one admission | 1,500 µs | 55 µs (bar ≤ 60) |"])
    assert [(each.name, each.busy_cores) for each in history.read(file)] == [("queues", 0.05)] * 2
    assert "1,500 µs" in page.read_text()
    assert "one admission, few: 1,000 µs → 1,500 µs (1.50×)" in capsys.readouterr().out


def test_a_comparison_of_servers_has_the_cpu_time_of_each_process() -> None:
    row = report.Row("a", "/s", 1, 2, 2, 1, True, True, {"kube-apiserver": 300, "etcd": 200}, {"headgate": 100})
    heads, _, cells = report.comparison_table([row])
    assert heads.endswith("| CPU each, real | CPU each, ours |")
    assert cells.endswith("| kube-apiserver 300 µs, etcd 200 µs | headgate 100 µs |")


def test_rows_with_the_same_first_cell_are_distinguished_by_the_second() -> None:
    heads = ["| case | who | pods/s |", "| --- | --- | --- |"]
    first = history.entry(
        "s", [*heads, "| 1,000 nodes | raw limit | 900/s |", "| 1,000 nodes | headgate | 300/s |"], 0.0
    )
    new = history.entry("s", [*heads, "| 1,000 nodes | raw limit | 900/s |", "| 1,000 nodes | headgate | 330/s |"], 0.0)
    assert history.changes(first, new) == ["1,000 nodes, headgate, pods/s: 300/s → 330/s (1.10×)"]


def test_rounds_are_taken_in_turns_and_the_median_ratio_counts() -> None:
    taken: list[str] = []

    def take(name: str, rates: list[float]) -> standings.Take:
        async def one() -> Round:
            taken.append(name)
            return Round(rates.pop(0), 1.0, {name: 1.0}, {name: 1.0})

        return one

    turns = {"a": take("a", [1.0, 2.0, 30.0, 4.0, 5.0]), "b": take("b", [1.0] * 5)}
    found = asyncio.run(standings.in_turns("t", standings.FEWEST_ROUNDS, turns))
    assert taken == ["a", "b"] * 5
    assert standings.ratio(found, "a", "b", lambda one: one.rate) == 4.0


def test_quota_managers_run_in_turns_and_each_figure_is_the_median_of_the_rounds() -> None:
    rates = {"embedded": [1.0, 2.0, 30.0, 4.0, 5.0], "real": [1.0] * 5}
    taken: list[str] = []

    def take(name: str, number: int) -> quota.Flood:
        taken.append(name)
        rate = rates[name][number]
        return quota.Flood(rate, 2.0, rate / 2.0, {"etcd": 10.0 * number, "headgate": rate}, {})

    found = quota.in_turns(rates, standings.FEWEST_ROUNDS, take)
    assert taken == ["embedded", "real"] * 5
    middle = quota.medians(found["embedded"])
    assert (middle.rate, middle.share, middle.cpu_us) == (4.0, 2.0, {"etcd": 20.0, "headgate": 4.0})
    runs = [quota.Run(wall_s, 1.0, {"large": wall_s}, 7, {}) for wall_s in (3.0, 1.0, 2.0)]
    assert quota.medians(runs) == quota.Run(2.0, 1.0, {"large": 2.0}, 7, {})


def test_every_benchmark_with_rounds_takes_at_least_five() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("bench.")]
    rounds = {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if name.endswith("ROUNDS")
    }
    assert {"bench.apiserver.ROUNDS", "bench.pending._ROUNDS", "bench.webhooks.ROUNDS"} <= {*rounds}
    assert standings.FEWEST_ROUNDS >= 5
    assert {name: value for name, value in rounds.items() if value < standings.FEWEST_ROUNDS} == {}
    for taken, is_whole in ((standings.FEWEST_ROUNDS - 1, False), (standings.FEWEST_ROUNDS, True)):
        options = scheduler.Options(scheduler.NODES, 1, taken, 0, scheduler.CASES, (*CONTENDERS.values(),))
        assert options.whole() == is_whole, "figures of fewer rounds are printed and not written down"
