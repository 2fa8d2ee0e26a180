"""Queues and groups for tests: the kinds brought to a server of any make, and small manifests."""

from __future__ import annotations

import subprocess
from typing import Any

from harness.embedded import HEADGATE
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


def a_queue(name: str, **spec: Any) -> Object:
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def a_group(name: str, namespace: str = "default", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec}
