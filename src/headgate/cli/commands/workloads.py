"""``headgate workloads``: prints Kueue's Workloads in the columns of ``kueuectl list workload``, or the gated jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from headgate.cli.commands.expected_starts import estimate_cell, expected_workload_starts
from headgate.cli.commands.queues import describe_unavailable
from headgate.cli.options.cluster_access import (
    chosen_namespace,
    cluster_options,
    connect,
    exit_with_error,
    namespace_options,
    perform,
    print_table,
    rest_config_or_exit,
)
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.log_options import log_options
from headgate.client.kubeconfig import RESTConfig
from headgate.estimates.estimator import StartEstimate
from headgate.http.transport import Unreachable
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.timestamps import human_duration, parse_time
from headgate.quota.explain.workload_list import STATES, WorkloadOwner, WorkloadRow, workload_rows
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.runtime.inspection.gated_jobs import GatedJob, GatedJobList, find_gated_jobs
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota

_COLUMNS: Final = (
    *("NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE"),
    *("STATUS", "POSITION IN QUEUE", "EXEC TIME", "AGE"),
)
_WIDE: Final = ("PRIORITY", "POSITION IN CLUSTERQUEUE", "REASON")
_EXPECTED: Final = "EXPECTED START IN"
_GATED: Final = ("TYPE", "NAME", "GATE", "HOLDS BACK", "LOCALQUEUE", "AGE")
_MAX_OWNERS: Final = 3
_SHORT: Final = {"po": "pod", "deploy": "deployment", "sts": "statefulset", "rs": "replicaset"}


@click.command(short_help="List the Workloads in queues; with --gated, the jobs that a gate holds.")
@click.option(
    "--status",
    "states",
    multiple=True,
    type=click.Choice(["all", *STATES]),
    help="Only those in this state. May be repeated.",
)
@click.option("--for", "owner", default="", metavar="TYPE/NAME", help="Only those of this job, such as job/train.")
@click.option("--queue", default="", metavar="NAME", help="Only those of this LocalQueue.")
@click.option("--cluster-queue", default="", metavar="NAME", help="Only those of this ClusterQueue.")
@click.option(
    "--gated", is_flag=True, help="Only jobs and pods that a gate holds, with or without a Workload; the oldest first."
)
@click.option(
    "--estimate", "estimates", is_flag=True, help="Estimate when pending Workloads start: the range of 8 in 10 cases."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)
@kinds_option
@namespace_options
@cluster_options
@log_options
def command(
    states: tuple[str, ...],
    owner: str,
    queue: str,
    cluster_queue: str,
    gated: bool,
    estimates: bool,
    output: str,
    kinds: tuple[JobKind, ...],
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Print the Workloads of a namespace: their jobs, queues, states, and positions in the queue.

    POSITION IN QUEUE is the number of Workloads of the same LocalQueue that are considered before this one: 0 is next.
    This command computes it from the Workloads and queues of the cluster, so it works with Headgate's quota controller,
    with Kueue, and while neither runs. WAITINGTOSTART: the Workload is admitted, and its pods start when terminating
    pods have ended. EXEC TIME counts from the time when the pods may start.

    With --estimate, the column EXPECTED START IN says when a pending Workload will probably be admitted: a range that
    holds in 8 of 10 cases, or no basis; headgate explain workload says why (docs/estimates.md).

    With --gated: jobs and pods that have no Workload because of kueue.x-k8s.io/scheduling-gated-by, and Workloads that
    get no quota because of kueue.x-k8s.io/admission-gated-by or because of headgate hold.

    \b
    Example:
      headgate workloads -A --status pending
      headgate workloads -n team-a --for job/train -o wide
      headgate workloads -A --status pending --estimate    when will they start?
      headgate workloads -A --gated                        which jobs are still gated?
      headgate workloads -A -o json | jq '.workloads[] | select(.reason == "WaitingForQuota")'
    """
    kind, name = _owner(owner)
    if gated and (states or owner or cluster_queue or estimates):
        raise click.UsageError("--gated cannot be combined with --status, --for, --cluster-queue or --estimate")
    rest_config = rest_config_or_exit("workloads", kubeconfig, context)
    scope = chosen_namespace(rest_config, namespace, all_namespaces)
    try:
        if gated:
            _print_gated(asyncio.run(_find_gated(rest_config, scope, kinds)), queue, scope, output)
            return
        inspection = asyncio.run(_inspect(rest_config, scope))
    except Unreachable as problem:
        exit_with_error("workloads", str(problem))
    if not inspection.has_listed(WORKLOADS):
        exit_with_error("workloads", describe_unavailable(inspection.unavailable, inspection.revision))
    if cluster_queue and not inspection.has_listed(LOCAL_QUEUES):
        exit_with_error("workloads", f"--cluster-queue: {inspection.unavailable_reason(LOCAL_QUEUES)}")
    listed = [wire for wire in inspection.workloads.values() if scope in ("", wire["metadata"]["namespace"])]
    rows = [
        row
        for row in workload_rows(inspection.engine, listed, inspection.knows_positions)
        if (not states or "all" in states or row.state in states)
        and queue in ("", row.local_queue)
        and cluster_queue in ("", row.cluster_queue)
        and (not name or any(each.name == name and _is_type(each, kind) for each in row.owners))
    ]
    expected: dict[str, StartEstimate] | None = None
    if estimates:
        keys = [f"{row.namespace}/{row.name}" for row in rows if row.state == "pending"]
        expected = asyncio.run(_estimate(rest_config, keys)) if keys else {}
    _print(inspection, rows, scope, output, expected)


def _owner(text: str) -> tuple[str, str]:
    kind, slash, name = text.partition("/")
    if text and not (kind and slash and name):
        raise click.BadParameter("must be TYPE/NAME, such as job/train or pod/worker-0", param_hint="--for")
    kind = kind.lower()
    return _SHORT.get(kind, kind), name


def _is_type(owner: WorkloadOwner, kind: str) -> bool:
    """Accepts ``job``, ``jobs``, ``job.batch`` and ``jobs.batch``."""
    singular, dot, group = kind.partition(".")
    named, _, of_group = owner.type.partition(".")
    return singular in (named, f"{named}s") and (not dot or group == of_group)


async def _inspect(rest_config: RESTConfig, namespace: str) -> QuotaInspection:
    async with connect(rest_config) as transport:
        return await perform(transport, inspect_quota(namespace, time.time()))


async def _estimate(rest_config: RESTConfig, keys: list[str]) -> dict[str, StartEstimate]:
    async with connect(rest_config) as transport:
        return await expected_workload_starts(transport, keys, time.time())


async def _find_gated(rest_config: RESTConfig, namespace: str, kinds: tuple[JobKind, ...]) -> GatedJobList:
    async with connect(rest_config) as transport:
        return await perform(transport, find_gated_jobs(namespace, kinds))


def _print(
    inspection: QuotaInspection,
    rows: list[WorkloadRow],
    namespace: str,
    output: str,
    expected: Mapping[str, StartEstimate] | None,
) -> None:
    """``expected``: None if no estimates are wanted."""
    if output == "json":
        document: dict[str, Any] = {"revision": inspection.revision, "missing": inspection.unavailable}
        document |= {"workloads": rows, **({} if expected is None else {"expectedStarts": expected})}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    if rows:
        now_s = time.time()
        head = (*(() if namespace else ("NAMESPACE",)), *_COLUMNS, *(_WIDE if output == "wide" else ()))
        table = [head, *(cells_of(inspection, row, now_s, not namespace, output == "wide") for row in rows)]
        if expected is not None:
            cells = [estimate_cell(expected.get(f"{row.namespace}/{row.name}"), now_s) for row in rows]
            table = [(*line, cell) for line, cell in zip(table, (_EXPECTED, *cells), strict=True)]
        print_table(table)
    else:
        _print_nothing_found("Workload", namespace)
    if inspection.unavailable:
        click.echo(describe_unavailable(inspection.unavailable, inspection.revision), err=True)


def cells_of(
    inspection: QuotaInspection, row: WorkloadRow, now_s: float, all_namespaces: bool, wide: bool
) -> tuple[str, ...]:
    """A question mark stands for a value that is unknown because a permission is missing."""
    unknown_position = "?" if row.state == "pending" and not inspection.knows_positions else ""
    names = [each.name for each in row.owners]
    more = len(names) - _MAX_OWNERS
    ran_s = None if row.started_s is None else (row.finished_s or now_s) - row.started_s
    cells = (
        row.name,
        ", ".join(dict.fromkeys(each.type for each in row.owners)),
        ", ".join(names[:_MAX_OWNERS]) + (f" and {more} more" if more > 0 else ""),
        row.local_queue,
        row.cluster_queue or ("" if inspection.has_listed(LOCAL_QUEUES) else "?"),
        row.state.upper(),
        unknown_position if row.position is None else str(row.position),
        "" if ran_s is None else human_duration(ran_s),
        human_duration(now_s - row.created_s),
    )
    wide_cells = (
        (
            str(row.priority),
            unknown_position if row.position_in_cluster_queue is None else str(row.position_in_cluster_queue),
            row.reason,
        )
        if wide
        else ()
    )
    return (*((row.namespace,) if all_namespaces else ()), *cells, *wide_cells)


def _print_gated(inspection: GatedJobList, queue: str, namespace: str, output: str) -> None:
    rows = [each for each in inspection.gated if queue in ("", each.queue)]
    if not rows and not inspection.is_complete:
        exit_with_error("workloads", "\n".join(resource.line for resource in inspection.unavailable))
    if output == "json":
        document = {"missing": inspection.unavailable, "gated": rows}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    now_s = time.time()
    if rows:
        head = (*(() if namespace else ("NAMESPACE",)), *_GATED)
        print_table([head, *(_gated_cells(each, now_s, not namespace) for each in rows)])
    else:
        _print_nothing_found("gated job", namespace)
    for resource in inspection.unavailable:
        click.echo(resource.line, err=True)


def _gated_cells(each: GatedJob, now_s: float, all_namespaces: bool) -> tuple[str, ...]:
    created = parse_time(each.created)
    age = "<unknown>" if isinstance(created, str) else human_duration(now_s - float(created))
    cells = (each.type, each.name, each.gate, each.holds, each.queue or "-", age)
    return (*((each.namespace,) if all_namespaces else ()), *cells)


def _print_nothing_found(what: str, namespace: str) -> None:
    click.echo(f"No {what} found in {f'namespace {namespace}' if namespace else 'any namespace'}.", err=True)
