"""The tiers of the test suite: what is drawn, what is required, which files start first, and how long they may take."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from harness.tiers import FULL, FULL_FACTOR, LANDING, expected_seconds, recorded
from harness.timing import PACKAGE_CPU_S, packages_above

ROOT = Path(__file__).parents[3]
THIN = 50


def thin_properties(text: str) -> Iterator[tuple[int, str]]:
    """The lines with settings of fewer than 50 examples."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "max_examples" and isinstance(node.value, ast.Constant):
            count = node.value.value
            if isinstance(count, int) and count < THIN:
                yield node.value.lineno, lines[node.value.lineno - 1]


def test_a_property_with_fewer_than_fifty_examples_says_why_on_its_line() -> None:
    silent = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if "max_examples" in (text := file.read_text())
        for number, line in thin_properties(text)
        if not re.search(r"#\s*\w+ \w+", line)
    ]
    assert silent == [], "say on these lines why fewer than 50 examples are enough"


def test_the_line_of_a_thin_property_is_found() -> None:
    assert list(thin_properties("@settings(\n    max_examples=49,\n)\ndef test(): ...")) == [
        (2, "    max_examples=49,")
    ]
    assert list(thin_properties("x = settings(max_examples=50)")) == []


def test_examples_of_the_landing_tier_are_the_same_in_every_run_and_failures_can_be_replayed() -> None:
    landing, full = settings.get_profile(LANDING), settings.get_profile(FULL)
    assert landing.derandomize
    assert landing.print_blob
    assert full.print_blob
    assert not full.derandomize


INNER = """
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from pathlib import Path
HERE = Path(__file__).parent
@settings(max_examples=20)
@given(st.integers())
def test_numbers(number):
    with (HERE / "numbers").open("a") as file:
        file.write(f"{number}\\n")
class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        with (HERE / "machines").open("a") as file:
            file.write("1\\n")
    @rule()
    def step(self): ...
TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=10, stateful_step_count=2)
"""


def run_inner(folder: Path, *flags: str) -> tuple[list[str], int]:
    folder.mkdir()
    (folder / "test_inner.py").write_text(INNER)
    (folder / "conftest.py").write_text('pytest_plugins = ["harness.tiers"]\n')
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_ADDOPTS": ""}
    subprocess.run([*command, str(folder)], env=environment, cwd=folder, check=True, capture_output=True)
    return (folder / "numbers").read_text().split(), len((folder / "machines").read_text().split())


def test_the_full_tier_draws_more_and_the_landing_tier_always_the_same(tmp_path: Path) -> None:
    first, machines = run_inner(tmp_path / "first")
    again, _ = run_inner(tmp_path / "again")
    more, more_machines = run_inner(tmp_path / "full", "--tier=full")
    assert first == again
    assert len(first) == 20
    assert len(more) == 20 * FULL_FACTOR
    assert more_machines > 3 * machines


def test_files_that_took_long_start_first_and_new_ones_count_as_their_folder() -> None:
    known = {"tests/real/test_a.py": 30.0, "tests/real/test_b.py": 10.0, "tests/unit/x/test_c.py": 2.0}
    files = {"tests/real/test_a.py", "tests/real/test_new.py", "tests/unit/y/test_new.py", "elsewhere/test_d.py"}
    assert expected_seconds(known, files) == {
        "tests/real/test_a.py": 30.0,
        "tests/real/test_new.py": 20.0,
        "tests/unit/y/test_new.py": 2.0,
        "elsewhere/test_d.py": 1.0,
    }


def test_the_unit_tests_of_a_package_take_at_most_twenty_seconds_of_cpu() -> None:
    assert packages_above(PACKAGE_CPU_S, recorded("cpu_s")) == {}


def test_the_seconds_of_a_package_are_those_of_all_files_below_its_folder() -> None:
    cpu_s = {"tests/unit/a/test_x.py": 1.0, "tests/unit/a/test_y.py": 2.5, "tests/unit/a/b/test_z.py": 3.0}
    assert packages_above(3.0, {**cpu_s, "tests/real/test_x.py": 9.0, "test_y.py": 9.0}) == {"a": 6.5}


@pytest.mark.parametrize(
    ("variable", "suite"),
    [
        ("HEADGATE_REQUIRE_KUBE", "test_placements.py"),
        ("HEADGATE_REQUIRE_KUEUE", "test_kueue_parity.py"),
        ("HEADGATE_REQUIRE_KARPENTER", "test_karpenter_model.py"),
    ],
)
def test_a_required_binary_that_is_absent_fails_and_is_named(variable: str, suite: str, tmp_path: Path) -> None:
    """Programs that satisfy the other suites are there; the one in question is not."""
    programs = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
    for name in () if variable == "HEADGATE_REQUIRE_KUBE" else programs:
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", f"tests/real/{suite}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_REQUIRE")}
    environment |= {"HEADGATE_KUBE_BIN": str(tmp_path), "PYTEST_ADDOPTS": ""}
    required = subprocess.run(command, env={**environment, variable: "1"}, cwd=ROOT, capture_output=True, text=True)
    assert required.returncode == 1, required.stdout
    assert f"({variable}=1)" in required.stdout
    assert variable in (ROOT / ".ci" / "run").read_text()


def test_the_landing_run_builds_every_program_that_it_requires() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^make kube karpenter kueue$", text, re.M)
