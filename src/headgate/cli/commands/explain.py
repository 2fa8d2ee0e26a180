"""``headgate explain job|workload|pod NAME``: why it waits, in one screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

import click
import msgspec

from headgate.cli.commands.explain_pod import ExplainedPod, explain_pod, pod_lines
from headgate.cli.commands.explain_quota import description_lines, inspection_lines
from headgate.cli.commands.queues import describe_unavailable
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import output_option, served_option
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.http.transport import Unreachable
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_kind import JobKind, kubectl_names
from headgate.runtime.inspection.quota import QuotaInspection
from headgate.runtime.inspection.unavailable import UnavailableResource
from headgate.runtime.inspection.workloads import WorkloadInspection, inspect_job, inspect_workload

_KINDS: Final = {
    **dict.fromkeys(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"), "workload"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
}


@click.command(short_help="Explain why a job, a workload or a pod waits, and what has to happen next.")
@click.argument("target", nargs=-1, required=True, metavar="job|workload|pod NAME")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")
@output_option
@kinds_option
@served_option
@cluster_options
@log_options
def command(
    target: tuple[str, ...],
    namespace: str,
    output: str,
    kinds: tuple[JobKind, ...],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Explain why a job, a workload or a pod waits, with numbers and names, and what has to happen next.

    For a job in Kueue's queues: its position, what is missing in each flavor, which workloads hold it, which would have
    to end, admission checks, gates and back-off; or why it has no Workload. Pods that still terminate although their
    quota is free are named.

    For a pod: gates of other controllers, with the client that set them and the time; its queue, with what is
    requested, in use and allowed, and its position; the message of the scheduler about nodes; its Workload, if Kueue's
    gate holds it.

    The result is computed from lists, by the same engines that decide; these need not run. Without the right to list,
    the command shows the object's own status and the missing right.

    \b
    Example:
      headgate explain job train -n team-a
      headgate explain workload job-train-5a3f2 -n team-a
      headgate explain pod train-3 -n team-a
      headgate explain job/train -n team-a -o json
      headgate explain trainingrun NAME --job-kinds FILE   a kind that a file describes

    """
    kind, name = _target(target, kinds)
    rest_config = rest_config_or_exit("explain", kubeconfig, context)
    scope = namespace or rest_config.namespace
    now_s = time.time()
    try:
        if kind == "pod":
            _print_pod(asyncio.run(explain_pod(rest_config, scope, name, served, gated)), output, now_s)
        else:
            _print(*asyncio.run(_inspect(rest_config, kind, scope, name, now_s)), output, now_s)
    except Unreachable as problem:
        exit_with_error("explain", str(problem))


def _target(target: tuple[str, ...], kinds: tuple[JobKind, ...]) -> tuple[str | JobKind, str]:
    word, _, name = target[0].partition("/")
    rest = target[1:] if not name else (name, *target[1:])
    kind = _KINDS.get(word.lower()) or next(
        (each for each in (*BUILTIN_KINDS, *kinds) if word.lower() in kubectl_names(each)), None
    )
    if kind is None or len(rest) != 1 or not rest[0]:
        raise click.UsageError(
            "name the object to explain: headgate explain pod NAME, job NAME or workload NAME, with -n NAMESPACE; for "
            "another kind of job add --job-kinds FILE, or find its workload with headgate workloads --for TYPE/NAME"
        )
    return kind, rest[0]


async def _inspect(
    rest_config: RESTConfig, kind: str | JobKind, namespace: str, name: str, now_s: float
) -> tuple[WorkloadInspection | ListRefused, QuotaInspection | None]:
    async with connect(rest_config) as transport:
        if isinstance(kind, JobKind):
            return await perform(transport, inspect_job(kind, namespace, name, now_s))
        return await perform(transport, inspect_workload(namespace, name, now_s))


def _print(
    inspection: WorkloadInspection | ListRefused, quota: QuotaInspection | None, output: str, now_s: float
) -> None:
    unavailable, revision = (quota.unavailable, quota.revision) if quota is not None else ((), "")
    if isinstance(inspection, ListRefused):
        exit_with_error(
            "explain",
            "\n".join(
                dict.fromkeys([inspection.text, *(resource.line for resource in unavailable if not resource.is_absent)])
            ),
        )
    unavailable = (*unavailable, *inspection.missing)
    if output == "json":
        _print_json({**msgspec.to_builtins(inspection), "missing": []}, unavailable, revision)
        return
    for line in inspection_lines(inspection, now_s):
        click.echo(line)
    click.echo(describe_unavailable(unavailable, revision))


def _print_pod(pod: ExplainedPod | ListRefused, output: str, now_s: float) -> None:
    if isinstance(pod, ListRefused):
        exit_with_error("explain", pod.text)
    inspections = [each for each in (pod.queues, pod.quota) if each is not None]
    unavailable = [*(resource for each in inspections for resource in each.unavailable), *pod.workloads.missing]
    if output == "json":
        document = {
            **msgspec.to_builtins(pod.explanation),
            "workloads": msgspec.to_builtins(pod.workloads.descriptions),
        }
        _print_json(document, unavailable, inspections[0].revision if inspections else "")
        return
    for line in pod_lines(pod.explanation, now_s):
        click.echo(line)
    for description in pod.workloads.descriptions:
        for line in description_lines(description, now_s):
            click.echo(line)
        for step in description.next:
            click.echo(f"  next: {step}")
    if inspections:
        click.echo(describe_unavailable(unavailable, inspections[0].revision))


def _print_json(document: dict[str, Any], unavailable: Iterable[UnavailableResource], revision: str) -> None:
    full_document = {**document, "revision": revision, "missing": msgspec.to_builtins(list(dict.fromkeys(unavailable)))}
    click.echo(msgspec.json.format(msgspec.json.encode(full_document)).decode())
