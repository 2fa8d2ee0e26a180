"""One row per ClusterQueue, with its quota and usage per flavor and resource, and its LocalQueues.

The rows are read from the quota engine; nothing is decided. ``used`` and ``reserved`` are what the status fields
``flavorsUsage`` and ``flavorsReservation`` say: the usage of admitted Workloads, and of all Workloads with quota.
``cli/commands/queues.py`` prints the rows; ``queue_explanation.py`` explains one queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from headgate.kube.resource_amounts import amount_text
from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.local_queue import LocalQueue
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.quota.engine import QuotaEngine


class FlavorUsage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Formatted amounts of one resource in one flavor. ``available``: what the queue may still reserve, borrowed quota
    included; negative if a quota was lowered below the usage. The fields after ``reserved`` are empty for a LocalQueue,
    and a limit is empty if there is none."""

    flavor: str
    resource: str
    used: str = ""
    reserved: str = ""
    nominal: str = ""
    borrowed: str = ""
    available: str = ""
    borrowing_limit: str = ""
    lending_limit: str = ""


class LocalQueueRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """``state``: Active, or why it admits no Workloads. ``pending``: its Workloads without quota."""

    namespace: str
    name: str
    state: str = ""
    pending: int | None = None
    usage: tuple[FlavorUsage, ...] = ()
    cluster_queue: str = ""


class ListedClusterQueue(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """``state``: Active, or the reason of the condition Active; ``message``: its message, if it is not active.
    ``reserving`` and ``admitted``: numbers of Workloads; those that are admitted also count as reserving."""

    name: str
    state: str = ""
    pending: int | None = None
    reserving: int | None = None
    admitted: int | None = None
    cohort: str = ""
    strategy: str = ""
    message: str = ""
    flavors: tuple[FlavorUsage, ...] = ()
    local_queues: tuple[LocalQueueRow, ...] = ()


def without_usage(row: ListedClusterQueue) -> ListedClusterQueue:
    """What the spec of the queue says, if the objects that say the rest may not be read."""
    flavors = tuple(
        FlavorUsage(
            each.flavor,
            each.resource,
            nominal=each.nominal,
            borrowing_limit=each.borrowing_limit,
            lending_limit=each.lending_limit,
        )
        for each in row.flavors
    )
    local_queues = tuple(map(local_without_usage, row.local_queues))
    return ListedClusterQueue(
        row.name, cohort=row.cohort, strategy=row.strategy, flavors=flavors, local_queues=local_queues
    )


def local_without_usage(row: LocalQueueRow) -> LocalQueueRow:
    return LocalQueueRow(row.namespace, row.name, cluster_queue=row.cluster_queue)


class _Counts:
    """The Workloads of one queue."""

    def __init__(self) -> None:
        self.pending = self.reserving = self.admitted = 0
        self.used: Counter[FlavorResource] = Counter()
        self.reserved: Counter[FlavorResource] = Counter()


def cluster_queue_rows(engine: QuotaEngine) -> list[ListedClusterQueue]:
    """All ClusterQueues, by name, each with its LocalQueues."""
    counts = _count(engine)
    local_rows: dict[str, list[LocalQueueRow]] = {}
    for _, local in sorted(engine.cache.local_queues.items()):
        local_rows.setdefault(local.cluster_queue, []).append(_local_row(engine, local, counts))
    found = [
        _row(engine, queue, counts.get(name) or _Counts(), tuple(local_rows.get(name, ())))
        for name, queue in sorted(engine.cache.queues.items())
    ]
    invalid = [
        ListedClusterQueue(name, "Invalid", 0, 0, 0, message=problem, local_queues=tuple(local_rows.get(name, ())))
        for (kind, name), problem in engine.cache.problems.items()
        if kind == "ClusterQueue" and name not in engine.cache.queues
    ]
    return sorted([*found, *invalid], key=lambda row: row.name)


def stray_local_queues(engine: QuotaEngine) -> list[LocalQueueRow]:
    """LocalQueues whose ClusterQueue is not known: it does not exist, or the list may not be read."""
    counts = _count(engine)
    known = {*engine.cache.queues, *(name for kind, name in engine.cache.problems if kind == "ClusterQueue")}
    return [
        _local_row(engine, local, counts)
        for _, local in sorted(engine.cache.local_queues.items())
        if local.cluster_queue not in known
    ]


def local_queue_row(engine: QuotaEngine, key: str) -> LocalQueueRow | None:
    """``key``: namespace/name."""
    local = engine.cache.local_queues.get(key)
    return None if local is None else _local_row(engine, local, _count(engine))


def pending_workloads(engine: QuotaEngine) -> Iterator[Workload]:
    """All Workloads that have no quota and have not finished, also those that a gate or a queue keeps from trying."""
    for _, workload in sorted(engine.workloads.items()):
        if not workload.is_finished and engine.ledger.get(workload.key) is None:
            yield workload


def _count(engine: QuotaEngine) -> Mapping[str, _Counts]:
    """By the name of a ClusterQueue, and by namespace/name of a LocalQueue; neither name can be the other."""
    found: dict[str, _Counts] = {}
    for workload in pending_workloads(engine):
        local = engine.cache.local_queues.get(workload.queue_key)
        for name in (workload.queue_key, "" if local is None else local.cluster_queue):
            found.setdefault(name, _Counts()).pending += 1
    for holder in engine.ledger.holders():
        held = engine.workloads.get(holder.key)
        is_admitted = held is not None and held.has(names.ADMITTED)
        for name in (holder.queue, "" if held is None else held.queue_key):
            counts = found.setdefault(name, _Counts())
            counts.reserving += 1
            counts.admitted += is_admitted
            counts.reserved.update(holder.usage)
            if is_admitted:
                counts.used.update(holder.usage)
    return found


def _row(
    engine: QuotaEngine, queue: ClusterQueue, counts: _Counts, local_queues: tuple[LocalQueueRow, ...]
) -> ListedClusterQueue:
    problem = engine.cache.problems.get(("ClusterQueue", queue.name))
    active = engine.cache.activity.get(queue.name)
    state = "Invalid" if problem or active is None else "Active" if active.is_active else active.reason
    message = problem or ("" if active is None or active.is_active else active.message)
    return ListedClusterQueue(
        queue.name,
        state,
        counts.pending,
        counts.reserving,
        counts.admitted,
        queue.cohort,
        "Backfill" if queue.protects_first else queue.strategy,
        message,
        tuple(_usage_of(engine, queue, fr, counts) for fr in queue.quotas),
        local_queues,
    )


def _usage_of(engine: QuotaEngine, queue: ClusterQueue, fr: FlavorResource, counts: _Counts) -> FlavorUsage:
    quota, node = queue.quotas[fr], engine.ledger.now.queue(queue.name)
    has_cohort = node is not None and node.parent is not None  # without a cohort a queue borrows nothing
    borrowed = max(counts.reserved[fr] - quota.nominal, 0) if has_cohort else 0

    def text(amount: int | None) -> str:
        return "" if amount is None else amount_text(fr[1], amount)

    return FlavorUsage(
        *fr,
        text(counts.used[fr]),
        text(counts.reserved[fr]),
        text(quota.nominal),
        text(borrowed),
        text(0 if node is None else node.available(fr)),
        text(quota.borrowing_limit),
        text(quota.lending_limit),
    )


def _local_row(engine: QuotaEngine, local: LocalQueue, counts: Mapping[str, _Counts]) -> LocalQueueRow:
    own = counts.get(local.key) or _Counts()
    usage = tuple(
        FlavorUsage(*fr, amount_text(fr[1], own.used[fr]), amount_text(fr[1], own.reserved[fr]))
        for fr in sorted(own.reserved)
        if own.reserved[fr]
    )
    state = local_state(engine, local)
    return LocalQueueRow(local.namespace, local.name, state, own.pending, usage, local.cluster_queue)


def local_state(engine: QuotaEngine, local: LocalQueue) -> str:
    """Active, or the reason of the condition Active of the LocalQueue."""
    if local.is_terminating:
        return "Terminating"
    if local.stop_policy != names.NONE:
        return "Stopped"
    active = engine.cache.activity.get(local.cluster_queue)
    if active is None and ("ClusterQueue", local.cluster_queue) not in engine.cache.problems:
        return "ClusterQueueDoesNotExist"
    return "Active" if active is not None and active.is_active else "ClusterQueueIsInactive"
