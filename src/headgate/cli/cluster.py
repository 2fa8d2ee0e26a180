"""Wires a whole cluster into one process: store, API server, socket, nodes; and takes it down again in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import ipaddress
import platform
import signal
import socket
import ssl
import time
import zoneinfo
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import headgate
from headgate import schemas
from headgate.apiserver import quota
from headgate.apiserver.access.accounts import Accounts
from headgate.apiserver.access.defaults.reconcile import reconcile
from headgate.apiserver.access.defaults.roles import default_policy
from headgate.apiserver.api import Api
from headgate.apiserver.audit.shell import AuditLog
from headgate.apiserver.bootstrap import bootstrap_objects
from headgate.apiserver.discovery import KUBERNETES_VERSION, version
from headgate.apiserver.expiry.events import Expiry
from headgate.apiserver.expiry.shell import Expirer
from headgate.apiserver.http.shell import HttpServer, listen
from headgate.apiserver.http.tls.shell import TlsFiles
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.shell import Endpoint
from headgate.apiserver.tls.shell import Certificates, ensure, keep_valid
from headgate.cli import bootstrap
from headgate.cli.credentials import ISSUER, Access, load_credentials
from headgate.cli.inprocess import in_process
from headgate.cli.kubeconfig import write_kubeconfig
from headgate.client.transport import Transport
from headgate.control.shell import keep_running
from headgate.kube import quantity, timestamps
from headgate.kube.features import Features
from headgate.kube.protobuf import Messages
from headgate.kube.schema import Schemas
from headgate.nodes.hollow import Hollow
from headgate.nodes.options import RESOURCES, Options
from headgate.nodes.shell import Fleet
from headgate.nodes.template import Template, make_nodes
from headgate.owners.collector import Collector
from headgate.owners.contract import Controller
from headgate.owners.namespaces import Namespaces
from headgate.owners.role_sums import RoleSums
from headgate.owners.root_certificates import RootCertificates
from headgate.owners.service_accounts import ServiceAccounts
from headgate.owners.stray_pods import StrayPods
from headgate.store import Store
from headgate.store.file.shell import StoreProblem
from headgate.store.journal.shell import Journal
from headgate.store.shell import Committer

COMPONENTS: Final = ("apiserver", "nodes", "controllers")

# The documentation block of RFC 5737: it stands for "this server" where loopback is not allowed.
_UNROUTED: Final = "192.0.2.1"

_NODES_S: Final = 10.0

Say = Callable[[str], None]


class UpProblem(Exception):
    """The cluster cannot start; the text is one line with the fix in it."""


class Plan(msgspec.Struct, frozen=True):
    data: Path
    host: str
    port: int
    kubeconfig: Path
    components: frozenset[str]
    node_count: int
    node_resources: Mapping[str, str]
    features: Features
    access: Access
    event_ttl_s: float = 3600.0

    @classmethod
    def parse(
        cls,
        *,
        data: Path,
        listen: str,
        kubeconfig: Path,
        components: str,
        node_count: int,
        node_resources: Mapping[str, str],
        further_resources: Sequence[str],
        features: Features,
        access: Access,
        event_ttl: str = "1h",
    ) -> Plan | str:
        """A plan from what was typed, or what is wrong with it."""
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            return f"--listen {listen!r} is not HOST:PORT; try 127.0.0.1:6443"
        chosen = frozenset(each.strip() for each in components.split(",") if each.strip())
        unknown = sorted(chosen - set(COMPONENTS))
        if unknown:
            return f"--components names {', '.join(unknown)}, which is not one of {', '.join(COMPONENTS)}"
        if "apiserver" not in chosen:
            return "--components must name apiserver: nothing else runs without it"
        resources = dict(node_resources)
        for text in further_resources:
            name, equals, amount = text.partition("=")
            if not equals:
                return f"--node-resource {text!r} is not NAME=QUANTITY; try nvidia.com/gpu=4"
            resources[name] = amount
        for name, amount in resources.items():
            problem = quantity.parse(amount)
            if isinstance(problem, str):
                return f"{amount!r} is not an amount of {name}: {problem}"
        ttl_ns = timestamps.parse_duration(event_ttl)
        if isinstance(ttl_ns, str) or ttl_ns < 0:
            return f"--event-ttl {event_ttl!r} is not a duration; try 1h, 90m, or 0 to keep events for ever"
        return cls(
            data=data,
            host=host.strip("[]") or "127.0.0.1",
            port=int(port),
            kubeconfig=kubeconfig,
            components=chosen,
            node_count=node_count,
            node_resources=resources,
            features=features,
            access=access,
            event_ttl_s=ttl_ns / 1e9,
        )


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
        store, journal = _open_store(plan, say)
        credentials = load_credentials(plan.data, plan.access.token_file)
        if isinstance(credentials, str):
            raise UpProblem(credentials)
        system_token = credentials.system_token
        tables = Schemas.load(schemas.read())
        api = Api(
            schemas=tables,
            messages=Messages.load(tables, schemas.read_numbers()),
            kinds=BUILTIN,
            store=store,
            features=plan.features,
            users=credentials.users,
            accounts=Accounts(ISSUER, credentials.key, store),
            version=version(headgate.__version__, platform.python_version(), _platform()),
            time_zones=frozenset(zoneinfo.available_timezones()),
            keeps_quota="controllers" in plan.components,
            audit_level=plan.access.audit_level,
        )
        log = _open_audit_log(plan.access)
        if log is not None:
            stack.callback(log.close)
        endpoint = Endpoint(api, record=None if log is None else log.write)
        committer = Committer(store, journal, publish=endpoint.publish)
        endpoint.attach(committer)
        stack.push_async_callback(committer.close)
        stack.push_async_callback(endpoint.close)
        if api.keeps_quota:
            quota.recount(api, timestamps.format_time(time.time()))
            await committer.flush(store.applied)
        # Clients know this manager's name from every other cluster's first objects.
        first = in_process(endpoint, system_token, "kube-apiserver")
        today = timestamps.format_time(time.time()).partition("T")[0]
        # A webhook that is down must not keep the server from starting: nobody could remove it then.
        with api.webhooks.asleep():
            await bootstrap.create_missing(first, bootstrap_objects(_address(plan.host), port, today))
            await bootstrap.bring_up_to_date(first, default_policy(), reconcile)
        certificates = ensure(plan.data / "pki", plan.host)
        server = _serve_on(plan, endpoint, sock, certificates)
        ticking = asyncio.create_task(committer.keep_ticking())
        serving = asyncio.create_task(server.serve())
        stack.push_async_callback(_stop_serving, endpoint, server, serving, ticking)
        renewing = asyncio.create_task(keep_valid(plan.data / "pki", plan.host, server.renew))
        stack.push_async_callback(_cancel, renewing)
        if plan.event_ttl_s:
            expirer = Expirer(Expiry(api, plan.event_ttl_s), store, committer, plan.event_ttl_s)
            stack.push_async_callback(_cancel, asyncio.create_task(expirer.run()))
        if "nodes" in plan.components:
            fleet = _fleet(plan, in_process(endpoint, system_token, "headgate-nodes"))
            stack.push_async_callback(_cancel, asyncio.create_task(fleet.run()))
            # Who types the first command should meet nodes; a very large fleet goes on reporting after that.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NODES_S):
                    await fleet.reported.wait()
        if "controllers" in plan.components:
            # The name that clients know from every other cluster, as the owner of what controllers write.
            client = in_process(endpoint, system_token, "kube-controller-manager")
            authority = certificates.ca.read_text()
            keeping = asyncio.create_task(keep_running(lambda: _controllers(authority), client))
            stack.push_async_callback(_cancel, keeping)
        write_kubeconfig(plan.kubeconfig, url, certificates.ca.read_bytes(), credentials.admin_token)
        _tell(plan, url, store, say)
        gc.freeze()  # tables and objects that stay: looking for garbage among them would hold up requests
        yield


def _serve_on(plan: Plan, endpoint: Endpoint, sock: socket.socket, certificates: Certificates) -> HttpServer:
    further = () if plan.access.client_ca is None else (plan.access.client_ca,)
    try:
        files = TlsFiles(certificates.server, certificates.server_key, (certificates.ca, *further))
        return HttpServer(endpoint, sock, files)
    except OSError as problem:
        why = problem.strerror if problem.filename or not isinstance(problem, ssl.SSLError) else "no certificate in it"
        raise UpProblem(f"{plan.access.client_ca} cannot be used: {why}; check --client-ca") from problem


def _open_audit_log(access: Access) -> AuditLog | None:
    if access.audit_log is None or access.audit_level is None:
        return None
    try:
        return AuditLog(access.audit_log)
    except OSError as problem:
        raise UpProblem(f"cannot write --audit-log {access.audit_log}: {problem.strerror}") from problem


async def _stop_serving(
    endpoint: Endpoint, server: HttpServer, serving: asyncio.Task[None], ticking: asyncio.Task[None]
) -> None:
    endpoint.stop()
    server.stop()
    ticking.cancel()
    await asyncio.gather(serving, ticking, return_exceptions=True)


def _fleet(plan: Plan, client: Transport) -> Fleet:
    resources = {**RESOURCES, **plan.node_resources}
    wanted = make_nodes(plan.node_count, Template(resources=resources))
    # Without controllers of ours somebody else's watch over the nodes: theirs to untaint, ours to renew leases for.
    options = Options(resources=resources, controller_manager="controllers" not in plan.components)
    return Fleet(Hollow(options, wanted), client)


def _controllers(authority: str) -> list[Controller]:
    return [Namespaces(), Collector(), StrayPods(), ServiceAccounts(), RootCertificates(authority), RoleSums()]


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _open_store(plan: Plan, say: Say) -> tuple[Store, Journal]:
    def progress(done: int, total: int) -> None:
        if total > 50_000:
            say(f"loading {plan.data}: {done} of {total} rows")

    try:
        journal = Journal.open(plan.data)
        return journal.load(progress), journal
    except StoreProblem as problem:
        raise UpProblem(str(problem)) from problem


def _address(host: str) -> str:
    """``host`` as an address that an endpoint may have; loopback and wildcards may not be endpoints of a Service."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _UNROUTED
    return _UNROUTED if address.is_loopback or address.is_unspecified or address.is_link_local else host


def _platform() -> str:
    return f"{platform.system()}/{platform.machine()}".lower()


def _tell(plan: Plan, url: str, store: Store, say: Say) -> None:
    count = sum(store.count(resource) for resource in store.resources())
    say(f"headgate {headgate.__version__} serves the Kubernetes API {KUBERNETES_VERSION} at {url}")
    say(f"  data        {plan.data} ({count} objects, revision {store.committed})")
    if "nodes" in plan.components:
        shape = ", ".join(f"{name} {amount}" for name, amount in plan.node_resources.items())
        say(f"  nodes       {plan.node_count} simulated, each with {shape}")
    say(f"  kubeconfig  {plan.kubeconfig}")
    say("")
    say("Type in another terminal:")
    say(f"  export KUBECONFIG={plan.kubeconfig.absolute()}")
    say("  kubectl get nodes" if "nodes" in plan.components else "  kubectl get namespaces")
    say("")
