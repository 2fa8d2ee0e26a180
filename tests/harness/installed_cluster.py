"""A real control plane on which Headgate is installed as on any cluster: its pods run as processes under their own
service accounts, and the audit log says what was refused to them.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.control_plane import ABSENT, ControlPlane, Nodes
from harness.embedded_server import HEADGATE
from harness.process_kubelet import ProcessKubelet, Runtime, run_on_host
from harness.real_server import REPOSITORY, RealServer
from harness.rights import POLICY, audit_events, json_lines
from harness.scheduler_process import request
from harness.server import Result

Object = dict[str, Any]

PATIENCE_S = 90.0
_REST_S = 2.0
_CHANGES = ("events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "componentstatuses")
"""Kinds whose objects change on their own; Leases are compared by name."""


class InstalledCluster:
    """kube-apiserver with Pod Security and service accounts, kube-controller-manager, kube-scheduler, and a node on
    which pods of Headgate run as processes. Pods of users run there in name only, or, if there are ``hollow_nodes``, on
    these: they last as long as their annotations say."""

    def __init__(self, folder: Path, programs: Path, runtime: Runtime = run_on_host, *, hollow_nodes: int = 0) -> None:
        """``programs``: the Kubernetes binaries. ``runtime``: how the containers of Headgate's pods are started."""
        folder.mkdir(parents=True, exist_ok=True)
        self._programs = programs
        policy, self._audit = folder / "audit-policy.yaml", folder / "audit.log"
        policy.write_text(yaml.safe_dump(POLICY))
        flags = (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._audit}",
            "--enable-aggregator-routing=true",
        )
        self.server = RealServer(folder / "server", programs, flags=flags, disabled_plugins="TaintNodesByCondition")
        # The kubelet here says where processes listen: their ports are not those of the pods.
        self._plane = ControlPlane(self.server, programs, _made(folder / "plane"), (*ABSENT, "endpoints"))
        self.kubelet = ProcessKubelet(self.server, folder / "pods", runtime, dedicated=hollow_nodes > 0)
        resources = {"cpu": "32", "memory": "64Gi", "pods": "250"}
        self._nodes = Nodes(self.server, hollow_nodes, resources) if hollow_nodes else None
        self._until("the service account of the namespace default", lambda: self.typed("get", "sa", "default"))

    def stop(self) -> None:
        self.kubelet.stop()
        if self._nodes is not None:
            self._nodes.stop()
        self._plane.stop()
        self.server.disconnect()
        self.server.stop()
        assert not self.kubelet.trouble, self.kubelet.trouble

    def kubectl(self, *words: str, stdin: str | None = None) -> Result:
        return self.server.kubectl(words, stdin)

    def typed(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl says to an administrator; empty if it fails with NotFound."""
        done = self.kubectl(*words, stdin=stdin)
        assert done.exit == 0 or "NotFound" in done.stderr, (words, done.stderr)
        return done.stdout

    def headgate(self, *words: str, fails: bool = False, kubeconfig: Path | None = None) -> str:
        """What a command of Headgate says to an administrator, or to the user of this kubeconfig."""
        command = [str(HEADGATE), *words, "--kubeconfig", str(kubeconfig or self.server.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert (done.returncode != 0) == fails, (words, done.stdout, done.stderr, self.kubelet.log())
        return done.stdout + done.stderr

    def type(self, command: str) -> str:
        """What a command of a page says in the shell of an administrator, in the root of the repository."""
        path = f"{HEADGATE.parent}:{self._programs}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.server.kubeconfig)}
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr, self.kubelet.log())
        return done.stdout

    def get(self, path: str) -> Object | None:
        answer = request(self.server, "GET", path)
        return answer.json() if answer.status == 200 else None

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        return self._until(what, condition)

    def _until(self, what: str, condition: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < deadline_s, f"{what} did not happen\n{self.kubelet.log()}"
            time.sleep(0.2)
        return found

    def until_same(self, before: dict[str, Object]) -> None:
        """Until all objects are as before; controllers take a moment after a deletion."""
        deadline_s = time.monotonic() + PATIENCE_S
        while left := difference(before, self.objects()):
            assert time.monotonic() < deadline_s, left
            time.sleep(0.5)

    def refusals(self) -> list[str]:
        """What was refused to any service account, except those of the control plane: account, verb, path."""
        return [
            f"{each['user']['username']}: {each['verb']} {each['requestURI']}"
            for each in json_lines(self._audit)
            if each["user"]["username"].startswith("system:serviceaccount:")
            and not each["user"]["username"].startswith("system:serviceaccount:kube-system:")
            and (each.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
        ]

    def audit_events(self, account: str) -> list[Object]:
        """The requests of a service account, NAMESPACE/NAME."""
        return audit_events(self._audit, account)

    def objects_at_rest(self) -> dict[str, Object]:
        """All objects, when controllers that start have created what they need."""
        deadline_s = time.monotonic() + PATIENCE_S
        before: dict[str, Object] = {}
        while difference(before, now := self.objects()):
            assert time.monotonic() < deadline_s, difference(before, now)
            before = now
            time.sleep(_REST_S)
        return now

    def objects(self) -> dict[str, Object]:
        """Every object of the cluster, without what changes on its own, by kind, namespace and name."""
        found: dict[str, Object] = {}
        for kind, path in self._kinds():
            items = (self.get(path) or {}).get("items") or ()  # its definition may have been deleted a moment ago
            if kind == "leases.coordination.k8s.io":
                found |= {_key("lease", each): {} for each in items}
            elif kind not in _CHANGES:
                found |= {_key(kind, each): _lasting(each) for each in items}
        return found

    def _kinds(self) -> Iterator[tuple[str, str]]:
        """All kinds that can be listed, in the preferred version of their group, with the path of the list."""
        groups = (self.get("/apis") or {})["groups"]
        for root in ("/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)):
            for each in (self.get(root) or {}).get("resources") or ():
                if "list" in each["verbs"] and "/" not in each["name"]:
                    group = root.split("/")[2] if root.startswith("/apis") else ""
                    yield f"{each['name']}.{group}".rstrip("."), f"{root}/{each['name']}"


def difference(before: dict[str, Object], after: dict[str, Object]) -> list[str]:
    """Objects that appeared, vanished or changed."""
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    return sorted(
        [f"+ {key}" for key in after.keys() - before.keys()]
        + [f"- {key}" for key in before.keys() - after.keys()]
        + [f"~ {key}" for key in changed]
    )


def _key(kind: str, obj: Object) -> str:
    return f"{kind} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _lasting(obj: Object) -> Object:
    meta = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
    }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
