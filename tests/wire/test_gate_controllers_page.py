"""docs/gate-controllers.md on a whole cluster in one process: what it says to type does what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.scheduler_process import PATIENCE_S, wait_for

pytestmark = pytest.mark.real

PAGE = (REPOSITORY / "docs" / "gate-controllers.md").read_text()
EXAMPLES = REPOSITORY / "examples" / "controllers"
QUOTA, PLACEMENT, DEPENDENCIES = (
    [line[2:] for line in block.splitlines()] for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
)


class Terminal:
    def __init__(self, server: EmbeddedServer, programs: Path, folder: Path) -> None:
        path = f"{HEADGATE.parent}:{programs}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": str(server.kubeconfig)}
        self._folder = folder
        self._controllers: list[Process] = []

    def type_in(self, command: str) -> str:
        """What it prints. A controller in the background is typed in when it says that it is ready."""
        if command.endswith(" &"):
            words = [sys.executable, *command.removesuffix(" &").split()[1:]]
            log = self._folder / f"{len(self._controllers)}.log"
            controller = Process(words, log, self._environment)
            self._controllers.append(controller)
            controller.wait_until(lambda: "ready\n" in log.read_text(), PATIENCE_S)
            return ""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=REPOSITORY,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def close(self) -> None:
        for each in self._controllers:
            each.signal(signal.SIGTERM)
            assert (each.wait(), each.tail(1)) == (0, "stopped")


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    components = "apiserver,nodes,controllers,scheduler,quota,jobs"
    flags = ("--components", components, "--feature-gates", "SchedulingGatedBy=true")
    made = EmbeddedServer(tmp_path_factory.mktemp("page") / "up", kube_binaries / "kubectl", flags)
    yield made
    made.disconnect()
    made.stop()


@pytest.fixture
def terminal(server: EmbeddedServer, kube_binaries: Path, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(server, kube_binaries, tmp_path)
    yield made
    made.close()


def test_the_third_pod_of_the_quota_managers_sample_runs_too(terminal: Terminal) -> None:
    exported, *commands, events, deleted = QUOTA
    assert exported == "export KUBECONFIG=.headgate/kubeconfig"
    for command in commands:
        terminal.type_in(command)
    wait_for(lambda: "pod/third" in terminal.type_in(events))
    terminal.type_in(deleted)


def test_the_orchestrator_chooses_a_zone_and_a_refusal_is_an_event(terminal: Terminal) -> None:
    *commands, zone, events, deleted = PLACEMENT
    for command in commands:
        terminal.type_in(command)
    assert terminal.type_in(zone) == '{"topology.kubernetes.io/zone":"zone-a"}'
    wait_for(lambda: "pod/contradictory" in terminal.type_in(events))
    terminal.type_in(deleted)


def test_the_job_with_dependencies_completes_last(terminal: Terminal) -> None:
    *commands, events, deleted = DEPENDENCIES
    shown = {command: terminal.type_in(command) for command in commands}
    assert "report" in shown["headgate workloads -A --gated"], "a reader of the page sees it wait"
    wait_for(lambda: "job/report" in terminal.type_in(events))
    terminal.type_in(deleted)


def test_the_page_names_every_example() -> None:
    named = set(re.findall(r"\(\.\./examples/controllers/([\w.-]+)\)", PAGE))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.is_file()}


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_help_of_an_example_says_how_to_start_it(file: str) -> None:
    command = [sys.executable, str(EXAMPLES / file), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"    python {file} --kubeconfig .headgate/kubeconfig" in done.stdout.splitlines()
