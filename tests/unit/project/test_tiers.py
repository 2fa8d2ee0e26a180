"""The tiers of the test suite: what is drawn, what is required, which files start first, and how long they may take."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from harness.tiers import (
    DRAWS,
    FULL,
    FULL_FACTOR,
    LANDING,
    LANDING_LEAST,
    ONLY,
    WITHOUT,
    examples_of,
    expected_seconds,
    is_longer_variant,
    recorded,
)
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


@pytest.mark.parametrize(
    ("written", "landing", "full"), [(400, 200, 2000), (60, 50, 300), (50, 50, 250), (20, 20, 100)]
)
def test_the_landing_tier_draws_half_of_the_examples_and_no_property_becomes_thin(
    written: int, landing: int, full: int
) -> None:
    assert examples_of(written, is_full=False) == landing
    assert examples_of(written, is_full=True) == full


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


@pytest.mark.parametrize("length", ["short", pytest.param("long", marks=pytest.mark.full)])
def test_longer_variants_run_in_the_full_tier_only(length: str, request: pytest.FixtureRequest) -> None:
    assert is_longer_variant(request.node) == (length == "long")
    tier = request.config.getoption("tier")
    assert length == "short" or tier == FULL, "it must not run in this tier"


def test_the_page_lists_every_suite_with_what_it_draws_in_each_tier() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text().partition("### Tiers")[2]
    rows = [[cell.strip(" `…") for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    named = {row[0].partition("`")[0]: row[1:] for row in rows}
    suites = {f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in (ROOT / "tests").rglob("test_*.py")}
    assert suites - {*named} == set(), "say in which tier they are, and with how many random inputs"
    numbers = {
        name: [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", " ".join(named[name]))] for name in named
    }
    tiers = (LANDING, FULL)
    assert numbers["test_placements.py"] == [DRAWS["placements"][tier] for tier in tiers]
    assert numbers["test_patch_differential.py"] == [DRAWS["patch_pairs"][tier] for tier in tiers]
    assert numbers["manifests with generated errors"] == [DRAWS["spoiled_step"][tier] for tier in tiers]
    assert numbers["tests/property"] == [LANDING_LEAST, FULL_FACTOR]


def run_files(folder: Path, files: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    """Tests of these files, in a run of their own."""
    for name, text in {**files, "conftest.py": 'pytest_plugins = ["harness.tiers"]\n'}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_ADDOPTS": ""}
    return subprocess.run([*command, str(folder)], env=environment, cwd=folder, capture_output=True, text=True)


def run_inner(folder: Path, *flags: str) -> tuple[list[str], int]:
    done = run_files(folder, {"test_inner.py": INNER}, *flags)
    assert done.returncode == 0, done.stdout
    return (folder / "numbers").read_text().split(), len((folder / "machines").read_text().split())


def test_the_full_tier_draws_more_and_the_landing_tier_always_the_same(tmp_path: Path) -> None:
    first, machines = run_inner(tmp_path / "first")
    again, _ = run_inner(tmp_path / "again")
    more, more_machines = run_inner(tmp_path / "full", "--tier=full")
    assert first == again
    assert len(first) == 20
    assert len(more) == 20 * FULL_FACTOR
    assert more_machines > 3 * machines


FAILING = """
from hypothesis import given, strategies as st
@given(st.integers())
def test_numbers(number):
    assert number < 1000
"""


@pytest.mark.parametrize("tier", [LANDING, FULL])
def test_a_failed_property_prints_its_example_and_the_command_that_runs_it_again(tier: str, tmp_path: Path) -> None:
    printed = run_files(tmp_path, {"test_inner.py": FAILING}, f"--tier={tier}").stdout
    assert "@reproduce_failure(" in printed
    assert f"to run a failed test again: pytest --tier={tier} 'test_inner.py::test_numbers'" in printed


def test_a_run_starts_the_files_of_slow_folders_first(tmp_path: Path) -> None:
    text = "def test_it(): ...\n"
    names = ("tests/unit/test_a.py", "tests/wire/test_b.py")
    printed = run_files(tmp_path, dict.fromkeys(names, text), "-vv").stdout
    assert re.findall(r"^(tests/\w+/\w+\.py)::test_it PASSED", printed, re.M) == [*reversed(names)]


MEASURED = """
import pytest
@pytest.mark.measured
def test_a_time(): ...
def test_a_value(): ...
"""


@pytest.mark.parametrize(
    ("flags", "ran"),
    [
        ((), ["test_a_time", "test_a_value"]),
        (("--measured=without",), ["test_a_value"]),
        (("--measured=only",), ["test_a_time"]),
        (("--measured=only", "-k", "value"), []),
    ],
)
def test_tests_that_compare_times_can_run_apart_from_the_others(
    flags: tuple[str, ...], ran: list[str], tmp_path: Path
) -> None:
    settings = "[pytest]\nmarkers = measured\n"
    done = run_files(tmp_path, {"test_inner.py": MEASURED, "pytest.ini": settings}, "-vv", *flags)
    assert re.findall(r"::(\w+) PASSED", done.stdout) == ran
    assert done.returncode == 0, done.stdout


def test_every_test_that_measures_cpu_time_has_the_mark() -> None:
    measures = re.compile(r"^(from|import) (cost_growth|interpreter_lock)\b|\b(thread|process)_time\(", re.M)
    modules = [path for path in (ROOT / "tests").rglob("test_*.py") if measures.search(path.read_text())]
    unmarked = {
        path.relative_to(ROOT / "tests").as_posix() for path in modules if "mark.measured" not in path.read_text()
    }
    assert unmarked == {"unit/harness/test_timing.py"}, "that one uses CPU time on purpose and compares none"


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


REQUIRED_SUITES = {
    "HEADGATE_REQUIRE_KUEUE": "real/test_kueue_parity.py",
    "HEADGATE_REQUIRE_KARPENTER": "real/test_karpenter_model.py",
    "HEADGATE_REQUIRE_HELM": "real/test_helm.py",
    "HEADGATE_REQUIRE_NEWEST": "real/test_smoke.py",
    "HEADGATE_REQUIRE_PROMETHEUS": "real/test_observability.py",
    "HEADGATE_REQUIRE_ROOTFS": "real/test_image.py",
    "HEADGATE_REQUIRE_CHROMIUM": "browser/test_page.py",
    "HEADGATE_REQUIRE_TMUX": "terminal/test_top.py",
}
"""Besides HEADGATE_REQUIRE_KUBE: a suite that needs this program and those of Kubernetes only."""


def run_required(programs: Path, *suites: str, variables: Collection[str]) -> str:
    """What pytest prints of these suites, where no program exists but those of the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{suite}" for suite in suites)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_REQUIRE")}
    environment |= {"HEADGATE_KUBE_BIN": str(programs), "XDG_CACHE_HOME": str(programs), "PYTEST_ADDOPTS": ""}
    environment |= {"PATH": str(programs), "COLUMNS": "1000", **dict.fromkeys(variables, "1")}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_required_programs_of_kubernetes_that_are_absent_fail_the_run(tmp_path: Path) -> None:
    printed = run_required(tmp_path, "real/test_placements.py", variables=("HEADGATE_REQUIRE_KUBE",))
    assert "(HEADGATE_REQUIRE_KUBE=1)" in printed
    assert "HEADGATE_REQUIRE_KUBE" in (ROOT / ".ci" / "run").read_text()


def test_each_required_program_that_is_absent_fails_its_suite_and_is_named(tmp_path: Path) -> None:
    """The programs of Kubernetes are there, so that each suite fails for its own program."""
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    printed = run_required(tmp_path, *REQUIRED_SUITES.values(), variables=REQUIRED_SUITES)
    failed = re.findall(r"^ERROR tests/(\S+\.py)::.*\((HEADGATE_REQUIRE_\w+)=1\)$", printed, re.M)
    assert {*failed} == {(suite, variable) for variable, suite in REQUIRED_SUITES.items()}
    assert all(variable in (ROOT / ".ci" / "run").read_text() for variable in REQUIRED_SUITES)


PARTS = (WITHOUT, ONLY)
PROGRAMS = ("kube", "karpenter", "kueue", "helm", "newest", "prometheus", "rootfs", "chromium", "tmux")
MAKE = """#!/bin/sh
echo "$* $(env | grep ^HEADGATE_REQUIRE | sort | tr '\\n' ' ')" >> calls
[ "$*" != "$FAILS" ]
"""


def run_landing(folder: Path, fails: str = "") -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """`.ci/run` with a make that writes down its arguments and the required programs; it fails for one target."""
    for name, text in ((".ci/run", (ROOT / ".ci" / "run").read_text()), ("bin/make", MAKE)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "pytest").symlink_to("/bin/true")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_REQUIRE")}
    environment |= {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "FAILS": fails}
    done = subprocess.run([folder / ".ci" / "run"], env=environment, cwd=folder, capture_output=True, text=True)
    return (folder / "calls").read_text().splitlines(), done


def test_the_landing_run_builds_every_program_and_requires_it_in_the_tests(tmp_path: Path) -> None:
    calls, done = run_landing(tmp_path)
    required = " ".join(sorted(f"HEADGATE_REQUIRE_{each.upper()}=1" for each in PROGRAMS))
    assert [each.strip() for each in calls] == [
        " ".join(PROGRAMS),
        *(f"{target} {required}" for target in ("setup", "check", "test")),
    ]
    assert done.returncode == 0
    assert re.fullmatch(r"\.ci/run: \d+ min \d+ s, exit status 0", done.stdout.splitlines()[-1])


@pytest.mark.parametrize("fails", [" ".join(PROGRAMS), "check", "test"])
def test_a_landing_run_that_fails_prints_its_time_and_status(fails: str, tmp_path: Path) -> None:
    calls, done = run_landing(tmp_path, fails)
    assert calls[-1].startswith(fails)
    assert done.returncode != 0
    assert re.fullmatch(r"\.ci/run: \d+ min \d+ s, exit status [1-9]\d*", done.stdout.splitlines()[-1])


def run_make(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The Makefile in another folder, without the flags of the `make` that runs these tests."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "ARGS")}
    command = ["make", "-f", str(ROOT / "Makefile"), *arguments]
    return subprocess.run(command, env=environment | variables, cwd=folder, capture_output=True, text=True)


def test_the_full_run_draws_the_full_tier_and_requires_every_program() -> None:
    printed = run_make(ROOT, "-n", "test-full").stdout
    runs = [{*line.split()} for line in printed.splitlines() if "pytest" in line]
    required = {f"HEADGATE_REQUIRE_{each.upper()}=1" for each in PROGRAMS}
    for which, run in zip(PARTS, runs, strict=True):
        assert required | {f"--tier={FULL}", f"--measured={which}"} <= run


def test_a_run_of_all_tests_has_two_parts_and_fails_if_one_of_them_fails(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "bin" / "pytest").write_text('#!/bin/sh\necho "$*" >> calls\ncase "$*" in *"$FAILS"*) exit 1;; esac\n')
    (tmp_path / "bin" / "pytest").chmod(0o755)
    where = (f"BIN={tmp_path / 'bin'}", "READY=bin/pytest", "LOCKED=")
    statuses = [run_make(tmp_path, *where, "test", FAILS=fails).returncode for fails in ("none", *PARTS)]
    assert statuses[0] == 0
    assert all(statuses[1:])
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [re.findall(r"--measured=(\w+)", call)[0] for call in calls] == [*PARTS] * 3
