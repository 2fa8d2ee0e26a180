"""``Cluster``: a whole cluster for the time of a ``with`` block, in this process or as a process of its own.

In this process (``process=False``, the default) the cluster has a thread and an event loop of its own; it starts
faster, and the clock of its nodes can be set. As a process it is what ``headgate up`` starts: it can be killed, and it
does not share Python's lock with the tests. In both cases clients use HTTPS on a free loopback port.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headgate.cli.embedded.cluster import RunningCluster, running_cluster
from headgate.cli.embedded.cluster_options import COMPONENTS, ClusterOptions, StartupError
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.embedded.launcher import LaunchedServer, LaunchFailed, launch, stop_child
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube.feature_gates import contradiction, parse_feature_gates
from headgate.nodes.node_template import NodeTemplate, make_more_nodes
from headgate.testing.client import ClusterClient
from headgate.testing.loop_thread import LoopThread

Object = dict[str, Any]

_SIZE: Final = {"cpu": "8", "memory": "32Gi"}
_MEMORY: Final = Path("/dev/shm")


class ClusterStartFailed(Exception):
    """The cluster did not start; the text says why."""


class EmbeddedCluster:
    """``with Cluster(nodes=3) as cluster``: a Kubernetes API, simulated nodes, controllers and schedulers."""

    def __init__(
        self,
        *,
        nodes: int = 3,
        node_resources: Mapping[str, str] | None = None,
        components: Sequence[str] = COMPONENTS,
        feature_gates: str = "",
        data: Path | None = None,
        process: bool = False,
        arguments: Sequence[str] = (),
    ) -> None:
        """``node_resources``: the size of each node, such as ``{"cpu": "8", "nvidia.com/gpu": "4"}``. ``data``: the
        data folder, which is then kept; otherwise the cluster has a new one, and removes it. ``arguments``: further
        arguments of ``headgate up``, only with ``process=True``."""
        if arguments and not process:
            raise ValueError("arguments of headgate up need process=True")
        self._nodes: Final = nodes
        self._node_resources: Final = {**_SIZE, **(node_resources or {})}
        self._components: Final = tuple(components)
        self._feature_gates: Final = feature_gates
        self._arguments: Final = tuple(arguments)
        self._is_process: Final = process
        self._folder: Final = data
        self._stack = contextlib.ExitStack()
        self._loop: LoopThread | None = None
        self._transport: Transport | None = None
        self._running: RunningCluster | None = None
        self._launched: LaunchedServer | None = None
        self._data = data or Path()
        self.url = ""
        """The address of the API server."""

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the cluster; ``with`` does it, too. Raises :class:`ClusterStartFailed`."""
        if self._loop is not None:
            raise RuntimeError("the cluster runs already")
        with contextlib.ExitStack() as stack:
            self._data = self._folder or Path(stack.enter_context(_temporary_folder()))
            self._loop = LoopThread("headgate-testing")
            stack.callback(self._close_loop)
            try:
                if self._is_process:
                    self._start_process(stack)
                else:
                    self._start_here(stack, self._loop)
            except (StartupError, LaunchFailed) as problem:
                raise ClusterStartFailed(str(problem)) from problem
            self._connect(stack, self._loop)
            self._stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stops the cluster; a second call does nothing."""
        self._stack.close()

    def kill(self) -> None:
        """Kills the process of the cluster (SIGKILL), only with ``process=True``. ``stop`` and ``start`` follow; with
        ``data`` the cluster then has the same objects."""
        if self._launched is None:
            raise RuntimeError("only a cluster that is a process can be killed: pass process=True")
        self._launched.process.kill()
        self._launched.process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- what a test uses ------------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        return self._data / "kubeconfig"

    @property
    def data(self) -> Path:
        """The data folder; a process has its log there, too."""
        return self._data

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process with ``KUBECONFIG``, for kubectl and for programs under test."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    @property
    def client(self) -> ClusterClient:
        if self._transport is None:
            raise RuntimeError("the cluster does not run")
        return ClusterClient(self._send)

    def add_nodes(
        self,
        count: int = 1,
        resources: Mapping[str, str] | None = None,
        *,
        prefix: str = "added-",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
        zones: Sequence[str] = (),
    ) -> list[str]:
        """Creates simulated nodes and returns their names. They become Ready a moment later. ``annotations``: see
        docs/simulated-nodes.md."""
        client = self.client
        template = NodeTemplate(
            resources={"pods": "110", **self._node_resources, **(resources or {})},
            labels=labels or {},
            annotations=annotations or {},
            taints=taints,
            zones=zones,
            prefix=prefix,
        )
        made = make_more_nodes(count, template, client.list("Node"))
        for node in made:
            client.create(node)
        return [node["metadata"]["name"] for node in made]

    def advance_nodes(self, by_s: float) -> None:
        """Sets the clock of the simulated nodes forward: pods with ``headgate.dev/run-for`` end, nodes boot and fail as
        if that time had passed. Controllers, schedulers and the API server keep the time of the machine. Only for a
        cluster in this process."""
        running, loop = self._running, self._loop
        if running is None or loop is None:
            raise RuntimeError("the clock of the nodes can be set only while a cluster runs in this process")
        loop.call(lambda: running.node_clock.advance(by_s))

    # -- start and stop --------------------------------------------------------------------------------------------

    def _start_here(self, stack: contextlib.ExitStack, loop: LoopThread) -> None:
        options = self._options()
        running = running_cluster(options, lambda line: None)
        self._running = loop.run(running.__aenter__())
        stack.callback(self._stop_here, running)
        self.url = self._running.url

    def _stop_here(self, running: contextlib.AbstractAsyncContextManager[RunningCluster]) -> None:
        self._running = None
        if self._loop is not None:
            self._loop.run(running.__aexit__(None, None, None))

    def _start_process(self, stack: contextlib.ExitStack) -> None:
        reading, writing = os.pipe()  # the server stops when this process ends, however it ends
        stack.callback(os.close, writing)
        try:
            self._launched = launch(self._command(), self._data, lifeline=reading)
        finally:
            os.close(reading)
        stack.callback(self._stop_process)
        self.url = self._launched.report.url

    def _stop_process(self) -> None:
        if self._launched is not None:
            stop_child(self._launched.process)
            self._launched = None

    def _connect(self, stack: contextlib.ExitStack, loop: LoopThread) -> None:
        config = find_rest_config(str(self.kubeconfig), "")
        if isinstance(config, str):
            raise ClusterStartFailed(config)

        async def connect() -> Transport:
            return HTTPTransport(config)

        transport = self._transport = loop.run(connect())
        stack.callback(self._disconnect, transport)

    def _disconnect(self, transport: Transport) -> None:
        self._transport = None
        if self._loop is not None:
            self._loop.run(transport.close())

    def _close_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _send(self, request: HTTPRequest) -> HTTPResponse:
        if self._loop is None or self._transport is None:
            raise RuntimeError("the cluster does not run")
        return self._loop.run(self._transport.request(request))

    # -- options ---------------------------------------------------------------------------------------------------

    def _options(self) -> ClusterOptions:
        features = parse_feature_gates(self._feature_gates)
        problem = features if isinstance(features, str) else contradiction(features)
        if isinstance(features, str) or problem:
            raise ClusterStartFailed(problem)
        options = ClusterOptions.parse(
            data=self._data,
            listen="127.0.0.1:0",
            kubeconfig=self.kubeconfig,
            components=",".join(self._components),
            node_count=self._nodes,
            node_resources=self._node_resources,
            extra_resources=(),
            features=msgspec.structs.replace(features, allow_privileged=True),
            access=AccessOptions(),
        )
        if isinstance(options, str):
            raise ClusterStartFailed(options)
        return options

    def _command(self) -> list[str]:
        sizes = self._node_resources
        command = ["--data", str(self._data), "--listen", "127.0.0.1:0", "--components", ",".join(self._components)]
        command += ["--nodes", str(self._nodes), "--node-cpu", sizes["cpu"], "--node-memory", sizes["memory"]]
        for name, amount in sizes.items():
            if name not in _SIZE:
                command += ["--node-resource", f"{name}={amount}"]
        if self._feature_gates:
            command += ["--feature-gates", self._feature_gates]
        return [*command, *self._arguments]


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """In memory if the machine has such a place: a disk would make each write wait for fsync."""
    place = str(_MEMORY) if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="headgate-testing-", dir=place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
