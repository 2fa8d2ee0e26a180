"""``headgate dashboard``: serves the live page for a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ssl
from pathlib import Path
from typing import Final

import click

from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import (
    cluster_options,
    connect_component,
    exit_with_error,
    perform,
    rest_config_or_exit,
)
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import served_option
from headgate.cli.wiring.event_loop import loop_factory
from headgate.cli.wiring.expected_starts import prepare_starts_of
from headgate.cli.wiring.shutdown import ShutdownSignals
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.dashboard.io.server import PageOptions, PageTLS, serve_page
from headgate.http.peer import is_loopback
from headgate.http.server import listen
from headgate.http.server_tls import key_pair_context
from headgate.http.transport import Transport, Unreachable
from headgate.runtime.health.secured_server import CertificateFiles
from headgate.runtime.preflight import check_scheduling_gates
from headgate.views.cluster_views import ClusterViews

_DEFAULT_LISTEN: Final = "127.0.0.1:6480"


@click.command(short_help="Serve the live page of a cluster: queues, what waits, gates, nodes, problems.")
@click.option(
    "--listen",
    "listen_at",
    default=_DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the page. Port 0: any free port. An address that is not loopback needs a certificate.",
)
@click.option(
    "--tls-cert-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="The certificate of the page (PEM), with --tls-private-key-file.",
)
@click.option(
    "--tls-private-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="The key of the certificate (PEM).",
)
@click.option(
    "--own-certificate",
    is_flag=True,
    help="Serve over TLS with a certificate that the process makes itself. Browsers do not know it and warn.",
)
@click.option(
    "--user-tokens-only",
    is_flag=True,
    help="Print no token: every viewer logs in with a bearer token of the cluster.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Let viewers lift gates, hold and resume queues and jobs, and change priorities, each with the viewer's own "
    "rights. [default: the page changes nothing]",
)
@served_option
@cluster_options
@log_options
def command(
    listen_at: str,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    own_certificate: bool,
    user_tokens_only: bool,
    allow_actions: bool,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Serve the live page of a cluster, and print its address.

    The page shows what waits in queues and why, how full queues and nodes are, which gates hold pods, and what is
    wrong. It reads with the rights of the kubeconfig, and changes nothing without --allow-actions. It runs until
    Ctrl-C.

    The printed address has a token in its fragment: a browser that opens it sees what the kubeconfig may read. Other
    users log in with a bearer token of the cluster (kubectl create token NAME), and see what they could list
    themselves; that needs the right to create tokenreviews and subjectaccessreviews.

    \b
    Example:
      headgate dashboard
      headgate dashboard --context production --listen 127.0.0.1:0
      headgate dashboard --allow-actions
      headgate dashboard --listen 0.0.0.0:8443 --own-certificate --user-tokens-only
    """
    address = parse_address("--listen", listen_at, _DEFAULT_LISTEN)
    if isinstance(address, str):
        raise click.UsageError(address)
    tls = _page_tls(address[0], tls_cert_file, tls_private_key_file, makes_own=own_certificate)
    rest_config = rest_config_or_exit("dashboard", kubeconfig, context)
    make_views = functools.partial(ClusterViews, frozenset(served), frozenset(gated))
    open_as = functools.partial(_open_as, rest_config) if allow_actions else None
    options = PageOptions(
        rest_config.server,
        make_views,
        tls,
        has_operator=not user_tokens_only,
        open_as=open_as,
        prepare_starts=prepare_starts_of(served, gated),
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        problem = runner.run(_run(rest_config, address, options))
    if problem:
        exit_with_error("dashboard", problem)


def _open_as(rest_config: RESTConfig, token: str) -> Transport:
    """The same server with the credentials of the token only; with those of the kubeconfig for an empty one."""
    if not token:
        return HTTPTransport(rest_config)
    return HTTPTransport(
        RESTConfig(
            rest_config.server,
            authority=rest_config.authority,
            insecure=rest_config.insecure,
            tls_server_name=rest_config.tls_server_name,
            token=token,
        )
    )


def _page_tls(host: str, certificate: Path | None, key: Path | None, *, makes_own: bool) -> PageTLS | None:
    if (certificate is None) is not (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together")
    if certificate is None or key is None:
        if makes_own:
            return PageTLS(None)
        if not is_loopback(host):
            raise click.UsageError(
                f"--listen {host}: tokens would be sent in the clear; pass --tls-cert-file and --tls-private-key-file, "
                "or --own-certificate, or listen on 127.0.0.1"
            )
        return None
    if makes_own:
        raise click.UsageError("--own-certificate and --tls-cert-file exclude each other: choose one")
    files = CertificateFiles(certificate, key)
    try:
        key_pair_context(files.read())
    except (OSError, ssl.SSLError) as problem:
        raise click.UsageError(f"{certificate} and {key} cannot be used: {problem}") from problem
    return PageTLS(files)


async def _run(rest_config: RESTConfig, address: tuple[str, int], options: PageOptions) -> str:
    """Runs until SIGINT or SIGTERM. Returns why it could not start."""
    signals = ShutdownSignals(0.0)
    host, port = address
    try:
        sock = listen(host, port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            return f"port {port} on {host} is in use; choose another with --listen {host}:PORT (0: any free one)"
        return f"cannot listen on {host}:{port}: {problem.strerror}; check --listen"
    with contextlib.closing(sock):
        async with contextlib.AsyncExitStack() as stack:
            transport = await stack.enter_async_context(connect_component(rest_config))
            try:
                if found := await perform(transport, check_scheduling_gates()):
                    return found
            except Unreachable as problem:
                return str(problem)
            page = await stack.enter_async_context(serve_page(transport, sock, host, options))
            for line in await page.feed.missing_rights():
                click.echo(f"remark: {line}; what is shown is incomplete", err=True)
            click.echo(f"the page of {rest_config.server} is at {page.address}")
            reader = page.feed.enter()
            await signals.requested.wait()
            page.feed.leave(reader)
    click.echo("stopped")
    return ""
