"""Starts the API server of an embedded cluster: it opens the store, writes the initial objects and serves the socket.

The other components of the process (``cli/embedded/components.py``) send their requests through
:meth:`RunningServer.client`, without a socket. The server treats them like any other request.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import platform
import socket
import ssl
import time
import zoneinfo
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import msgspec

import headgate
from headgate import schemas
from headgate.apimachinery.protobuf import MessageDecoder
from headgate.apiserver.authn.service_account_tokens import ServiceAccountTokens
from headgate.apiserver.authz.bootstrap_policy.policy_objects import default_policy
from headgate.apiserver.authz.bootstrap_policy.reconciliation import reconcile
from headgate.apiserver.bootstrap_objects import bootstrap_objects
from headgate.apiserver.discovery.documents import version
from headgate.apiserver.health_checks import HealthChecks
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.audit_log import AuditLog
from headgate.apiserver.io.certificate_files import Certificates, FileProblem, keep_valid
from headgate.apiserver.io.event_expirer import EventExpirer
from headgate.apiserver.io.http_server import SecureServing
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.metrics import APIServerMetrics
from headgate.apiserver.registry import resource_quota_usage
from headgate.apiserver.registry.event_expiry import EventExpiryQueue
from headgate.apiserver.request import messages
from headgate.apiserver.state import ServerState
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.capacity.kinds.definitions import BUILTIN_QUEUES
from headgate.capacity.names import QUEUES
from headgate.cli.embedded import bootstrap
from headgate.cli.embedded.admission import own_admission, settings_of
from headgate.cli.embedded.cluster_options import ClusterOptions, StartupError
from headgate.cli.embedded.credentials import ISSUER, AccessOptions, ServerCredentials, load_credentials
from headgate.cli.embedded.ignored_policies import mark_ignored_policies
from headgate.cli.embedded.pki import PKI, open_pki
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.definitions import install_definitions, install_gate_policies, perform_requests
from headgate.cli.wiring.event_loop import run_in_background
from headgate.cli.wiring.metrics import ProcessMetrics
from headgate.client import installer
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.server_tls import TLSFiles
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube import timestamps
from headgate.kube.schema import Schemas
from headgate.nodes.io.node_clock import NodeClock
from headgate.quota.kinds.conversion import convert
from headgate.quota.names import GROUP
from headgate.store import Store
from headgate.store.io.committer import Committer
from headgate.store.io.database_file import FILE, StoreError
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.item import Revision


def in_process(endpoint: APIServer, token: str, user_agent: str) -> InProcessTransport:
    async def handle(request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        server_request = messages.ServerRequest(
            request.method, request.path, request.query, request.headers, request.body
        )
        response = await endpoint.answer(server_request)
        if isinstance(response, WatchCursor):
            return endpoint.events(response)
        headers = {name.lower(): value for name, value in response.headers}
        return HTTPResponse(response.status, {**headers, "content-type": response.content_type}, response.body)

    return InProcessTransport(handle, {"authorization": f"Bearer {token}", "user-agent": user_agent})


# A documentation address (RFC 5737). It represents this server in Endpoints, where a loopback address is not allowed.
_PLACEHOLDER_ADDRESS: Final = "192.0.2.1"
_QUEUE_COMPONENTS: Final = frozenset({"scheduler", "quota", "jobs"})
"""The components that need the CRDs of the queues."""

_log: Final = logging.getLogger(__name__)

PrintLine = Callable[[str], None]


class RunningServer(msgspec.Struct, frozen=True):
    """A server that runs until its exit stack is closed."""

    endpoint: APIServer
    store: Store
    credentials: ServerCredentials
    certificates: Certificates
    health: HealthChecks
    metrics: ProcessMetrics = msgspec.field(default_factory=ProcessMetrics)
    """The metrics of the components."""
    node_clock: NodeClock = msgspec.field(default_factory=NodeClock)

    def client(self, name: str) -> Transport:
        """A client in this process with all permissions; ``name`` is its field manager."""
        return in_process(self.endpoint, self.credentials.system_token, name)


async def serve(
    options: ClusterOptions, sock: socket.socket, print_line: PrintLine, stack: contextlib.AsyncExitStack
) -> RunningServer:
    store, journal = _open_store(options, print_line)
    credentials, certificates = _open_identity(options, store, journal)
    log = _open_audit_log(options.access)
    if log is not None:
        stack.callback(log.close)
    api = _make_api(options, store, credentials)
    size_bytes = functools.partial(data_bytes, options.data)
    metrics = None if options.metrics_at is None else APIServerMetrics(store, size_bytes)
    endpoint = APIServer(api, record=None if log is None else log.write, metrics=metrics)
    committer = Committer(
        store, journal, publish=endpoint.publish, ended=_ignore_commit if metrics is None else metrics.commit_ended
    )
    endpoint.attach(committer)
    stack.push_async_callback(committer.close)
    stack.push_async_callback(endpoint.close)
    served = RunningServer(endpoint, store, credentials, certificates, api.health)
    if metrics is not None:
        served.metrics.health_registry.add_metrics_page(metrics.page)
    api.health.add("components", served.metrics.health_registry.restarts.problem)
    if api.tracks_quota_usage:
        resource_quota_usage.recalculate_all(api, timestamps.format_time(time.time()))
        try:
            await committer.flush(store.applied)
        except CommitFailed as problem:
            _log.warning("the usage in the status of ResourceQuotas could not be updated: %s", problem)
    await _write_initial_objects(options, api, served, sock.getsockname()[1])
    server = _make_http_server(options, endpoint, sock, served.certificates)
    ticking = asyncio.create_task(committer.run_ticks())
    serving = asyncio.create_task(server.serve())
    stack.push_async_callback(_stop_serving, endpoint, server, serving, ticking)
    run_in_background(stack, keep_valid(options.data / PKI, options.host, server.renew))
    if options.event_ttl_s:
        run_in_background(
            stack, EventExpirer(EventExpiryQueue(api, options.event_ttl_s), store, committer, options.event_ttl_s).run()
        )
    return served


def data_bytes(folder: Path) -> int:
    """The size of the data file and of the files that SQLite keeps beside it."""
    return sum(each.stat().st_size for each in folder.glob(f"{FILE}*") if each.is_file())


def _ignore_commit(took_s: float, changes: int, ok: bool) -> None:
    """Commits are measured only if the metrics are served."""


def _make_api(options: ClusterOptions, store: Store, credentials: ServerCredentials) -> ServerState:
    tables = Schemas.load(schemas.read())
    return ServerState(
        schemas=tables,
        messages=MessageDecoder.load(tables, schemas.read_numbers()),
        kinds=BUILTIN,
        store=store,
        features=options.features,
        users=credentials.users,
        accounts=ServiceAccountTokens(ISSUER, credentials.key, store),
        version=version(headgate.__version__, platform.python_version(), _platform()),
        time_zones=frozenset(zoneinfo.available_timezones()),
        tracks_quota_usage="controllers" in options.components,
        audit_level=options.access.audit_level,
        extra_plugins=own_admission(settings_of(options), store),
        conversions={GROUP: convert},
        disabled_plugins=options.disabled_plugins,
    )


async def _write_initial_objects(options: ClusterOptions, api: ServerState, served: RunningServer, port: int) -> None:
    # kube-apiserver is the field manager of these objects in other clusters, too.
    client = served.client("kube-apiserver")
    today = timestamps.format_time(time.time()).partition("T")[0]
    # An unreachable webhook must not prevent the start, because then it could not be removed.
    with api.webhooks.disabled():
        await bootstrap.create_missing(client, bootstrap_objects(_address(options.host), port, today))
        await bootstrap.reconcile_objects(client, default_policy(), reconcile)
        if options.components & _QUEUE_COMPONENTS:
            await _write_queues(served.client(installer.MANAGER))
        if options.features.gate_ownership:
            _raise_if_refused(await install_gate_policies(served.client(installer.MANAGER)))
        else:
            await perform(served.client(installer.MANAGER), mark_ignored_policies())


async def _write_queues(client: Transport) -> None:
    """Installs the CRDs of the queues, also in a data folder of an older version."""
    for done in await install_definitions(client, serve_v1beta1=True):
        _raise_if_refused(done)
    _raise_if_refused(await perform_requests(client, installer.create_missing(QUEUES, BUILTIN_QUEUES)))


def _raise_if_refused(result: object) -> None:
    if isinstance(result, installer.InstallRefused):
        raise StartupError(f"cannot write the initial objects: {result.text}")


def _make_http_server(
    options: ClusterOptions, endpoint: APIServer, sock: socket.socket, certificates: Certificates
) -> SecureServing:
    extra_cas = () if options.access.client_ca is None else (options.access.client_ca,)
    try:
        files = TLSFiles(certificates.server, certificates.server_key, (certificates.ca, *extra_cas))
        return SecureServing(endpoint, sock, files)
    except OSError as problem:
        why = problem.strerror if problem.filename or not isinstance(problem, ssl.SSLError) else "no certificate in it"
        raise StartupError(f"{options.access.client_ca} cannot be used: {why}; check --client-ca") from problem


def _open_audit_log(access: AccessOptions) -> AuditLog | None:
    if access.audit_log is None or access.audit_level is None:
        return None
    try:
        return AuditLog(access.audit_log)
    except OSError as problem:
        raise StartupError(f"cannot write --audit-log {access.audit_log}: {problem.strerror}") from problem


async def _stop_serving(
    endpoint: APIServer, server: SecureServing, serving: asyncio.Task[None], ticking: asyncio.Task[None]
) -> None:
    endpoint.stop()
    server.stop()
    ticking.cancel()
    await asyncio.gather(serving, ticking, return_exceptions=True)


def _open_store(options: ClusterOptions, print_line: PrintLine) -> tuple[Store, Journal]:
    def progress(done: int, total: int) -> None:
        if total > 50_000:
            print_line(f"loading {options.data}: {done} of {total} rows")

    try:
        journal = Journal.open(options.data)
        return journal.load(progress), journal
    except StoreError as problem:
        raise StartupError(str(problem)) from problem


def _open_identity(options: ClusterOptions, store: Store, journal: Journal) -> tuple[ServerCredentials, Certificates]:
    has_objects = any(store.count(resource) for resource in store.resources())
    credentials: ServerCredentials | str
    try:
        key, certificates = open_pki(options.data, options.host, store_has_objects=has_objects)
        credentials = load_credentials(options.data, options.access.token_file, key, store_has_objects=has_objects)
    except FileProblem as problem:
        credentials = str(problem)
    if isinstance(credentials, str):
        journal.close(Revision(store.next_revision() - 1))
        raise StartupError(credentials)
    return credentials, certificates


def _address(host: str) -> str:
    """``host`` as an endpoint address; loopback and wildcard addresses may not be endpoints of a Service."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _PLACEHOLDER_ADDRESS
    return _PLACEHOLDER_ADDRESS if address.is_loopback or address.is_unspecified or address.is_link_local else host


def _platform() -> str:
    return f"{platform.system()}/{platform.machine()}".lower()
