"""Starts the cluster of ``headgate up`` in this process, prints a summary, and stops all components in order.

The summary shows the state that is read from the API server. ``cli/embedded/server.py`` starts the API server,
``cli/embedded/components.py`` starts the other components.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

import headgate
from headgate.apiserver.discovery.documents import KUBERNETES_VERSION
from headgate.apiserver.io.certificate_files import FileProblem
from headgate.cli.embedded import components
from headgate.cli.embedded.cluster_options import ClusterOptions, StartupError
from headgate.cli.embedded.kubeconfig import write_kubeconfig
from headgate.cli.embedded.process_record import FILE_NAME, own_record, remove_record, write_record
from headgate.cli.embedded.server import PrintLine, RunningServer, in_process, serve
from headgate.cli.embedded.start_report import StartReport, stop_at_end_of
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.expected_starts import prepare_starts_of
from headgate.cli.wiring.metrics import serve_metrics_and_health
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.dashboard.io.server import PageOptions, serve_page
from headgate.http.server import listen
from headgate.http.transport import Transport
from headgate.kube import conditions
from headgate.kube.api_resources import NODES
from headgate.kube.serializer import wire_json
from headgate.nodes.io.node_clock import NodeClock
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS
from headgate.store import Store

Wire = Mapping[str, Any]
_log: Final = logging.getLogger(__name__)
_decode: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]]).decode


async def nodes_line(transport: Transport, expected: int, shown_resources: Collection[str]) -> str:
    """``expected``: the number of simulated nodes. ``shown_resources``: resources that are always shown."""
    found = await perform(transport, list_all(NODES.collection_path(), _decode))
    return (
        f"not known: {found.text}"
        if isinstance(found, ListRefused)
        else describe_nodes(found.items, expected, shown_resources)
    )


def describe_nodes(nodes: Sequence[Wire], expected: int, shown_resources: Collection[str]) -> str:
    """The number of registered and ready nodes, and their sizes."""
    ready = sum(_is_ready(each) for each in nodes)
    count = f"{len(nodes)} registered" + (f" of {expected} so far" if len(nodes) < expected else "")
    if not nodes:
        return count if expected else "none"
    sizes = Counter(_size(each, shown_resources) for each in nodes)
    if len(sizes) == 1:
        return f"{count}, {ready} ready, each with {next(iter(sizes))}"
    return f"{count}, {ready} ready: " + "; ".join(f"{number} with {size}" for size, number in sizes.most_common())


def _is_ready(node: Wire) -> bool:
    return conditions.is_true((node.get("status") or {}).get("conditions"), "Ready")


def _size(node: Wire, shown_resources: Collection[str]) -> str:
    return ", ".join(_resources((node.get("status") or {}).get("capacity") or {}, shown_resources)) or "nothing"


def _resources(capacity: Mapping[str, str], shown_resources: Collection[str]) -> Iterator[str]:
    """First the shown resources in their order, then extended resources."""
    shown = [*(each for each in shown_resources if each in capacity), *sorted(each for each in capacity if "/" in each)]
    yield from (f"{name} {capacity[name]}" for name in dict.fromkeys(shown))


_SWITCH_INTERVAL_S: Final = 0.001
"""The switch interval of the GIL. The event loop releases the GIL at each socket call; with Python's default of 5 ms it
would then wait up to 5 ms to get it back, several times per short request."""


class RunningCluster(msgspec.Struct, frozen=True):
    """``url``: the address of its API server; ``page``: of its live page, with a token."""

    url: str
    node_clock: NodeClock
    page: str = ""


async def run(
    options: ClusterOptions,
    print_line: PrintLine,
    report: Callable[[StartReport], None] = lambda report: None,
    stop_descriptor: int | None = None,
) -> None:
    """Runs until SIGINT or SIGTERM, or until the other end of the pipe ``stop_descriptor`` is closed. ``report`` is
    called when the server is ready."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    stop_at_end_of(stop_descriptor, stop.set)
    async with running_cluster(options, print_line, has_own_process=True) as cluster:
        gc.freeze()  # tables and objects are never freed; scanning them for garbage would delay requests
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        print_line("ready")
        report(StartReport(cluster.url, str(options.kubeconfig.absolute()), page=cluster.page))
        await stop.wait()
        print_line("stopping")
    print_line("stopped; everything is kept in " + str(options.data))


@contextlib.asynccontextmanager
async def running_cluster(
    options: ClusterOptions, print_line: PrintLine, *, has_own_process: bool = False
) -> AsyncIterator[RunningCluster]:
    """A cluster in this event loop until the end of the context. Raises ``StartupError``. ``has_own_process``: whether
    ``headgate down`` may stop the process."""
    sock = _bind(options)
    try:
        async with _cluster(options, sock, print_line, has_own_process) as cluster:
            yield cluster
    finally:
        sock.close()


def _bind(options: ClusterOptions) -> socket.socket:
    try:
        return listen(options.host, options.port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            fix = f"choose another with --listen {options.host}:PORT (0: any free one)"
            raise StartupError(f"port {options.port} on {options.host} is in use; {fix}") from problem
        raise StartupError(
            f"cannot listen on {options.host}:{options.port}: {problem.strerror}; check --listen"
        ) from problem


@contextlib.asynccontextmanager
async def _cluster(
    options: ClusterOptions, sock: socket.socket, print_line: PrintLine, has_own_process: bool
) -> AsyncIterator[RunningCluster]:
    port = sock.getsockname()[1]
    url = f"https://[{options.host}]:{port}" if ":" in options.host else f"https://{options.host}:{port}"
    async with contextlib.AsyncExitStack() as stack:
        served = await serve(options, sock, print_line, stack)
        if has_own_process:
            _keep_record(options, url, stack)
        await components.start(options, served, stack)
        metrics = await _serve_metrics(options, served, stack)
        authority = served.certificates.ca.read_bytes()
        try:
            write_kubeconfig(options.kubeconfig, url, authority, served.credentials.admin_token)
        except (OSError, FileProblem) as problem:
            why = f"cannot write the kubeconfig {options.kubeconfig}: {getattr(problem, 'strerror', problem)}"
            raise StartupError(f"{why}; free disk space, or pass another path with --kubeconfig") from problem
        nodes = ""
        if "nodes" in options.components:
            nodes = await nodes_line(served.client("headgate-up"), options.node_count, options.node_resources)
        page = await _serve_page(options, served, url, stack)
        _print_summary(options, url, metrics, nodes, page, served.store, print_line)
        yield RunningCluster(url, served.node_clock, page)


def _keep_record(options: ClusterOptions, url: str, stack: contextlib.AsyncExitStack) -> None:
    """``headgate down`` needs the record, and the server does not: it runs also on a full disk."""
    try:
        write_record(options.data, own_record(url, options.kubeconfig))
    except OSError as problem:
        _log.warning("%s cannot be written: %s; `headgate down` will not find this server", FILE_NAME, problem.strerror)
        remove_record(options.data)
    stack.callback(remove_record, options.data)


async def _serve_metrics(options: ClusterOptions, served: RunningServer, stack: contextlib.AsyncExitStack) -> str:
    """The address of the metrics; empty if they are not served."""
    if options.metrics_at is None:
        return ""
    try:
        return await serve_metrics_and_health(served.metrics.health_registry, options.metrics_at, stack)
    except OSError as problem:
        where = ":".join(map(str, options.metrics_at))
        raise StartupError(f"cannot listen on {where}: {problem.strerror}; check --metrics-listen") from problem


async def _serve_page(
    options: ClusterOptions, served: RunningServer, url: str, stack: contextlib.AsyncExitStack
) -> str:
    """The address of the page; empty if it is not served. It reads the cluster only while it is looked at."""
    if options.dashboard_at is None:
        return ""
    host, port = options.dashboard_at
    try:
        sock = listen(host, port)
    except OSError as problem:
        if problem.errno != errno.EADDRINUSE or not options.dashboard_may_move:
            fix = "choose another with --dashboard-listen (port 0: any free one), or pass --no-dashboard"
            raise StartupError(f"cannot serve the page on {host}:{port}: {problem.strerror}; {fix}") from problem
        sock = listen(host, 0)
    stack.callback(sock.close)
    transport = served.client("headgate-dashboard")

    def open_as(token: str) -> Transport:
        return in_process(served.endpoint, token or served.credentials.admin_token, "headgate-dashboard")

    page_options = PageOptions(
        url,
        secret=served.credentials.admin_token,
        open_as=open_as if options.dashboard_allows_actions else None,
        prepare_starts=prepare_starts_of(QUEUE_SCHEDULERS, ()),
    )
    page = await stack.enter_async_context(serve_page(transport, sock, host, page_options))
    return page.address


def _print_summary(
    options: ClusterOptions, url: str, metrics: str, nodes: str, page: str, store: Store, print_line: PrintLine
) -> None:
    count = sum(store.count(resource) for resource in store.resources())
    print_line(f"headgate {headgate.__version__} serves the Kubernetes API {KUBERNETES_VERSION} at {url}")
    print_line(f"  data        {options.data} ({count} objects, revision {store.committed})")
    if nodes:
        more = f"; a simulated {options.autoscaler} adds more" if options.autoscaler else ""
        print_line(f"  nodes       {nodes}{more}")
    if metrics:
        print_line(f"  metrics     {metrics}")
    if page:
        print_line(f"  page        {page}")
    print_line(f"  kubeconfig  {options.kubeconfig}")
    print_line("")
    print_line("Type in another terminal:")
    print_line(f"  export KUBECONFIG={options.kubeconfig.absolute()}")
    print_line("  kubectl get nodes" if "nodes" in options.components else "  kubectl get namespaces")
    print_line("")
