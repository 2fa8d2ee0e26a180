"""The session of README.md and docs/tour.md: the test types every console block and compares what the shell prints.

Only what a clock decides is left open: ages. The cluster runs in a folder of its own that holds the examples.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import HEADGATE
from harness.page_sessions import PageStep, page_steps, settled
from harness.processes import Process

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tour.md")


def first_session() -> list[PageStep]:
    return page_steps("\n".join(page.read_text() for page in PAGES))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = ["up", "--listen", "127.0.0.1:0", "--data", str(tmp_path / ".headgate")]
    cluster = Process([str(HEADGATE), *command], tmp_path / "up.log")
    cluster.wait_until(lambda: "ready\n" in cluster.log.read_text(), 30)
    yield tmp_path
    cluster.stop()


def typed(step: PageStep, folder: Path, environment: dict[str, str]) -> list[str]:
    run = subprocess.run(
        ["sh", "-c", step.command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return run.stdout.splitlines()


def test_the_first_session_prints_what_the_readme_shows(folder: Path, kube_binaries: Path) -> None:
    environment = {**os.environ, "HOME": str(folder), "PATH": f"{kube_binaries}:{HEADGATE.parent}:{os.environ['PATH']}"}
    steps = first_session()
    assert len(steps) > 10
    for step in steps:
        if step.command.startswith("export "):
            name, _, value = step.command.removeprefix("export ").partition("=")
            environment[name] = value
            continue
        printed = typed(step, folder, environment)
        assert [settled(line) for line in printed] == [settled(line) for line in step.shown], step.command


def test_the_readme_shows_both_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make up" in text
    assert "make test" in text
