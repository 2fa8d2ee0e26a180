"""The commands and the Python code of docs/testing.md, as they are on the page."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.embedded_server import HEADGATE
from headgate.cli.embedded.stopping import stop_server
from headgate.cli.main import main
from headgate.testing import Cluster, wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def test_the_commands_for_nodes_and_loads_work() -> None:
    commands = [line for title in ("Nodes", "Load") for block in blocks(section(title)) for line in block.splitlines()]
    assert len(commands) == 10
    with Cluster(nodes=3) as cluster:
        cluster.client.patch("Node", "node-0002", {"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}})
        for command in commands:
            words = shlex.split(command)[1:]
            done = CliRunner().invoke(main, words, env={"KUBECONFIG": str(cluster.kubeconfig)})
            assert done.exit_code == 0, (command, done.output)


def test_the_commands_for_a_cluster_in_the_background_work(tmp_path: Path, kube_binaries: Path) -> None:
    (block,) = blocks(section("In the background"))
    folder = tmp_path / "cluster"
    path = os.pathsep.join((str(HEADGATE.parent), str(kube_binaries), os.environ["PATH"]))
    try:
        done = subprocess.run(
            ["bash", "-ec", block.replace("/tmp/cluster", str(folder))],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        stop_server(folder, 60, force=True)
    assert done.returncode == 0, done.stderr
    assert "node-0001   Ready" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("stopped process")


def test_the_code_for_a_cluster_works(kube_binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(section("Cluster"), "python")
    monkeypatch.setenv("PATH", str(kube_binaries), prepend=os.pathsep)
    exec(compile(code, "docs/testing.md", "exec"), {"subprocess": subprocess})


def test_the_code_for_pytest_works() -> None:
    """With a controller that writes data into every new ConfigMap."""
    (code,) = blocks(section("pytest"), "python")
    with Cluster(components=("apiserver",)) as cluster:
        patch = {"data": {"seen": "yes"}}

        def fill() -> None:
            wait_until(lambda: cluster.client.find("ConfigMap", "a"))
            cluster.client.patch("ConfigMap", "a", patch)

        controller = threading.Thread(target=fill)
        names: dict[str, Any] = {"start_my_controller": lambda kubeconfig: controller.start()}
        exec(compile(code, "docs/testing.md", "exec"), names)
        names["test_my_controller"](cluster)
        controller.join()


def test_the_page_lists_all_options_and_attributes_of_a_cluster() -> None:
    text = section("Cluster").partition("###")[0]
    options, attributes = (re.findall(r"^\| (`.+?) \|", table, re.M) for table in text.split("| attribute |"))
    listed = {name for cell in options for name in re.findall(r"`(\w+)", cell)}
    assert listed == {*inspect.signature(Cluster).parameters}
    named = {name for cell in attributes for name in re.findall(r"`(\w+)", cell)}
    public = {name for name in vars(Cluster) if not name.startswith("_")} | {"url"}
    assert named == public


def test_the_page_lists_the_fixtures() -> None:
    source = inspect.getsource(__import__("headgate.testing.pytest_plugin", fromlist=["pytest_plugin"]))
    fixtures = {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    }
    listed = set(re.findall(r"^\| `(headgate_\w+)` \|", section("pytest"), re.M))
    assert listed == fixtures
