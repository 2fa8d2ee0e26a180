"""docs/production-readiness.md: the tests that it names exist, and its figures of speed are those of the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "production-readiness.md").read_text()


def test_the_tests_that_the_page_names_exist() -> None:
    files = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(files) + len(tests) == PAGE.count("`tests/")
    assert len(tests) > 20
    assert [path for path in files if not (ROOT / path).exists()] == []
    assert [f"{path}::{name}" for path, name in tests if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_every_failure_mode_has_a_test() -> None:
    _, _, modes = PAGE.partition("| failure | effect |")
    rows = [line for line in modes.splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 10
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []


def test_the_figures_of_speed_and_memory_are_those_of_the_benchmarks() -> None:
    _, _, tables = PAGE.partition("**Time and resources**")
    rows = [
        line.strip("| ").split(" | ") for line in tables.partition("**Supported")[0].splitlines() if line[:1] == "|"
    ]
    figures = [each for cells in rows for cell in cells[1:] for each in re.findall(r"\d[\d.,]*\d ?[µ/a-z]+", cell)]
    figures = [each for each in figures if not each.endswith("waiting")]
    assert len(figures) == 9 + 14
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text()
    assert [figure for figure in figures if figure not in benchmarks] == []


def test_every_feature_gate_of_the_features_is_named() -> None:
    from headgate.kube.feature_gates import GATES

    other = {"MutablePodResourcesForSuspendedJobs", "MutableSchedulingDirectivesForSuspendedJobs"}
    assert [gate.name for gate in GATES if gate.name not in other and f"`{gate.name}`" not in PAGE] == []
