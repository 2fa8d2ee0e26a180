"""The examples in the `--help` of the commands, run on a cluster that has the objects and files that they name."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.scheduler_process import wait_for
from help_examples import examples

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "dashboard": "tests/wire/test_dashboard.py",
    "demo": "tests/wire/test_demo.py",
    "down": "tests/wire/test_detach.py",
    "hold": "tests/real/test_documented_rights.py",
    "resume": "tests/real/test_documented_rights.py",
    "load": "tests/wire/test_load_command.py",
    "nodes": "tests/wire/test_nodes_command.py",
    "install": "tests/real/test_install.py",
    "run": "tests/real/test_documented_rights.py",
    "simulate --snapshot": "tests/unit/cli/test_simulate_command.py",
    "simulate --recording": "tests/unit/cli/test_simulate_command.py",
    "uninstall": "tests/real/test_install.py",
    "up": "tests/wire/test_up.py",
}
"""Examples that need another cluster, by their first words, and the test that runs the command."""
SHORTER = {
    "--for 7d": "--for 1s",
    "--for 1d": "--for 1s",
    "--jobs 500": "--jobs 20",
    "audit --watch": "audit --watch --for 1s",
    "127.0.0.1:10260": "127.0.0.1:0",
    "trainingrun NAME --job-kinds FILE": "job train -n team-a --job-kinds kinds.yaml",
}
"""What is long in an example, or stands for a name."""
ENDS_WITH = {
    "check --data .headgate --drop-damaged": (1, "is in use"),
    "doctor": (1, "ERROR"),
    "doctor -o json": (1, '"severity": "error"'),
    "explain -f job.yaml -n team-a": (3, "it would wait"),
    "restore monday.db": (1, "is in use"),
}
"""Examples that do not end with 0 here, with what they say."""
KUEUE = "kueue.x-k8s.io/v1beta2"
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}
RESOURCES = [{"name": "cpu", "nominalQuota": "1"}]
GROUPS = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": RESOURCES}]}]


def made(version: str, kind: str, name: str, spec: Any = None, namespace: str = "", **metadata: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def a_job(name: str, run_for: str) -> dict[str, Any]:
    template = {"metadata": {"annotations": {"headgate.dev/run-for": run_for}}, "spec": SPEC}
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    return made("batch/v1", "Job", name, {"suspend": True, "template": template}, "team-a", labels=labels)


SETS = [{"name": "main", "count": 1, "template": {"spec": SPEC}}]
WEB = {"app": "web"}
DEPLOYMENT = {
    "selector": {"matchLabels": WEB},
    "template": {"metadata": {"labels": WEB}, "spec": {"containers": [CONTAINER]}},
}
OBJECTS = (
    made("v1", "Namespace", "team-a"),
    made("v1", "Namespace", "team-b"),
    made("scheduling.volcano.sh/v1beta1", "Queue", "eng", {}),
    made(KUEUE, "ResourceFlavor", "any"),
    made(KUEUE, "ClusterQueue", "research", {"namespaceSelector": {}, "resourceGroups": GROUPS}),
    made(KUEUE, "LocalQueue", "lq", {"clusterQueue": "research"}, "team-a"),
    made(KUEUE, "LocalQueue", "lost", {"clusterQueue": "nowhere"}, "team-a"),
    made("v1", "Pod", "train-3", {"schedulerName": "headgate", "containers": [CONTAINER]}, "team-a"),
    made("apps/v1", "Deployment", "web", DEPLOYMENT, "team-b"),
    a_job("train", "1s"),
)
LATER = (
    a_job("holds", "never"),
    made(KUEUE, "Workload", "job-train-5a3f2", {"queueName": "lq", "podSets": SETS}, "team-a"),
)


def run_here(line: str) -> str:
    for long, short in SHORTER.items():
        line = line.replace(long, short)
    return line


HERE = [line for line in examples() if not f"{line} ".startswith(tuple(f"{each} " for each in ELSEWHERE))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("examples")
    files = {"headgate.yaml": "configuration/headgate.yaml", "kinds.yaml": "job-kinds.yaml"}
    files["volcano-scheduler.conf"] = "volcano/volcano-scheduler.conf"
    for name, source in files.items():
        shutil.copy(ROOT / "examples" / source, folder / name)
    (folder / "scheduler.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    (folder / "prices.yaml").write_text("currency: USD\n")
    (folder / "job.yaml").write_text(yaml.safe_dump(a_job("new", "1s")))
    with Cluster(folder / ".headgate", "--nodes", "2") as cluster:
        for body in OBJECTS:
            _create(cluster, body)
        wait_for(lambda: _is_complete(cluster))
        for body in LATER:
            _create(cluster, body)
        for line in ("record week.hgr --for 1s", "backup monday.db"):
            done = _run(folder, line)
            assert done.returncode == 0, done.stderr
            (folder / line.split()[1]).rename(folder / f"kept-{line.split()[1]}")
        yield folder


def _create(cluster: Cluster, body: dict[str, Any]) -> None:
    group, plural = body["apiVersion"], body["kind"].lower() + "s"
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    namespace = body["metadata"].get("namespace")
    status, answer = cluster.ask("POST", f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}", body)
    assert status == 201, answer


def _is_complete(cluster: Cluster) -> bool:
    job = cluster.ask("GET", "/apis/batch/v1/namespaces/team-a/jobs/train")[1]
    return any(each["type"] == "Complete" for each in job["status"].get("conditions") or ())


def _run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(folder / ".headgate" / "kubeconfig")}
    words = [str(HEADGATE), *shlex.split(line)]
    with (
        (folder / "scheduler.yaml").open() as typed,  # for the example that reads standard input
        subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            text=True,
            stdin=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        try:
            out, err = process.communicate(timeout=8 if "--watch" in words and "--for" not in words else 60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.parametrize("line", HERE)
def test_an_example_does_what_it_says(folder: Path, line: str) -> None:
    made_before = {"record week.hgr": "week.hgr", "backup monday.db": "monday.db"}
    for name in ("week.hgr", "monday.db"):
        (folder / name).unlink(missing_ok=True)
        if not line.startswith(tuple(start for start, file in made_before.items() if file == name)):
            shutil.copy(folder / f"kept-{name}", folder / name)
    done = _run(folder, run_here(line))
    code, text = ENDS_WITH.get(line, (0, ""))
    assert done.returncode == code, (done.stdout, done.stderr)
    assert text in done.stdout + done.stderr


def test_the_examples_that_are_not_run_here_are_run_elsewhere() -> None:
    for words, test in ELSEWHERE.items():
        text = (ROOT / test).read_text() + (ROOT / "tests" / "rights_cases.py").read_text()
        assert words.split()[0] in text, (words, test)
        assert any(f"{line} ".startswith(f"{words} ") for line in examples()), words
