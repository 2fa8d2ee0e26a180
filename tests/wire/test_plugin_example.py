"""The plugin of examples/plugins: installed as users install it, checked, tested by its own tests, and documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.embedded import HEADGATE

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugins" / "hold-until"
BLOCK = re.compile(r"```(?:python|toml|yaml)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the package, without touching ours."""
    folder = tmp_path_factory.mktemp("installed")
    uv = Path(sys.executable).with_name("uv")
    flags = ("--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable)
    subprocess.run([str(uv), "pip", "install", *flags, "--target", str(folder), str(PLUGIN)], check=True, timeout=120)
    return {**os.environ, "PYTHONPATH": str(folder)}


def check(file: Path, environment: dict[str, str]) -> tuple[int, str]:
    run = subprocess.run(
        [str(HEADGATE), "config", "check", str(file)], env=environment, capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout


def test_a_configuration_may_enable_the_plugin_once_it_is_installed(installed: dict[str, str]) -> None:
    code, printed = check(PLUGIN / "scheduler.yaml", installed)
    assert code == 0
    assert re.search(r"preEnqueue .* HoldUntil\n", printed)
    code, printed = check(PLUGIN / "scheduler.yaml", dict(os.environ))
    assert code == 1
    assert 'profiles[0].plugins.preEnqueue.enabled[0].name: Not found: "HoldUntil"' in printed


def test_arguments_that_the_plugin_refuses_are_told_with_their_path(installed: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text((PLUGIN / "scheduler.yaml").read_text().replace("annotation:", "anotation:"))
    code, printed = check(file, installed)
    assert code == 1
    assert "unknown argument 'anotation'" in printed


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(PLUGIN), str(PLUGIN)]
    run = subprocess.run(command, env=installed, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout


def test_every_line_that_the_page_shows_is_in_the_package() -> None:
    written = "".join(path.read_text() for path in PLUGIN.rglob("*") if path.suffix in (".py", ".toml", ".yaml"))
    blocks = BLOCK.findall((ROOT / "docs" / "plugins.md").read_text())
    assert len(blocks) == 5
    for block in blocks:
        assert block in written, block
