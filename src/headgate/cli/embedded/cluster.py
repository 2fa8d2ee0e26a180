"""A whole cluster in one process: starts it, prints the summary of ``headgate up``, and stops it in order.

The summary has facts that are read back from the server; it repeats no flags. ``cli/embedded/server.py`` starts the API
server, ``cli/embedded/components.py`` the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import headgate
from headgate.apiserver.discovery.documents import KUBERNETES_VERSION
from headgate.apiserver.io.certificate_files import FileProblem
from headgate.cli.embedded import components
from headgate.cli.embedded.cluster_options import ClusterOptions, StartupError
from headgate.cli.embedded.kubeconfig import write_kubeconfig
from headgate.cli.embedded.server import PrintLine, RunningServer, serve
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.metrics import serve_metrics
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.http.server import listen
from headgate.http.transport import Transport
from headgate.kube import conditions
from headgate.kube.api_resources import NODES
from headgate.kube.serializer import wire_json
from headgate.store import Store

Wire = Mapping[str, Any]
_decode: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]]).decode


async def nodes_line(transport: Transport, asked: int, named: Collection[str]) -> str:
    """``asked``: how many simulated nodes there are to be. ``named``: resources that are always shown."""
    found = await perform(transport, list_all(NODES.collection_path(), _decode))
    return f"not known: {found.text}" if isinstance(found, ListRefused) else describe_nodes(found.items, asked, named)


def describe_nodes(nodes: Sequence[Wire], asked: int, named: Collection[str]) -> str:
    """How many are registered and ready, and the sizes that they report."""
    ready = sum(_is_ready(each) for each in nodes)
    count = f"{len(nodes)} registered" + (f" of {asked} so far" if len(nodes) < asked else "")
    if not nodes:
        return count if asked else "none"
    sizes = Counter(_size(each, named) for each in nodes)
    if len(sizes) == 1:
        return f"{count}, {ready} ready, each with {next(iter(sizes))}"
    return f"{count}, {ready} ready: " + "; ".join(f"{number} with {size}" for size, number in sizes.most_common())


def _is_ready(node: Wire) -> bool:
    return conditions.is_true((node.get("status") or {}).get("conditions"), "Ready")


def _size(node: Wire, named: Collection[str]) -> str:
    return ", ".join(_resources((node.get("status") or {}).get("capacity") or {}, named)) or "nothing"


def _resources(capacity: Mapping[str, str], named: Collection[str]) -> Iterator[str]:
    """Those that are named first, in their order, then extended resources."""
    shown = [*(each for each in named if each in capacity), *sorted(each for each in capacity if "/" in each)]
    yield from (f"{name} {capacity[name]}" for name in dict.fromkeys(shown))


_SWITCH_S: Final = 0.001
"""After this time a thread that works on a long request lets the event loop run. Python's 5 ms would pass several times
in a short request: each call that reads or writes a socket gives the interpreter lock away."""


async def run(plan: ClusterOptions, say: PrintLine) -> None:
    """Until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    sock = _bind(plan)
    try:
        async with _cluster(plan, sock, say):
            say("ready")
            await stop.wait()
            say("stopping")
    finally:
        sock.close()
    say("stopped; everything is kept in " + str(plan.data))


def _bind(plan: ClusterOptions) -> socket.socket:
    try:
        return listen(plan.host, plan.port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            fix = f"choose another with --listen {plan.host}:PORT (0: any free one)"
            raise StartupError(f"port {plan.port} on {plan.host} is in use; {fix}") from problem
        raise StartupError(f"cannot listen on {plan.host}:{plan.port}: {problem.strerror}; check --listen") from problem


@contextlib.asynccontextmanager
async def _cluster(plan: ClusterOptions, sock: socket.socket, say: PrintLine) -> AsyncIterator[None]:
    port = sock.getsockname()[1]
    url = f"https://[{plan.host}]:{port}" if ":" in plan.host else f"https://{plan.host}:{port}"
    async with contextlib.AsyncExitStack() as stack:
        served = await serve(plan, sock, say, stack)
        await components.start(plan, served, stack)
        metrics = await _show(plan, served, stack)
        authority = served.certificates.ca.read_bytes()
        try:
            write_kubeconfig(plan.kubeconfig, url, authority, served.credentials.admin_token)
        except (OSError, FileProblem) as problem:
            why = f"cannot write the kubeconfig {plan.kubeconfig}: {getattr(problem, 'strerror', problem)}"
            raise StartupError(f"{why}; make room, or name another place with --kubeconfig") from problem
        nodes = ""
        if "nodes" in plan.components:
            nodes = await nodes_line(served.client("headgate-up"), plan.node_count, plan.node_resources)
        _print_summary(plan, url, metrics, nodes, served.store, say)
        gc.freeze()  # tables and objects that stay: looking for garbage among them would hold up requests
        sys.setswitchinterval(_SWITCH_S)
        yield


async def _show(plan: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> str:
    """The address of the metrics; empty if they are not served."""
    if plan.metrics_at is None:
        return ""
    try:
        return await serve_metrics(served.meters.health, plan.metrics_at, stack)
    except OSError as problem:
        where = ":".join(map(str, plan.metrics_at))
        raise StartupError(f"cannot listen on {where}: {problem.strerror}; check --metrics-listen") from problem


def _print_summary(plan: ClusterOptions, url: str, metrics: str, nodes: str, store: Store, say: PrintLine) -> None:
    count = sum(store.count(resource) for resource in store.resources())
    say(f"headgate {headgate.__version__} serves the Kubernetes API {KUBERNETES_VERSION} at {url}")
    say(f"  data        {plan.data} ({count} objects, revision {store.committed})")
    if nodes:
        more = f"; {plan.autoscaler} (a model) buys more" if plan.autoscaler else ""
        say(f"  nodes       {nodes}{more}")
    if metrics:
        say(f"  metrics     {metrics}")
    say(f"  kubeconfig  {plan.kubeconfig}")
    say("")
    say("Type in another terminal:")
    say(f"  export KUBECONFIG={plan.kubeconfig.absolute()}")
    say("  kubectl get nodes" if "nodes" in plan.components else "  kubectl get namespaces")
    say("")
