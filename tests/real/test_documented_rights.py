"""Every documented command, on a real API server, as the service account that `examples/*-rights.yaml` make for it.

The server's audit log must not have a single refusal: what a command asks for and may do without is asked for anyway,
and an administrator sees it in his own log.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import rights
from harness.embedded_server import HEADGATE
from harness.processes import Process, free_ports
from harness.rights import EXAMPLES, AuditedServer
from rights_cases import CASES, FURTHER, INSTALL, Case

pytestmark = pytest.mark.real

TYPED = {
    **{command: case for command, case in CASES.items() if command != "headgate install-crds"},
    **{f"headgate {words}": case for words, case in FURTHER.items()},
}
SHORT = [command for command in TYPED if not command.startswith("headgate run")]
RUNNING = [command for command in TYPED if command.startswith("headgate run")]
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: headgate
"""


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedServer]:
    folder = tmp_path_factory.mktemp("rights")
    made = AuditedServer(folder / "server", kube_binaries)
    try:
        _installed(made, folder)
        rights.prepare(made)
        yield made
    finally:
        made.disconnect()
        made.stop()


def _installed(server: AuditedServer, folder: Path) -> None:
    """`headgate install-crds`, which is documented, too: at first and again."""
    kubeconfig = server.configured(INSTALL, folder)
    for _ in range(2):
        done = rights.headgate(kubeconfig, ["install-crds"])
        assert done.returncode == 0, done.stderr
    assert server.refusals(INSTALL) == []


def _words(command: str, case: Case, folder: Path) -> list[str]:
    scheduler = folder / "scheduler.yaml"
    scheduler.write_text(CONFIGURATION)
    (port,) = free_ports(1)
    files = {
        "scheduler": scheduler,
        "volcano": EXAMPLES / "volcano" / "volcano-scheduler.conf",
        "kinds": EXAMPLES / "job-kinds.yaml",
        "port": port,
    }
    return shlex.split((case.words or command.removeprefix("headgate ")).format_map(files))


@pytest.mark.parametrize("command", SHORT)
def test_a_command_that_answers_is_refused_nothing(command: str, server: AuditedServer, tmp_path: Path) -> None:
    case = TYPED[command]
    before = server.refusals(case.account)
    done = rights.headgate(server.configured(case.account, tmp_path), _words(command, case, tmp_path))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "forbidden" not in done.stdout + done.stderr
    assert server.refusals(case.account) == before


@pytest.mark.parametrize("command", RUNNING)
def test_a_component_that_runs_is_refused_nothing(command: str, server: AuditedServer, tmp_path: Path) -> None:
    case = TYPED[command]
    before = server.refusals(case.account)
    words = _words(command, case, tmp_path)
    components = set(words[words.index("--components") + 1].split(",") if "--components" in words else ["scheduler"])
    if "webhooks" in components:
        words += ["--webhook-listen", f"127.0.0.1:{free_ports(1)[0]}"]
    name = words[words.index("--scheduler-name") + 1] if "--scheduler-name" in words else "headgate"
    config = server.configured(case.account, tmp_path)
    process = Process([str(HEADGATE), *words, "--kubeconfig", str(config)], tmp_path / "run.log")
    try:
        by_queues = name in ("headgate", "volcano") and "{scheduler}" not in case.words
        _live(server, process, components, name, by_queues=by_queues, writes="--dry-run" not in words)
    finally:
        process.stop()
        _clean(server, components, writes="--dry-run" not in words)
    log = process.log.read_text()
    assert "stopped" in log, log
    assert "forbidden" not in log
    assert server.refusals(case.account) == before


def _live(
    server: AuditedServer, process: Process, components: set[str], name: str, *, by_queues: bool, writes: bool
) -> None:
    if "webhooks" in components:
        rights.serving_webhooks(server, process, name)
    if not writes:
        rights.rehearsing(server, process, name)
    elif "scheduler" in components:
        if by_queues:
            rights.queueing(server, process, name)
        rights.scheduling(server, process, name)
    if "quota" in components:
        rights.giving_quota(server, process, name)
    if "jobs" in components:
        rights.keeping_jobs(server, process, "quota" if "quota" in components else "")
    if "controllers" in components:
        rights.controlling(server, process, name)


def _clean(server: AuditedServer, components: set[str], *, writes: bool) -> None:
    if "scheduler" in components and writes:
        rights.after_scheduling(server)
    if "webhooks" in components:
        rights.after_webhooks(server)
    if "controllers" in components:
        rights.after_controlling(server)
