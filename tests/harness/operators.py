"""Operators of job kinds as processes beside an API server. `make operators` builds the binaries.

Only KubeRay is started by a suite: it needs no webhook. The controllers of the others wait for the certificates of
their webhooks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.scheduler_process import send
from harness.server import Server

ABSENT = "the operators of job kinds are absent"
HOW_TO_GET_THEM = "run `make operators` (needs Go), or set HEADGATE_KUBE_BIN to a folder that has them"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def operators_folder() -> Path | None:
    """Where `make operators` put them, or None if it did not."""
    command = [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), "operators", "--print-dir"]
    folder = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    is_there = os.access(folder / "kuberay", os.X_OK) and (folder / "kuberay-manifests").is_dir()
    return folder if is_there else None


class KubeRay(Process):
    def __init__(self, server: Server, programs: Path, log: Path) -> None:
        for file in sorted((programs / "kuberay-manifests").glob("*.yaml")):
            body = yaml.safe_load(file.read_text())
            send(server, "POST", DEFINITIONS, json.loads(json.dumps(body)))
        flags = ("--metrics-addr", "0", "--health-probe-bind-address", "0", "--enable-leader-election=false")
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "ENABLE_WEBHOOKS": "false"}
        super().__init__([str(programs / "kuberay"), *flags], log, environment)
