"""``headgate config check`` and the plugins of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from click.testing import CliRunner

from headgate.cli.main import main
from headgate.cli.plugins import find_plugins

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_a_right_file_is_answered_with_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEADER)
    run = CliRunner().invoke(main, ["config", "check", str(file)])
    assert run.exit_code == 0
    assert "profile default-scheduler" in run.output
    assert "queueSort   PrioritySort\n" in run.output


def test_a_wrong_file_is_answered_with_paths_and_exit_code_one() -> None:
    run = CliRunner().invoke(main, ["config", "check", "-"], input=HEADER + "parallelism: 0\nparallelism: x\nmore: 1\n")
    assert run.exit_code == 1
    for path in (
        'line 4: Forbidden: key "parallelism" already set in map',
        "parallelism: Invalid value",
        "more: Forbidden",
    ):
        assert f"-: {path}" in run.output


def test_a_file_that_is_not_there_or_not_yaml_is_told_in_one_line(tmp_path: Path) -> None:
    absent = CliRunner().invoke(main, ["config", "check", str(tmp_path / "absent")])
    assert (absent.exit_code, absent.output.count("\n")) == (1, 1)
    garbled = CliRunner().invoke(main, ["config", "check", "-"], input="a: [")
    assert (garbled.exit_code, garbled.output.count("\n")) == (1, 1)


def test_one_broken_package_does_not_keep_the_others_away() -> None:
    found = find_plugins(
        [
            EntryPoint("Absent", "no.such.module:Plugin", "headgate.plugins"),
            EntryPoint("Json", "json:JSONDecodeError", "headgate.plugins"),
            EntryPoint("NodeName", "email.message:Message", "headgate.plugins"),
            EntryPoint("Filters", "logging:Filterer", "headgate.plugins"),
        ]
    )
    assert found.registry["Filters"].points == {"filter"}
    assert "Filters" in found.builders
    absent, json, _ = found.problems
    assert "cannot be loaded" in absent
    assert "serves no extension point" in json
