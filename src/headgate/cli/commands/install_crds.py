"""``headgate install-crds``: installs the CRDs of Volcano's and Kueue's queues on any API server, or prints them as
YAML.
"""

from __future__ import annotations

import asyncio

import click

from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, rest_config_or_exit
from headgate.cli.options.log_options import log_options
from headgate.cli.options.yaml_output import dump_all
from headgate.cli.wiring.definitions import install_definitions, install_gate_policies
from headgate.client.installer import InstallRefused, InstallResult
from headgate.client.kubeconfig import RESTConfig
from headgate.gate_policies.definitions import DEFINITION
from headgate.http.transport import Unreachable
from headgate.quota.kinds.definitions import definitions
from headgate.runtime.webhooks.api_server_features import read_features


@click.command(short_help="Create or update the CustomResourceDefinitions of queues in a cluster.")
@click.option("--print", "only_print", is_flag=True, help="Write them to standard output as YAML; touch no cluster.")
@click.option("--gate-policies", is_flag=True, help="GatePolicy as well, for the feature gate GateOwnership.")
@cluster_options
@log_options
def command(only_print: bool, gate_policies: bool, kubeconfig: str, context: str) -> None:
    """Create the CustomResourceDefinitions of Queue and PodGroup (scheduling.volcano.sh/v1beta1) and of the kinds of
    Kueue (kueue.x-k8s.io/v1beta2), or update them. Their objects stay. Definitions that Volcano or Kueue has
    installed are not changed. A cluster that `headgate up` starts has the definitions already.

    kueue.x-k8s.io/v1beta1 is served once `headgate run --components webhooks` converts it. The webhooks write that into
    the definitions, so `kubectl apply` of the printed ones conflicts with them later; this command does not.

    \b
    Example:
      headgate install-crds
      headgate install-crds --print > definitions.yaml
      headgate install-crds --gate-policies
    """
    if only_print:
        printed = (*DEFINITIONS, *definitions(with_older=False), *([DEFINITION] if gate_policies else []))
        click.echo(dump_all(printed), nl=False)
        return
    rest_config = rest_config_or_exit("install-crds", kubeconfig, context)
    try:
        done = asyncio.run(_install(rest_config, gate_policies))
    except Unreachable as problem:
        exit_with_error("install-crds", str(problem))
    for each in done:
        if isinstance(each, InstallRefused):
            exit_with_error("install-crds", each.text)
        click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each.name} {each.action}")


async def _install(rest_config: RESTConfig, gate_policies: bool) -> list[InstallResult | InstallRefused]:
    async with connect(rest_config) as transport:
        features = await read_features(transport)
        done = await install_definitions(transport, serve_v1beta1=features.converts)
        return [*done, await install_gate_policies(transport)] if gate_policies else done
