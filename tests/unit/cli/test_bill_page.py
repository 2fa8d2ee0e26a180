"""docs/the-bill.md: its commands print what the page shows, and its recording is what its script makes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness.page_sessions import page_steps
from headgate.cli.main import main
from recorded_example import FILE, encode, recorded_morning

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "the-bill.md"


def test_the_commands_of_the_page_print_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(REPOSITORY)
    steps = page_steps(PAGE.read_text())
    assert [step.command.split()[1] for step in steps] == ["audit", "simulate"]
    for step in steps:
        words = step.command.replace("report.html", str(tmp_path / "report.html")).split()
        result = CliRunner().invoke(main, words[1:])
        assert result.exit_code == 0, result.output
        assert result.output.splitlines() == step.shown
    assert "machines bought and never used" in (tmp_path / "report.html").read_text()


def test_the_variants_of_the_page_are_those_of_the_example() -> None:
    shown = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    example = (REPOSITORY / "examples" / "bill" / "gates.yaml").read_text()
    assert yaml.safe_load(shown) == yaml.safe_load(example)


def test_the_pictures_of_the_page_exist_and_are_small() -> None:
    names = [each.partition(")")[0] for each in PAGE.read_text().split("](images/")[1:]]
    assert names
    for name in names:
        assert 1_000 < (REPOSITORY / "docs" / "images" / name).stat().st_size < 200_000


def test_the_recording_of_the_page_is_what_its_script_makes() -> None:
    made = encode(recorded_morning())
    assert abs(len(made) - FILE.stat().st_size) < 200  # uids are random


def test_a_recording_replaces_snapshot_and_trace_and_can_be_written_as_one(tmp_path: Path) -> None:
    both = CliRunner().invoke(main, ["simulate", "--recording", str(FILE), "--generate", "helios"])
    assert both.exit_code == 1
    assert "--recording has the cluster and the jobs" in both.output
    trace = tmp_path / "jobs.jsonl"
    assert CliRunner().invoke(main, ["simulate", "--recording", str(FILE), "--write-trace", str(trace)]).exit_code == 0
    assert len(trace.read_text().splitlines()) == 6
    damaged = tmp_path / "damaged.hgr"
    damaged.write_bytes(FILE.read_bytes()[:-3])
    result = CliRunner().invoke(main, ["simulate", "--recording", str(damaged)])
    assert (result.exit_code, "the recording has no changes" in result.output) == (1, True)
