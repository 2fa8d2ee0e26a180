"""``headgate config check`` and external plugins."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.cli.wiring.plugins import find_plugins
from headgate.cli.wiring.scheduler import configuration_of, scheduler_factory
from headgate.kube.feature_gates import FeatureGates

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_a_valid_file_prints_the_profiles(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEADER)
    run = CliRunner().invoke(main, ["config", "check", str(file)])
    assert run.exit_code == 0
    assert "profile default-scheduler" in run.output
    assert "queueSort   PrioritySort\n" in run.output


def test_an_invalid_file_prints_paths_and_exits_with_one() -> None:
    run = CliRunner().invoke(main, ["config", "check", "-"], input=HEADER + "parallelism: 0\nparallelism: x\nmore: 1\n")
    assert run.exit_code == 1
    for line in (
        '-:4: Forbidden: key "parallelism" already set in map',
        "-: parallelism: Invalid value",
        "-: more: Forbidden",
    ):
        assert line in run.output


def test_a_missing_or_malformed_file_prints_one_line(tmp_path: Path) -> None:
    absent = CliRunner().invoke(main, ["config", "check", str(tmp_path / "absent")])
    assert (absent.exit_code, absent.output.count("\n")) == (1, 1)
    garbled = CliRunner().invoke(main, ["config", "check", "-"], input="a: [")
    assert (garbled.exit_code, garbled.output.count("\n")) == (1, 1)


def test_one_broken_package_does_not_affect_others() -> None:
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


EXTERNAL_PLUGINS = """
class Async:
    name = "Async"

    def __init__(self, args):
        pass

    async def pre_enqueue(self, pod):
        return None


class Short:
    name = "Short"

    def __init__(self, args):
        pass

    def permit(self, pod):
        return None


class Right:
    name = "Right"

    def __init__(self, args):
        pass

    def pre_enqueue(self, pod):
        return None
"""


@pytest.fixture
def external_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of plugins at the beginning of sys.path."""
    (tmp_path / "headgate_strangers.py").write_text(EXTERNAL_PLUGINS)
    folder = tmp_path / "headgate_strangers-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: headgate-strangers\nVersion: 1\n")
    lines = (f"{each} = headgate_strangers:{each}" for each in ("Async", "Short", "Right"))
    (folder / "entry_points.txt").write_text("\n".join(("[headgate.plugins]", *lines)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "headgate_strangers", raising=False)


def enabling(*names: str) -> str:
    listed = ", ".join(f"{{name: {each}}}" for each in names)
    return f"{HEADER}profiles: [{{plugins: {{multiPoint: {{enabled: [{listed}]}}}}}}]\n"


@pytest.mark.usefixtures("external_plugins")
def test_plugins_with_async_methods_or_other_parameters_are_rejected() -> None:
    run = CliRunner().invoke(main, ["config", "check", "-"], input=enabling("Async", "Short", "Right"))
    assert run.exit_code == 1
    assert 'profiles[0].plugins[Async]: Invalid value: "headgate-strangers": pre_enqueue is async' in run.output
    assert "profiles[0].plugins[Short]" in run.output
    assert "permit(pod) cannot be called as permit(pod, node_name)" in run.output
    assert "Right" not in run.output


@pytest.mark.usefixtures("external_plugins")
def test_installed_plugins_that_are_not_enabled_are_not_rejected() -> None:
    run = CliRunner().invoke(main, ["config", "check", "-"], input=enabling("Right"))
    assert run.exit_code == 0


@pytest.mark.usefixtures("external_plugins")
def test_a_scheduler_does_not_start_with_a_plugin_that_the_check_refuses(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(enabling("Async"))
    found = find_plugins()
    configuration = configuration_of(file, found, ())
    assert not isinstance(configuration, str)
    factory = scheduler_factory(configuration, found, FeatureGates())
    assert isinstance(factory, str)
    assert "plugin Async: pre_enqueue is async" in factory
