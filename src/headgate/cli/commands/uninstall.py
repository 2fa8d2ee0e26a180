"""``headgate uninstall``: removes an installation in a safe order."""

from __future__ import annotations

import asyncio

import click

from headgate.cli.options.cluster_access import (
    INTERRUPTED,
    cluster_options,
    connect,
    exit_with_error,
    rest_config_or_exit,
)
from headgate.cli.options.log_options import log_options
from headgate.cli.wiring.definitions import perform_steps
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.install.options import NAMESPACE, problem_of_namespace
from headgate.install.uninstall_steps import UninstallError
from headgate.install.uninstalling import UninstallPlan, uninstall


@click.command(short_help="Remove Headgate from a cluster, in a safe order.")
@click.option("--namespace", default=NAMESPACE, show_default=True, metavar="NS", help="Where Headgate is installed.")
@click.option("--dry-run", is_flag=True, help="Print what would be done; write nothing.")
@click.option(
    "--lift-gates/--keep-gates",
    "lifts_gates",
    default=True,
    show_default=True,
    help="Release pods and jobs that wait for Headgate, or leave them for another controller.",
)
@click.option(
    "--delete-data",
    is_flag=True,
    help="Delete queues and Workloads, with the CustomResourceDefinitions that Headgate installed.",
)
@click.option("--prepare", is_flag=True, help="Keep the objects of the installation, which `helm uninstall` deletes.")
@cluster_options
@log_options
def command(
    namespace: str, dry_run: bool, lifts_gates: bool, delete_data: bool, prepare: bool, kubeconfig: str, context: str
) -> None:
    """Remove Headgate: the webhooks first, then the Deployment, gates, finalizers, Leases, and all other objects.

    Queues and Workloads stay unless you pass --delete-data. Pods that were gated are scheduled, and suspended jobs of
    queues start, unless you pass --keep-gates. CustomResourceDefinitions of Volcano or Kueue are never deleted. The
    command may be repeated: it continues where it stopped. If you lack a right to one of the steps, nothing is changed.

    \b
    Example:
      headgate uninstall --dry-run        print every step
      headgate uninstall                  keep queues and Workloads
      headgate uninstall --delete-data    leave nothing
    """
    if prepare and delete_data:
        raise click.UsageError("--prepare keeps the objects that Helm deletes; run --delete-data after helm uninstall")
    if wrong := problem_of_namespace(namespace):
        raise click.BadParameter(wrong, param_hint="--namespace")
    rest_config = rest_config_or_exit("uninstall", kubeconfig, context)
    plan = UninstallPlan(
        namespace, lifts_gates=lifts_gates, deletes_data=delete_data, prepares=prepare, dry_run=dry_run
    )
    try:
        asyncio.run(_uninstall(rest_config, plan))
    except (Unreachable, UninstallError) as problem:
        exit_with_error("uninstall", str(problem))
    except KeyboardInterrupt:
        exit_with_error("uninstall", INTERRUPTED)


async def _uninstall(rest_config: RESTConfig, plan: UninstallPlan) -> None:
    async with connect(rest_config) as transport:
        await perform_steps(transport, uninstall(plan), click.echo)
