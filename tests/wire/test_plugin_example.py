"""docs/plugins.md, typed as it stands: the example package is installed into an environment of its own, checked, tested
by its own tests, and run in ``headgate up``, where it holds a pod and releases it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.processes import Process

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
PLUGIN = Path("examples") / "plugins" / "hold-until"
COMMANDS = [block.strip().splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
PATIENCE_S = 120.0


class Environment:
    """A new virtual environment that has Headgate, a folder with the examples, and what is typed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=300)
        scripts, library = folder / "venv" / "bin", next((folder / "venv" / "lib").iterdir()) / "site-packages"
        # What a user installs from an index is taken from the environment of this test.
        shared = sysconfig.get_paths()["purelib"]
        (library / "environment.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        for name, module in {"headgate": "headgate.cli.main:main", "pytest": "pytest:console_main"}.items():
            source, _, function = module.partition(":")
            script = f"#!{scripts / 'python'}\nimport sys\nfrom {source} import {function}\nsys.exit({function}())\n"
            (scripts / name).write_text(script)
            (scripts / name).chmod(0o755)
        shutil.copytree(ROOT / PLUGIN, folder / PLUGIN, ignore=shutil.ignore_patterns("__pycache__"))
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "VIRTUAL"))},
            "PATH": os.pathsep.join([str(scripts), os.environ["PATH"]]),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # the build backend is installed already
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }

    def type(self, command: str, further: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.variables, **(further or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def check(self, file: Path) -> tuple[int, str]:
        program = str(shutil.which("headgate", path=self.variables["PATH"]))
        words = [program, "config", "check", str(file)]
        done = subprocess.run(words, env=self.variables, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("page"))
    code, printed = made.check(made.folder / PLUGIN / "scheduler.yaml")
    assert code == 1
    assert 'profiles[0].plugins.preEnqueue.enabled[0].name: Not found: "HoldUntil"' in printed
    installing, checking, testing = COMMANDS[0]
    made.type(installing)
    assert re.search(r"preEnqueue .* HoldUntil\n", made.type(checking))
    assert " passed" in made.type(testing)
    return made


def test_the_page_has_the_commands_that_are_typed_here() -> None:
    assert [len(each) for each in COMMANDS] == [3, 1, 6]


def test_arguments_that_the_plugin_refuses_are_reported_with_their_path(
    environment: Environment, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text((ROOT / PLUGIN / "scheduler.yaml").read_text().replace("annotation:", "anotation:"))
    code, printed = environment.check(file)
    assert code == 1
    assert "unknown argument 'anotation'" in printed


def test_the_plugin_holds_a_pod_in_a_cluster_and_releases_it(environment: Environment, kube_binaries: Path) -> None:
    (starting,), typed = COMMANDS[1:]
    folder = environment.folder
    # On any free port: other tests run at the same time.
    words = ["bash", "-c", f"cd '{folder}' && exec {starting} --listen 127.0.0.1:0"]
    running = Process(words, folder / "up.log", environment.variables)
    try:
        running.wait_until(lambda: "ready" in running.log.read_text().splitlines(), PATIENCE_S)
        exporting, *others = typed
        name, _, value = exporting.removeprefix("export ").partition("=")
        further = {name: value, "PATH": os.pathsep.join([environment.variables["PATH"], str(kube_binaries)])}
        printed = {command: environment.type(command, further) for command in others}
        explained = next(text for command, text in printed.items() if "explain" in command)
        assert "HoldUntil" in explained
        assert "held until 2100-01-01T06:00:00Z" in explained
    finally:
        running.stop()
