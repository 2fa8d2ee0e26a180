"""``--gated-pod-events``: the limit reaches the scheduler of ``headgate run`` and of ``headgate up``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clusters import a_pod
from headgate.cli.main import main
from headgate.cli.wiring import scheduler as wiring
from headgate.cli.wiring.plugins import find_plugins
from headgate.kube.feature_gates import FeatureGates
from headgate.scheduling.framework.effects import EmitPodEvent

GATES = [{"name": "example.com/a"}]
STOP = "this test ends before the scheduler runs"


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_scheduler_emits_as_many_events_about_gated_pods_as_the_limit_allows(limit: int) -> None:
    plugins = find_plugins([])
    configuration = wiring.default_configuration(("default-scheduler",), plugins)
    make = wiring.scheduler_factory(configuration, plugins, FeatureGates(), gated_events_per_hour=limit)
    assert not isinstance(make, str)
    scheduler = make(lambda problem: None)
    for number in range(4):
        scheduler.pod_applied(a_pod(f"p{number}", schedulingGates=GATES), 0.0)
    effects = [each for second in range(10, 20) for each in scheduler.step(float(second), 10)]
    assert sum(isinstance(each, EmitPodEvent) for each in effects) == limit


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (("run", "--scheduler-name", "headgate"), "headgate.cli.commands.run"),
        (("up", "--listen", "127.0.0.1:0"), "headgate.cli.embedded.components"),
    ],
    ids=["run", "up"],
)
@pytest.mark.parametrize(("flags", "limit"), [((), 1000), (("--gated-pod-events", "7"), 7)], ids=["default", "flag"])
def test_the_command_passes_the_limit_to_its_scheduler(
    command: tuple[str, ...],
    module: str,
    flags: tuple[str, ...],
    limit: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[int] = []

    def factory(*args: Any, gated_events_per_hour: int = -1, **others: Any) -> Callable[..., Any] | str:
        limits.append(gated_events_per_hour)
        return STOP

    monkeypatch.setattr(f"{module}.scheduler_factory", factory)
    data = ("--data", str(tmp_path / "data"), "--kubeconfig", str(tmp_path / "config")) if command[0] == "up" else ()
    done = CliRunner().invoke(main, [*command, *data, *flags])
    assert STOP in done.output, done.output
    assert limits == [limit]
