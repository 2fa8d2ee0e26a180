"""``headgate run``: runs the engines beside an existing API server, as one of several replicas or alone."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import click
import msgspec

from headgate.cli.configuration.config_options import ConfigFiles, config_options
from headgate.cli.configuration.reload import ConfigReloader
from headgate.cli.configuration.types import Configuration
from headgate.cli.options.address import parse_address
from headgate.cli.options.cluster_access import (
    cluster_options,
    connect_component,
    exit_with_error,
    perform,
    rest_config_or_exit,
)
from headgate.cli.options.components import COMPONENTS
from headgate.cli.options.feature_gates import feature_gates_option
from headgate.cli.options.gate_options import gated_events_option, groups_option, waiting_option
from headgate.cli.options.job_options import job_options
from headgate.cli.options.log_options import log_options, say, set_file_settings
from headgate.cli.options.metrics_option import metrics_option
from headgate.cli.wiring.controllers import (
    GATE_POLICIES_LEASE,
    JOBS_LEASE,
    LEASE,
    QUOTA_LEASE,
    run_builtin_controllers,
    run_elected_controllers,
    run_elected_gate_policies,
    run_elected_jobs,
    run_elected_quota,
    run_gate_policies,
    run_jobs,
    run_quota,
)
from headgate.cli.wiring.event_loop import loop_factory, run_in_background
from headgate.cli.wiring.gates import (
    LEASES_HAVE_NO_EFFECT,
    conflict_with_profiles,
    effective_gated_scheduler_names,
    gate_controller_factory,
    gated_scheduler_names_option,
    run_elected_gates,
)
from headgate.cli.wiring.metrics import (
    ProcessMetrics,
    SecureMetricsOptions,
    secure_metrics_options,
)
from headgate.cli.wiring.run_options import RunOptions, ShadowOptions, listen_problem, serve_metrics
from headgate.cli.wiring.scheduler import (
    default_configuration,
    installed_plugins,
    scheduler_factory,
)
from headgate.cli.wiring.shadow import run_shadow, shadow_options, shadow_problem
from headgate.cli.wiring.shutdown import ShutdownSignals
from headgate.cli.wiring.webhooks import WebhookOptions, webhook_options, webhook_service
from headgate.client.io.credentials import authority_of
from headgate.client.io.leader_elector import ConnectTransport, LeaderElector, new_identity
from headgate.client.leader_election import LeaderElectionConfig
from headgate.http.transport import Transport, Unreachable
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates, pod_integration_problem
from headgate.runtime.embedded_components import GATE_POLICIES, check_embedded_components
from headgate.runtime.gates.runner import run_gates
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.lease_owners import (
    GATES_LEASE,
    WorkLease,
    check_owners,
    gate_controller_lease,
    headgate_lease,
    kueue_lease,
    queue_owner_leases,
    scheduler_leases,
)
from headgate.runtime.preflight import PreflightSteps, check_kueue_kinds, check_scheduling_gates
from headgate.runtime.scheduler.dry_run import DryRunTransport
from headgate.runtime.scheduler.runner import run_scheduler
from headgate.runtime.webhooks.service import WebhookHealth, WebhookService
from headgate.scheduling.config.types import LeaderElection

_NAME: Final = "headgate"
_GC_THRESHOLDS: Final = (20_000, 20, 20)
"""Nodes and pods live long and have no reference cycles. Python's default thresholds cost 5 % more CPU time."""
_SWITCH_S: Final = 0.001
"""After this time the thread of the engines gives the interpreter lock to the thread of the webhooks. With Python's
default of 5 ms a review would wait 5 ms several times, because each call on a socket releases the lock."""


@click.command(short_help="Schedule the pods of a cluster that exists already.")
@cluster_options
@config_options
@click.option(
    "--components",
    default=COMPONENTS[0],
    show_default=True,
    metavar="LIST",
    help=f"The components to run, separated by commas: {', '.join(COMPONENTS)}.",
)
@feature_gates_option
@webhook_options
@metrics_option
@secure_metrics_options
@click.option(
    "--leader-elect/--no-leader-elect",
    "leader_elect",
    default=None,
    help="Whether replicas elect a leader. [default: the value in the file, else yes]",
)
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"Serve pods with this schedulerName. May be repeated. [default: {_NAME}, or the file's profiles]",
)
@gated_scheduler_names_option
@groups_option
@waiting_option
@gated_events_option
@job_options
@click.option(
    "--takeover/--no-takeover",
    default=False,
    help="Start even while kube-scheduler, Volcano, Kueue or another Headgate renews the Lease of the same work.",
)
@click.option("--dry-run/--no-dry-run", default=False, help="Print what would be done; write nothing.")
@shadow_options
@log_options
def command(
    kubeconfig: str,
    context: str,
    config: ConfigFiles,
    components: str,
    features: FeatureGates,
    webhooks: WebhookOptions,
    metrics_listen: str,
    secure_metrics: SecureMetricsOptions,
    leader_elect: bool | None,
    names: tuple[str, ...],
    gated_scheduler_names: tuple[str, ...],
    create_pod_groups: bool,
    all_profiles_wait: bool,
    gated_events_per_hour: int,
    job_settings: JobSettings,
    takeover: bool,
    dry_run: bool,
    shadow: ShadowOptions,
) -> None:
    """Schedule pods on the cluster that the kubeconfig names, until Ctrl-C.

    It serves pods with `schedulerName: headgate`, or with a name that you give. The name of a scheduler that already
    runs on that cluster (default-scheduler, volcano) is refused without --takeover. With --no-leader-elect it also
    does not start beside another Headgate that is the leader.

    \b
    Example:
      headgate run --dry-run                          print what it would do
      headgate run --scheduler-name batch             serve pods with schedulerName: batch
      headgate run --config headgate.yaml             all options from one file (docs/configuration.md)
      headgate run --config scheduler.yaml            profiles, plugins and their arguments from a file
      headgate run --config volcano-scheduler.conf    actions, tiers and plugins for queues, as Volcano reads them
      headgate run --components scheduler,webhooks --webhook-service headgate-system/headgate
                                                      gate new pods that opt in, too
      headgate run --components gates,webhooks --webhook-service headgate-system/headgate
                                                      gate pods of kube-scheduler, and bind nothing
      headgate run --components controllers           replace a missing kube-controller-manager
      headgate run --components quota                 give quota to Kueue's Workloads that others create
      headgate run --shadow --components quota --for 1d
                                                      write nothing; compare Kueue's decisions with Headgate's
      headgate run --components quota,jobs            also create Workloads for Jobs with a queue-name, and run them
    """
    component_set = frozenset(each.strip() for each in components.split(","))
    unknown = sorted(component_set - set(COMPONENTS))
    if unknown:
        raise click.BadParameter(
            f"{', '.join(unknown)} is not one of {', '.join(COMPONENTS)}", param_hint="--components"
        )
    gated_scheduler_names = effective_gated_scheduler_names(component_set, gated_scheduler_names)
    if shadow.is_on and (problem := shadow_problem(component_set, dry_run=dry_run)):
        raise click.UsageError(problem)
    webhook_server = webhooks.server_config() if "webhooks" in component_set and not shadow.is_on else None
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
    if config.scheduler is None:
        configuration = default_configuration(served, plugins)
    else:
        parsed = config.scheduler.read(plugins, served)
        if isinstance(parsed, list):
            exit_with_error("run", "\n".join(parsed))
        if names and {profile.name for profile in parsed.profiles} != set(names):
            raise click.UsageError(
                "the profiles of --config name the schedulers; pass either --config or --scheduler-name"
            )
        configuration = parsed
        for remark in configuration.remarks:
            click.echo(f"remark: {remark}", err=True)
    if features.reservation_lease and "gates" in component_set:
        click.echo(f"remark: {LEASES_HAVE_NO_EFFECT}", err=True)
    conflict = conflict_with_profiles(component_set, gated_scheduler_names, configuration)
    if conflict:
        raise click.UsageError(conflict)
    uses_queues = any(profile.queues is not None for profile in configuration.profiles)
    if webhook_server is not None and not uses_queues and not gated_scheduler_names:
        hint = "pass --scheduler-name headgate or volcano, or a volcano-scheduler.conf with --config"
        exit_with_error("run", f"webhooks gate pods of profiles that use queues, and there is none; {hint}")
    if leader_elect is not None:
        election = msgspec.structs.replace(configuration.leader_election, leader_elect=leader_elect)
        configuration = msgspec.structs.replace(configuration, leader_election=election)
    make = scheduler_factory(
        configuration,
        plugins,
        features,
        all_profiles_wait=all_profiles_wait,
        gated_events_per_hour=gated_events_per_hour,
    )
    if isinstance(make, str):
        exit_with_error("run", make)
    rest_config = rest_config_or_exit("run", kubeconfig or configuration.client_connection.kubeconfig, context)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            options = RunOptions(
                rest_config,
                configuration,
                make,
                plugins,
                dry_run,
                takeover,
                metrics_at,
                create_pod_groups=create_pod_groups,
                jobs=job_settings,
            )
            options = msgspec.structs.replace(
                options,
                components=component_set,
                webhooks=webhooks,
                webhook_server=webhook_server,
                features=features,
                gated_scheduler_names=gated_scheduler_names,
            )
            options = msgspec.structs.replace(options, secure_metrics=secure_metrics, shadow=shadow)
            reloader: ConfigReloader | None = None
            if config.own is not None:
                reloader = ConfigReloader(config.own, plugins, _apply_logging(click.get_current_context().obj))
            problem = runner.run(run_shadow(options) if shadow.is_on else _run(options, reloader))
    except Unreachable as unreachable:
        exit_with_error("run", str(unreachable))
    if problem:
        exit_with_error("run", problem)


def _apply_logging(settings: dict[str, str]) -> Callable[[Configuration], None]:
    return lambda changed: set_file_settings(settings, changed.logging.level, changed.logging.format)


async def _run(options: RunOptions, reloader: ConfigReloader | None) -> str:
    """Runs until SIGINT or SIGTERM. Returns why it could not start, or an empty text."""
    signals = ShutdownSignals(0.0 if options.webhooks is None else options.webhooks.shutdown_delay_s)
    names = [profile.name for profile in options.configuration.profiles]
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(connect_component(options.rest_config))
        problem = await perform(transport, check_scheduling_gates())
        if not problem and not options.takeover and not options.dry_run:
            problem = await perform(transport, _embedded_check(options))
        other_owner = ""
        if not problem and (leases := _leases_of_others(options)):
            checking = asyncio.create_task(check_owners(transport, leases, say))
            if await _is_stopped_before(checking, signals.requested):
                say("stopped")
                return ""
            other_owner = checking.result()
            problem = "" if options.takeover else other_owner
        if problem:
            return problem
        if options.components & {"quota", "jobs"} and (remark := await perform(transport, check_kueue_kinds())):
            click.echo(f"remark: {remark}", err=True)
        metrics, health = ProcessMetrics(), WebhookHealth()
        try:
            await serve_metrics(options, metrics, health, signals, stack, transport)
        except OSError as error:
            return listen_problem(options, error)
        tasks: list[asyncio.Task[str]] = []
        if reloader is not None:
            run_in_background(stack, reloader.run())
        if "scheduler" in options.components:
            say(f"headgate schedules pods of {', '.join(names)} on {options.rest_config.server}")
            tasks.append(asyncio.create_task(_run_scheduler(options, transport, metrics.health_registry)))
        if "gates" in options.components:
            names_text = ", ".join(options.gated_scheduler_names)
            say(f"headgate removes queue gates of pods of {names_text} on {options.rest_config.server}")
            if other_owner:
                click.echo(f"remark: the statuses of queues and PodGroups are not written: {other_owner}", err=True)
            gates = _run_gates(options, transport, metrics.health_registry, write_queue_status=not other_owner)
            tasks.append(asyncio.create_task(gates))
        webhooks: tuple[WebhookService, asyncio.Task[str]] | None = None
        if options.webhooks is not None and options.webhook_server is not None:
            gated = options.queue_names
            say(f"headgate serves webhooks for pods of {', '.join(gated)} on {options.rest_config.server}")
            sys.setswitchinterval(_SWITCH_S)
            service = webhook_service(
                options.webhooks,
                options.webhook_server,
                gated,
                options.features,
                options.jobs if "jobs" in options.components else None,
                options.rest_config,
                health,
                gives_up=options.components == {"webhooks"},
            )
            webhooks = service, asyncio.create_task(service.run())
            tasks.append(webhooks[1])
            if options.features.gate_ownership:
                say(f"headgate applies GatePolicies on {options.rest_config.server}")
                metrics.show_gate_policies()
                tasks.append(asyncio.create_task(_run_gate_policies(options, transport, metrics)))
        if "controllers" in options.components:
            say(f"headgate runs the workload controllers on {options.rest_config.server}")
            tasks.append(asyncio.create_task(_run_controllers(options, transport, metrics)))
        if "quota" in options.components:
            say(f"headgate gives quota to workloads on {options.rest_config.server}")
            metrics.show_quota()
            tasks.append(asyncio.create_task(_run_quota(options, transport, metrics)))
        if "jobs" in options.components:
            say(f"headgate keeps jobs in queues on {options.rest_config.server}")
            metrics.show_jobs()
            tasks.append(asyncio.create_task(_run_jobs(options, transport, metrics)))
        stopping = asyncio.create_task(signals.requested.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if webhooks is not None and signals.requested.is_set():
            problem = await _stop_leading(*webhooks, tasks, signals.delay_s)
        problem = await _stop_tasks(tasks) or problem
        if problem:
            return problem
    say("stopped")
    return ""


def _embedded_check(options: RunOptions) -> PreflightSteps:
    profiles = options.configuration.profiles
    components: list[str] = [each for each in COMPONENTS if each in options.components]
    if "webhooks" in components and options.features.gate_ownership:
        components.append(GATE_POLICIES)
    has_queues = any(profile.queues is not None for profile in profiles)
    return check_embedded_components(components, [profile.name for profile in profiles], has_queues=has_queues)


def _leases_of_others(options: RunOptions) -> list[WorkLease]:
    """The Leases whose live holders do the same work. Replicas with leader election share a Lease; a process without
    leader election must not start beside them. With --takeover only the owners of queues are looked for: the gate
    controller does not write the statuses that belong to them."""
    components = options.components
    queue_owners = queue_owner_leases(is_scheduler="scheduler" in components) if "gates" in components else []
    if options.takeover:
        return queue_owners
    election = options.configuration.leader_election
    own = {
        "scheduler": (election.resource_namespace, election.resource_name),
        "gates": GATES_LEASE,
        "controllers": LEASE,
        "quota": QUOTA_LEASE,
        "jobs": JOBS_LEASE,
    }
    leases: list[WorkLease] = []
    if "scheduler" in components:
        leases += scheduler_leases(profile.name for profile in options.configuration.profiles)
        if any(profile.queues is not None for profile in options.configuration.profiles):
            leases.append(gate_controller_lease())
    if components & {"quota", "jobs"}:
        leases.append(kueue_lease())
    if election.leader_elect:
        leases = [each for each in leases if each.key != own["scheduler"]]
    elif not options.dry_run:
        leases += [headgate_lease(each, *own[each]) for each in COMPONENTS if each in own and each in components]
        if "webhooks" in components and options.features.gate_ownership:
            leases.append(headgate_lease("gate-policies", *GATE_POLICIES_LEASE))
    return leases + queue_owners


async def _is_stopped_before(task: asyncio.Task[str], stop: asyncio.Event) -> bool:
    """Waits for the task. If SIGINT or SIGTERM comes first, the task is cancelled."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return False
    task.cancel()
    await asyncio.wait([task])
    return True


async def _stop_leading(
    service: WebhookService, serving: asyncio.Task[str], tasks: list[asyncio.Task[str]], delay_s: float
) -> str:
    """Stops all components except the webhooks, which are served for ``delay_s`` more: the Leases are released at once,
    so that another replica leads meanwhile. Returns why a component had ended before."""
    service.begin_shutdown(delay_s)
    ends_s = time.monotonic() + delay_s
    problem = await _stop_tasks([task for task in tasks if task is not serving])
    if not problem:
        await asyncio.wait([serving], timeout=max(0.0, ends_s - time.monotonic()))
    return problem


async def _stop_tasks(tasks: list[asyncio.Task[str]]) -> str:
    """Cancels the tasks. Returns why a task had ended before."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            error = task.exception()
            return f"stopped: {error}" if error is not None else task.result()
    return ""


async def _run_scheduler(options: RunOptions, transport: Transport, health: HealthRegistry) -> str:
    gc.freeze()  # modules and tables are never freed
    gc.set_threshold(*_GC_THRESHOLDS)
    if options.dry_run:
        say("dry run: nothing is written")
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
        election,
        lambda: connect_component(options.rest_config),
        lambda write_budget_s: run(write_budget_s=write_budget_s),
        health,
    )
    return ""


async def _run_gates(
    options: RunOptions, transport: Transport, health: HealthRegistry, *, write_queue_status: bool
) -> str:
    make = gate_controller_factory(
        options.gated_scheduler_names, options.features, options.jobs, options.configuration, options.plugins
    )
    if options.configuration.leader_election.leader_elect:
        await run_elected_gates(
            make,
            transport,
            health,
            say,
            lambda: connect_component(options.rest_config),
            write_queue_status=write_queue_status,
        )
    else:
        await run_gates(make, transport, health=health, write_queue_status=write_queue_status)
    return ""


async def _run_controllers(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    authority = authority_of(options.rest_config)
    if options.configuration.leader_election.leader_elect:
        await run_elected_controllers(
            authority, transport, options.features, metrics, say, lambda: connect_component(options.rest_config)
        )
    else:
        await run_builtin_controllers(authority, transport, options.features, metrics)
    return ""


async def _run_quota(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    if options.configuration.leader_election.leader_elect:
        await run_elected_quota(
            transport, options.features, options.jobs, metrics, say, lambda: connect_component(options.rest_config)
        )
    else:
        await run_quota(transport, options.features, options.jobs, metrics)
    return ""


async def _run_jobs(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    if options.configuration.leader_election.leader_elect:
        await run_elected_jobs(
            transport, options.features, options.jobs, metrics, say, lambda: connect_component(options.rest_config)
        )
    else:
        await run_jobs(transport, options.features, options.jobs, metrics)
    return ""


async def _run_gate_policies(options: RunOptions, transport: Transport, metrics: ProcessMetrics) -> str:
    if options.configuration.leader_election.leader_elect:
        await run_elected_gate_policies(transport, metrics, say, lambda: connect_component(options.rest_config))
    else:
        await run_gate_policies(transport, metrics)
    return ""


async def _run_elected(
    election: LeaderElection,
    connect: ConnectTransport,
    work: Callable[[Callable[[], float]], Awaitable[None]],
    health: HealthRegistry,
) -> None:
    config = LeaderElectionConfig(int(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
    elector = LeaderElector(connect, election.resource_namespace, election.resource_name, new_identity(), config)

    async def lead() -> None:
        say(f"elected: holds the Lease {election.resource_namespace}/{election.resource_name}")
        with health.process_metrics.leading(election.resource_name):
            await work(elector.write_budget_s)

    health.process_metrics.add_candidate(election.resource_name)
    say(f"waits to be elected: candidate for the Lease {election.resource_namespace}/{election.resource_name}")
    await elector.run(lead)
