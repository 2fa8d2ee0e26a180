"""docs/plugins.md, typed as it stands: the example package is installed into an environment of its own, checked, tested
by its own tests, and run in ``headgate up``, where it holds a pod and releases it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.processes import Process

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
PLUGINS = Path("examples") / "plugins"
PLUGIN = PLUGINS / "hold-until"
QUEUE_PLUGIN = PLUGINS / "queue-hours"
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
        shutil.copytree(ROOT / PLUGINS, folder / PLUGINS, ignore=shutil.ignore_patterns("__pycache__"))
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
    for commands, printed in (
        (COMMANDS[0], r"preEnqueue .* HoldUntil\n"),
        (COMMANDS[3], r"queueReserve +QueueHours\n"),
    ):
        installing, checking, testing = commands
        made.type(installing)
        assert re.search(printed, made.type(checking))
        assert " passed" in made.type(testing)
    return made


def test_the_page_has_the_commands_that_are_typed_here() -> None:
    assert [len(each) for each in COMMANDS] == [3, 1, 6, 3]


def test_arguments_that_the_plugin_refuses_are_reported_with_their_path(
    environment: Environment, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text((ROOT / PLUGIN / "scheduler.yaml").read_text().replace("annotation:", "anotation:"))
    code, printed = environment.check(file)
    assert code == 1
    assert "unknown argument 'anotation'" in printed


def test_the_plugin_holds_a_pod_in_a_cluster_and_releases_it(environment: Environment, kube_binaries: Path) -> None:
    (starting,), typed = COMMANDS[1:3]
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


QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: night}
"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: train
  annotations:
    scheduling.volcano.sh/queue-name: night
    scheduling.volcano.sh/queue-allocation-gate: "true"
spec:
  schedulerName: headgate
  containers: [{name: main, image: registry.k8s.io/pause:3.9}]
"""


def hours_from(seconds: float) -> str:
    """The arguments of a queue that is open for an hour, beginning so many seconds from now."""
    begin, end = (time.strftime("%H:%M", time.gmtime(time.time() + each)) for each in (seconds, seconds + 3600.0))
    return f'night: {{from: "{begin}", to: "{end}"}}'


@pytest.mark.parametrize("is_open", [False, True])
def test_the_queue_plugin_holds_a_pod_of_a_closed_queue_in_a_cluster(
    environment: Environment, kube_binaries: Path, tmp_path: Path, is_open: bool
) -> None:
    shipped = (ROOT / QUEUE_PLUGIN / "volcano-scheduler.conf").read_text()
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(re.sub(r"night: .*", hours_from(-600.0 if is_open else 7200.0), shipped))
    for name, text in {"queue.yaml": QUEUE, "pod.yaml": POD}.items():
        (tmp_path / name).write_text(text)
    words = ["bash", "-c", f"cd '{tmp_path}' && exec headgate up --config {conf} --listen 127.0.0.1:0"]
    running = Process(words, tmp_path / "up.log", environment.variables)
    try:
        running.wait_until(lambda: "ready" in running.log.read_text().splitlines(), PATIENCE_S)
        path = os.pathsep.join([environment.variables["PATH"], str(kube_binaries)])
        further = {"KUBECONFIG": str(tmp_path / ".headgate" / "kubeconfig"), "PATH": path}
        environment.type(f"kubectl apply -f {tmp_path}/queue.yaml && kubectl apply -f {tmp_path}/pod.yaml", further)
        if is_open:
            environment.type("kubectl wait pod train --for=condition=PodScheduled --timeout=60s", further)
            return
        held = "jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].message}'"
        message = 'QueueAdmission plugin "QueueHours": queue night is open'
        waiting = f"until kubectl get pod train -o {held} | grep -q '{message}'; do sleep 0.2; done"
        environment.type(waiting, further)
        explained = environment.type("headgate explain pod train", further)
        assert "plugin QueueHours" in explained
        assert "queue night is open from" in explained
        events = environment.type("kubectl get events --field-selector reason=QueueAdmissionRejected", further)
        assert message in events
    finally:
        running.stop()
