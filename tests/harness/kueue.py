"""Kueue's own scheduler beside a real API server: its controllers without webhooks, certificates and jobs.

`make kueue` builds it. `plant` writes objects directly to etcd, so that two servers have the same objects with the same
uid and creation time. Both are used to break ties, and two servers never generate the same uid.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from harness.etcd import put
from harness.processes import Process
from harness.real_server import REPOSITORY, RealServer
from harness.scheduler_process import send, wait_for
from harness.server import Server

Object = dict[str, Any]

HOW_TO_GET_KUEUE = "run `make kueue` (needs Go), or set HEADGATE_KUBE_BIN to a folder that has it"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def kueue_folder() -> Path | None:
    """Where `make kueue` put it, or None if it did not."""
    command = [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), "kueue", "--print-dir"]
    folder = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    is_there = os.access(folder / "minimalkueue", os.X_OK) and (folder / "kueue-manifests").is_dir()
    return folder if is_there else None


class MinimalKueue(Process):
    def __init__(self, server: Server, programs: Path, log: Path) -> None:
        super().__init__([str(programs / "minimalkueue"), "--kubeconfig", str(server.kubeconfig)], log)


def define_kueue(server: Server, programs: Path) -> None:
    """Kueue's own definitions, as they are: nothing converts, nothing fills in but their schemas."""
    kinds = [
        send(server, "POST", DEFINITIONS, yaml.safe_load(file.read_text()))["spec"]
        for file in sorted((programs / "kueue-manifests").glob("*.yaml"))
    ]
    plurals = [each["names"]["plural"] for each in kinds if any(one["name"] == "v1beta2" for one in each["versions"])]
    wait_for(lambda: all(server.request("GET", f"{KUEUE}/{plural}").status == 200 for plural in plurals))
    wait_for(lambda: set(plurals) <= _discovered(server))


def _discovered(server: Server) -> set[str]:
    """The discovery of the group, which clients read once at their start: it is updated later than the served kinds."""
    kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    listed = server.request("GET", "/apis", {"Accept": kind}).json()["items"]
    versions = [one for each in listed if each["metadata"]["name"] == "kueue.x-k8s.io" for one in each["versions"]]
    return {each["resource"] for one in versions if one["version"] == "v1beta2" for each in one["resources"]}


def plant(server: RealServer, objects: Iterable[Object]) -> None:
    """Custom objects, with whatever metadata they have, into the store behind the API."""
    put(server.etcd_url, ((_place(each), each) for each in objects))


def _place(obj: Object) -> str:
    metadata = obj["metadata"]
    names = (metadata[part] for part in ("namespace", "name") if part in metadata)
    return "/".join((obj["apiVersion"].split("/")[0], f"{obj['kind'].lower()}s", *names))
