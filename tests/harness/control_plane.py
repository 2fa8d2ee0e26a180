"""A real kube-scheduler and kube-controller-manager beside a server, with hollow nodes, and the errors they log.

All controllers run except those of kinds that the embedded server does not have and those that check the health of
nodes. Each has its own service account, and leader election is on, as in a real cluster. Every error and warning of
their logs counts, without the parts that differ between runs.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml

from harness.embedded_server import EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.server import JSON_TYPE, Result, Server
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions

Object = dict[str, Any]

PATIENCE_S = 60.0
ABSENT = (
    "certificatesigningrequest-signing",
    "certificatesigningrequest-approving",
    "certificatesigningrequest-cleaner",
    "node-lifecycle",
    "taint-eviction",
)
RATE = 1000  # requests per second: the processes' own brakes would only make the suite longer
COMPLAINT = re.compile(r"^[EWF]\d{4} [\d:.]+ +\d+ (?P<where>[\w.]+):\d+\] (?P<text>.*)$")
CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # uids
    r"|127\.0\.0\.1:\d+"
    r"|\b\d+(?:\.\d+)?(?:ns|µs|ms|s|m)\b"
    r"|(?<=-)[a-z0-9]{5,10}\b"  # drawn and hashed ends of names
    r"|\d+"
)
# A controller works from what its watch has shown so far. That it comes too late for an object is a matter of timing
# on any server, and it tries again; the message about a missing path or kind differs.
COME_TOO_LATE = re.compile(
    r'the object has been modified|\b(?:pods|replicasets\.apps|jobs\.batch) \\*"[^"]+" not found|UID in precondition'
)


class Nodes:
    """Hollow nodes on a given server, in their own thread."""

    def __init__(
        self, server: Server, count: int, resources: dict[str, str], options: HollowOptions | None = None
    ) -> None:
        self._server = server
        self._options = options or HollowOptions()
        self._wanted = make_nodes(count, NodeTemplate(resources=resources))
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._started.wait()

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        access = find_rest_config(str(self._server.kubeconfig))
        assert isinstance(access, RESTConfig)
        transport = HTTPTransport(access)
        fleet = asyncio.create_task(HollowKubeletRunner(HollowKubelets(self._options, self._wanted), transport).run())
        self._started.set()
        await self._done.wait()
        fleet.cancel()
        await asyncio.wait([fleet])
        await transport.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()


class ControlPlane:
    def __init__(self, server: Server, programs: Path, folder: Path, absent: Sequence[str] = ABSENT) -> None:
        """``absent``: controllers that do not run."""
        self.server = server
        self._folder = folder
        kubeconfig = str(server.kubeconfig)
        plugins, config = folder / "plugins", folder / "scheduler.yaml"
        plugins.mkdir()
        config.write_text(yaml.safe_dump(scheduler_config(kubeconfig)))
        common = (f"--kubeconfig={kubeconfig}", "--leader-elect=true", "--secure-port=0")
        self._processes = [
            Process(
                [
                    *(str(programs / "kube-controller-manager"), *common),
                    f"--controllers={','.join(('*', *(f'-{each}-controller' for each in absent)))}",
                    *(f"--kube-api-qps={RATE}", f"--kube-api-burst={RATE}", "--use-service-account-credentials=true"),
                    f"--root-ca-file={server.ca}",
                    f"--flex-volume-plugin-dir={plugins}",
                ],
                folder / "kube-controller-manager.log",
            ),
            Process(
                [str(programs / "kube-scheduler"), f"--config={config}", "--secure-port=0"],
                folder / "kube-scheduler.log",
            ),
        ]

    def stop(self) -> None:
        for each in self._processes:
            each.stop()

    def complaints(self) -> set[str]:
        """The problems that the two logged, once each, without conflicts with another writer."""
        lines = (line for each in self._processes for line in each.log.read_text(errors="replace").splitlines())
        found = (COMPLAINT.match(line) for line in lines if not COME_TOO_LATE.search(line))
        return {f"{each['where']}: {CHANGING.sub('#', each['text'])}" for each in found if each}

    def get(self, path: str) -> Any:
        answer = self.server.request("GET", path)
        return answer.json() if answer.status == 200 else None

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.get(path)["items"]
        return found

    def post(self, path: str, body: Object) -> None:
        answer = self.server.request("POST", path, JSON_TYPE, json.dumps(body).encode())
        assert answer.status == 201, answer

    def kubectl(self, *arguments: str, stdin: Object | None = None) -> Result:
        result = self.server.kubectl(arguments, None if stdin is None else json.dumps(stdin))
        assert result.exit == 0, (self.server.name, arguments, result)
        return result

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        """The first answer that is true."""
        deadline_s = monotonic() + PATIENCE_S
        while not (answer := condition()):
            if monotonic() > deadline_s:
                tails = "\n".join(each.tail(15) for each in self._processes)
                raise AssertionError(f"{self.server.name}: {what} did not happen\n{tails}")
            sleep(0.1)
        return answer


def scheduler_config(kubeconfig: str, *, elected: bool = True) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": RATE, "burst": RATE},
        "leaderElection": {"leaderElect": elected},
    }


def embedded_server(folder: Path, programs: Path, nodes: int, resources: dict[str, str]) -> EmbeddedServer:
    sizes = [f"--node-{name}={amount}" for name, amount in resources.items()]
    flags = ("--components", "apiserver,nodes", "--nodes", str(nodes), *sizes)
    return EmbeddedServer(folder, programs / "kubectl", flags)


def real_server(folder: Path, programs: Path) -> RealServer:
    return RealServer(folder, programs)
