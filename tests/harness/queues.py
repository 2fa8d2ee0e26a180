"""Queues and PodGroups for tests: installs the kinds on any server, and builds small manifests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from harness.embedded_server import HEADGATE
from harness.server import Server

Object = dict[str, Any]

API_VERSION = "scheduling.volcano.sh/v1beta1"
QUEUES = f"/apis/{API_VERSION}/queues"


def install_crds(server: Server) -> list[str]:
    """What the command said, line by line."""
    command = [str(HEADGATE), "install-crds", "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def take_down(server: Server, file: Path) -> None:
    """The last first: a queue goes only when nothing is in it and below it."""
    backwards = yaml.safe_dump_all(list(yaml.safe_load_all(file.read_text()))[::-1])
    gone = server.kubectl(["delete", "--force", "--grace-period=0", "-f", "-"], stdin=backwards)
    assert gone.exit == 0, gone.stderr


def a_queue(name: str, **spec: Any) -> Object:
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def a_group(name: str, namespace: str = "default", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec}
