"""``headgate install-crds``: installs the queue kinds, Volcano's and Kueue's, on any API server, or prints them as
YAML.
"""

from __future__ import annotations

import asyncio

import click
import yaml

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, rest_config_or_exit
from headgate.cli.options.log_options import log_options
from headgate.cli.wiring.definitions import install_definitions
from headgate.client.installer import InstallRefused, InstallResult
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Unreachable
from headgate.quota.kinds.definitions import definitions
from headgate.runtime.webhooks.conversions import converts_in_process


@click.command(short_help="Create or update the CustomResourceDefinitions of queues in a cluster.")
@click.option("--print", "only_print", is_flag=True, help="Write them to standard output as YAML; touch no cluster.")
@cluster_options
@log_options
def command(only_print: bool, kubeconfig: str, context: str) -> None:
    """Create the CustomResourceDefinitions of Queue and PodGroup (scheduling.volcano.sh/v1beta1) and of the kinds of
    Kueue (kueue.x-k8s.io/v1beta2), or bring them up to date. Their objects stay, and so do definitions of
    kueue.x-k8s.io that Kueue itself has brought. A cluster that `headgate up` starts has them from its first moment.

    kueue.x-k8s.io/v1beta1 is served once `headgate run --components webhooks` converts it.

    \b
    Example:
      headgate install-crds
      headgate install-crds --print | kubectl apply --server-side -f -
    """
    if only_print:
        printed = (*DEFINITIONS, *definitions(with_older=False))
        click.echo(yaml.dump_all(printed, Dumper=_NoAliasDumper, sort_keys=False), nl=False)
        return
    rest_config = rest_config_or_exit("install-crds", kubeconfig, context)
    try:
        done = asyncio.run(_install(rest_config))
    except Unreachable as problem:
        exit_with_error("install-crds", str(problem))
    for each in done:
        if isinstance(each, InstallRefused):
            exit_with_error("install-crds", each.text)
        click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each.name} {each.action}")


class _NoAliasDumper(yaml.SafeDumper):
    """Writes shared parts in full, without anchors and aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


async def _install(rest_config: RESTConfig) -> list[InstallResult | InstallRefused]:
    async with connect(rest_config) as transport:
        return await install_definitions(transport, both=await converts_in_process(transport))
