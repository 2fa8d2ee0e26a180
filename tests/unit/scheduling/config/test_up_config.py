"""``headgate up --config``: the profiles of a file beside those that run by default."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.embedded.cluster_options import StartupError
from headgate.cli.embedded.components import scheduler_configuration
from headgate.cli.main import main
from headgate.cli.wiring.plugins import find_plugins

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NOTHING = find_plugins([])


def names(file: Path | None) -> list[str]:
    return [profile.name for profile in scheduler_configuration(file, NOTHING).profiles]


def test_profiles_of_the_file_are_added_to_the_defaults_or_replace_them(tmp_path: Path) -> None:
    assert names(None) == ["headgate", "volcano", "default-scheduler"]
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEADER + "profiles: [{schedulerName: mine}]\n")
    assert names(file) == ["mine", "headgate", "volcano", "default-scheduler"]
    file.write_text(HEADER + "profiles: [{schedulerName: default-scheduler}]\n")
    assert names(file) == ["default-scheduler", "headgate", "volcano"]


def test_an_invalid_or_missing_file_is_reported_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEADER + "profiles: [{schedulerName: mine, plugins: {bind: {enabled: [{name: Nope}]}}}]\n")
    with pytest.raises(StartupError, match=r'scheduler\.yaml: .*Not found: "Nope"'):
        names(file)
    with pytest.raises(StartupError, match=r"absent\.yaml: No such file"):
        names(tmp_path / "absent.yaml")


def test_a_file_without_a_scheduler_component_is_rejected() -> None:
    run = CliRunner().invoke(main, ["up", "--config", "x.yaml", "--components", "apiserver"])
    assert run.exit_code == 2
    assert "--config needs scheduler among the --components" in run.output
