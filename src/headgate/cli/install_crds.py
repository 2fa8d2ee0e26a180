"""``headgate install-crds``: the kinds of queues, Volcano's and Kueue's, on any API server, or as YAML."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

import click
import yaml

from headgate.capacity.definitions import DEFINITIONS
from headgate.cli.logs import log_options
from headgate.cli.remote import access_or_give_up, cluster_options, give_up, reach
from headgate.client.installing import Ask, Installed, Refused, install
from headgate.client.kubeconfig import Access
from headgate.client.transport import Response, Transport, Unreachable
from headgate.control.webhooks.conversions import converts_itself
from headgate.quota.kinds.definitions import adapted, definitions

R = TypeVar("R")


@click.command(short_help="Bring the kinds of queues to a cluster.")
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
        printed = (*DEFINITIONS, *definitions(both=False))
        click.echo(yaml.dump_all(printed, Dumper=_Plain, sort_keys=False), nl=False)
        return
    access = access_or_give_up("install-crds", kubeconfig, context)
    try:
        done = asyncio.run(_install(access))
    except Unreachable as problem:
        give_up("install-crds", str(problem))
    for each in done:
        if isinstance(each, Refused):
            give_up("install-crds", each.text)
        click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each.name} {each.what}")


class _Plain(yaml.SafeDumper):
    """Without anchors: parts that several schemas share are written out, as people expect to read them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


async def _install(access: Access) -> list[Installed | Refused]:
    async with reach(access) as transport:
        return await bring(transport, both=await converts_itself(transport))


async def bring(transport: Transport, *, both: bool) -> list[Installed | Refused]:
    """All kinds, at once. ``both``: whether the server converts between the versions of kueue.x-k8s.io itself."""
    asked = [install(each) for each in DEFINITIONS] + [install(each, adapted) for each in definitions(both=both)]
    return await asyncio.gather(*(carry_out(transport, asking) for asking in asked))


async def carry_out(transport: Transport, asking: Generator[Ask, Response, R]) -> R:
    """Sends what a generator asks for, when it asks for it, until it has its answer."""
    try:
        ask = next(asking)
        while True:
            await asyncio.sleep(ask.wait_s)
            ask = asking.send(await transport.request(ask.request))
    except StopIteration as done:
        result: R = done.value
        return result
