"""The pods of a queue and of the queues below it: those that hold its capacity, and those that wait, in order.

For single calls such as ``headgate explain queue``: the cost is proportional to all pods.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.capacity.cache.pod_record import NEEDS_NO_NODE, PROMISED, AllocationState, PodRecord
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.ordering.order_keys import created_s_of


class CapacityHolder(msgspec.Struct, frozen=True):
    """A pod that holds capacity. ``key``: namespace/name. ``is_promised``: the capacity is reserved, and the pod has no
    node yet."""

    uid: str
    key: str
    queue: str
    amounts: Mapping[str, int]
    is_promised: bool


class PodInLine(msgspec.Struct, frozen=True):
    uid: str
    key: str
    queue: str
    group: str = ""


class QueueContents(msgspec.Struct, frozen=True):
    """``waiting``: the pods that wait for a grant, in the order of their queue; ``held_back``: those that wait for
    something else first, such as a gate of another component, in order of their names."""

    holders: tuple[CapacityHolder, ...]
    waiting: tuple[PodInLine, ...]
    held_back: tuple[PodInLine, ...]


def find_contents(cache: QueueCache, queue: str) -> QueueContents:
    cache.process_changes()
    below = [
        record for _, record in sorted(cache.records.items()) if queue in cache.tree.path(record.queue) and record.queue
    ]
    waiting = [record for record in below if record.waits_for_grant]
    waiting.sort(key=lambda each: (each.queue, cache.admission_key(each), each.task.uid))
    held_back = [record for record in below if record.state not in (*NEEDS_NO_NODE, *PROMISED, AllocationState.WAITING)]
    return QueueContents(
        tuple(_holder(record) for record in below if _holds(record)),
        tuple(map(_waiting, waiting)),
        tuple(_waiting(each) for each in sorted(held_back, key=lambda each: (each.task.namespace, each.task.name))),
    )


def find_oldest_s(cache: QueueCache, queue: str) -> float | None:
    """The creation time of the oldest job that waits for a grant in this queue (not below it)."""
    cache.process_changes()
    waiting = [created_s_of(key) for key, _ in cache.grant_index.waiting_units(queue)]
    if cache.admission is not None:
        waiting += cache.admission.held_since_s(queue)
    return min(waiting, default=None)


def find_line(cache: QueueCache, queue: str) -> list[str]:
    """The cost is proportional to the units that wait in this queue."""
    cache.process_changes()
    units = sorted(cache.grant_index.waiting_units(queue), key=lambda each: each[0])
    return [unit if isinstance(unit, str) else next(iter(cache.gangs[unit].waiting), "") for _, unit in units]


def find_position(cache: QueueCache, uid: str) -> int | None:
    """The number of units before the pod in its queue; None if it does not wait for a grant."""
    cache.process_changes()
    record = cache.records.get(uid)
    if record is None or not record.waits_for_grant:
        return None
    key = cache.admission_key(record)
    others = sum(other < key for other, _ in cache.grant_index.waiting_units(record.queue))
    return others + (0 if record.gang is None else record.gang.units_before(uid))


def _holds(record: PodRecord) -> bool:
    return record.state in (AllocationState.ALLOCATED, *PROMISED) and any(record.counted_amounts.values())


def _holder(record: PodRecord) -> CapacityHolder:
    is_promised = record.state is not AllocationState.ALLOCATED
    return CapacityHolder(record.task.uid, _key(record), record.queue, record.counted_amounts, is_promised)


def _waiting(record: PodRecord) -> PodInLine:
    return PodInLine(record.task.uid, _key(record), record.queue, record.task.group)


def _key(record: PodRecord) -> str:
    return f"{record.task.namespace}/{record.task.name}"
