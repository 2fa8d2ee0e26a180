"""A whole cluster in one process, from its socket to the line that says what to type next; and down again in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import Final

import headgate
from headgate.apiserver.discovery import KUBERNETES_VERSION
from headgate.apiserver.http.shell import listen
from headgate.apiserver.tls.shell import FileProblem
from headgate.cli import components
from headgate.cli.banner import nodes_line
from headgate.cli.kubeconfig import write_kubeconfig
from headgate.cli.meters import show
from headgate.cli.plan import Plan, UpProblem
from headgate.cli.server import Say, Served, serve
from headgate.store import Store

_SWITCH_S: Final = 0.001
"""After this time a thread that works on a long request lets the event loop run. Python's 5 ms would pass several times
in a short request: each call that reads or writes a socket gives the interpreter lock away."""


async def run(plan: Plan, say: Say) -> None:
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


def _bind(plan: Plan) -> socket.socket:
    try:
        return listen(plan.host, plan.port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            fix = f"choose another with --listen {plan.host}:PORT (0: any free one)"
            raise UpProblem(f"port {plan.port} on {plan.host} is in use; {fix}") from problem
        raise UpProblem(f"cannot listen on {plan.host}:{plan.port}: {problem.strerror}; check --listen") from problem


@contextlib.asynccontextmanager
async def _cluster(plan: Plan, sock: socket.socket, say: Say) -> AsyncIterator[None]:
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
            raise UpProblem(f"{why}; make room, or name another place with --kubeconfig") from problem
        nodes = ""
        if "nodes" in plan.components:
            nodes = await nodes_line(served.client("headgate-up"), plan.node_count, plan.node_resources)
        _tell(plan, url, metrics, nodes, served.store, say)
        gc.freeze()  # tables and objects that stay: looking for garbage among them would hold up requests
        sys.setswitchinterval(_SWITCH_S)
        yield


async def _show(plan: Plan, served: Served, stack: contextlib.AsyncExitStack) -> str:
    """Where metrics are; nothing if nobody asked for them."""
    if plan.metrics_at is None:
        return ""
    try:
        return await show(served.meters.board, plan.metrics_at, stack)
    except OSError as problem:
        where = ":".join(map(str, plan.metrics_at))
        raise UpProblem(f"cannot listen on {where}: {problem.strerror}; check --metrics-listen") from problem


def _tell(plan: Plan, url: str, metrics: str, nodes: str, store: Store, say: Say) -> None:
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
