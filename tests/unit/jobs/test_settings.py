"""Settings of an installation for all jobs, as typed on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from headgate.cli.options.job_options import job_options
from headgate.cli.wiring.controllers import quota_settings
from headgate.jobs.settings import MANAGED_NAMESPACES, JobSettings, parse_quota_release
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.labels import parse_selector


def test_quota_release_is_set_by_integration() -> None:
    assert parse_quota_release("batch/job=OnTerminal, pod=OnTerminating") == {
        "batch/job": "OnTerminal",
        "pod": "OnTerminating",
    }
    assert parse_quota_release("") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobset=OnTerminal", "names no integration with this setting: write one of batch/job, pod before the ="),
        ("pod=Never", "does not say when quota is free: write pod=OnTerminating or pod=OnTerminal"),
        ("pod", "does not say when quota is free: write pod=OnTerminating or pod=OnTerminal"),
        ("pod=OnTerminal,pod=OnTerminating", "pod is given both OnTerminating and OnTerminal"),
    ],
)
def test_invalid_settings_are_rejected_with_the_valid_ones(text: str, says: str) -> None:
    problem = parse_quota_release(text)
    assert isinstance(problem, str)
    assert problem.endswith(says)


def test_system_namespaces_are_not_managed_and_the_default_selector_is_as_documented() -> None:
    assert parse_selector(str(MANAGED_NAMESPACES)) == MANAGED_NAMESPACES
    assert not MANAGED_NAMESPACES.matches({"kubernetes.io/metadata.name": "kube-system"})
    assert MANAGED_NAMESPACES.matches({"kubernetes.io/metadata.name": "default"})


@pytest.mark.parametrize(
    ("typed", "expected_s"), [((), 600.0), (("--max-wait-for-terminating-pods", "90s"), 90.0)], ids=["default", "typed"]
)
def test_the_maximum_wait_for_terminating_pods_is_a_duration(typed: tuple[str, ...], expected_s: float) -> None:
    found: list[JobSettings] = []

    @click.command()
    @job_options
    def command(job_settings: JobSettings) -> None:
        found.append(job_settings)

    assert CliRunner().invoke(command, typed).exit_code == 0
    assert [quota_settings(FeatureGates(), each).max_wait_s for each in found] == [expected_s]
    assert CliRunner().invoke(command, ("--max-wait-for-terminating-pods", "never")).exit_code == 2


def test_a_forced_deletion_on_ready_nodes_is_off_by_default_and_takes_a_minute_at_least() -> None:
    found: list[JobSettings] = []

    @click.command()
    @job_options
    def command(job_settings: JobSettings) -> None:
        found.append(job_settings)

    flag = "--force-delete-terminating-pods-after"
    for typed in ((), (flag, "10m", "--report-terminating-pods-after", "30s")):
        assert CliRunner().invoke(command, typed).exit_code == 0
    assert [(each.force_delete_after_s, each.report_terminating_after_s) for each in found] == [
        (None, 300.0),
        (600.0, 30.0),
    ]
    answer = CliRunner().invoke(command, (flag, "59s"))
    assert answer.exit_code == 2
    assert "write at least 60s" in answer.output
