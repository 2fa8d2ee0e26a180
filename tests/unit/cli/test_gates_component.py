"""The component gates: which combinations of components and names are refused, and why."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from click.testing import CliRunner

from headgate.capacity.names import QUEUES
from headgate.cli.commands import run
from headgate.cli.wiring.gates import (
    conflict_with_profiles,
    effective_gated_scheduler_names,
    gate_controller_factory,
)
from headgate.cli.wiring.plugins import InstalledPlugins, find_plugins
from headgate.cli.wiring.scheduler import default_configuration, installed_plugins
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.scheduling.config.types import KubeSchedulerConfiguration


def refuse(problem: str) -> None:
    raise AssertionError(problem)


@pytest.fixture(scope="module")
def plugins() -> InstalledPlugins:
    return installed_plugins(refuse)


def configured(plugins: InstalledPlugins, *names: str) -> KubeSchedulerConfiguration:
    return default_configuration(names, plugins)


def test_kube_scheduler_is_the_default() -> None:
    assert effective_gated_scheduler_names({"gates", "webhooks"}, ()) == ("default-scheduler",)
    assert effective_gated_scheduler_names({"gates"}, ("batch", "volcano", "batch")) == ("batch", "volcano")


def test_webhooks_in_their_own_process_gate_the_pods_of_the_names_that_are_given() -> None:
    assert effective_gated_scheduler_names({"webhooks"}, ("default-scheduler",)) == ("default-scheduler",)
    assert effective_gated_scheduler_names({"webhooks"}, ()) == ()


def test_names_without_a_component_that_uses_them_are_refused() -> None:
    with pytest.raises(click.UsageError, match="--gated-scheduler-name is for the components gates and webhooks"):
        effective_gated_scheduler_names({"scheduler"}, ("batch",))
    with pytest.raises(click.BadParameter, match="may not be empty"):
        effective_gated_scheduler_names({"gates"}, ("",))


def test_a_name_that_the_scheduler_of_the_same_process_serves_is_refused(plugins: InstalledPlugins) -> None:
    problem = conflict_with_profiles({"scheduler", "gates"}, ("batch",), configured(plugins, "batch"))
    assert problem.startswith("pods with schedulerName batch would be bound by the component scheduler")


def test_a_scheduler_with_queues_in_the_same_process_is_refused(plugins: InstalledPlugins) -> None:
    problem = conflict_with_profiles({"scheduler", "gates"}, ("default-scheduler",), configured(plugins, "headgate"))
    assert "reserves capacity of queues for pods of headgate" in problem


def test_a_scheduler_without_queues_in_the_same_process_is_allowed(plugins: InstalledPlugins) -> None:
    assert conflict_with_profiles({"scheduler", "gates"}, ("default-scheduler",), configured(plugins, "batch")) == ""
    assert conflict_with_profiles({"gates", "webhooks"}, ("headgate",), configured(plugins, "headgate")) == ""


def test_the_command_says_which_components_conflict() -> None:
    done = CliRunner().invoke(run.command, ["--components", "scheduler,gates"])
    assert done.exit_code == 2
    assert "the component gates would reserve the same capacity again" in done.output


def test_the_command_says_that_leases_have_no_effect_on_pods_of_other_schedulers(tmp_path: Path) -> None:
    words = ["--components", "gates", "--feature-gates", "ReservationLease=true"]
    done = CliRunner().invoke(run.command, [*words, "--kubeconfig", str(tmp_path / "none")])
    assert "remark: ReservationLease has no effect on pods of the component gates" in done.output
    assert done.exit_code == 1


CONF = b"actions: allocate\ntiers:\n- plugins:\n  - name: Open\n    arguments: {hour: 9}\n  - name: proportion\n"


class Open:
    name = "Open"
    made: ClassVar[list[Open]] = []

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.hour = args["hour"]
        self.made.append(self)

    def admit_unit(self, unit: Any, now_s: float) -> None: ...


def test_the_queue_plugins_of_a_conf_are_made_for_each_gate_controller() -> None:
    plugins = find_plugins([EntryPoint("Open", f"{__name__}:Open", "headgate.plugins")])
    configuration = read_configuration(CONF, plugins.registry, ("headgate",))
    assert isinstance(configuration, KubeSchedulerConfiguration)
    make = gate_controller_factory(("default-scheduler",), FeatureGates(), JobSettings(), configuration, plugins)
    Open.made.clear()
    first, second = make(refuse), make(refuse)
    assert [each.hour for each in Open.made] == [9, 9]
    assert first.scheduler_names == second.scheduler_names == {"default-scheduler"}


def test_without_a_conf_the_gate_controller_has_no_plugins(plugins: InstalledPlugins) -> None:
    configuration = default_configuration(("headgate",), plugins)
    make = gate_controller_factory(("default-scheduler",), FeatureGates(), JobSettings(), configuration, plugins)
    assert make(refuse).event_handlers.watchers(QUEUES) == []
