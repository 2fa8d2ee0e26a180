"""The queue of granted pods: the order in which the scheduler tries pods that have a promise and no node.

Pods are ordered by queue, then by job (a PodGroup, or a pod without one), then by pod. The order of queues and jobs
depends on the current usage. ``capacity/grants/grants.py`` decides which pods get a grant.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PodRecord
from headgate.capacity.ordering.admission_index import AdmissionIndex
from headgate.capacity.ordering.order_keys import Key, OrderingPolicy
from headgate.capacity.ordering.queue_views import PlacementView
from headgate.waiting.heap import Heap

_NO_ASK = ()
"""Granted pods are not checked for capacity, so the index needs no ask."""


class GrantedPodQueue:
    """``record_of``: the record of a pod by its uid. ``job_key``: the sort key of a pod's job. ``process_changes`` of
    the queue cache is called before each read, so that the order is current."""

    def __init__(
        self,
        order: OrderingPolicy,
        view: PlacementView,
        record_of: Callable[[str], PodRecord | None],
        job_key: Callable[[PodRecord], Key],
        process_changes: Callable[[], None],
    ) -> None:
        self._order = order
        self._index = AdmissionIndex(view, lambda unit: _NO_ASK)
        self._record_of = record_of
        self._job_key = job_key
        self._process_changes = process_changes
        # The granted pods of each gang, by the key of the gang and by queue: members may have promises of different
        # queues.
        self._gangs: dict[tuple[str, str], dict[str, Heap[str]]] = {}
        self._queued: dict[str, tuple[str, Gang | None]] = {}

    def __len__(self) -> int:
        return len(self._queued)

    def put(self, uid: str) -> None:
        self.discard(uid)
        record = self._record_of(uid)
        if record is None:
            return
        queue, gang = self._queued[uid] = record.queue, record.gang
        if gang is not None:
            heaps = self._gangs.setdefault(gang.key, {})
            heaps.setdefault(queue, Heap()).put(uid, self._order.task_key(record.task))
        self._index.put(queue, uid if gang is None else gang.key, _NO_ASK, self._job_key(record))

    def update(self, record: PodRecord) -> None:
        """The pod may belong to another queue or group than before."""
        uid = record.task.uid
        if self._queued.get(uid, (record.queue, record.gang)) != (record.queue, record.gang):
            self.put(uid)

    def discard(self, uid: str) -> None:
        found = self._queued.pop(uid, None)
        if found is None:
            return
        queue, gang = found
        if gang is None:
            self._index.discard(queue, uid, _NO_ASK)
            return
        heaps = self._gangs[gang.key]
        heaps[queue].discard(uid)
        if not heaps[queue]:
            del heaps[queue]
            self._index.discard(queue, gang.key, _NO_ASK)
        if not heaps:
            del self._gangs[gang.key]

    def pop(self) -> str | None:
        """The next pod to try."""
        self._process_changes()
        first = self._index.first()
        if first is None:
            return None
        queue, unit = first
        if isinstance(unit, str):
            uid: str | None = unit
        else:
            head = self._gangs[unit][queue].first()
            uid = None if head is None else head[1]
        if uid is not None:
            self.discard(uid)
        return uid

    def mark_queue_changed(self, queue: str) -> None:
        self._index.mark_queue_changed(queue)

    def rekey(self, gang: Gang) -> None:
        """Update the sort key of the gang, because the amounts that it holds changed."""
        for queue, heap in self._gangs.get(gang.key, {}).items():
            head = heap.first()
            record = None if head is None else self._record_of(head[1])
            if record is not None:
                self._index.put(queue, gang.key, _NO_ASK, self._job_key(record))
