"""Settings of an installation for all jobs, as typed on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headgate.cli.options.job_options import job_options, read_kinds
from headgate.cli.wiring.controllers import quota_settings
from headgate.jobs.kinds.framework_kinds import FRAMEWORK_KINDS
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.settings import FRAMEWORKS, MANAGED_NAMESPACES, JobSettings, managed_kinds, parse_quota_release
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


def kinds_of(*arguments: str) -> list[str]:
    found: list[JobSettings] = []

    @click.command()
    @job_options
    def command(job_settings: JobSettings) -> None:
        found.append(job_settings)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return [each.integration for each in found[0].kinds]


def test_built_in_kinds_are_turned_on_by_their_names() -> None:
    assert kinds_of() == ["batch/job"]
    assert kinds_of("--job-kinds", "ray.io/rayjob, jobset.x-k8s.io/jobset") == [
        "batch/job",
        "ray.io/rayjob",
        "jobset.x-k8s.io/jobset",
    ]
    assert kinds_of("--job-frameworks", "kubeflow.org/mpijob") == ["kubeflow.org/mpijob"]


def test_a_file_takes_precedence_over_a_built_in_kind(tmp_path: Path) -> None:
    file = tmp_path / "kinds.yaml"
    row = {"suspend": "spec.off", "podSets": [{"name": "a", "template": "spec.a"}], "active": "a", "neverEnds": True}
    file.write_text(json.dumps({"kinds": [{"apiVersion": "ray.io/v1", "kind": "RayJob", "plural": "rayjobs", **row}]}))
    kinds = managed_kinds((*FRAMEWORKS,), described := read_file(file))
    assert len(kinds) == len(FRAMEWORK_KINDS) + 1
    assert kinds[-1] is described[0]
    assert kinds_of("--job-kinds", str(file), "--job-frameworks", "ray.io/rayjob") == ["ray.io/rayjob"]


def read_file(file: Path) -> tuple[JobKind, ...]:
    found = read_kinds(file.read_bytes())
    assert isinstance(found, tuple), found
    return found


def test_an_unknown_name_is_taken_for_a_file_that_does_not_exist() -> None:
    @click.command()
    @job_options
    def command(job_settings: JobSettings) -> None:
        raise AssertionError

    result = CliRunner().invoke(command, ("--job-kinds", "ray.io/job"))
    assert result.exit_code == 2
    assert "'ray.io/job' does not exist" in result.output
