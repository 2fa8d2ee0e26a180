"""One row per workload, with the columns of ``kueuectl list workload``: owner, queue, state, times.

The rows are read from the quota engine; nothing is decided. ``explanation.py`` explains why a workload is pending;
``cli/commands/workloads.py`` prints the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.kube.object_meta import group_kind_of, owner_references
from headgate.quota import names
from headgate.quota.api.pods_ready import started_s
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.engine import QuotaEngine

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""
State = Literal["pending", "quotareserved", "waitingtostart", "admitted", "finished"]

STATES: Final[tuple[State, ...]] = ("pending", "quotareserved", "waitingtostart", "admitted", "finished")
"""In the order in which a workload passes through them. ``waitingtostart``: admitted, and its pods wait for terminating
pods."""


class WorkloadOwner(msgspec.Struct, frozen=True):
    """``type``: as kubectl takes it, such as ``job.batch``."""

    type: str
    name: str


class WorkloadRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """``position``: how many workloads of its LocalQueue come before it, ``position_in_cluster_queue``: how many of its
    ClusterQueue; None if it is in no queue. ``reason``: of the condition that keeps it from the next state.
    ``started_s``: since when its pods may run. Times are in seconds."""

    namespace: str
    name: str
    state: State
    owners: tuple[WorkloadOwner, ...] = ()
    local_queue: str = ""
    cluster_queue: str = ""
    position: int | None = None
    position_in_cluster_queue: int | None = msgspec.field(default=None, name="place")
    priority: int = 0
    reason: str = ""
    message: str = ""
    created_s: float = 0.0
    admitted_s: float | None = None
    finished_s: float | None = None
    started_s: float | None = None


class QueuePositions:
    """Positions in queues; each ClusterQueue is sorted once, on first use."""

    def __init__(self, engine: QuotaEngine) -> None:
        self._engine = engine
        self._positions: dict[str, dict[str, tuple[int, int]]] = {}

    def position_of(self, key: str) -> tuple[int, int] | None:
        """How many workloads of its LocalQueue, and of its ClusterQueue, come before it."""
        pending = self._engine.queue_manager.get(key)
        if pending is None:
            return None
        if pending.queue not in self._positions:
            before: Counter[str] = Counter()
            positions = self._positions[pending.queue] = {}
            for position, each in enumerate(self._engine.queue_manager.pending(pending.queue)):
                positions[each.key] = before[each.workload.queue_key], position
                before[each.workload.queue_key] += 1
        return self._positions[pending.queue].get(key)


def workload_rows(
    engine: QuotaEngine, workloads: Iterable[JSONObject], knows_positions: bool = True
) -> list[WorkloadRow]:
    """Rows by namespace and name. ``knows_positions``: whether the engine knows all pending workloads."""
    positions = QueuePositions(engine)
    found = (_row(engine, obj, positions if knows_positions else None) for obj in workloads)
    return sorted(found, key=lambda row: (row.namespace, row.name))


def state_of(workload: Workload) -> State:
    if workload.is_finished:
        return "finished"
    if workload.has(names.ADMITTED):
        return "waitingtostart" if workload.has(names.WAITING_FOR_TERMINATING_PODS) else "admitted"
    return "quotareserved" if workload.has(names.QUOTA_RESERVED) else "pending"


def owners_of(obj: JSONObject) -> tuple[WorkloadOwner, ...]:
    found = []
    for reference in owner_references(obj):
        group, kind = group_kind_of(reference)
        found.append(
            WorkloadOwner(f"{kind.lower()}.{group}" if group else kind.lower(), str(reference.get("name", "")))
        )
    return tuple(sorted(found, key=lambda each: (each.type, each.name)))


def _row(engine: QuotaEngine, obj: JSONObject, positions: QueuePositions | None) -> WorkloadRow:
    metadata = obj.get("metadata") or {}
    workload = read_workload(obj)
    if isinstance(workload, str):
        return WorkloadRow(
            metadata.get("namespace", ""), metadata.get("name", ""), "pending", owners_of(obj), message=workload
        )
    state = state_of(workload)
    local = engine.cache.local_queues.get(workload.queue_key)
    position = positions.position_of(workload.key) if positions is not None and state == "pending" else None
    reason, message = state_reason(workload, state)
    admitted, finished = workload.conditions.get(names.ADMITTED), workload.conditions.get(names.FINISHED)
    return WorkloadRow(
        workload.namespace,
        workload.name,
        state,
        owners_of(obj),
        workload.queue,
        workload.admission.cluster_queue
        if workload.admission is not None
        else ""
        if local is None
        else local.cluster_queue,
        None if position is None else position[0],
        None if position is None else position[1],
        workload.priority,
        reason,
        message,
        workload.created_s,
        admitted.since_s if admitted is not None and admitted.is_true else None,
        finished.since_s if finished is not None and finished.is_true else None,
        started_s(workload),
    )


_CONDITION_OF_STATE: Final[Mapping[State, str]] = {
    "pending": names.QUOTA_RESERVED,
    "quotareserved": names.ADMITTED,
    "waitingtostart": names.WAITING_FOR_TERMINATING_PODS,
    "finished": names.FINISHED,
}


def state_reason(workload: Workload, state: State) -> tuple[str, str]:
    """The reason and message of the condition that explains the state; empty if there is none. The condition Evicted
    stays until the next admission; that of a deactivation explains nothing any more if the workload is active."""
    if state != "finished" and workload.has(names.EVICTED):
        evicted = workload.conditions[names.EVICTED]
        if not (workload.is_active and evicted.reason.startswith(names.DEACTIVATED)):
            return evicted.reason, evicted.message
    found = workload.conditions.get(_CONDITION_OF_STATE.get(state, ""))
    return ("", "") if found is None else (found.reason, found.message)
