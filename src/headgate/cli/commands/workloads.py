"""``headgate workloads``: prints Kueue's Workloads in the columns of ``kueuectl list workload``, or the gated jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from headgate.cli.commands.queues import describe_unavailable
from headgate.cli.options.cluster_access import (
    chosen_namespace,
    cluster_options,
    namespace_options,
    perform,
    rest_config_or_exit,
)
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.listing import Listing, Table
from headgate.cli.options.log_options import log_options
from headgate.cli.options.name_completion import complete_name
from headgate.cli.options.query_options import list_output_option, watch_option
from headgate.cli.options.suggestions import SuggestingChoice
from headgate.cli.wiring.expected_starts import estimate_cell, expected_workload_starts
from headgate.cli.wiring.list_runner import run_listing
from headgate.estimates.estimator import StartEstimate
from headgate.http.transport import Transport
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
    type=SuggestingChoice(["all", *STATES]),
    help="Only those in this state. May be repeated.",
)
@click.option("--for", "owner", default="", metavar="TYPE/NAME", help="Only those of this job, such as job/train.")
@click.option(
    "--queue",
    default="",
    metavar="NAME",
    help="Only those of this LocalQueue.",
    shell_complete=complete_name("localqueue"),
)
@click.option(
    "--cluster-queue",
    default="",
    metavar="NAME",
    help="Only those of this ClusterQueue.",
    shell_complete=complete_name("clusterqueue"),
)
@click.option(
    "--gated", is_flag=True, help="Only jobs and pods that a gate holds, with or without a Workload; the oldest first."
)
@click.option(
    "--estimate", "estimates", is_flag=True, help="Estimate when pending Workloads start: the range of 8 in 10 cases."
)
@list_output_option
@watch_option
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
    watch: bool,
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

    With --estimate, the column EXPECTED START IN says when a pending Workload will be admitted: a range with a
    probability of 80%, or no basis; headgate explain workload says why (docs/estimates.md).

    With --gated: jobs and pods that have no Workload because of kueue.x-k8s.io/scheduling-gated-by, and Workloads that
    get no quota because of kueue.x-k8s.io/admission-gated-by or because of headgate hold.

    \b
    Example:
      headgate workloads -A --status pending
      headgate workloads -n team-a --for job/train -o wide
      headgate workloads -A --status pending --estimate    when will they start?
      headgate workloads -A --gated                        which jobs are still gated?
      headgate workloads -n team-a --watch                 again after each change
      headgate workloads -A -o json | jq '.workloads[] | select(.reason == "WaitingForQuota")'
    """
    kind, name = _owner(owner)
    if gated and (states or owner or cluster_queue or estimates):
        raise click.UsageError("--gated cannot be combined with --status, --for, --cluster-queue or --estimate")
    rest_config = rest_config_or_exit("workloads", kubeconfig, context)
    scope = chosen_namespace(rest_config, namespace, all_namespaces)
    chosen = _Filter(states, kind, name, queue, cluster_queue)

    async def make(transport: Transport) -> Listing | str:
        now_s = time.time()
        if gated:
            return _gated_listing(await perform(transport, find_gated_jobs(scope, kinds)), queue, scope, now_s)
        inspection = await perform(transport, inspect_quota(scope, now_s))
        problem = _problem(inspection, cluster_queue)
        if problem:
            return problem
        rows = _rows(inspection, scope, chosen)
        expected: dict[str, StartEstimate] | None = None
        if estimates:
            keys = [f"{row.namespace}/{row.name}" for row in rows if row.state == "pending"]
            expected = await expected_workload_starts(transport, keys, now_s) if keys else {}
        return _listing(inspection, rows, scope, expected, now_s)

    run_listing("workloads", rest_config, output, watch, make)


class _Filter(NamedTuple):
    """Which Workloads to list; an empty value chooses all."""

    states: tuple[str, ...]
    owner_kind: str
    owner_name: str
    queue: str
    cluster_queue: str


def _problem(inspection: QuotaInspection, cluster_queue: str) -> str:
    if not inspection.has_listed(WORKLOADS):
        return describe_unavailable(inspection.unavailable, inspection.revision)
    if cluster_queue and not inspection.has_listed(LOCAL_QUEUES):
        return f"--cluster-queue: {inspection.unavailable_reason(LOCAL_QUEUES)}"
    return ""


def _rows(inspection: QuotaInspection, scope: str, chosen: _Filter) -> list[WorkloadRow]:
    listed = [wire for wire in inspection.workloads.values() if scope in ("", wire["metadata"]["namespace"])]
    return [
        row
        for row in workload_rows(inspection.engine, listed, inspection.knows_positions)
        if (not chosen.states or "all" in chosen.states or row.state in chosen.states)
        and chosen.queue in ("", row.local_queue)
        and chosen.cluster_queue in ("", row.cluster_queue)
        and (
            not chosen.owner_name
            or any(each.name == chosen.owner_name and _is_type(each, chosen.owner_kind) for each in row.owners)
        )
    ]


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


def _listing(
    inspection: QuotaInspection,
    rows: list[WorkloadRow],
    namespace: str,
    expected: Mapping[str, StartEstimate] | None,
    now_s: float,
) -> Listing:
    """``expected``: None if no estimates are wanted."""
    document: dict[str, Any] = {"revision": inspection.revision, "missing": inspection.unavailable}
    document |= {"workloads": rows, **({} if expected is None else {"expectedStarts": expected})}
    columns: tuple[str, ...] = (*(() if namespace else ("NAMESPACE",)), *_COLUMNS, *_WIDE)
    cells = [cells_of(inspection, row, now_s, not namespace, True) for row in rows]
    if expected is not None:
        at = len(columns) - len(_WIDE)
        columns = (*columns[:at], _EXPECTED, *columns[at:])
        cells = [
            (*line[:at], estimate_cell(expected.get(f"{row.namespace}/{row.name}"), now_s), *line[at:])
            for line, row in zip(cells, rows, strict=True)
        ]
    names = tuple(f"workload.{WORKLOADS.group}/{row.name}" for row in rows)
    unavailable = describe_unavailable(inspection.unavailable, inspection.revision) if inspection.unavailable else ""
    return Listing(
        (Table(columns, tuple(cells), names, len(_WIDE)),),
        document,
        complaints=tuple(unavailable.splitlines()),
        nothing=_nothing_found("Workload", namespace),
    )


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


def _gated_listing(inspection: GatedJobList, queue: str, namespace: str, now_s: float) -> Listing | str:
    rows = [each for each in inspection.gated if queue in ("", each.queue)]
    complaints = tuple(resource.line for resource in inspection.unavailable)
    if not rows and not inspection.is_complete:
        return "\n".join(complaints)
    columns = (*(() if namespace else ("NAMESPACE",)), *_GATED)
    return Listing(
        (
            Table(
                columns,
                tuple(_gated_cells(each, now_s, not namespace) for each in rows),
                tuple(f"{each.type}/{each.name}" for each in rows),
            ),
        ),
        {"missing": inspection.unavailable, "gated": rows},
        complaints=complaints,
        nothing=_nothing_found("gated job", namespace),
    )


def _gated_cells(each: GatedJob, now_s: float, all_namespaces: bool) -> tuple[str, ...]:
    created = parse_time(each.created)
    age = "<unknown>" if isinstance(created, str) else human_duration(now_s - float(created))
    cells = (each.type, each.name, each.gate, each.holds, each.queue or "-", age)
    return (*((each.namespace,) if all_namespaces else ()), *cells)


def _nothing_found(what: str, namespace: str) -> str:
    return f"No {what} found in {f'namespace {namespace}' if namespace else 'any namespace'}."
