"""A pytest plugin: two tiers of the same tests, and the order in which files are started.

Every test is in both tiers, except longer variants, which the mark `full` keeps out of `landing`; a tier decides how
many random inputs the tests with random inputs get. `landing`, the
default, is what `.ci/run` runs before each change: its draws are the same in each run (hypothesis: derandomize). `full`
(`make test-full`, before each release) draws ten times as many examples, others in each run, and more cases in the
comparison suites. CONTRIBUTING.md says which suite is in which tier.

Tests with the mark `measured` compare times. Other processes share the caches and the memory of the machine with them,
so `make test` has two runs: `--measured=without` on all workers, then `--measured=only` in one process.

Files that took long start first (`tests/file_seconds.json`, which `make file-seconds` writes), so that no worker is
left with a long one at the end. A file that is not in the table counts as the mean of its folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest
from hypothesis import settings

TESTS: Final = Path(__file__).resolve().parents[1]
SECONDS: Final = TESTS / "file_seconds.json"
LANDING: Final = "landing"
FULL: Final = "full"
WITH: Final = "with"
WITHOUT: Final = "without"
ONLY: Final = "only"
FULL_FACTOR: Final = 5
LANDING_SHARE: Final = 2
LANDING_LEAST: Final = 50
"""A property draws half of its examples in the landing tier, and at least so many, if it has so many."""
DRAWS: Final = {
    "placements": {LANDING: 500, FULL: 4000},
    "patch_pairs": {LANDING: 2000, FULL: 9000},
    "spoiled_step": {LANDING: 12, FULL: 3},
}
"""Options of `tests/conftest.py`, where the command line does not give them."""
FOLDER_S: Final = {
    "tests/terminal": 60.0,
    "tests/real": 20.0,
    "tests/crashes": 15.0,
    "tests/wire": 10.0,
    "tests/property": 5.0,
}
"""For a file in a folder of which no file is in the table; one second elsewhere."""
_PROPERTY_SETTINGS: Final = "_hypothesis_internal_use_settings"  # where hypothesis keeps the settings of a property

# How long an example takes depends on how busy the machine is, so there is no deadline.
settings.register_profile(LANDING, deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(FULL, deadline=None, derandomize=False, print_blob=True)  # also where CI is set


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headgate")
    group.addoption("--tier", choices=(LANDING, FULL), default=LANDING, help="how much is drawn")
    group.addoption(
        "--measured", choices=(WITH, WITHOUT, ONLY), default=WITH, help="run the tests that compare times, or not"
    )


def pytest_configure(config: pytest.Config) -> None:
    tier = config.getoption("tier")
    settings.load_profile(tier)
    for option, counts in DRAWS.items():
        if getattr(config.option, option, None) is None:
            setattr(config.option, option, counts[tier])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_full = config.getoption("tier") == FULL
    # Not deselected by the user: the run is complete without them.
    items[:] = [item for item in items if is_full or not is_longer_variant(item)]
    measured = config.getoption("measured")
    items[:] = [item for item in items if measured == WITH or is_measured(item) == (measured == ONLY)]
    for item in items:
        _set_examples(item, is_full=is_full)
    order = expected_seconds(recorded("wall_s"), {item.nodeid.partition("::")[0] for item in items})
    items.sort(key=lambda item: -order[item.nodeid.partition("::")[0]])


def is_longer_variant(item: pytest.Item) -> bool:
    return item.get_closest_marker(FULL) is not None


def is_measured(item: pytest.Item) -> bool:
    return item.get_closest_marker("measured") is not None


def recorded(figure: str) -> dict[str, float]:
    """`wall_s` or `cpu_s` of each file of the table."""
    return {name: each[figure] for name, each in json.loads(SECONDS.read_text()).items()}


def expected_seconds(known: dict[str, float], files: set[str]) -> dict[str, float]:
    """How long each of the files will take."""
    folders: dict[str, list[float]] = {}
    for name, seconds in known.items():
        folders.setdefault(_folder(name), []).append(seconds)
    means = FOLDER_S | {folder: fmean(each) for folder, each in folders.items()}
    return {name: known.get(name, means.get(_folder(name), 1.0)) for name in files}


def _folder(file: str) -> str:
    return "/".join(file.split("/")[:2])


def examples_of(written: int, *, is_full: bool) -> int:
    """How many examples a property draws whose settings say ``written``."""
    return FULL_FACTOR * written if is_full else min(written, max(LANDING_LEAST, written // LANDING_SHARE))


def _set_examples(item: pytest.Item, *, is_full: bool) -> None:
    """Sets the examples of a property; that of a state machine is a method of its test case."""
    for holder, name in ((getattr(item, "obj", None), _PROPERTY_SETTINGS), (getattr(item, "cls", None), "settings")):
        # An item of a parametrized property shares its function with the others.
        found = getattr(holder, name, None)
        if isinstance(found, settings) and not getattr(holder, "_has_tier", False):
            tiered = settings(found, max_examples=examples_of(found.max_examples, is_full=is_full))
            target: Any = getattr(holder, "__func__", holder)
            setattr(target, name, tiered)
            target._has_tier = True


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What the user selects (`make test ARGS="-k gates"`) may have no test that compares times."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("measured") == ONLY:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    failed = [report.nodeid for report in terminalreporter.stats.get("failed", ())]
    if failed:
        tier = config.getoption("tier")
        terminalreporter.write_line(f"to run a failed test again: pytest --tier={tier} '{failed[0]}'")
        if tier == FULL:
            terminalreporter.write_line("a property prints its own @reproduce_failure line: its examples are random")
