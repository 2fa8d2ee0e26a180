"""``headgate up``: a Kubernetes cluster in one process, durable in one folder."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from headgate.cli.embedded.autoscalers import MAKERS
from headgate.cli.embedded.cluster_options import COMPONENTS, DASHBOARD_LISTEN, ClusterOptions, StartupError
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.embedded.launcher import LaunchFailed, launch
from headgate.cli.embedded.process_record import ProcessRecord, read_record
from headgate.cli.embedded.start_report import StartReport, send_report
from headgate.cli.options.data_folder import DATA
from headgate.cli.options.feature_gates import feature_gates_option
from headgate.cli.options.gate_options import gated_events_option, gating_options, groups_option, waiting_option
from headgate.cli.options.job_options import job_options
from headgate.cli.options.log_options import log_options
from headgate.cli.options.metrics_option import metrics_option
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.cli.wiring.event_loop import loop_factory
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.store.io.database_file import StoreError, lock_owner

_DEFAULT_LISTEN: Final = "127.0.0.1:6443"
_ARGUMENTS: Final = "headgate.up.arguments"
_DETACH: Final = "--detach"
_INTERRUPTED: Final = 130


class _UpCommand(click.Command):
    """Keeps the arguments as they were given: ``--detach`` starts another process with them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_UpCommand, short_help="Start a cluster in this process; kubectl works with it.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA,
    show_default=True,
    help="The folder that holds everything: objects, certificates, kubeconfig.",
)
@click.option(
    "--listen",
    default=_DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="The address of the API server. Port 0: any free port.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Where to write the kubeconfig. [default: kubeconfig in the data folder]",
)
@metrics_option
@click.option(
    "--dashboard/--no-dashboard",
    default=True,
    show_default=True,
    help="Serve the live page, which shows queues, what waits in them and why, gates and nodes.",
)
@click.option(
    "--dashboard-listen",
    default="",
    metavar="HOST:PORT",
    help=f"The address of the page, on loopback. [default: {DASHBOARD_LISTEN}, or any free port if it is in use]",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Let viewers of the page lift gates, hold and resume queues and jobs, and change priorities, each with the "
    "viewer's own rights. [default: the page changes nothing]",
)
@click.option(
    "--components",
    default=",".join(COMPONENTS),
    show_default=True,
    metavar="LIST",
    help="The components to run, separated by commas; 'apiserver' alone runs only the API server.",
)
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(0, 10_000),
    default=3,
    show_default=True,
    help="How many simulated nodes there are.",
)
@click.option("--node-cpu", default="8", show_default=True, metavar="QUANTITY", help="CPU of each simulated node.")
@click.option(
    "--node-memory", default="32Gi", show_default=True, metavar="QUANTITY", help="Memory of each simulated node."
)
@click.option(
    "--node-resource",
    "node_resources",
    multiple=True,
    metavar="NAME=QUANTITY",
    help="A further resource of each simulated node, such as nvidia.com/gpu=4. May be repeated.",
)
@click.option(
    "--node-monitor-grace-period",
    "node_grace_period",
    default="50s",
    show_default=True,
    metavar="DURATION",
    help="How long a node may be silent before it counts as unreachable, as for kube-controller-manager.",
)
@click.option(
    "--autoscaler",
    type=SuggestingChoice(sorted(MAKERS)),
    default=None,
    help="Add nodes of that size when pods fit on no node, as this autoscaler would. [default: none]",
)
@click.option(
    "--config",
    "scheduler_config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="A KubeSchedulerConfiguration, or a volcano-scheduler.conf. Its profiles run besides the profiles headgate,"
    " volcano and default-scheduler, and replace those of the same name.",
)
@feature_gates_option
@gating_options
@groups_option
@waiting_option
@gated_events_option
@job_options
@click.option(
    "--allow-privileged",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=True,
    show_default=True,
    metavar="BOOL",
    help="Whether privileged containers may be created, as for kube-apiserver.",
)
@click.option(
    "--event-ttl",
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long an event is kept after its last write; 0 keeps it without a time limit.",
)
@click.option(
    "--disable-admission-plugins",
    "disabled_plugins",
    multiple=True,
    metavar="NAMES",
    help="Built-in admission plugins to disable, as for kube-apiserver. Disable ServiceAccount if no controller creates"
    " the service account default of a namespace.",
)
@click.option(
    "--token-auth-file",
    "token_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help='Further users, one per line: token,name,uid,"group,group", as for kube-apiserver.',
)
@click.option(
    "--client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Further certificate authorities (PEM) for client certificates, besides the cluster's own.",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="The file of the audit log: one JSON line for each write.",
)
@click.option(
    "--audit-level",
    type=SuggestingChoice(["None", "Metadata", "Request", "RequestResponse"]),
    default="Metadata",
    show_default=True,
    help="How much of a write is recorded. The content of Secrets and tokens is never recorded.",
)
@click.option(
    _DETACH,
    is_flag=True,
    help="Start the cluster in the background, and return when it is ready. Its log is headgate.log in the data"
    " folder. `headgate down` stops it.",
)
@click.option("--notify-fd", type=int, default=None, hidden=True)
@click.option("--stop-fd", type=int, default=None, hidden=True)
@log_options
def command(
    data: Path,
    listen: str,
    kubeconfig: Path | None,
    metrics_listen: str,
    dashboard: bool,
    dashboard_listen: str,
    allow_actions: bool,
    components: str,
    node_count: int,
    node_cpu: str,
    node_memory: str,
    node_resources: tuple[str, ...],
    node_grace_period: str,
    autoscaler: str | None,
    scheduler_config: Path | None,
    features: FeatureGates,
    gates_all_pods: bool,
    trusted_users: tuple[str, ...],
    create_pod_groups: bool,
    all_profiles_wait: bool,
    gated_events_per_hour: int,
    job_settings: JobSettings,
    allow_privileged: bool,
    event_ttl: str,
    disabled_plugins: tuple[str, ...],
    token_file: Path | None,
    client_ca: Path | None,
    audit_log: Path | None,
    audit_level: Literal["None", "Metadata", "Request", "RequestResponse"],
    detach: bool,
    notify_fd: int | None,
    stop_fd: int | None,
) -> None:
    """Start a cluster in this process: a Kubernetes API that kubectl works with, and simulated nodes.

    It runs until Ctrl-C. The next start with the same --data has the same objects.

    \b
    Example:
      headgate up --nodes 10 --node-resource nvidia.com/gpu=4
      export KUBECONFIG=.headgate/kubeconfig
      kubectl get nodes
      headgate up --detach       in the background; headgate down stops it
    """
    options = ClusterOptions.parse(
        data=data,
        listen=listen,
        kubeconfig=kubeconfig or data / "kubeconfig",
        components=components,
        node_count=node_count,
        node_resources={"cpu": node_cpu, "memory": node_memory},
        extra_resources=node_resources,
        features=msgspec.structs.replace(features, allow_privileged=allow_privileged),
        access=AccessOptions(
            token_file=token_file,
            client_ca=client_ca,
            audit_log=audit_log,
            audit_level=None if audit_log is None or audit_level == "None" else audit_level,
        ),
        event_ttl=event_ttl,
        disabled_plugins=disabled_plugins,
        gates_all_pods=gates_all_pods,
        create_pod_groups=create_pod_groups,
        all_profiles_wait=all_profiles_wait,
        gated_events_per_hour=gated_events_per_hour,
        autoscaler=autoscaler or "",
        trusted_users=trusted_users,
        node_grace_period=node_grace_period,
        metrics_listen=metrics_listen,
        dashboard_listen=dashboard_listen,
        dashboard=dashboard,
        dashboard_allows_actions=allow_actions,
        jobs=job_settings,
        scheduler_config=scheduler_config,
    )
    if isinstance(options, str):
        raise click.UsageError(options)
    if detach:
        _start_in_background(options)
        return
    from headgate.cli.embedded.cluster import run  # it takes a second to import, which --detach does not need

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(run(options, click.echo, lambda report: send_report(notify_fd, report), stop_fd))
    except StartupError as problem:
        send_report(notify_fd, StartReport(problem=str(problem)))
        click.echo(f"headgate up: {problem}", err=True)
        sys.exit(1)


def _start_in_background(options: ClusterOptions) -> None:
    context = click.get_current_context()
    arguments = [each for each in context.meta[_ARGUMENTS] if each != _DETACH]
    for name, value in context.ensure_object(dict).items():  # options before the name of the command
        arguments += [f"--{name.replace('_', '-')}", value]
    try:
        _raise_if_served(options.data)
        launched = launch(arguments, options.data)
    except LaunchFailed as problem:
        click.echo(f"headgate up: {problem}", err=True)
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        click.echo("headgate up: interrupted; the server was stopped again", err=True)
        sys.exit(_INTERRUPTED)
    data = shlex.quote(str(options.data))
    click.echo(f"headgate serves the Kubernetes API at {launched.report.url} (process {launched.process.pid})")
    click.echo(f"  kubeconfig  {launched.report.kubeconfig}")
    if launched.report.page:
        click.echo(f"  page        {launched.report.page}")
    click.echo(f"  log         {launched.log}")
    click.echo(f"  use it      export KUBECONFIG={shlex.quote(launched.report.kubeconfig)}")
    click.echo(f"  stop it     headgate down{'' if options.data == DATA else f' --data {data}'}")
    launched.process.returncode = 0  # it outlives this process


def _raise_if_served(data: Path) -> None:
    try:
        owner = lock_owner(data)
    except StoreError as problem:
        raise LaunchFailed(str(problem)) from problem
    if owner is None:
        return
    record = read_record(data)
    where = f" at {record.url}" if isinstance(record, ProcessRecord) and record.url else ""
    raise LaunchFailed(
        f"process {owner} serves the data folder {data} already{where}: use its kubeconfig, stop it with"
        f" `headgate down --data {data}`, or choose another folder with --data"
    )
