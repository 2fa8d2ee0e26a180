"""A kubelet for pods that run `headgate`: each container is a process of this machine, with the token of its pod.

There is no pod network here. So the command and the arguments of a container are started as they are in the pod, except
that an address `0.0.0.0:PORT` becomes an address of this machine with a free port, as a network namespace of its own
would give it. An EndpointSlice leads the API server from the Service to that port (`--enable-aggregator-routing`). The
process gets a token that is bound to its pod and no other credentials. Readiness is what the probe of the pod says, in
a thread for each pod: a ready pod is no longer ready after as many failures in a row as its probe allows. A pod that is
deleted gets SIGTERM, and its endpoints stay for another moment, as with a kube-proxy that learns of it late. A pod that
ends has the phase of its exit code.

By default a container is the `headgate` of this environment; `run_on_host` can also run other releases, by their
images. `container_runtime.py` runs it in the image instead.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from harness.embedded_server import HEADGATE
from harness.processes import NotReady, Process, free_ports
from harness.server import Server

Object = dict[str, Any]

NODE = "process-node"
_MERGE = {"Content-Type": "application/strategic-merge-patch+json"}
_JSON = {"Content-Type": "application/json"}
_EVERY = re.compile(r"0\.0\.0\.0:(\d+)")
_PERIOD_S = 0.2
_ENDPOINTS_LAG_S = 1.0
_BUSY = (429, 500, 503, 504)


class TryAgain(Exception):
    """What cannot be done now; the next round tries it again, as a kubelet does."""


def own_address() -> str:
    """An address of this machine that is not a loopback address, which the endpoints of a Service may not be."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing
        except OSError as error:
            raise NotReady(f"no address other than loopback: {error}; the endpoints of a Service need one") from error
        return str(asking.getsockname()[0])


class Container(NamedTuple):
    """A container that is to be started."""

    pod: Object
    arguments: list[str]
    """With addresses of this machine."""
    token: str
    server: Server
    folder: Path

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])


Runtime = Callable[[Container], Process]


def run_on_host(container: Container, releases: Mapping[str, Path] = MappingProxyType({})) -> Process:
    """The `headgate` of this environment, or of another release by its image, with a kubeconfig that has the token."""
    config: Object = yaml.safe_load(container.server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": container.token}
    kubeconfig = container.folder / f"{container.name}.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment |= {"HOME": str(container.folder), "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
    program = releases.get(container.pod["spec"]["containers"][0]["image"], HEADGATE)
    return Process([str(program), *container.arguments], container.folder / f"{container.name}.log", environment)


class Readiness:
    """What the results of a readiness probe say, as a kubelet counts them."""

    def __init__(self, probe: Object) -> None:
        self._period_s: float = probe["periodSeconds"]
        self._threshold: int = probe["failureThreshold"]
        self._failures = 0
        self.is_ready = False

    def record(self, succeeded: bool) -> None:
        self._failures = 0 if succeeded else self._failures + 1
        self.is_ready = succeeded or (self.is_ready and self._failures < self._threshold)

    def pause_s(self) -> float:
        """Until the next probe. A pod that is not ready is probed more often than by a kubelet, to save time."""
        return self._period_s if self.is_ready else _PERIOD_S


class PodProcess:
    """One pod and its process."""

    def __init__(self, server: Server, pod: Object, folder: Path, runtime: Runtime) -> None:
        meta, (container,) = pod["metadata"], pod["spec"]["containers"]
        self.uid, self.name, self.namespace = meta["uid"], meta["name"], meta["namespace"]
        self.is_job = pod["spec"]["restartPolicy"] == "Never"
        readiness: Object = container.get("readinessProbe") or {}
        self.probe: Object = readiness.get("httpGet") or {}
        self._probe_timeout_s = readiness.get("timeoutSeconds", 1)
        self.ports = {each["name"]: each["containerPort"] for each in container.get("ports") or ()}
        self.labels = meta["labels"]
        self.address = own_address()
        self.listening: dict[int, int] = {}
        self.state = ""
        self.stopped_s = 0.0
        assert container["command"] == ["headgate"]
        arguments = [_EVERY.sub(self._place, each) for each in container["args"]]
        token = self._token(server, pod["spec"]["serviceAccountName"])
        self.process = runtime(Container(pod, arguments, token, server, folder))
        self._readiness = Readiness(readiness) if self.probe else None
        if self._readiness is not None:
            threading.Thread(target=self._keep_probing, args=(self._readiness,), daemon=True).start()

    def _keep_probing(self, readiness: Readiness) -> None:
        while self.process.running():
            readiness.record(self._probe())
            time.sleep(readiness.pause_s())

    def _place(self, found: re.Match[str]) -> str:
        (port,) = free_ports(1)
        self.listening[int(found[1])] = port
        return f"{self.address}:{port}"

    def _token(self, server: Server, account: str) -> str:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        answer = server.request("POST", path, _JSON, json.dumps(body).encode())
        if answer.status != 201:
            raise TryAgain(f"no token for {self.name}: {answer.body[:500]!r}")
        return str(answer.json()["status"]["token"])

    def is_ready(self) -> bool:
        return self.process.running() if self._readiness is None else self._readiness.is_ready

    def _probe(self) -> bool:
        connection = self._probe_connection(self.listening[self.ports[self.probe["port"]]])
        try:
            connection.request("GET", self.probe["path"])
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _probe_connection(self, port: int) -> http.client.HTTPConnection:
        """A kubelet does not check the certificate of a container that it probes."""
        if self.probe.get("scheme") != "HTTPS":
            return http.client.HTTPConnection(self.address, port, timeout=self._probe_timeout_s)
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.address, port, timeout=self._probe_timeout_s, context=unchecked)

    def slices(self) -> list[Object]:
        """For the Service `headgate`: where this process answers webhooks."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        return [
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{self.name}-{name}",
                    "labels": {"kubernetes.io/service-name": "headgate"},
                    "ownerReferences": [owner],
                },
                "addressType": "IPv4",
                "ports": [{"name": name, "port": self.listening[port], "protocol": "TCP"}],
                "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
            }
            for name, port in self.ports.items()
            if name == "webhooks"
        ]


class ProcessKubelet:
    """Runs the pods that the scheduler binds to its node, in a thread."""

    def __init__(
        self, server: Server, folder: Path, runtime: Runtime = run_on_host, *, dedicated: bool = False
    ) -> None:
        """``dedicated``: the node has a taint that pods of an installation tolerate, and no others."""
        folder.mkdir(parents=True, exist_ok=True)
        self._server, self._folder, self._runtime = server, folder, runtime
        self.pods: dict[str, PodProcess] = {}
        self._serving: dict[str, PodProcess] = {}
        self._writing_endpoints = threading.Lock()
        self._over = threading.Event()
        self.trouble: list[BaseException] = []
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
        node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
        if dedicated:
            node["spec"] = {"taints": [{"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}]}
        self._send("POST", "/api/v1/nodes", node)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        for each in self.pods.values():
            each.process.stop()

    def processes(self) -> list[PodProcess]:
        """Of all pods so far, also of those that have ended."""
        return list(self.pods.values())

    def log(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.process.tail(20)}" for each in self.pods.values())

    def _run(self) -> None:
        while not self._over.wait(_PERIOD_S):
            try:
                self._sync()
            except (OSError, http.client.HTTPException, TryAgain):
                continue  # the API server restarts or has much to do, or the pod has changed meanwhile
            except BaseException as error:  # a test looks at it
                self.trouble.append(error)
                raise

    def _sync(self) -> None:
        listed = self._server.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}")
        if listed.status != 200:
            return
        for pod in listed.json()["items"]:
            if pod["spec"]["containers"][0].get("command") != ["headgate"]:
                self._sync_other(pod)
                continue
            uid = pod["metadata"]["uid"]
            if uid not in self.pods and "deletionTimestamp" not in pod["metadata"]:
                self.pods[uid] = PodProcess(self._server, pod, self._folder, self._runtime)
            self._sync_pod(pod, self.pods.get(uid))

    def _sync_other(self, pod: Object) -> None:
        """Containers of other programs run in name only, and end at once when their pod is deleted."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            self._send("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})
        elif pod["status"].get("phase") == "Pending":
            self._send("PATCH", f"{path}/status", {"status": _status(pod, "ready")}, _MERGE)

    def _sync_pod(self, pod: Object, known: PodProcess | None) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            if known is not None and known.process.running():
                if known.state != "stopping":
                    known.state, known.stopped_s = "stopping", time.monotonic()
                    known.process.signal(15)
                    threading.Thread(target=self._remove_slices_later, args=(known,), daemon=True).start()
                return
            self._send("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})
            return
        if known is None:
            return
        state = self._state(known)
        if state != known.state:
            self._send("PATCH", f"{path}/status", {"status": _status(pod, state)}, _MERGE)
            if state == "ready":
                for each in known.slices():
                    self._send("POST", f"{_slices(known)}", each)
                self._write_endpoints(known, is_served=True)
            elif known.state == "ready":
                self._remove_slices(known)
            known.state = state

    def _state(self, known: PodProcess) -> str:
        if known.process.running():
            return "ready" if known.is_ready() else "running"
        return "succeeded" if known.process.wait() == 0 else "failed"

    def _write_endpoints(self, known: PodProcess, *, is_served: bool) -> None:
        """Up to Kubernetes 1.33 API servers find webhooks by Endpoints, and not by EndpointSlices."""
        with self._writing_endpoints:
            self._serving = {uid: each for uid, each in self._serving.items() if uid != known.uid}
            if is_served:
                self._serving[known.uid] = known
            found = [each for process in self._serving.values() for each in process.slices()]
            subsets = [
                {
                    "addresses": [{"ip": address} for address in each["endpoints"][0]["addresses"]],
                    "ports": each["ports"],
                }
                for each in found
            ]
            body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "headgate"}, "subsets": subsets}
            path = f"/api/v1/namespaces/{known.namespace}/endpoints"
            self._send("POST", path, body)  # it may be there already
            self._send("PUT", f"{path}/headgate", body)

    def _remove_slices_later(self, known: PodProcess) -> None:
        """In a thread of its own: a controller does that, which does not wait for what else a kubelet does."""
        time.sleep(_ENDPOINTS_LAG_S)
        while not self._over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, TryAgain):
                self._remove_slices(known)
                break
            time.sleep(_PERIOD_S)

    def _remove_slices(self, known: PodProcess) -> None:
        for each in known.slices():
            self._send("DELETE", f"{_slices(known)}/{each['metadata']['name']}", {})
        self._write_endpoints(known, is_served=False)

    def _send(self, method: str, path: str, body: Object, headers: dict[str, str] = _JSON) -> None:
        answer = self._server.request(method, path, headers, json.dumps(body).encode())
        if answer.status in _BUSY:
            raise TryAgain(f"{method} {path}: {answer.status}")
        # The object may be gone, or there already: a pod is deleted, an owner takes its slices with it.
        assert answer.status in (200, 201, 202, 404, 409), (method, path, answer)

    def leader(self, lease: str = "headgate-scheduler") -> PodProcess | None:
        """A running process that was elected. One that was stopped and has lost the Lease since counts, too."""
        said = f"elected: holds the Lease kube-system/{lease}"
        return next(
            (each for each in self.processes() if each.process.running() and said in each.process.log.read_text()), None
        )

    def wait_until_ready(self, count: int, limit_s: float = 60.0) -> None:
        deadline_s = time.monotonic() + limit_s
        while sum(each.state == "ready" for each in list(self.pods.values())) < count:
            assert not self.trouble, self.trouble
            assert time.monotonic() < deadline_s, f"not ready:\n{self.log()}"
            time.sleep(_PERIOD_S)


def _slices(known: PodProcess) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{known.namespace}/endpointslices"


def _status(pod: Object, state: str) -> Object:
    phase = {"ready": "Running", "running": "Running", "succeeded": "Succeeded", "failed": "Failed"}[state]
    ready = "True" if state == "ready" else "False"
    ended = {"exitCode": 0 if state == "succeeded" else 1, "reason": "Completed" if state == "succeeded" else "Error"}
    container = {
        "name": pod["spec"]["containers"][0]["name"],
        "image": pod["spec"]["containers"][0]["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": state == "ready",
        "state": {"terminated": ended} if phase in ("Succeeded", "Failed") else {"running": {}},
    }
    conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container]}
