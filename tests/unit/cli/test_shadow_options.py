"""The options of shadow mode: which combinations are refused, and what is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.commands import run
from headgate.cli.configuration.install_values import REFUSED_ARGUMENTS
from headgate.cli.wiring.shadow import shadow_problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--shadow", "--dry-run"], "--shadow and --dry-run exclude each other"),
        (["--shadow", "--components", "jobs,webhooks"], "--shadow compares the decisions of scheduler, gates, quota"),
        (["--for", "10m"], "--for is for --shadow"),
        (["--shadow", "--for", "soon"], "--for soon: write a time such as 7d, 12h, 30m or 1d12h"),
        (["--shadow", "--shadow-patience", "0s"], "'0s' is not a duration: write one such as 30s or 2m"),
        (["--shadow", "--shadow-patience", "never"], "'never' is not a duration"),
    ],
)
def test_options_that_exclude_each_other_or_cannot_be_read_are_refused(words: list[str], problem: str) -> None:
    done = CliRunner().invoke(run.command, words)
    assert done.exit_code == 2
    assert problem in " ".join(done.output.split())


def test_an_option_of_a_later_takeover_is_no_obstacle(tmp_path: Path) -> None:
    """The file of the takeover is used as it is; here only the cluster is missing."""
    words = ["--shadow", "--takeover", "--components", "quota,jobs", "--kubeconfig", str(tmp_path / "none")]
    done = CliRunner().invoke(run.command, words)
    assert done.exit_code == 1
    assert "none" in done.output


def test_one_component_with_decisions_is_enough() -> None:
    assert shadow_problem({"quota", "jobs", "webhooks"}, dry_run=False) == ""
    assert shadow_problem({"controllers"}, dry_run=False)


def test_an_installation_cannot_be_told_to_be_a_shadow() -> None:
    assert {"--shadow", "--shadow-patience", "--for"} <= REFUSED_ARGUMENTS.keys()
