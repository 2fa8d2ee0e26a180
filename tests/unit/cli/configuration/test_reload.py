"""The configuration file is read again: log settings change at once, other fields are named as needing a restart."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headgate.cli.configuration.config_options import OwnFile
from headgate.cli.configuration.reload import ConfigReloader
from headgate.cli.configuration.types import Configuration, SchedulerSection
from headgate.cli.wiring.plugins import find_plugins

HEADER = "apiVersion: headgate.dev/v1alpha1\nkind: Configuration\n"


class Reloading:
    """A file that is changed, and what its reloader applied and logged."""

    def __init__(
        self, folder: Path, caplog: pytest.LogCaptureFixture, own: Configuration | None = None, text: str = ""
    ) -> None:
        self.file = folder / "headgate.yaml"
        self.file.write_text(HEADER + text)
        self._caplog = caplog
        caplog.set_level(logging.DEBUG)
        self.applied: list[Configuration] = []
        self._reloader = ConfigReloader(OwnFile(self.file, own or Configuration()), find_plugins(), self.applied.append)

    def change(self, text: str) -> list[str]:
        """The log lines after this change."""
        self.file.write_text(HEADER + text)
        return self.check()

    def check(self) -> list[str]:
        self._caplog.clear()
        self._reloader.check()
        return [f"{each.levelname}: {each.getMessage()}" for each in self._caplog.records]


@pytest.fixture
def reloading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Reloading:
    return Reloading(tmp_path, caplog)


def test_an_unchanged_file_changes_nothing(reloading: Reloading) -> None:
    assert (reloading.check(), reloading.applied) == ([], [])


def test_log_settings_are_applied(reloading: Reloading) -> None:
    assert reloading.change("logging: {level: debug, format: json}\n") == []
    (applied,) = reloading.applied
    assert (applied.logging.level, applied.logging.format) == ("debug", "json")


def test_a_field_that_needs_a_restart_is_named_once(reloading: Reloading) -> None:
    expected = f"WARNING: {reloading.file}: a restart is needed for changes of takeover, queues.gateAllPods"
    assert reloading.change("takeover: true\nqueues: {gateAllPods: true}\n") == [expected]
    assert (reloading.check(), reloading.applied) == ([], [])


def test_a_field_that_is_set_back_needs_no_restart(reloading: Reloading) -> None:
    reloading.change("takeover: true\n")
    assert reloading.change("") == []


def test_an_invalid_file_is_reported_and_changes_nothing(reloading: Reloading) -> None:
    (line,) = reloading.change("logging: {level: loud}\ntakeovr: true\n")
    assert line.startswith("ERROR: the changed configuration is not used, the former one stays: ")
    assert f"{reloading.file}:3: logging.level: Unsupported value" in line
    assert f"{reloading.file}:4: takeovr: Forbidden" in line
    assert reloading.applied == []
    reloading.change("logging: {level: info}\n")
    assert [each.logging.level for each in reloading.applied] == ["info"]


def test_a_text_that_is_no_yaml_is_one_problem(reloading: Reloading) -> None:
    (line,) = reloading.change("a: [")
    assert line.count(str(reloading.file)) == 1
    assert "this is neither YAML nor JSON" in line


def test_a_file_that_disappears_is_reported(reloading: Reloading) -> None:
    reloading.file.unlink()
    (line,) = reloading.check()
    assert "No such file or directory" in line
    assert reloading.check() == []


def test_a_changed_file_that_the_configuration_names_needs_a_restart(reloading: Reloading) -> None:
    other = reloading.file.parent / "volcano-scheduler.conf"
    other.write_text('actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]\n')
    (line,) = reloading.change("scheduler: {configurationFile: volcano-scheduler.conf}\n")
    assert line.endswith("a restart is needed for changes of scheduler.configurationFile")
    other.write_text('actions: "allocate"\ntiers: [{plugins: [{name: nodeorder}]}]\n')
    (line,) = reloading.check()
    assert line.endswith(f"a restart is needed for changes of scheduler.configurationFile, {other}")


def test_a_file_that_was_named_from_the_start_is_compared_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text('actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]\n')
    own = Configuration(scheduler=SchedulerSection(configuration_file=conf.name))
    reloading = Reloading(tmp_path, caplog, own, f"scheduler: {{configurationFile: {conf.name}}}\n")
    assert reloading.check() == []
    conf.write_text('actions: "allocate"\ntiers: [{plugins: [{name: nodeorder}]}]\n')
    assert reloading.check() == [f"WARNING: {reloading.file}: a restart is needed for changes of {conf}"]
