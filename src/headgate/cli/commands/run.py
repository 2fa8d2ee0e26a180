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
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
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
_GC_THRESHOLDS: Final = (20_000, 20, 20)
"""Nodes and pods live long and have no reference cycles. Python's default thresholds cost 5 % more CPU time."""


class RunOptions(msgspec.Struct, frozen=True):
    """The options of the command, validated as far as possible without a server."""

    rest_config: RESTConfig
    configuration: KubeSchedulerConfiguration
    make: SchedulerMaker
    dry_run: bool
    takeover: bool
    metrics_at: tuple[str, int] | None
    components: frozenset[str] = frozenset({"scheduler"})
    webhooks: WebhookOptions | None = None
    webhook_server: WebhookServerConfig | None = None
    features: FeatureGates = DEFAULTS
    create_pod_groups: bool = False
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
    help="Whether replicas elect a leader. [default: what the file says, else yes]",
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
    "--takeover", is_flag=True, help="Serve a name, or give quota, even while another process renews its Lease."
)
@click.option("--dry-run", is_flag=True, help="Print what would be done; write nothing.")
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
    create_pod_groups: bool,
    all_wait: bool,
    gated_events: int,
    job_settings: JobSettings,
    takeover: bool,
    dry_run: bool,
) -> None:
    """Schedule pods on the cluster that the kubeconfig names, until Ctrl-C.

    It serves pods with `schedulerName: headgate`, or with a name that you give. The name of a scheduler that already
    runs on that cluster (default-scheduler, volcano) is refused without --takeover.

    \b
    Example:
      headgate run --dry-run                          print what it would do
      headgate run --scheduler-name batch             serve pods with schedulerName: batch
      headgate run --config scheduler.yaml            profiles, plugins and their arguments from a file
      headgate run --config volcano-scheduler.conf    actions, tiers and plugins for queues, as Volcano reads them
      headgate run --components scheduler,webhooks --webhook-service headgate-system/headgate
                                                      gate new pods that opt in, too
      headgate run --components controllers           replace a missing kube-controller-manager
      headgate run --components quota                 give quota to Kueue's Workloads that others create
      headgate run --components quota,jobs            also create Workloads for Jobs with a queue-name, and run them
    """
    component_set = frozenset(each.strip() for each in components.split(","))
    unknown = sorted(component_set - set(COMPONENTS))
    if unknown:
        raise click.BadParameter(
            f"{', '.join(unknown)} is not one of {', '.join(COMPONENTS)}", param_hint="--components"
        )
    webhook_server = webhooks.server_config() if "webhooks" in component_set else None
    if isinstance(webhook_server, str):
        raise click.UsageError(webhook_server)
    if dry_run and component_set != {"scheduler"}:
        raise click.UsageError("--dry-run is for the scheduler alone: leave other --components out")
    if "" in names:
        raise click.BadParameter("a name may not be empty", param_hint="--scheduler-name")
    metrics_at = parse_address("--metrics-listen", metrics_listen, "127.0.0.1:10259") if metrics_listen else None
    if isinstance(metrics_at, str):
        raise click.BadParameter(metrics_at)
    if "jobs" in component_set and (problem := pod_integration_problem(features)):
        raise click.UsageError(problem)
    plugins = installed_plugins(lambda problem: click.echo(f"headgate run: {problem}", err=True))
    served = tuple(dict.fromkeys(names)) or (_NAME,)
    if config_file is None:
        configuration = default_configuration(served, plugins)
    else:
        parsed = configuration_of(config_file, plugins, served)
        if isinstance(parsed, str):
            exit_with_error("run", parsed)
        if names and {profile.name for profile in parsed.profiles} != set(names):
            raise click.UsageError("--config names its schedulers in profiles; say either --config or --scheduler-name")
        configuration = parsed
        for remark in configuration.remarks:
            click.echo(f"remark: {remark}", err=True)
    if webhook_server is not None and all(profile.queues is None for profile in configuration.profiles):
        hint = "serve headgate or volcano, or name a volcano-scheduler.conf by --config"
        exit_with_error("run", f"webhooks gate pods of profiles that go by queues, and there is none: {hint}")
    if leader_elect is not None:
        election = msgspec.structs.replace(configuration.leader_election, leader_elect=leader_elect)
        configuration = msgspec.structs.replace(configuration, leader_election=election)
    make = scheduler_factory(configuration, plugins, features, all_wait=all_wait, gated_events=gated_events)
    if isinstance(make, str):
        exit_with_error("run", make)
    rest_config = rest_config_or_exit("run", kubeconfig or configuration.client_connection.kubeconfig, context)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            options = RunOptions(
                rest_config,
                configuration,
                make,
                dry_run,
                takeover,
                metrics_at,
                create_pod_groups=create_pod_groups,
                jobs=job_settings,
            )
            options = msgspec.structs.replace(
                options, components=component_set, webhooks=webhooks, webhook_server=webhook_server, features=features
            )
            problem = runner.run(_run(options))
    except Unreachable as unreachable:
        exit_with_error("run", str(unreachable))
    if problem:
        exit_with_error("run", problem)


async def _run(options: RunOptions) -> str:
    """Runs until SIGINT or SIGTERM. Returns why it could not start, or an empty text."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    names = [profile.name for profile in options.configuration.profiles]
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(connect(options.rest_config))
        problem = await perform(transport, check_scheduling_gates())
        if not problem and not options.takeover and "scheduler" in options.components:
            problem = await perform(transport, find_other_scheduler(names, time.time()))
        if not problem and not options.takeover and options.components & {"quota", "jobs"}:
            problem = await perform(transport, find_other_quota_manager(time.time()))
        if problem:
            return problem
        if options.components & {"quota", "jobs"} and (remark := await perform(transport, check_kueue_kinds())):
            click.echo(f"remark: {remark}", err=True)
        metrics, health = ProcessMetrics(), WebhookHealth()
        try:
            await _serve_metrics(options, metrics, health, stack)
        except OSError as error:
            host, port = options.metrics_at or ("", 0)
            return f"cannot listen on {host}:{port}: {error.strerror}; check --metrics-listen"
        tasks: list[asyncio.Task[str]] = []
        if "scheduler" in options.components:
            click.echo(f"headgate schedules pods of {', '.join(names)} on {options.rest_config.server}")
            tasks.append(asyncio.create_task(_run_scheduler(options, transport, metrics.health)))
        if options.webhooks is not None and options.webhook_server is not None:
            gated = [profile.name for profile in options.configuration.profiles if profile.queues is not None]
            click.echo(f"headgate serves webhooks for pods of {', '.join(gated)} on {options.rest_config.server}")
            jobs = options.jobs if "jobs" in options.components else None
            webhooks = run_webhooks(
                options.webhooks, options.webhook_server, gated, options.features, jobs, transport, health
            )
            tasks.append(asyncio.create_task(webhooks))
        if "controllers" in options.components:
            click.echo(f"headgate runs the workload controllers on {options.rest_config.server}")
            tasks.append(asyncio.create_task(_run_controllers(options, transport, metrics)))
        if "quota" in options.components:
            click.echo(f"headgate gives quota to workloads on {options.rest_config.server}")
            metrics.show_quota()
            tasks.append(asyncio.create_task(_run_quota(options, transport, metrics)))
        if "jobs" in options.components:
            click.echo(f"headgate keeps jobs in queues on {options.rest_config.server}")
            metrics.show_jobs()
            tasks.append(asyncio.create_task(_run_jobs(options, transport, metrics)))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        problem = await _stop_tasks(tasks)
        if problem:
            return problem
    click.echo("stopped")
    return ""


async def _stop_tasks(tasks: list[asyncio.Task[str]]) -> str:
    """Cancels the tasks. Returns why a task had ended before."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            error = task.exception()
            return f"stopped: {error}" if error is not None else task.result()
    return ""


async def _serve_metrics(
    options: RunOptions, metrics: ProcessMetrics, health: WebhookHealth, stack: contextlib.AsyncExitStack
) -> None:
    if options.metrics_at is not None:
        extra_checks = {} if options.webhook_server is None else {"webhooks": health.problem}
        click.echo(f"metrics: {await serve_metrics(metrics.health, options.metrics_at, stack, extra_checks)}")


async def _run_scheduler(options: RunOptions, transport: Transport, health: HealthRegistry) -> str:
    gc.freeze()  # modules and tables are never freed
    gc.set_threshold(*_GC_THRESHOLDS)
    if options.dry_run:
        click.echo("dry run: nothing is written")
        await run_scheduler(
            options.make, DryRunTransport(transport, click.echo), health=health, write_queue_status=False
        )
        return ""
    election = options.configuration.leader_election
    run = functools.partial(
        run_scheduler, options.make, transport, health=health, create_pod_groups=options.create_pod_groups
    )
    if not election.leader_elect:
        await run()
        return ""
    await _run_elected(
        election, lambda: connect(options.rest_config), lambda write_budget_s: run(write_budget_s=write_budget_s)
    )
    return ""


async def _run_controllers(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    authority = authority_of(options.rest_config)
    if options.configuration.leader_election.leader_elect:
        await run_elected_controllers(
            authority, transport, options.features, metrics, click.echo, lambda: connect(options.rest_config)
        )
    else:
        await run_builtin_controllers(authority, transport, options.features, metrics)
    return ""


async def _run_quota(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    if options.configuration.leader_election.leader_elect:
        await run_elected_quota(
            transport, options.features, options.jobs, metrics, click.echo, lambda: connect(options.rest_config)
        )
    else:
        await run_quota(transport, options.features, options.jobs, metrics)
    return ""


async def _run_jobs(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    if options.configuration.leader_election.leader_elect:
        await run_elected_jobs(
            transport, options.features, options.jobs, metrics, click.echo, lambda: connect(options.rest_config)
        )
    else:
        await run_jobs(transport, options.features, options.jobs, metrics)
    return ""


async def _run_elected(
    election: LeaderElection, connect: ConnectTransport, work: Callable[[Callable[[], float]], Awaitable[None]]
) -> None:
    config = LeaderElectionConfig(int(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
    elector = LeaderElector(connect, election.resource_namespace, election.resource_name, new_identity(), config)

    async def lead() -> None:
        click.echo(f"elected: holds the Lease {election.resource_namespace}/{election.resource_name}")
        await work(elector.write_budget_s)

    click.echo(f"stands for election by the Lease {election.resource_namespace}/{election.resource_name}")
    await elector.run(lead)
