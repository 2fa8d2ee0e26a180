"""``headgate explain KIND NAME``: why it waits, and when it will probably start, in one screen.

``explain_queue.py`` explains queues; ``explain_file.py`` explains objects that do not exist yet (``-f``).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from headgate.cli.commands.explain_file import explain_file
from headgate.cli.commands.explain_pod import ExplainedPod, explain_pod, pod_lines
from headgate.cli.commands.explain_queue import QUEUE_KINDS, explain_any_queue
from headgate.cli.commands.explain_quota import age, description_lines, inspection_lines
from headgate.cli.commands.queues import describe_unavailable
from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.listing import document_text
from headgate.cli.options.log_options import log_options
from headgate.cli.options.name_completion import complete_target
from headgate.cli.options.query_options import output_option, served_option
from headgate.cli.options.terminal_text import echo_lines
from headgate.cli.wiring.expected_starts import (
    estimate_lines,
    expected_workload_starts,
    prepare_expected_starts,
)
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.estimates.estimator import StartEstimate
from headgate.http.transport import Unreachable
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_kind import JobKind, kubectl_names
from headgate.quota.explain.description import WorkloadDescription
from headgate.runtime.inspection.deployments import inspect_deployment
from headgate.runtime.inspection.quota import QuotaInspection
from headgate.runtime.inspection.unavailable import UnavailableResource
from headgate.runtime.inspection.workloads import WorkloadInspection, inspect_job, inspect_workload

Estimates = Mapping[str, StartEstimate]
"""By namespace/name of the Workload."""

_KINDS: Final = {
    **dict.fromkeys(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"), "workload"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"), "deployment"),
    **QUEUE_KINDS,
}
_COMPLETED: Final = ("pod", "job", "deployment", "workload", "queue", "clusterqueue", "localqueue")
_MAX_GROUPS: Final = 3
"""For how many groups of waiting pods of a Deployment one is explained."""


@click.command(short_help="Explain why a job, pod, Deployment, Workload or queue waits, and what has to happen.")
@click.argument("target", nargs=-1, metavar="[KIND NAME]", shell_complete=complete_target(_COMPLETED))
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Explain what would happen if the objects of this file were created; - is standard input.",
)
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")
@click.option(
    "--estimate/--no-estimate", "estimates", default=True, show_default=True, help="Estimate when it will start."
)
@output_option
@kinds_option
@served_option
@cluster_options
@log_options
def command(
    target: tuple[str, ...],
    file: Path | None,
    namespace: str,
    estimates: bool,
    output: str,
    kinds: tuple[JobKind, ...],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Explain why an object waits, with numbers and names, and what has to happen next. KIND is pod, job, deployment,
    workload, queue, clusterqueue or localqueue.

    For a job in Kueue's queues: its position, what is missing in each flavor, which workloads hold it, which would have
    to end, admission checks, gates and back-off; or why it has no Workload. Pods that still terminate although their
    quota is free are named.

    For a pod: gates of other controllers, with the client that set them and the time; its queue, with what is
    requested, in use and allowed, and its position; the message of the scheduler about nodes; its Workload, if Kueue's
    gate holds it.

    For a Deployment: how many of its pods wait, and why, for one pod of each reason.

    For a queue: whether it admits, how full it is, who holds the most, who is first in line, and what would help that
    one.

    The result is computed from lists, by the same engines that decide; these need not run. Without the right to list,
    the command shows the object's own status and the missing right.

    The expected start is a range with a probability of 80%. The engines replay the present state with run times that
    are declared, or learned from what has ended; docs/estimates.md says more. If these are not known, there is no
    estimate.

    With -f nothing is created: the command says what admission would change or refuse, whether the objects would start
    now, and if not, behind what and when. Exit codes: 0 all would start now, 3 queued, 4 refused, 5 it cannot be said;
    1 an error, 2 a wrong option.

    \b
    Example:
      headgate explain job train -n team-a
      headgate explain workload job-train-5a3f2 -n team-a
      headgate explain pod train-3 -n team-a
      headgate explain deployment web -n team-b
      headgate explain queue eng
      headgate explain clusterqueue research
      headgate explain localqueue lq -n team-a
      headgate explain job/train -n team-a -o json
      headgate explain trainingrun NAME --job-kinds FILE   a kind that a file describes
      headgate explain -f job.yaml -n team-a || echo "it would not start now"

    """
    if file is not None and target:
        raise click.UsageError("name an object or give a file with -f, not both")
    kind, name = ("", "") if file is not None else _target(target, kinds)
    rest_config = rest_config_or_exit("explain", kubeconfig, context)
    scope = namespace or rest_config.namespace
    now_s = time.time()
    try:
        if file is not None:
            sys.exit(explain_file(rest_config, file, scope, (*BUILTIN_KINDS, *kinds), served, gated, output))
        if kind == "pod":
            pod = asyncio.run(explain_pod(rest_config, scope, name, served, gated))
            found = asyncio.run(_estimate_pod(rest_config, pod, served, gated, now_s)) if estimates else ({}, None)
            _print_pod(pod, *found, output, now_s)
        elif kind == "deployment":
            asyncio.run(_explain_deployment(rest_config, scope, name, served, gated, output, now_s))
        elif kind in QUEUE_KINDS.values():
            asyncio.run(_explain_queue(rest_config, str(kind), scope, name, served, gated, output, now_s))
        else:
            inspected = asyncio.run(_inspect(rest_config, kind, scope, name, now_s))
            expected = asyncio.run(_estimate(rest_config, inspected[0], now_s)) if estimates else {}
            _print(*inspected, expected, output, now_s)
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
            "name the object to explain: headgate explain KIND NAME, with -n NAMESPACE; KIND is pod, job, deployment, "
            "workload, queue, clusterqueue or localqueue; for another kind of job add --job-kinds FILE, or find its "
            "workload with headgate workloads --for TYPE/NAME"
        )
    return kind, rest[0]


async def _explain_queue(
    rest_config: RESTConfig,
    kind: str,
    namespace: str,
    name: str,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    output: str,
    now_s: float,
) -> None:
    async with connect(rest_config) as transport:
        found = await explain_any_queue(transport, kind, namespace, name, served, gated, now_s)
    if isinstance(found, ListRefused):
        exit_with_error("explain", found.text)
    if output != "text":
        _print_document(found.document, found.unavailable, found.revision, output)
        return
    click.echo("\n".join([*found.lines, describe_unavailable(_refused(found.unavailable), found.revision)]))


def _refused(unavailable: Iterable[UnavailableResource]) -> list[UnavailableResource]:
    return [each for each in unavailable if not each.is_absent]


async def _explain_deployment(
    rest_config: RESTConfig,
    namespace: str,
    name: str,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    output: str,
    now_s: float,
) -> None:
    """The Deployment, and one pod of each group that waits for the same."""
    async with connect(rest_config) as transport:
        found = await perform(transport, inspect_deployment(namespace, name))
    if isinstance(found, ListRefused):
        exit_with_error("explain", found.text)
    groups = found.waiting[:_MAX_GROUPS]
    explained = [(each, await explain_pod(rest_config, namespace, each.pods[0], served, gated)) for each in groups]
    if output != "text":
        unavailable = [each for _, pod in explained for each in unavailable_of(pod)]
        document = {"kind": "deployment", **msgspec.to_builtins(found)}
        document["explained"] = [
            {"text": pod.text} if isinstance(pod, ListRefused) else msgspec.to_builtins(pod.explanation)
            for _, pod in explained
        ]
        _print_document(document, unavailable, "", output)
        return
    click.echo(f"deployment {namespace}/{name}: {found.summary}")
    click.echo(f"  {age(found.created, now_s)} old, {found.placed} of {found.pods} pods on nodes, {found.ready} ready")
    for fact in found.facts:
        click.echo(f"  {fact}")
    for group, pod in explained:
        others = len(group.pods) - 1
        click.echo(f"{len(group.pods)} pods wait for the same; one of them:" if others else "one pod waits:")
        lines = [pod.text] if isinstance(pod, ListRefused) else list(pod_lines(pod.explanation, now_s))
        click.echo("\n".join(f"  {line}" for line in lines))
    if len(found.waiting) > _MAX_GROUPS:
        click.echo(f"{len(found.waiting) - _MAX_GROUPS} more groups of pods wait for something else")
    for line in dict.fromkeys(each.line for _, pod in explained for each in _refused(unavailable_of(pod))):
        click.echo(line)


def unavailable_of(pod: ExplainedPod | ListRefused) -> list[UnavailableResource]:
    if isinstance(pod, ListRefused):
        return []
    inspections = [each for each in (pod.queues, pod.quota) if each is not None]
    return [*(resource for each in inspections for resource in each.unavailable), *pod.workloads.missing]


async def _inspect(
    rest_config: RESTConfig, kind: str | JobKind, namespace: str, name: str, now_s: float
) -> tuple[WorkloadInspection | ListRefused, QuotaInspection | None]:
    async with connect(rest_config) as transport:
        if isinstance(kind, JobKind):
            return await perform(transport, inspect_job(kind, namespace, name, now_s))
        return await perform(transport, inspect_workload(namespace, name, now_s))


async def _estimate(
    rest_config: RESTConfig, inspection: WorkloadInspection | ListRefused, now_s: float
) -> dict[str, StartEstimate]:
    if isinstance(inspection, ListRefused):
        return {}
    return await _estimate_workloads(rest_config, inspection.descriptions, now_s)


async def _estimate_workloads(
    rest_config: RESTConfig, descriptions: Iterable[WorkloadDescription], now_s: float
) -> dict[str, StartEstimate]:
    keys = [f"{each.namespace}/{each.name}" for each in descriptions if each.state == "pending"]
    if not keys:
        return {}
    async with connect(rest_config) as transport:
        return await expected_workload_starts(transport, keys, now_s)


async def _estimate_pod(
    rest_config: RESTConfig,
    pod: ExplainedPod | ListRefused,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    now_s: float,
) -> tuple[dict[str, StartEstimate], StartEstimate | None]:
    """Of the Workloads of the pod, and of the pod itself."""
    if isinstance(pod, ListRefused):
        return {}, None
    async with connect(rest_config) as transport:
        workloads = pod.workloads.descriptions
        compute = await prepare_expected_starts(transport, pod.explanation, workloads, served, gated, now_s)
    found = compute()
    own = found.pop("", None)
    return found, own


def _print(
    inspection: WorkloadInspection | ListRefused,
    quota: QuotaInspection | None,
    estimates: Estimates,
    output: str,
    now_s: float,
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
    if output != "text":
        document = {**msgspec.to_builtins(inspection), "missing": [], **_estimate_fields(estimates)}
        _print_document(document, unavailable, revision, output)
        return
    echo_lines(inspection_lines(inspection, now_s))
    _print_estimates(estimates, now_s)
    click.echo(describe_unavailable(unavailable, revision))


def _estimate_fields(estimates: Estimates) -> dict[str, Any]:
    return {"expectedStarts": msgspec.to_builtins(estimates)} if estimates else {}


def _print_estimates(estimates: Estimates, now_s: float) -> None:
    for each in estimates.values():
        echo_lines(estimate_lines(each, now_s))


def _print_pod(
    pod: ExplainedPod | ListRefused, of_workloads: Estimates, own: StartEstimate | None, output: str, now_s: float
) -> None:
    if isinstance(pod, ListRefused):
        exit_with_error("explain", pod.text)
    inspections = [each for each in (pod.queues, pod.quota) if each is not None]
    unavailable = unavailable_of(pod)
    if output != "text":
        document = {
            **msgspec.to_builtins(pod.explanation),
            "workloads": msgspec.to_builtins(pod.workloads.descriptions),
            **({"note": pod.workloads.note} if pod.workloads.note else {}),
            **({"expectedStart": msgspec.to_builtins(own)} if own is not None else {}),
            **_estimate_fields(of_workloads),
        }
        _print_document(document, unavailable, inspections[0].revision if inspections else "", output)
        return
    echo_lines(pod_lines(pod.explanation, now_s))
    if pod.workloads.note:
        click.echo(f"  {pod.workloads.note}")
    for description in pod.workloads.descriptions:
        echo_lines(description_lines(description, now_s))
        echo_lines(f"  next: {step}" for step in description.next)
    _print_estimates({**of_workloads, **({"": own} if own is not None else {})}, now_s)
    if inspections:
        click.echo(describe_unavailable(unavailable, inspections[0].revision))


def _print_document(
    document: dict[str, Any], unavailable: Iterable[UnavailableResource], revision: str, output: str
) -> None:
    full_document = {**document, "revision": revision, "missing": msgspec.to_builtins(list(dict.fromkeys(unavailable)))}
    click.echo(document_text(full_document, output))
