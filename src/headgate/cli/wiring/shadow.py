"""``headgate run --shadow``: its options, and which components have decisions to compare.

Everything uses one read-only transport (``client/io/read_only_transport.py``): no Lease, no Event, no status and no
webhook configuration can be written, whatever a component tries.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

import click
import msgspec

from headgate.capacity.conf import DEFAULTS
from headgate.cli.options.cluster_access import connect_component, perform
from headgate.cli.options.durations import read_seconds
from headgate.cli.options.log_options import say
from headgate.cli.wiring.controllers import quota_settings
from headgate.cli.wiring.metrics import ProcessMetrics
from headgate.cli.wiring.run_options import RunOptions, ShadowOptions, listen_problem, serve_metrics
from headgate.cli.wiring.shutdown import ShutdownSignals
from headgate.client.io.read_only_transport import ReadOnlyTransport
from headgate.client.io.rights_transport import RightsTransport
from headgate.kube.timestamps import parse_duration
from headgate.runtime.preflight import check_kueue_kinds, check_scheduling_gates
from headgate.runtime.shadow import ShadowFactory, run_shadows
from headgate.runtime.webhooks.service import WebhookHealth
from headgate.shadow.queue_shadow import QueueShadow, QueueShadowSettings
from headgate.shadow.quota_shadow import QuotaShadow
from headgate.shadow.tally import ShadowTally

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PATIENCE: Final = "30s"
COMPARED: Final = ("scheduler", "gates", "quota")
"""The components that decide about queues or quota."""


def shadow_options(command: F) -> F:
    """Adds the parameter ``shadow``, a :class:`ShadowOptions`, to a command."""

    @functools.wraps(command)
    def wrapper(*, shadow: bool, duration: str, shadow_patience_s: float, **rest: Any) -> Any:
        for_s = read_seconds(duration) if duration else 0.0
        if isinstance(for_s, str):
            raise click.UsageError(f"--for {for_s}")
        if for_s and not shadow:
            raise click.UsageError("--for is for --shadow: other components run until they are stopped")
        return command(shadow=ShadowOptions(shadow, for_s, shadow_patience_s), **rest)

    text = (
        "How long Kueue or Volcano may take for a decision that Headgate would make at once."
        f" [default: {DEFAULT_PATIENCE}]"
    )
    result: Any = click.option(
        "--shadow-patience",
        "shadow_patience_s",
        default=DEFAULT_PATIENCE,
        metavar="DURATION",
        callback=_patience_seconds,
        help=text,
    )(wrapper)
    result = click.option(
        "--for", "duration", default="", metavar="TIME", help="With --shadow: stop after this time (10m, 7d)."
    )(result)
    wrapped: F = click.option(
        "--shadow/--no-shadow",
        default=False,
        help="Write nothing. Compare the decisions of Kueue or Volcano with Headgate's, and report differences.",
    )(result)
    return wrapped


def _patience_seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    nanos = parse_duration(value)
    if isinstance(nanos, str) or nanos <= 0:
        raise click.BadParameter(f"{value!r} is not a duration: write one such as 30s or 2m")
    return nanos / 10**9


def shadow_problem(components: Collection[str], *, dry_run: bool) -> str:
    """Why shadow mode cannot run with these options; empty if it can."""
    if dry_run:
        return "--shadow and --dry-run exclude each other: --shadow writes nothing, too"
    if not set(components) & set(COMPARED):
        return f"--shadow compares the decisions of {', '.join(COMPARED)}: name one of them with --components"
    return ""


async def run_shadow(options: RunOptions) -> str:
    """Compares decisions until SIGINT, SIGTERM or the end of its time, and prints the summary. Returns why it could not
    start or could not read everything, or an empty text. No owner of the work is looked for: the other system is meant
    to be there."""
    signals, tally, metrics = ShutdownSignals(0.0), ShadowTally(), ProcessMetrics()
    async with contextlib.AsyncExitStack() as stack:
        connected = await stack.enter_async_context(connect_component(options.rest_config))
        rights = RightsTransport(connected)
        transport = ReadOnlyTransport(rights, tally.refused_writes)
        if problem := await perform(transport, check_scheduling_gates()):
            return problem
        metrics.health_registry.add_metrics_page(tally.page)
        try:
            await serve_metrics(options, metrics, WebhookHealth(), signals, stack, transport)
        except OSError as error:
            return listen_problem(options, error)
        if left_out := sorted(options.components - set(COMPARED)):
            click.echo(f"remark: the components {', '.join(left_out)} have no decisions to compare", err=True)
        is_absent = await perform(transport, check_kueue_kinds()) if "quota" in options.components else ""
        if is_absent:
            click.echo("remark: Kueue's kinds are not served in v1beta2: there is no quota to compare yet", err=True)
        factories = _factories(options)
        if not factories:
            return "no profile uses queues: pass --scheduler-name volcano, or a volcano-scheduler.conf with --config"
        say(f"headgate compares decisions on {options.rest_config.server}, and writes nothing")
        began_s = time.monotonic()
        failed = metrics.failures_of("shadow")
        running = asyncio.create_task(run_shadows(factories, transport, tally, failed))
        stopping = asyncio.create_task(signals.requested.wait())
        timeout_s = options.shadow.for_s or None
        await asyncio.wait([running, stopping], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopping):
            task.cancel()
        await asyncio.wait([running, stopping])
        missing = sorted(set(rights.missing.values()))
        for line in tally.summary(time.monotonic() - began_s, missing):
            click.echo(line)
    say("stopped")
    if not missing:
        return ""
    return f"{len(missing)} rights are missing (see above): what they hide was not compared"


def _factories(options: RunOptions) -> list[ShadowFactory]:
    """One for each component that is compared."""
    patience_s, features = options.shadow.patience_s, options.features
    found: list[ShadowFactory] = []
    if "quota" in options.components:
        settings = quota_settings(features, options.jobs)
        found.append(lambda compared: QuotaShadow(settings, compared, patience_s))
    profiles = [each for each in options.configuration.profiles if each.queues is not None]
    conf = next((each.queues for each in profiles if each.queues is not None), DEFAULTS)
    queues = QueueShadowSettings(
        component="scheduler",
        scheduler_names=frozenset(each.name for each in profiles),
        conf=msgspec.structs.replace(conf, gang_atomic=features.gang_atomic_ungate),
        enabled=features.queue_allocation_gate,
        patience_s=patience_s,
    )
    if "scheduler" in options.components and profiles:
        found.append(functools.partial(QueueShadow, queues))
    if "gates" in options.components:
        names = frozenset(options.gated_scheduler_names)
        gates = msgspec.structs.replace(queues, component="gates", scheduler_names=names, only_gated=True)
        found.append(functools.partial(QueueShadow, gates))
    return found
