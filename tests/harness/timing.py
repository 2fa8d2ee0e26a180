"""A pytest plugin: how long each test file took, in wall-clock and in CPU seconds, and the ten slowest at the end.

CPU seconds are those of the pytest process and of the children that it waited for; a server that outlives a test is
not in them, and servers that many files shared, which end after the last test of a run, count for no file.
`--timings FILE` writes the figures of all files as JSON. Packages whose unit tests took more CPU than they may are
named, too; `tests/unit/project/test_tiers.py` holds the recorded figures to that limit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest

SLOWEST: Final = 10
PACKAGE_CPU_S: Final = 20.0
"""What the unit tests of one package may take."""
_USED: Final = pytest.StashKey[os.times_result]()
_IS_LAST: Final = pytest.StashKey[bool]()
_BEGAN: Final = pytest.StashKey[float]()
_FILES: Final = pytest.StashKey["Files"]()


@dataclass
class Spent:
    """What the tests of one file took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


class Files:
    """Sums up the reports of a run; with xdist the reports of all workers arrive in the controller."""

    def __init__(self) -> None:
        self.spent: dict[str, Spent] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        spent = self.spent.setdefault(report.nodeid.partition("::")[0], Spent())
        spent.wall_s += report.duration
        spent.cpu_s += getattr(report, "cpu_s", 0.0)

    def slowest(self) -> list[tuple[str, Spent]]:
        return sorted(self.spent.items(), key=lambda pair: -pair[1].wall_s)


def packages_above(limit_s: float, cpu_s: Mapping[str, float]) -> dict[str, float]:
    """The packages whose unit tests take more CPU seconds than that, from the seconds of each file. The tests of a
    package are all that are in its folder of ``tests/unit``, however deep."""
    sums: dict[str, float] = {}
    for name, seconds in cpu_s.items():
        if name.startswith("tests/unit/"):
            package = name.split("/")[2]
            sums[package] = sums.get(package, 0.0) + seconds
    return {package: round(each, 1) for package, each in sums.items() if each > limit_s}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("headgate").addoption("--timings", type=Path, help="write the seconds of each test file here")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BEGAN] = time.monotonic()
    config.stash[_FILES] = Files()
    config.pluginmanager.register(config.stash[_FILES], "headgate-files")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    item.config.stash[_USED] = os.times()
    item.config.stash[_IS_LAST] = nextitem is None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    before, now = item.config.stash[_USED], os.times()
    report.cpu_s = now.user + now.system - before.user - before.system  # xdist sends it along with the report
    if not (call.when == "teardown" and item.config.stash[_IS_LAST]):
        report.cpu_s += now.children_user + now.children_system - before.children_user - before.children_system
    item.config.stash[_USED] = now
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    slowest = config.stash[_FILES].slowest()
    file: Path | None = config.getoption("timings")
    if file:
        rounded = {name: {key: round(each, 1) for key, each in asdict(spent).items()} for name, spent in slowest}
        file.write_text(
            "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in rounded.items()) + "\n}\n"
        )
    if len(slowest) <= SLOWEST:
        return
    took_s = time.monotonic() - config.stash[_BEGAN]
    terminalreporter.write_sep("=", f"the {SLOWEST} slowest files of a run of {took_s / 60:.1f} minutes")
    for name, spent in slowest[:SLOWEST]:
        terminalreporter.write_line(f"{spent.wall_s:7.1f} s, {spent.cpu_s:6.1f} s of CPU  {name}")
    for package, cpu_s in packages_above(PACKAGE_CPU_S, {name: spent.cpu_s for name, spent in slowest}).items():
        terminalreporter.write_line(f"tests/unit/{package} took {cpu_s} s of CPU, more than {PACKAGE_CPU_S:.0f}")
