"""The API server of a cluster: its store opened, its first objects written, its socket served; and all that undone.

What else runs in the process (``cli/components.py``) talks to it through :class:`Served`, like any client.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import platform
import socket
import ssl
import time
import zoneinfo
from collections.abc import Callable, Coroutine
from typing import Any, Final

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
from headgate.apiserver.discovery import version
from headgate.apiserver.expiry.events import Expiry
from headgate.apiserver.expiry.shell import Expirer
from headgate.apiserver.http.shell import HttpServer
from headgate.apiserver.http.tls.shell import TlsFiles
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.shell import Endpoint
from headgate.apiserver.tls.shell import Certificates, FileProblem, keep_valid
from headgate.capacity.definitions import FIRST_QUEUES
from headgate.capacity.names import QUEUES
from headgate.cli import bootstrap
from headgate.cli.admission import own_admission, policy_of
from headgate.cli.credentials import ISSUER, Access, Credentials, load_credentials
from headgate.cli.inprocess import in_process
from headgate.cli.install_crds import bring, carry_out
from headgate.cli.meters import Meters
from headgate.cli.pki import PKI, open_pki
from headgate.cli.plan import Plan, UpProblem
from headgate.client import installing
from headgate.client.transport import Transport
from headgate.kube import timestamps
from headgate.kube.protobuf import Messages
from headgate.kube.schema import Schemas
from headgate.quota.kinds.conversion import convert
from headgate.quota.names import GROUP
from headgate.store import Store
from headgate.store.file.shell import StoreProblem
from headgate.store.item import Revision
from headgate.store.journal.shell import CommitFailed, Journal
from headgate.store.shell import Committer

# The documentation block of RFC 5737: it stands for "this server" where loopback is not allowed.
_UNROUTED: Final = "192.0.2.1"
_QUEUEING: Final = frozenset({"scheduler", "quota", "jobs"})
"""The components that have kinds of their own."""

_log: Final = logging.getLogger(__name__)

Say = Callable[[str], None]


class Served(msgspec.Struct, frozen=True):
    """A server that answers, until the stack it was started on is closed."""

    endpoint: Endpoint
    store: Store
    credentials: Credentials
    certificates: Certificates
    meters: Meters = msgspec.field(default_factory=Meters)
    """Of what runs on it."""

    def client(self, name: str) -> Transport:
        """A client in this process that may do everything; ``name`` owns the fields it writes."""
        return in_process(self.endpoint, self.credentials.system_token, name)


async def serve(plan: Plan, sock: socket.socket, say: Say, stack: contextlib.AsyncExitStack) -> Served:
    store, journal = _open_store(plan, say)
    credentials, certificates = _open_identity(plan, store, journal)
    log = _open_audit_log(plan.access)
    if log is not None:
        stack.callback(log.close)
    api = _make_api(plan, store, credentials)
    endpoint = Endpoint(api, record=None if log is None else log.write)
    committer = Committer(store, journal, publish=endpoint.publish)
    endpoint.attach(committer)
    stack.push_async_callback(committer.close)
    stack.push_async_callback(endpoint.close)
    served = Served(endpoint, store, credentials, certificates)
    api.health.add("components", served.meters.board.restarts.problem)
    if api.keeps_quota:
        quota.recount(api, timestamps.format_time(time.time()))
        try:
            await committer.flush(store.applied)
        except CommitFailed as problem:
            _log.warning("what ResourceQuotas count was not brought up to date: %s", problem)
    await _write_first_objects(plan, api, served, sock.getsockname()[1])
    server = _serve_on(plan, endpoint, sock, served.certificates)
    ticking = asyncio.create_task(committer.keep_ticking())
    serving = asyncio.create_task(server.serve())
    stack.push_async_callback(_stop_serving, endpoint, server, serving, ticking)
    keep(stack, keep_valid(plan.data / PKI, plan.host, server.renew))
    if plan.event_ttl_s:
        keep(stack, Expirer(Expiry(api, plan.event_ttl_s), store, committer, plan.event_ttl_s).run())
    return served


def keep(stack: contextlib.AsyncExitStack, running: Coroutine[Any, Any, None]) -> None:
    """Run something until the stack is closed."""
    stack.push_async_callback(_cancel, asyncio.create_task(running))


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _make_api(plan: Plan, store: Store, credentials: Credentials) -> Api:
    tables = Schemas.load(schemas.read())
    return Api(
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
        guests=own_admission(policy_of(plan), store),
        conversions={GROUP: convert},
        disabled_plugins=plan.disabled_plugins,
    )


async def _write_first_objects(plan: Plan, api: Api, served: Served, port: int) -> None:
    # Clients know this manager's name from every other cluster's first objects.
    first = served.client("kube-apiserver")
    today = timestamps.format_time(time.time()).partition("T")[0]
    # A webhook that is down must not keep the server from starting: nobody could remove it then.
    with api.webhooks.asleep():
        await bootstrap.create_missing(first, bootstrap_objects(_address(plan.host), port, today))
        await bootstrap.bring_up_to_date(first, default_policy(), reconcile)
        if plan.components & _QUEUEING:
            await _write_queues(served.client(installing.MANAGER))


async def _write_queues(client: Transport) -> None:
    """The kinds that we serve, also in a folder that is older than they are."""
    for done in await bring(client, both=True):
        _checked(done)
    _checked(await carry_out(client, installing.create_missing(QUEUES, FIRST_QUEUES)))


def _checked(result: object) -> None:
    if isinstance(result, installing.Refused):
        raise UpProblem(f"cannot write the first objects: {result.text}")


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


def _open_store(plan: Plan, say: Say) -> tuple[Store, Journal]:
    def progress(done: int, total: int) -> None:
        if total > 50_000:
            say(f"loading {plan.data}: {done} of {total} rows")

    try:
        journal = Journal.open(plan.data)
        return journal.load(progress), journal
    except StoreProblem as problem:
        raise UpProblem(str(problem)) from problem


def _open_identity(plan: Plan, store: Store, journal: Journal) -> tuple[Credentials, Certificates]:
    has_objects = any(store.count(resource) for resource in store.resources())
    credentials: Credentials | str
    try:
        key, certificates = open_pki(plan.data, plan.host, store_has_objects=has_objects)
        credentials = load_credentials(plan.data, plan.access.token_file, key, store_has_objects=has_objects)
    except FileProblem as problem:
        credentials = str(problem)
    if isinstance(credentials, str):
        journal.close(Revision(store.next_revision() - 1))
        raise UpProblem(credentials)
    return credentials, certificates


def _address(host: str) -> str:
    """``host`` as an address that an endpoint may have; loopback and wildcards may not be endpoints of a Service."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _UNROUTED
    return _UNROUTED if address.is_loopback or address.is_unspecified or address.is_link_local else host


def _platform() -> str:
    return f"{platform.system()}/{platform.machine()}".lower()
