"""``headgate history KIND NAME``: what happened to an object, as a timeline with sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import click
import msgspec

from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.listing import document_text, table_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.name_completion import complete_target
from headgate.cli.options.query_options import output_option
from headgate.cli.options.suggestions import closest
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.http.transport import Unreachable
from headgate.jobs.kinds.job_kind import JobKind, kubectl_names
from headgate.kube.api_resources import APIResource
from headgate.kube.timestamps import human_duration
from headgate.runtime.inspection.object_history import HISTORY_KINDS, read_history
from headgate.runtime.inspection.timeline import ObjectHistory, seconds

_SHORT: Final = {
    "po": "pod",
    "deploy": "deployment",
    "wl": "workload",
    "kwl": "workload",
    "pg": "podgroup",
    "q": "queue",
    "cq": "clusterqueue",
    "lq": "localqueue",
    "no": "node",
}


@click.command(short_help="Show what happened to an object, from its Events, conditions, stamps and managed fields.")
@click.argument("target", nargs=-1, metavar="KIND NAME", shell_complete=complete_target(HISTORY_KINDS))
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")
@output_option
@kinds_option
@cluster_options
@log_options
def command(
    target: tuple[str, ...],
    namespace: str,
    output: str,
    kinds: tuple[JobKind, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Show what happened to an object, the oldest first, with the time and where it is recorded. KIND is pod, job,
    deployment, workload, podgroup, queue, clusterqueue, localqueue or node.

    It reads the object and its Events; for a job also its Workloads and pods, for a pod its Workloads. Kubernetes keeps
    no history, so the list is incomplete: the command says what cannot be known. An object that was deleted has only
    its Events. `headgate record` keeps everything from now on.

    \b
    Example:
      headgate history job train -n team-a
      headgate history pod train-3 -n team-a
      headgate history clusterqueue research -o json
    """
    word, resource, name = _target(target, kinds)
    rest_config = rest_config_or_exit("history", kubeconfig, context)
    scope = namespace or rest_config.namespace
    try:
        found = asyncio.run(_read(rest_config, word, resource, scope, name))
    except Unreachable as problem:
        exit_with_error("history", str(problem))
    if isinstance(found, ListRefused):
        exit_with_error("history", found.text)
    if output != "text":
        click.echo(document_text(msgspec.to_builtins(found), output))
        return
    click.echo("\n".join(_lines(found, time.time())))


def _target(target: tuple[str, ...], kinds: tuple[JobKind, ...]) -> tuple[str, APIResource, str]:
    typed, _, name = (target[0] if target else "").partition("/")
    rest = target[1:] if not name else (name, *target[1:])
    word = typed.lower().partition(".")[0]
    word = _SHORT.get(word, word)
    word = word if word in HISTORY_KINDS else word.removesuffix("s")
    resource = HISTORY_KINDS.get(word)
    extra = next((each for each in kinds if typed.lower() in kubectl_names(each)), None)
    if resource is None and extra is not None:
        word, resource = extra.kind.kind.lower(), extra.resource
    if resource is None or len(rest) != 1 or not rest[0]:
        close = closest(word, HISTORY_KINDS)
        hint = f" Did you mean '{close}'?" if close and resource is None else ""
        listed = ", ".join(HISTORY_KINDS)
        raise click.UsageError(f"name the object: headgate history KIND NAME; KIND is one of {listed}.{hint}")
    return word, resource, rest[0]


async def _read(
    rest_config: RESTConfig, word: str, resource: APIResource, namespace: str, name: str
) -> ObjectHistory | ListRefused:
    async with connect(rest_config) as transport:
        return await perform(transport, read_history(word, resource, namespace, name, time.time()))


def _lines(found: ObjectHistory, now_s: float) -> Iterator[str]:
    where = f"{found.namespace}/" if found.namespace else ""
    yield f"{found.kind} {where}{found.name}" + (f" (uid {found.uid})" if found.uid else ": it does not exist any more")
    rows = [
        (
            each.at,
            human_duration(now_s - (seconds(each.at) or now_s)),
            each.source,
            f"{each.subject}: {each.text}" if each.subject else each.text,
        )
        for each in found.entries
    ]
    yield from table_text([("TIME", "AGO", "SOURCE", "WHAT"), *rows]).splitlines()
    if found.unknown:
        yield "not known"
    yield from (f"  {each}" for each in found.unknown)
