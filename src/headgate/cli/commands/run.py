"""``headgate run``: runs the engines beside an existing API server, as one of several replicas or alone."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import click
import msgspec

from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import access_or_exit, cluster_options, connect, exit_with_error, perform
from headgate.cli.options.feature_gates import feature_gates_option
from headgate.cli.options.gate_options import gated_events_option, groups_option, waiting_option
from headgate.cli.options.job_options import job_options
from headgate.cli.options.log_options import log_options
from headgate.cli.wiring.controllers import (
    run_builtin_controllers,
    run_elected_controllers,
    run_elected_jobs,
    run_elected_quota,
    run_jobs,
    run_quota,
)
from headgate.cli.wiring.event_loop import loop_factory
from headgate.cli.wiring.metrics import ProcessMetrics, metrics_option, serve_metrics
from headgate.cli.wiring.scheduler import (
    SchedulerMaker,
    configuration_of,
    default_configuration,
    installed_plugins,
    scheduler_factory,
)
from headgate.cli.wiring.webhooks import WebhookOptions, run_webhooks, webhook_options
from headgate.client.io.credentials import authority_of
from headgate.client.io.leader_elector import ConnectTransport, LeaderElector, new_identity
from headgate.client.kubeconfig import RESTConfig
from headgate.client.leader_election import LeaderElectionConfig
from headgate.http.transport import Transport, Unreachable
from headgate.jobs.settings import DEFAULT as DEFAULT_JOBS
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import DEFAULTS, FeatureGates, pod_integration_problem
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.preflight import (
    check_kueue_kinds,
    check_scheduling_gates,
    find_other_quota_manager,
    find_other_scheduler,
)
from headgate.runtime.scheduler.dry_run import DryRunTransport
from headgate.runtime.scheduler.runner import run_scheduler
from headgate.runtime.webhooks.service import WebhookHealth, WebhookServerConfig
from headgate.scheduling.config.types import KubeSchedulerConfiguration, LeaderElection

COMPONENTS: Final = ("scheduler", "webhooks", "controllers", "quota", "jobs")
_NAME: Final = "headgate"
_GARBAGE: Final = (20_000, 20, 20)
"""Nodes and pods live long and hold no cycles: looking for garbage as often as Python does costs a twentieth more."""


class RunOptions(msgspec.Struct, frozen=True):
    """The options of the command, validated as far as possible without a server."""

    access: RESTConfig
    configuration: KubeSchedulerConfiguration
    make: SchedulerMaker
    dry_run: bool
    takeover: bool
    metrics_at: tuple[str, int] | None
    components: frozenset[str] = frozenset({"scheduler"})
    webhooks: WebhookOptions | None = None
    place: WebhookServerConfig | None = None
    features: FeatureGates = DEFAULTS
    makes_groups: bool = False
    jobs: JobSettings = DEFAULT_JOBS


@click.command(short_help="Schedule the pods of a cluster that exists already.")
@cluster_options
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="A KubeSchedulerConfiguration or a volcano-scheduler.conf; `headgate config check FILE` says what it means.",
)
@click.option(
    "--components",
    default=COMPONENTS[0],
    show_default=True,
    metavar="LIST",
    help=f"What to run, separated by commas: {', '.join(COMPONENTS)}.",
)
@feature_gates_option
@webhook_options
@metrics_option
@click.option(
    "--leader-elect/--no-leader-elect",
    "leader_elect",
    default=None,
    help="Whether replicas elect the one that works. [default: what the file says, else yes]",
)
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"Serve pods with this schedulerName. May be repeated. [default: {_NAME}, or the file's profiles]",
)
@groups_option
@waiting_option
@gated_events_option
@job_options
@click.option(
    "--takeover", is_flag=True, help="Serve a name, or give quota, even while its usual owner renews its Lease."
)
@click.option("--dry-run", is_flag=True, help="Decide and say what would be done; write nothing.")
@log_options
def command(
    kubeconfig: str,
    context: str,
    config_file: Path | None,
    components: str,
    features: FeatureGates,
    webhooks: WebhookOptions,
    metrics_listen: str,
    leader_elect: bool | None,
    names: tuple[str, ...],
    makes_groups: bool,
    all_wait: bool,
    gated_events: int,
    job_settings: JobSettings,
    takeover: bool,
    dry_run: bool,
) -> None:
    """Schedule pods on the cluster that the kubeconfig names, until Ctrl-C.

    Pods ask for it by `schedulerName: headgate`, or by a name that you give. A name that belongs to a scheduler which
    is at work on that cluster (default-scheduler, volcano) is refused unless you say --takeover.

    \b
    Example:
      headgate run --dry-run                          what would it do?
      headgate run --scheduler-name batch             serve pods with schedulerName: batch
      headgate run --config scheduler.yaml            profiles, plugins and their arguments from a file
      headgate run --config volcano-scheduler.conf    actions, tiers and plugins for queues, as Volcano reads them
      headgate run --components scheduler,webhooks --webhook-service headgate-system/headgate
                                                      gate new pods that opt in, too
      headgate run --components controllers           be the kube-controller-manager of a server that has none
      headgate run --components quota                 give quota to Kueue's Workloads that others create
      headgate run --components quota,jobs            and make Workloads of Jobs with a queue-name, and run them
    """
    chosen = frozenset(each.strip() for each in components.split(","))
    unknown = sorted(chosen - set(COMPONENTS))
    if unknown:
        raise click.BadParameter(
            f"{', '.join(unknown)} is not one of {', '.join(COMPONENTS)}", param_hint="--components"
        )
    place = webhooks.server_config() if "webhooks" in chosen else None
    if isinstance(place, str):
        raise click.UsageError(place)
    if dry_run and chosen != {"scheduler"}:
        raise click.UsageError("--dry-run is for the scheduler alone: leave other --components out")
    if "" in names:
        raise click.BadParameter("a name may not be empty", param_hint="--scheduler-name")
    metrics_at = parse_address("--metrics-listen", metrics_listen, "127.0.0.1:10259") if metrics_listen else None
    if isinstance(metrics_at, str):
        raise click.BadParameter(metrics_at)
    if "jobs" in chosen and (problem := pod_integration_problem(features)):
        raise click.UsageError(problem)
    found = installed_plugins(lambda problem: click.echo(f"headgate run: {problem}", err=True))
    served = tuple(dict.fromkeys(names)) or (_NAME,)
    if config_file is None:
        configuration = default_configuration(served, found)
    else:
        read = configuration_of(config_file, found, served)
        if isinstance(read, str):
            exit_with_error("run", read)
        if names and {profile.name for profile in read.profiles} != set(names):
            raise click.UsageError("--config names its schedulers in profiles; say either --config or --scheduler-name")
        configuration = read
        for remark in configuration.remarks:
            click.echo(f"remark: {remark}", err=True)
    if place is not None and all(profile.queues is None for profile in configuration.profiles):
        ways = "serve headgate or volcano, or name a volcano-scheduler.conf by --config"
        exit_with_error("run", f"webhooks gate pods of profiles that go by queues, and there is none: {ways}")
    if leader_elect is not None:
        election = msgspec.structs.replace(configuration.leader_election, leader_elect=leader_elect)
        configuration = msgspec.structs.replace(configuration, leader_election=election)
    make = scheduler_factory(configuration, found, features, all_wait=all_wait, gated_events=gated_events)
    if isinstance(make, str):
        exit_with_error("run", make)
    access = access_or_exit("run", kubeconfig or configuration.client_connection.kubeconfig, context)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            order = RunOptions(
                access, configuration, make, dry_run, takeover, metrics_at, makes_groups=makes_groups, jobs=job_settings
            )
            order = msgspec.structs.replace(order, components=chosen, webhooks=webhooks, place=place, features=features)
            problem = runner.run(_run(order))
    except Unreachable as unreachable:
        exit_with_error("run", str(unreachable))
    if problem:
        exit_with_error("run", problem)


async def _run(order: RunOptions) -> str:
    """Until SIGINT or SIGTERM; or why it could not start."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    names = [profile.name for profile in order.configuration.profiles]
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(connect(order.access))
        problem = await perform(transport, check_scheduling_gates())
        if not problem and not order.takeover and "scheduler" in order.components:
            problem = await perform(transport, find_other_scheduler(names, time.time()))
        if not problem and not order.takeover and order.components & {"quota", "jobs"}:
            problem = await perform(transport, find_other_quota_manager(time.time()))
        if problem:
            return problem
        if order.components & {"quota", "jobs"} and (remark := await perform(transport, check_kueue_kinds())):
            click.echo(f"remark: {remark}", err=True)
        meters, health = ProcessMetrics(), WebhookHealth()
        try:
            await _show(order, meters, health, stack)
        except OSError as error:
            host, port = order.metrics_at or ("", 0)
            return f"cannot listen on {host}:{port}: {error.strerror}; check --metrics-listen"
        working: list[asyncio.Task[str]] = []
        if "scheduler" in order.components:
            click.echo(f"headgate schedules pods of {', '.join(names)} on {order.access.server}")
            working.append(asyncio.create_task(_run_scheduler(order, transport, meters.health)))
        if order.webhooks is not None and order.place is not None:
            gated = [profile.name for profile in order.configuration.profiles if profile.queues is not None]
            click.echo(f"headgate serves webhooks for pods of {', '.join(gated)} on {order.access.server}")
            jobs = order.jobs if "jobs" in order.components else None
            serving_them = run_webhooks(order.webhooks, order.place, gated, order.features, jobs, transport, health)
            working.append(asyncio.create_task(serving_them))
        if "controllers" in order.components:
            click.echo(f"headgate runs the workload controllers on {order.access.server}")
            working.append(asyncio.create_task(_run_controllers(order, transport, meters)))
        if "quota" in order.components:
            click.echo(f"headgate gives quota to workloads on {order.access.server}")
            meters.show_quota()
            working.append(asyncio.create_task(_run_quota(order, transport, meters)))
        if "jobs" in order.components:
            click.echo(f"headgate keeps jobs in queues on {order.access.server}")
            meters.show_jobs()
            working.append(asyncio.create_task(_run_jobs(order, transport, meters)))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([*working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        problem = await _end(working)
        if problem:
            return problem
    click.echo("stopped")
    return ""


async def _end(working: list[asyncio.Task[str]]) -> str:
    """Stops what still works; says why something had stopped by itself."""
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    for task in working:
        if not task.cancelled():
            broken = task.exception()
            return f"stopped: {broken}" if broken is not None else task.result()
    return ""


async def _show(
    order: RunOptions, meters: ProcessMetrics, health: WebhookHealth, stack: contextlib.AsyncExitStack
) -> None:
    if order.metrics_at is not None:
        further = {} if order.place is None else {"webhooks": health.problem}
        click.echo(f"metrics: {await serve_metrics(meters.health, order.metrics_at, stack, further)}")


async def _run_scheduler(order: RunOptions, transport: Transport, board: HealthRegistry) -> str:
    gc.freeze()  # modules and tables that stay
    gc.set_threshold(*_GARBAGE)
    if order.dry_run:
        click.echo("dry run: nothing is written")
        await run_scheduler(order.make, DryRunTransport(transport, click.echo), health=board, write_queue_status=False)
        return ""
    election = order.configuration.leader_election
    keep = functools.partial(run_scheduler, order.make, transport, health=board, create_pod_groups=order.makes_groups)
    if not election.leader_elect:
        await keep()
        return ""
    await _run_elected(
        election, lambda: connect(order.access), lambda write_budget_s: keep(write_budget_s=write_budget_s)
    )
    return ""


async def _run_controllers(order: RunOptions, transport: Transport, meters: ProcessMetrics) -> str:
    authority = authority_of(order.access)
    if order.configuration.leader_election.leader_elect:
        await run_elected_controllers(
            authority, transport, order.features, meters, click.echo, lambda: connect(order.access)
        )
    else:
        await run_builtin_controllers(authority, transport, order.features, meters)
    return ""


async def _run_quota(order: RunOptions, transport: Transport, meters: ProcessMetrics) -> str:
    if order.configuration.leader_election.leader_elect:
        await run_elected_quota(
            transport, order.features, order.jobs, meters, click.echo, lambda: connect(order.access)
        )
    else:
        await run_quota(transport, order.features, order.jobs, meters)
    return ""


async def _run_jobs(order: RunOptions, transport: Transport, meters: ProcessMetrics) -> str:
    if order.configuration.leader_election.leader_elect:
        await run_elected_jobs(transport, order.features, order.jobs, meters, click.echo, lambda: connect(order.access))
    else:
        await run_jobs(transport, order.features, order.jobs, meters)
    return ""


async def _run_elected(
    election: LeaderElection, reach_lease: ConnectTransport, work: Callable[[Callable[[], float]], Awaitable[None]]
) -> None:
    timing = LeaderElectionConfig(int(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
    elector = LeaderElector(reach_lease, election.resource_namespace, election.resource_name, new_identity(), timing)

    async def lead() -> None:
        click.echo(f"elected: holds the Lease {election.resource_namespace}/{election.resource_name}")
        await work(elector.write_budget_s)

    click.echo(f"stands for election by the Lease {election.resource_namespace}/{election.resource_name}")
    await elector.run(lead)
