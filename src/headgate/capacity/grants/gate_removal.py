"""What happens to a pod in its queue when a gate is removed from it, found on a copy of the queues.

For single calls, such as the preview of an action on the page: the copy costs as much as the whole cache.
"""

from __future__ import annotations

import msgspec

from headgate.capacity.grants import wait_reasons
from headgate.capacity.grants.event_handlers import QueueEventHandlers
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.grants.queue_contents import find_position
from headgate.capacity.grants.remedies import with_gates
from headgate.capacity.queue_wait import QueueWait


class LiftedPod(msgspec.Struct, frozen=True):
    """``gates``: those that are left. ``position``: the number of units before it in its queue; None if it does not
    wait there. ``wait``: why its queue would not admit it; None if it would, now."""

    queue: str
    gates: tuple[str, ...]
    position: int | None
    wait: QueueWait | None


def find_after_lift(cache: QueueCache, handlers: QueueEventHandlers, uid: str, gate: str) -> LiftedPod | None:
    """None if the pod is in no queue, or has not this gate."""
    cache.process_changes()
    record = cache.records.get(uid)
    if record is None or gate not in record.task.gates:
        return None
    left = tuple(each for each in record.task.gates if each != gate)
    dry_run = with_gates(cache, handlers, uid, left)
    position = find_position(dry_run.cache, uid)
    may_start = dry_run.gets_capacity(uid)
    wait = None if may_start else wait_reasons.find_wait_reason(dry_run.cache, dry_run.cache.records[uid])
    return LiftedPod(record.queue, left, position, wait)
