"""``headgate up``: a Kubernetes cluster in one process, durable in one folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from headgate.cli.embedded.autoscalers import MAKERS
from headgate.cli.embedded.cluster import run
from headgate.cli.embedded.cluster_options import COMPONENTS, ClusterOptions, StartupError
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.options.feature_gates import feature_gates_option
from headgate.cli.options.gate_options import gated_events_option, gating_options, groups_option, waiting_option
from headgate.cli.options.job_options import job_options
from headgate.cli.options.log_options import log_options
from headgate.cli.wiring.event_loop import loop_factory
from headgate.cli.wiring.metrics import metrics_option
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates

_DEFAULT_LISTEN: Final = "127.0.0.1:6443"


@click.command(short_help="Start a cluster in this process; kubectl works with it.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".headgate"),
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
    type=click.Choice(sorted(MAKERS)),
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
    type=click.Choice(["None", "Metadata", "Request", "RequestResponse"]),
    default="Metadata",
    show_default=True,
    help="How much of a write is recorded. The content of Secrets and tokens is never recorded.",
)
@log_options
def command(
    data: Path,
    listen: str,
    kubeconfig: Path | None,
    metrics_listen: str,
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
) -> None:
    """Start a cluster in this process: a Kubernetes API that kubectl works with, and simulated nodes.

    It runs until Ctrl-C. The next start with the same --data has the same objects.

    \b
    Example:
      headgate up --nodes 10 --node-resource nvidia.com/gpu=4
      export KUBECONFIG=.headgate/kubeconfig
      kubectl get nodes
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
        jobs=job_settings,
        scheduler_config=scheduler_config,
    )
    if isinstance(options, str):
        raise click.UsageError(options)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(run(options, click.echo))
    except StartupError as problem:
        click.echo(f"headgate up: {problem}", err=True)
        sys.exit(1)
