"""The kubectl plugin with the real kubectl, and completion: by kubectl, and by the script in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE

PODS = "/api/v1/namespaces/default/pods"
COMPLETED = """
eval "$(headgate completion bash)"
COMP_WORDS=(headgate {words}); COMP_CWORD={position}
_headgate_completion headgate
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("plugin") / "data", "--nodes", "0") as running:
        for name in ("train-0", "train-1", "web"):
            body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            status, answer = running.ask("POST", PODS, body)
            assert status == 201, answer
        yield running


@pytest.fixture
def environment(cluster: Cluster, kube_binaries: Path) -> dict[str, str]:
    path = f"{HEADGATE.parent}:{kube_binaries}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.data / "kubeconfig")}


def ran(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_finds_and_runs_the_plugin(environment: dict[str, str]) -> None:
    assert str(HEADGATE.with_name("kubectl-headgate")) in ran(environment, "kubectl", "plugin", "list")
    *rows, revision = ran(environment, "kubectl", "headgate", "queues").splitlines()
    assert rows == ran(environment, "headgate", "queues").splitlines()[:-1]
    assert rows[2].split()[0] == "default"
    assert revision.startswith("as of resourceVersion")
    assert ran(environment, "kubectl", "headgate", "--help").startswith("Usage: kubectl headgate ")
    assert ran(environment, "kubectl", "headgate", "--version").startswith("headgate ")


def test_kubectl_completes_commands_kinds_and_names(environment: dict[str, str]) -> None:
    def completed(*words: str) -> list[str]:
        *values, directive = ran(environment, "kubectl", "__complete", "headgate", *words).splitlines()
        assert directive == ":4"
        return [each.partition("\t")[0] for each in values]

    assert completed("que") == ["queues"]
    assert "deployment" in completed("explain", "")
    assert completed("explain", "pod", "train-") == ["train-0", "train-1"]
    assert completed("explain", "pod", "-n", "elsewhere", "") == []
    assert "wide" in completed("queues", "-o", "")
    assert completed("wait", "pod", "web", "--for", "ru") == ["running"]


def test_bash_completes_with_the_script(environment: dict[str, str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is absent")

    def completed(*words: str) -> list[str]:
        script = COMPLETED.format(words=" ".join(f"'{each}'" for each in words), position=len(words))
        return ran(environment, bash, "--norc", "-c", script).split()

    assert completed("doc") == ["doctor"]
    assert completed("explain", "pod", "train-") == ["train-0", "train-1"]
    assert completed("explain", "pod/we") == ["pod/web"]
    assert "--watch" in completed("queues", "--w")


def test_names_are_not_completed_if_the_cluster_cannot_be_reached(environment: dict[str, str], tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = Path(environment["KUBECONFIG"]).read_text()
    server = next(line for line in text.splitlines() if "server:" in line)
    kubeconfig.write_text(text.replace(server, f"{server.partition('server:')[0]}server: https://127.0.0.1:1"))
    unreachable = {**environment, "KUBECONFIG": str(kubeconfig)}
    assert ran(unreachable, "kubectl", "__complete", "headgate", "explain", "pod", "").splitlines() == [":4"]


@pytest.mark.parametrize(("shell", "expected"), [("zsh", "#compdef headgate"), ("fish", "complete --no-files")])
def test_the_other_shells_have_scripts_of_their_own(environment: dict[str, str], shell: str, expected: str) -> None:
    script = ran(environment, "headgate", "completion", shell)
    assert expected in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
