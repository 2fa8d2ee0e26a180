"""``headgate audit --watch``: the audit of a live cluster, with its metrics on the health server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from headgate.audit.auditor import AuditSettings
from headgate.audit.findings import Finding
from headgate.audit.live_audit import LiveAudit, finding_line
from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import connect_component, exit_with_error
from headgate.cli.options.log_options import say
from headgate.cli.wiring.metrics import serve_metrics_and_health
from headgate.cli.wiring.shutdown import ShutdownSignals
from headgate.client.io.read_only_transport import ReadOnlyTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.kube.timestamps import format_time
from headgate.recording.io.discovery import MissingRights
from headgate.recording.io.live_history import LiveHistory
from headgate.recording.resources import RecordedResource
from headgate.runtime.health.registry import HealthRegistry

_BROKEN: Final = 1
_STALE_S: Final = 120.0
"""An audit that has not checked anything for this time is not ready."""


class WatchOptions(msgspec.Struct, frozen=True):
    """``for_s``: 0 if it runs until it is stopped. ``is_strict``: possible findings count, too."""

    for_s: float
    metrics_listen: str
    is_strict: bool
    is_json: bool


def missing_rights_text(problem: MissingRights) -> str:
    lines = "\n  ".join(problem.texts)
    hint = "`headgate record --rights` prints a ClusterRole with all of them; --skip leaves a resource out"
    return f"the cluster cannot be checked:\n  {lines}\n{hint}"


def watch_cluster(
    rest_config: RESTConfig, resources: Sequence[RecordedResource], settings: AuditSettings, options: WatchOptions
) -> int:
    """Runs until SIGINT, SIGTERM or the end of its time. Returns the exit code."""
    metrics_at = parse_address("--metrics-listen", options.metrics_listen, "127.0.0.1:10260")
    if options.metrics_listen and isinstance(metrics_at, str):
        raise click.BadParameter(metrics_at)
    address = metrics_at if options.metrics_listen and not isinstance(metrics_at, str) else None
    try:
        return asyncio.run(_watch(rest_config, resources, settings, options, address))
    except Unreachable as problem:
        exit_with_error("audit", str(problem))
    except MissingRights as problem:
        exit_with_error("audit", missing_rights_text(problem))


async def _watch(
    rest_config: RESTConfig,
    resources: Sequence[RecordedResource],
    settings: AuditSettings,
    options: WatchOptions,
    metrics_at: tuple[str, int] | None,
) -> int:
    signals = ShutdownSignals(0.0)
    audit = LiveAudit(settings, lambda finding: _print(finding, is_json=options.is_json))
    ticked_s = time.monotonic()

    def tick(at_s: float) -> None:
        nonlocal ticked_s
        ticked_s = time.monotonic()
        audit.tick(at_s, history.order.gaps)
        for line in history.status.watches.take_lines():
            click.echo(f"{format_time(time.time())} {line}", err=True)

    def problem() -> str:
        late_s = time.monotonic() - ticked_s
        return "" if late_s < _STALE_S else f"nothing was checked for {late_s:.0f} s: {history.status.problem}"

    async with contextlib.AsyncExitStack() as stack:
        connected = await stack.enter_async_context(connect_component(rest_config))
        transport = ReadOnlyTransport(connected)
        history = LiveHistory(transport, resources, audit.take, tick)
        if metrics_at is not None:
            registry = HealthRegistry()
            registry.add_metrics_page(audit.metrics.page)
            try:
                url = await serve_metrics_and_health(registry, metrics_at, stack, {"audit": problem})
            except OSError as error:
                text = f"cannot listen on {options.metrics_listen}: {error.strerror or error}; check --metrics-listen"
                exit_with_error("audit", text)
            say(f"metrics: {url}", err=options.is_json)
        say(f"headgate audits {rest_config.server}, and writes nothing", err=options.is_json)
        if options.for_s:
            asyncio.get_running_loop().call_later(options.for_s, signals.requested.set)
        await history.run(signals.requested)
    if options.is_json:
        click.echo(msgspec.json.encode({"summary": audit.sums()}).decode())
    else:
        click.echo("\n".join(audit.summary()))
    return _BROKEN if audit.has_certain or (options.is_strict and audit.has_findings) else 0


def _print(finding: Finding, *, is_json: bool) -> None:
    click.echo(msgspec.json.encode(finding).decode() if is_json else finding_line(finding))
