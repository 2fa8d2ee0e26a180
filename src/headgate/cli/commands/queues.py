"""``headgate queues``: the trees of Volcano's queues and of Kueue's, their usage, and what waits in them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from headgate.capacity.names import QUEUES, ROOT
from headgate.cli.options.cluster_access import cluster_options, perform, rest_config_or_exit
from headgate.cli.options.listing import Listing, Table
from headgate.cli.options.log_options import log_options
from headgate.cli.options.query_options import list_output_option, served_option, watch_option
from headgate.cli.wiring.list_runner import run_listing
from headgate.client.permissions import resource_name
from headgate.http.transport import Transport
from headgate.kube.api_resources import PODS
from headgate.kube.resource_amounts import amount_text
from headgate.quota.explain.queue_list import (
    FlavorUsage,
    ListedClusterQueue,
    LocalQueueRow,
    cluster_queue_rows,
    local_without_usage,
    stray_local_queues,
    without_usage,
)
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES
from headgate.runtime.inspection.queues import QueueInspection, inspect_queues
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from headgate.runtime.inspection.unavailable import UnavailableResource

_COLUMNS: Final = (
    *("NAME", "STATE", "CAPABILITY", "ALLOCATED", "RESERVED", "TERMINATING", "WAITING", "SHARE"),
    *("DESERVED", "GUARANTEE"),
)
_WIDE: Final = 2
_QUOTA_COLUMNS: Final = (
    *("CLUSTERQUEUE", "STATE", "COHORT", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "RESERVED", "BORROWED", "PENDING"),
    *("AVAILABLE", "BORROWING LIMIT", "LENDING LIMIT", "STRATEGY"),
)
_QUOTA_WIDE: Final = 4
_NO_USAGE: Final = FlavorUsage("-", "-", "-", "-")
_CLUSTER_QUEUE_TYPE: Final = resource_name(CLUSTER_QUEUES).replace("queues", "queue", 1)
_LOCAL_QUEUE_TYPE: Final = resource_name(LOCAL_QUEUES).replace("queues", "queue", 1)


@click.command(short_help="Show Volcano's and Kueue's queues: how full each is, and how much waits.")
@list_output_option
@watch_option
@served_option
@cluster_options
@log_options
def command(
    output: str, watch: bool, served: tuple[str, ...], gated: tuple[str, ...], kubeconfig: str, context: str
) -> None:
    """Print Volcano's Queues and Kueue's ClusterQueues with their LocalQueues. Kinds that the cluster does not serve
    are left out; lists that are not allowed are named.

    A Queue below its parent: what it may use, what pods on nodes use of it (allocated), what was promised to pods
    without a node yet (reserved), what terminating pods still use, how many pods wait, and the share of what it
    deserves.

    A ClusterQueue, per flavor and resource: its nominal quota, what admitted Workloads use, what all Workloads with
    quota have reserved (USED included), how much of that is borrowed from the cohort, and how many Workloads are
    pending. Its LocalQueues are below it.

    It is computed from lists, by the engines that decide; these need not run.

    \b
    Example:
      headgate queues
      headgate queues -o wide                 also guarantees, limits on borrowing and lending, and what is available
      headgate queues --watch                 again after each change
      headgate queues -o json | jq '.queues[] | select(.waiting > 0)'
      headgate queues -o json | jq '.clusterQueues[] | {name, pending}'
    """
    rest_config = rest_config_or_exit("queues", kubeconfig, context)
    namespace = rest_config.namespace

    async def make(transport: Transport) -> Listing | str:
        queues = await perform(transport, inspect_queues(served, gated, time.time()))
        quota = await perform(transport, inspect_quota(namespace, time.time()))
        return _listing(queues, quota, (*served, *gated))

    run_listing("queues", rest_config, output, watch, make)


def _listing(queues: QueueInspection, quota: QuotaInspection, schedulers: tuple[str, ...]) -> Listing | str:
    """A text if neither kind of queue can be listed."""
    has_queues = not any(each.plural == QUEUES.plural for each in queues.unavailable)
    has_quota = not quota.is_absent and (quota.has_listed(CLUSTER_QUEUES) or quota.has_listed(LOCAL_QUEUES))
    refused = [each for each in (*queues.unavailable, *quota.unavailable) if not each.is_absent]
    if not has_queues and not has_quota:
        return describe_unavailable((*queues.unavailable, *quota.unavailable), queues.revision)
    tables: list[Table] = []
    remarks: list[str] = []
    document: dict[str, Any] = {
        "revision": queues.revision or quota.revision,
        "missing": [*queues.unavailable, *quota.unavailable],
        "queues": [],
    }
    if has_queues:
        tree = list(in_tree(queues))
        rows = tuple(_row(queues, name, depth) for name, depth in tree)
        tables.append(Table(_COLUMNS, rows, tuple(f"queue.{QUEUES.group}/{name}" for name, _ in tree), _WIDE))
        remarks += [f"{key}: {problem}" for key, problem in sorted(queues.problems.items())]
        strays = queues.pods_of_missing_queues if queues.knows_usage else {}
        remarks += [f"queue/{name}: does not exist; pods that name it: {count}" for name, count in strays.items()]
        document |= _queue_document(queues)
    if has_quota:
        cluster_queues, strays_of_quota = cluster_queue_rows(quota.engine), stray_local_queues(quota.engine)
        if not quota.knows_positions:
            cluster_queues = list(map(without_usage, cluster_queues))
            strays_of_quota = list(map(local_without_usage, strays_of_quota))
        tables.append(_quota_table(cluster_queues, strays_of_quota))
        remarks += [f"clusterqueue/{each.name}: {each.message}" for each in cluster_queues if each.message]
        if quota.has_listed(CLUSTER_QUEUES):
            remarks += [
                f"localqueue/{each.namespace}/{each.name}: its ClusterQueue {each.cluster_queue} does not exist"
                for each in strays_of_quota
            ]
        document |= {"clusterQueues": cluster_queues, "localQueuesWithoutClusterQueue": strays_of_quota}
    counted = f"; {queues.pods} pods of {', '.join(schedulers)}" if has_queues and not queues.lacks(PODS) else ""
    revision = f"{describe_unavailable(refused, queues.revision or quota.revision)}{counted}"
    return Listing(tuple(tables), document, (*remarks, *([""] if remarks else []), *revision.splitlines()))


def _quota_table(rows: list[ListedClusterQueue], strays: list[LocalQueueRow]) -> Table:
    cells: list[tuple[str, ...]] = []
    names: list[str] = []
    for row in rows:
        of_row = list(_cluster_queue_cells(row))
        cells += of_row
        names += [f"{_CLUSTER_QUEUE_TYPE}/{row.name}", *[""] * (len(of_row) - 1)]
        for local in row.local_queues:
            _add_local_queue(local, cells, names)
    for local in strays:
        _add_local_queue(local, cells, names)
    return Table(_QUOTA_COLUMNS, tuple(cells), tuple(names), _QUOTA_WIDE)


def _add_local_queue(local: LocalQueueRow, cells: list[tuple[str, ...]], names: list[str]) -> None:
    of_row = list(_local_queue_cells(local))
    cells += of_row
    names += [f"{_LOCAL_QUEUE_TYPE}/{local.name}", *[""] * (len(of_row) - 1)]


def _cluster_queue_cells(row: ListedClusterQueue) -> Iterator[tuple[str, ...]]:
    """A row for each flavor and resource; the first one names the queue. A question mark stands for a value that is
    unknown because a right is missing."""
    for index, each in enumerate(row.flavors or (_NO_USAGE,)):
        first = (row.name, row.state or "?", row.cohort or "-") if index == 0 else ("", "", "")
        used = each.used or "?", each.reserved or "?", each.borrowed or ("-" if each.used else "?")
        wide = each.available or ("-" if each.used else "?"), each.borrowing_limit or "-", each.lending_limit or "-"
        strategy = "" if index else row.strategy
        yield (*first, each.flavor, each.resource, each.nominal or "-", *used, _pending(row, index), *wide, strategy)


def _local_queue_cells(row: LocalQueueRow) -> Iterator[tuple[str, ...]]:
    for index, each in enumerate(row.usage or (_NO_USAGE,)):
        first = (f"  {row.namespace}/{row.name}", row.state or "?", "") if index == 0 else ("", "", "")
        used = (each.used, each.reserved) if row.pending is not None else ("?", "?")
        yield (*first, each.flavor, each.resource, "", *used, "", _pending(row, index), "", "", "", "")


def _pending(row: ListedClusterQueue | LocalQueueRow, index: int) -> str:
    """In the first row of a queue."""
    return "" if index else "?" if row.pending is None else str(row.pending)


def describe_unavailable(unavailable: Iterable[UnavailableResource], revision: str) -> str:
    """What could not be listed, and the resourceVersion of the lists."""
    lines = dict.fromkeys(resource.line for resource in unavailable)
    return "\n".join([*lines, f"as of resourceVersion {revision or 'unknown'}"])


def in_tree(inspection: QueueInspection) -> Iterator[tuple[str, int]]:
    """Queues below their parents, then queues without a valid parent. Yields name and depth."""
    children: dict[str, list[str]] = {}
    for name, queue in sorted(inspection.specs.items()):
        if name != ROOT:
            children.setdefault(queue.parent, []).append(name)
    seen: set[str] = set()
    roots = [ROOT, *(name for name, queue in sorted(inspection.specs.items()) if queue.parent not in inspection.specs)]
    for root in (*roots, *sorted(inspection.specs)):
        stack = [(root, 0)]
        while stack:
            name, depth = stack.pop()
            if name not in seen:
                seen.add(name)
                yield name, depth
                stack += [(child, depth + 1) for child in reversed(children.get(name, []))]


def _row(inspection: QueueInspection, name: str, depth: int) -> tuple[str, ...]:
    usage = inspection.queues.usage(name)
    amounts = map(_amounts, (usage.allocated, usage.reserved, usage.terminating))
    used = (*amounts, str(usage.waiting), f"{usage.share:.2f}")
    limits = inspection.queues.limits(name)
    return (
        "  " * depth + name,
        inspection.specs[name].state,
        _limits(inspection.specs[name].capability),
        *(used if inspection.knows_usage else ("?",) * len(used)),
        _amounts(limits.deserved),
        _amounts(limits.guarantee),
    )


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {text}" for name, text in _texts(amounts).items()) or "-"


def _limits(amounts: Mapping[str, int]) -> str:
    """Limits of 0 are included."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items())) or "-"


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount}


def _queue_document(inspection: QueueInspection) -> dict[str, Any]:
    return {
        "problems": dict(sorted(inspection.problems.items())),
        **({"strays": inspection.pods_of_missing_queues} if inspection.knows_usage else {}),
        "queues": [_fields(inspection, name) for name, _ in in_tree(inspection)],
    }


def _fields(inspection: QueueInspection, name: str) -> dict[str, Any]:
    queue, usage, limits = inspection.specs[name], inspection.queues.usage(name), inspection.queues.limits(name)
    used = {
        "allocated": _texts(usage.allocated),
        "reserved": _texts(usage.reserved),
        "terminating": _texts(usage.terminating),
        "inqueue": _texts(usage.inqueue),
        "waiting": usage.waiting,
        "share": round(usage.share, 4),
    }
    return {
        "name": name,
        "parent": queue.parent,
        "state": queue.state,
        "priority": queue.priority,
        "capability": {name: amount_text(name, amount) for name, amount in sorted(queue.capability.items())},
        "limits": {name: amount_text(name, amount) for name, amount in sorted(limits.capability.items())},
        "deserved": _texts(limits.deserved),
        "guarantee": _texts(limits.guarantee),
        **(used if inspection.knows_usage else {}),
    }
