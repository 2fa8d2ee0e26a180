"""`headgate run` beside a `headgate up` with the same component: refused, unless it is told to take over."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer

UP = "apiserver,nodes,controllers,scheduler,quota"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    flags = ("--components", UP, "--feature-gates", "GateOwnership=true")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        yield running
    finally:
        running.disconnect()
        running.stop()


def started(server: EmbeddedServer, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("flags", "work"),
    [
        (("--components", "quota,jobs"), "quota"),
        (("--components", "controllers"), "controllers"),
        (("--components", "scheduler"), "scheduler"),
        (("--components", "gates"), "gates"),
        (("--components", "quota", "--no-leader-elect"), "quota"),
    ],
)
def test_a_component_that_up_runs_is_refused(server: EmbeddedServer, flags: tuple[str, ...], work: str) -> None:
    done = started(server, *flags)
    assert done.returncode == 1, done.stdout
    assert f"the headgate up that serves this API does the work of {work} itself" in done.stderr
    assert "--takeover" in done.stderr


def test_the_health_checks_name_the_components(server: EmbeddedServer) -> None:
    lines = server.request("GET", "/readyz?verbose").body.decode().splitlines()
    names = [each.removeprefix("[+]component-").removesuffix(" ok") for each in lines if "component-" in each]
    assert names == [
        *("nodes", "controllers", "scheduler-headgate", "scheduler-volcano", "scheduler-default-scheduler"),
        *("quota", "gate-policies"),
    ]
