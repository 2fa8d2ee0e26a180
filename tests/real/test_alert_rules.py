"""The alerts, by Debian's promtool: they are rules, each fires when it should and after its time, and not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.prometheus import promtool
from headgate.install.alert_rules import ALERTS
from real.alert_cases import CASES, AlertCase, promtool_input
from real.observed_cluster import RULES


def test_promtool_finds_no_fault_in_the_rules(prometheus_programs: Path) -> None:
    done = promtool(prometheus_programs, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert (done.exit, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_an_alert_fires_when_it_should_and_only_then(
    case: AlertCase, prometheus_programs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(promtool_input(case, RULES))
    done = promtool(prometheus_programs, "test", "rules", str(file))
    assert done.exit == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", [each.name for each in ALERTS])
def test_an_alert_has_cases_in_which_it_waits_fires_and_does_not_fire(alert: str) -> None:
    fires = [case.fires for case in CASES if case.alert == alert]
    assert any(None in each.values() and any(labels is not None for labels in each.values()) for each in fires)
    assert any(set(each.values()) == {None} for each in map(_hashable, fires))


def _hashable(fires: dict[int, dict[str, str] | None]) -> dict[int, tuple[str, ...] | None]:
    return {minute: None if labels is None else tuple(labels) for minute, labels in fires.items()}
