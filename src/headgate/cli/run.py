"""``headgate run``: the engines beside a real API server, as one of several replicas or alone."""

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

from headgate.cli.address import parse_address
from headgate.cli.controllers import (
    keep_controlling,
    keep_jobs,
    keep_quota,
    stand_and_control,
    stand_for_jobs,
    stand_for_quota,
)
from headgate.cli.event_loop import loop_factory
from headgate.cli.feature_gates import feature_gates_option
from headgate.cli.gating import gated_events_option, groups_option, waiting_option
from headgate.cli.job_options import job_options
from headgate.cli.logs import log_options
from headgate.cli.meters import Meters, metrics_option, show
from headgate.cli.remote import access_or_give_up, cluster_options, give_up, perform, reach
from headgate.cli.scheduler import Make, configuration_of, default_configuration, installed_plugins, maker
from headgate.cli.webhooks import Wish, serve_webhooks, webhook_options
from headgate.client.credentials.shell import authority_of
from headgate.client.kubeconfig import Access
from headgate.client.leases.election import Timing
from headgate.client.leases.shell import Elector, Reach, new_identity
from headgate.client.transport import Transport, Unreachable
from headgate.control.board import Board
from headgate.control.preflight import knows_gates, lacks_kinds, live_owner, live_quota
from headgate.control.scheduler.rehearsal import Rehearsal
from headgate.control.scheduler.shell import keep_scheduling
from headgate.control.webhooks.service import Health, Place
from headgate.jobs.settings import DEFAULT as DEFAULT_JOBS
from headgate.jobs.settings import JobSettings
from headgate.kube.features import DEFAULTS, Features, without_pods
from headgate.scheduling.configuration.values import Configuration, LeaderElection

COMPONENTS: Final = ("scheduler", "webhooks", "controllers", "quota", "jobs")
_NAME: Final = "headgate"
_GARBAGE: Final = (20_000, 20, 20)
"""Nodes and pods live long and hold no cycles: looking for garbage as often as Python does costs a twentieth more."""


class Order(msgspec.Struct, frozen=True):
    """What was asked for, checked as far as it can be without a server."""

    access: Access
    configuration: Configuration
    make: Make
    dry_run: bool
    takeover: bool
    metrics_at: tuple[str, int] | None
    components: frozenset[str] = frozenset({"scheduler"})
    webhooks: Wish | None = None
    place: Place | None = None
    features: Features = DEFAULTS
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
    features: Features,
    webhooks: Wish,
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
    place = webhooks.place() if "webhooks" in chosen else None
    if isinstance(place, str):
        raise click.UsageError(place)
    if dry_run and chosen != {"scheduler"}:
        raise click.UsageError("--dry-run is for the scheduler alone: leave other --components out")
    if "" in names:
        raise click.BadParameter("a name may not be empty", param_hint="--scheduler-name")
    metrics_at = parse_address("--metrics-listen", metrics_listen, "127.0.0.1:10259") if metrics_listen else None
    if isinstance(metrics_at, str):
        raise click.BadParameter(metrics_at)
    if "jobs" in chosen and (problem := without_pods(features)):
        raise click.UsageError(problem)
    found = installed_plugins(lambda problem: click.echo(f"headgate run: {problem}", err=True))
    served = tuple(dict.fromkeys(names)) or (_NAME,)
    if config_file is None:
        configuration = default_configuration(served, found)
    else:
        read = configuration_of(config_file, found, served)
        if isinstance(read, str):
            give_up("run", read)
        if names and {profile.name for profile in read.profiles} != set(names):
            raise click.UsageError("--config names its schedulers in profiles; say either --config or --scheduler-name")
        configuration = read
        for remark in configuration.remarks:
            click.echo(f"remark: {remark}", err=True)
    if place is not None and all(profile.queues is None for profile in configuration.profiles):
        ways = "serve headgate or volcano, or name a volcano-scheduler.conf by --config"
        give_up("run", f"webhooks gate pods of profiles that go by queues, and there is none: {ways}")
    if leader_elect is not None:
        election = msgspec.structs.replace(configuration.leader_election, leader_elect=leader_elect)
        configuration = msgspec.structs.replace(configuration, leader_election=election)
    make = maker(configuration, found, features, all_wait=all_wait, gated_events=gated_events)
    if isinstance(make, str):
        give_up("run", make)
    access = access_or_give_up("run", kubeconfig or configuration.client_connection.kubeconfig, context)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            order = Order(
                access, configuration, make, dry_run, takeover, metrics_at, makes_groups=makes_groups, jobs=job_settings
            )
            order = msgspec.structs.replace(order, components=chosen, webhooks=webhooks, place=place, features=features)
            problem = runner.run(_run(order))
    except Unreachable as unreachable:
        give_up("run", str(unreachable))
    if problem:
        give_up("run", problem)


async def _run(order: Order) -> str:
    """Until SIGINT or SIGTERM; or why it could not start."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    names = [profile.name for profile in order.configuration.profiles]
    async with contextlib.AsyncExitStack() as stack:
        transport = await stack.enter_async_context(reach(order.access))
        problem = await perform(transport, knows_gates())
        if not problem and not order.takeover and "scheduler" in order.components:
            problem = await perform(transport, live_owner(names, time.time()))
        if not problem and not order.takeover and order.components & {"quota", "jobs"}:
            problem = await perform(transport, live_quota(time.time()))
        if problem:
            return problem
        if order.components & {"quota", "jobs"} and (remark := await perform(transport, lacks_kinds())):
            click.echo(f"remark: {remark}", err=True)
        meters, health = Meters(), Health()
        try:
            await _show(order, meters, health, stack)
        except OSError as error:
            host, port = order.metrics_at or ("", 0)
            return f"cannot listen on {host}:{port}: {error.strerror}; check --metrics-listen"
        working: list[asyncio.Task[str]] = []
        if "scheduler" in order.components:
            click.echo(f"headgate schedules pods of {', '.join(names)} on {order.access.server}")
            working.append(asyncio.create_task(_work(order, transport, meters.board)))
        if order.webhooks is not None and order.place is not None:
            gated = [profile.name for profile in order.configuration.profiles if profile.queues is not None]
            click.echo(f"headgate serves webhooks for pods of {', '.join(gated)} on {order.access.server}")
            jobs = order.jobs if "jobs" in order.components else None
            serving_them = serve_webhooks(order.webhooks, order.place, gated, order.features, jobs, transport, health)
            working.append(asyncio.create_task(serving_them))
        if "controllers" in order.components:
            click.echo(f"headgate runs the workload controllers on {order.access.server}")
            working.append(asyncio.create_task(_control(order, transport, meters)))
        if "quota" in order.components:
            click.echo(f"headgate gives quota to workloads on {order.access.server}")
            meters.show_quota()
            working.append(asyncio.create_task(_give_quota(order, transport, meters)))
        if "jobs" in order.components:
            click.echo(f"headgate keeps jobs in queues on {order.access.server}")
            meters.show_jobs()
            working.append(asyncio.create_task(_keep_jobs(order, transport, meters)))
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


async def _show(order: Order, meters: Meters, health: Health, stack: contextlib.AsyncExitStack) -> None:
    if order.metrics_at is not None:
        further = {} if order.place is None else {"webhooks": health.problem}
        click.echo(f"metrics: {await show(meters.board, order.metrics_at, stack, further)}")


async def _work(order: Order, transport: Transport, board: Board) -> str:
    gc.freeze()  # modules and tables that stay
    gc.set_threshold(*_GARBAGE)
    if order.dry_run:
        click.echo("dry run: nothing is written")
        await keep_scheduling(order.make, Rehearsal(transport, click.echo), board=board, reports=False)
        return ""
    election = order.configuration.leader_election
    keep = functools.partial(keep_scheduling, order.make, transport, board=board, makes_groups=order.makes_groups)
    if not election.leader_elect:
        await keep()
        return ""
    await _stand(election, lambda: reach(order.access), lambda room_s: keep(room_s=room_s))
    return ""


async def _control(order: Order, transport: Transport, meters: Meters) -> str:
    authority = authority_of(order.access)
    if order.configuration.leader_election.leader_elect:
        await stand_and_control(authority, transport, order.features, meters, click.echo, lambda: reach(order.access))
    else:
        await keep_controlling(authority, transport, order.features, meters)
    return ""


async def _give_quota(order: Order, transport: Transport, meters: Meters) -> str:
    if order.configuration.leader_election.leader_elect:
        await stand_for_quota(transport, order.features, order.jobs, meters, click.echo, lambda: reach(order.access))
    else:
        await keep_quota(transport, order.features, order.jobs, meters)
    return ""


async def _keep_jobs(order: Order, transport: Transport, meters: Meters) -> str:
    if order.configuration.leader_election.leader_elect:
        await stand_for_jobs(transport, order.features, order.jobs, meters, click.echo, lambda: reach(order.access))
    else:
        await keep_jobs(transport, order.features, order.jobs, meters)
    return ""


async def _stand(
    election: LeaderElection, reach_lease: Reach, work: Callable[[Callable[[], float]], Awaitable[None]]
) -> None:
    timing = Timing(int(election.lease_duration_s), election.renew_deadline_s, election.retry_period_s)
    elector = Elector(reach_lease, election.resource_namespace, election.resource_name, new_identity(), timing)

    async def lead() -> None:
        click.echo(f"elected: holds the Lease {election.resource_namespace}/{election.resource_name}")
        await work(elector.room_s)

    click.echo(f"stands for election by the Lease {election.resource_namespace}/{election.resource_name}")
    await elector.run(lead)
